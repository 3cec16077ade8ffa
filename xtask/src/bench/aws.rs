//! One account of LocalStack: its journal, its settings, and the bare call that everything is compared with.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::Http;

const REGION: &str = "us-east-1";

/// An account.
pub struct Account {
    http: Http,
    /// Twelve digits; as an access key they lead to the account.
    pub number: String,
    /// The newest call that was told of.
    told: AtomicU64,
}

/// A call as the journal has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    id: u64,
    /// AWS's name for it.
    pub operation: String,
}

impl Account {
    /// The account with a VPC and subnets, and room for so many balancers.
    pub fn seeded(endpoint: &str, number: String, load_balancers: usize) -> Result<Self> {
        let account = Self { http: Http::new(endpoint), number, told: AtomicU64::default() };
        account.admin("POST", "seed", "", "")?;
        account.admin("POST", "settings", "", &json!({ "load_balancers": load_balancers }).to_string())?;
        Ok(account)
    }

    /// Makes balancers stay `provisioning` for so long.
    pub fn provision_in(&self, seconds: u32) -> Result<()> {
        self.admin("POST", "settings", "", &json!({ "provisioning_seconds": seconds }).to_string()).map(drop)
    }

    /// The calls since the last time this was asked, oldest first.
    pub fn calls(&self) -> Result<Vec<Call>> {
        let since = format!("&since={}", self.told.load(Ordering::Relaxed));
        let calls: Vec<Call> = serde_json::from_value(self.admin("GET", "journal", &since, "")?)?;
        if let Some(last) = calls.last() {
            self.told.store(last.id, Ordering::Relaxed);
        }
        Ok(calls)
    }

    /// Creates a balancer by one HTTP request and says how long that took: there is no faster way.
    pub fn create_load_balancer(&self, name: &str) -> Result<Duration> {
        let body = format!(
            "Action=CreateLoadBalancer&Version=2015-12-01&Name={name}&Scheme=internet-facing\
             &Subnets.member.1=subnet-abc&Subnets.member.2=subnet-def&Tags.member.1.Key=bench&Tags.member.1.Value=raw"
        );
        // LocalStack reads account and service from the signature and does not verify it.
        let signature = format!(
            "AWS4-HMAC-SHA256 Credential={}/20260101/{REGION}/elasticloadbalancing/aws4_request, \
             SignedHeaders=host, Signature=0",
            self.number
        );
        let headers =
            [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8"), ("Authorization", &signature)];
        let begun = Instant::now();
        self.http.send("POST", "/", &headers, &body)?;
        Ok(begun.elapsed())
    }

    fn admin(&self, method: &str, route: &str, query: &str, body: &str) -> Result<Value> {
        let path = format!("/_causeway/{route}?account={}{query}", self.number);
        let answer = self.http.send(method, &path, &[], body)?;
        serde_json::from_str(&answer).with_context(|| format!("{path}: not JSON"))
    }
}

/// Calls by operation, such as `CreateLoadBalancer 1, DescribeTags 1`.
pub fn by_operation(calls: &[Call]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        *counts.entry(&call.operation).or_default() += 1;
    }
    counts.iter().map(|(operation, count)| format!("{operation} {count}")).collect::<Vec<_>>().join(", ")
}
