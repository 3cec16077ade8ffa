//! One account of LocalStack: its journal, its settings, and the bare call that everything is compared with.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::Method;

use super::http::Http;

const REGION: &str = "us-east-1";

/// An account.
pub struct Account {
    http: Http,
    /// Twelve digits; as an access key they lead to the account.
    pub number: String,
}

/// A call as the journal has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// AWS's name for it.
    pub operation: String,
    /// When it came.
    pub time: String,
}

impl Account {
    /// The account with a VPC and subnets, and room for so many balancers.
    pub fn seeded(endpoint: &str, number: String, load_balancers: usize) -> Result<Self> {
        let account = Self { http: Http::new(endpoint), number };
        account.admin(Method::POST, "seed", "")?;
        account.admin(Method::POST, "settings", &json!({ "load_balancers": load_balancers }).to_string())?;
        Ok(account)
    }

    /// Makes balancers stay `provisioning` for so long.
    pub fn provision_in(&self, seconds: u32) -> Result<()> {
        self.admin(Method::POST, "settings", &json!({ "provisioning_seconds": seconds }).to_string()).map(drop)
    }

    /// The calls since the last time this was asked, oldest first.
    pub fn calls(&self) -> Result<Vec<Call>> {
        let calls = serde_json::from_value(self.admin(Method::GET, "journal", "")?)?;
        self.admin(Method::DELETE, "journal", "")?;
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
        self.http.send(Method::POST, "/", &headers, &body)?;
        Ok(begun.elapsed())
    }

    fn admin(&self, method: Method, route: &str, body: &str) -> Result<Value> {
        let path = format!("/_causeway/{route}?account={}", self.number);
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
