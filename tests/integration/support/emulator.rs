//! LocalStack's admin routes, for one account.

use serde::Deserialize;
use serde_json::{Value, json};

/// One account of the AWS that the tests run against.
#[derive(Clone, Debug)]
pub struct Emulator {
    endpoint: String,
    account: String,
}

/// A call as the journal has it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Call {
    pub time: String,
    pub service: String,
    pub operation: String,
    pub resource: Option<String>,
    pub outcome: Option<String>,
    pub principal: String,
}

impl Emulator {
    /// The account, with its VPC, subnets and security groups.
    pub async fn seeded(endpoint: String, account: String) -> Self {
        let emulator = Self { endpoint, account };
        emulator.send("POST", "seed", &Value::Null).await;
        emulator
    }

    /// The account's number, which is also its access key.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// The URL of the emulated AWS.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Changes settings such as `provisioning_seconds` or `load_balancers`.
    pub async fn settings(&self, settings: Value) {
        self.send("POST", "settings", &settings).await;
    }

    /// Adds a fault for this account: see localstack/README.md for its fields.
    pub async fn fault(&self, mut fault: Value) {
        fault["account"] = json!(self.account);
        self.send("POST", "faults", &fault).await;
    }

    /// Ends all faults of this account.
    pub async fn no_faults(&self) {
        self.send("DELETE", "faults", &Value::Null).await;
    }

    /// Every call of this account so far, except those of the test itself.
    pub async fn journal(&self) -> Vec<Call> {
        serde_json::from_value(self.send("GET", "journal", &Value::Null).await).expect("a list of calls")
    }

    /// Forgets the calls of this account.
    pub async fn clear_journal(&self) {
        self.send("DELETE", "journal", &Value::Null).await;
    }

    /// Returns the configuration that the balancers serve, and whether it is the latest one of AWS: see localstack/README.md.
    pub async fn dataplane(&self) -> Value {
        self.send("GET", "dataplane", &Value::Null).await
    }

    /// Calls of ELBv2 by operation, in the order in which they came.
    pub async fn elb_operations(&self) -> Vec<String> {
        let calls = self.journal().await.into_iter();
        calls.filter(|call| call.service == "elbv2").map(|call| call.operation).collect()
    }

    pub async fn send(&self, method: &'static str, route: &str, body: &Value) -> Value {
        let url = format!("{}/_causeway/{route}?account={}", self.endpoint, self.account);
        let body = body.clone();
        tokio::task::spawn_blocking(move || {
            let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
            let answer = match method {
                "GET" => agent.get(&url).call(),
                "DELETE" => agent.delete(&url).call(),
                _ => agent.post(&url).send_json(body),
            };
            let mut answer = answer.unwrap_or_else(|error| panic!("{method} {url}: {error}"));
            let status = answer.status();
            let text = answer.body_mut().read_to_string().expect("a text");
            assert!(status.is_success(), "{method} {url}: {status}: {text}");
            serde_json::from_str(&text).unwrap_or(Value::Null)
        })
        .await
        .expect("the request ends")
    }
}
