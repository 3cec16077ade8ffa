//! One account of LocalStack: its journal, its settings, and the plain calls with which everything is compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::Http;

const REGION: &str = "us-east-1";

/// More than any benchmark creates. AWS's default is 3,000 per region.
const TARGET_GROUPS: usize = 10_000;

/// An account.
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
    /// The AWS operation.
    pub operation: String,
    /// The result: `OK` or AWS's error code; `None` while it is in progress.
    outcome: Option<String>,
    /// When it arrived, to the millisecond.
    time: Timestamp,
    /// Its duration from then on.
    duration_ms: Option<f64>,
}

impl Call {
    /// Whether AWS throttled it.
    pub fn was_throttled(&self) -> bool {
        self.outcome.as_deref() == Some("Throttling")
    }

    /// When it arrived and when it ended, by the machine's clock; `None` while it is in progress.
    pub fn times(&self) -> Option<(SystemTime, SystemTime)> {
        let arrived = SystemTime::from(self.time);
        self.duration_ms.map(|took| (arrived, arrived + Duration::from_secs_f64(took / 1000.0)))
    }
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

    /// Allows `share` times AWS's default rates of calls; 0 means no limit.
    pub fn throttle(&self, share: u32) -> Result<()> {
        self.set(&json!({ "throttle": share }))
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
        let calls = self.calls_so_far()?;
        if let Some(last) = calls.last() {
            self.last_returned.store(last.id, Ordering::Relaxed);
        }
        Ok(calls)
    }

    /// Like [`Self::calls`], but the next time the same calls are returned again. This is for calls in progress.
    pub fn calls_so_far(&self) -> Result<Vec<Call>> {
        let since = format!("&since={}", self.last_returned.load(Ordering::Relaxed));
        Ok(serde_json::from_value(self.admin("GET", "journal", &since, "")?)?)
    }

    /// Creates a balancer by one HTTP request, and returns how long that took. There is no faster way.
    pub fn create_load_balancer(&self, name: &str) -> Result<Duration> {
        let parameters = format!(
            "Name={name}&Scheme=internet-facing&Subnets.member.1=subnet-abc&Subnets.member.2=subnet-def\
             &Tags.member.1.Key=bench&Tags.member.1.Value=raw"
        );
        let begun = Instant::now();
        self.balancing("CreateLoadBalancer", &parameters)?;
        Ok(begun.elapsed())
    }

    /// Creates a target group for addresses in the account's VPC, and returns its ARN.
    pub fn create_target_group(&self, name: &str) -> Result<String> {
        let answer = self.balancing("DescribeSubnets", "SubnetId.1=subnet-abc")?;
        let vpc = between(&answer, "<vpcId>", "</vpcId>").context("the account has no VPC")?;
        let parameters = format!("Name={name}&Protocol=HTTP&Port=80&TargetType=ip&VpcId={vpc}");
        let answer = self.balancing("CreateTargetGroup", &parameters)?;
        let arn =
            between(&answer, "<TargetGroupArn>", "</TargetGroupArn>").context("CreateTargetGroup names no ARN")?;
        Ok(arn.to_owned())
    }

    /// Registers an address by one HTTP request, and returns how long that took.
    pub fn register_target(&self, group: &str, address: &str) -> Result<Duration> {
        let group = group.replace(':', "%3A").replace('/', "%2F");
        let parameters = format!("TargetGroupArn={group}&Targets.member.1.Id={address}&Targets.member.1.Port=8080");
        let begun = Instant::now();
        self.balancing("RegisterTargets", &parameters)?;
        Ok(begun.elapsed())
    }

    /// One call of Elastic Load Balancing, or the one call of EC2 that is needed.
    fn balancing(&self, action: &str, parameters: &str) -> Result<String> {
        let (service, version) = match action {
            "DescribeSubnets" => ("ec2", "2016-11-15"),
            _ => ("elasticloadbalancing", "2015-12-01"),
        };
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"),
            ("Authorization", &self.signature(service)),
        ];
        self.http.send("POST", "/", &headers, &format!("Action={action}&Version={version}&{parameters}"))
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

/// The text between the first occurrences of two texts.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    text.split_once(from)?.1.split_once(to).map(|(inner, _)| inner)
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
