//! One account of LocalStack: its journal and its settings.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::Http;

const REGION: &str = "us-east-1";

/// More than any benchmark creates. AWS's default is 3,000 per region.
const TARGET_GROUPS: usize = 10_000;
pub struct Account {
    http: Http,
    /// The account number of twelve digits. LocalStack accepts it as an access key.
    pub number: String,
    /// The id of the newest call that [`Self::calls`] returned.
    last_returned: AtomicU64,
}

/// A call in the journal.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    id: u64,
    pub operation: String,
}

impl Account {
    /// The account with a VPC and subnets, and a quota for `load_balancers` balancers.
    pub fn seeded(endpoint: &str, number: String, load_balancers: usize) -> Result<Self> {
        let account = Self { http: Http::new(endpoint), number, last_returned: AtomicU64::default() };
        account.admin("POST", "seed", "", "")?;
        account.set(&json!({ "load_balancers": load_balancers, "target_groups": TARGET_GROUPS }))?;
        Ok(account)
    }

    /// Makes balancers stay `provisioning` for `seconds`.
    pub fn provision_in(&self, seconds: u32) -> Result<()> {
        self.set(&json!({ "provisioning_seconds": seconds }))
    }

    /// Imports a certificate and its key, both PEM files, into AWS Certificate Manager.
    pub fn import_certificate(&self, certificate: &Path, key: &Path) -> Result<()> {
        let body = json!({ "Certificate": base64(certificate)?, "PrivateKey": base64(key)? });
        let headers = [
            ("Content-Type", "application/x-amz-json-1.1"),
            ("X-Amz-Target", "CertificateManager.ImportCertificate"),
            ("Authorization", &self.signature("acm")),
        ];
        self.http.send("POST", "/", &headers, &body.to_string()).map(drop)
    }

    /// The calls since the last call of this function, oldest first.
    pub fn calls(&self) -> Result<Vec<Call>> {
        let since = format!("&since={}", self.last_returned.load(Ordering::Relaxed));
        let calls: Vec<Call> = serde_json::from_value(self.admin("GET", "journal", &since, "")?)?;
        if let Some(last) = calls.last() {
            self.last_returned.store(last.id, Ordering::Relaxed);
        }
        Ok(calls)
    }

    /// A signature. `LocalStack` reads account and service from it, and does not verify it.
    fn signature(&self, service: &str) -> String {
        let scope = format!("{}/20260101/{REGION}/{service}/aws4_request", self.number);
        format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0")
    }

    fn set(&self, settings: &Value) -> Result<()> {
        self.admin("POST", "settings", "", &settings.to_string()).map(drop)
    }

    fn admin(&self, method: &str, route: &str, query: &str, body: &str) -> Result<Value> {
        let path = format!("/_causeway/{route}?account={}{query}", self.number);
        let answer = self.http.send(method, &path, &[], body)?;
        serde_json::from_str(&answer).with_context(|| format!("{path}: not JSON"))
    }
}

/// Calls by operation, such as `CreateLoadBalancer 1, DescribeTags 1`.
pub fn by_operation(calls: &[Call]) -> String {
    described(&counts(calls))
}

/// Formats counts in the same way.
pub fn described(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(operation, count)| format!("{operation} {count}")).collect::<Vec<_>>().join(", ")
}

/// How many calls there are of each operation.
pub fn counts(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.operation.clone()).or_default() += 1;
    }
    counts
}

/// A file in base64, encoded by the program of that name, which every machine has.
fn base64(file: &Path) -> Result<String> {
    let output = Command::new("base64").arg("--wrap=0").arg(file).output().context("cannot start base64")?;
    ensure!(output.status.success(), "base64 {}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
