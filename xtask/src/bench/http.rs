//! Plain HTTP to one server, with persistent connections.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::http::Request;
use ureq::{Agent, Body};

/// The longest wait for an answer.
const DEADLINE: Duration = Duration::from_mins(1);

/// A client of one server.
pub struct Http {
    agent: Agent,
    base: String,
}

impl Http {
    /// The server at `base`, such as `http://127.0.0.1:8001`.
    pub fn new(base: &str) -> Self {
        let agent = Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
        Self { agent, base: base.to_owned() }
    }

    /// The answer to GET for that path.
    pub fn get(&self, path: &str) -> Result<String> {
        self.send("GET", path, &[], "")
    }

    /// The answer to GET for that path, as JSON.
    pub fn get_json(&self, path: &str) -> Result<Value> {
        serde_json::from_str(&self.get(path)?).with_context(|| format!("{}{path}: not JSON", self.base))
    }

    /// Sends a request and returns the body of the answer. Fails unless the status is a success.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<String> {
        let mut answer = self.request(method, path, headers, body, Some(DEADLINE))?;
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string()?;
        if !status.is_success() {
            bail!("{method} {}{path}: {status}: {text}", self.base);
        }
        Ok(text)
    }

    /// The lines of a streamed answer.
    pub fn lines(&self, path: &str) -> Result<impl Iterator<Item = std::io::Result<String>> + use<>> {
        let answer = self.request("GET", path, &[], "", None)?;
        if !answer.status().is_success() {
            bail!("GET {}{path}: {}", self.base, answer.status());
        }
        let body = answer.into_body().into_with_config().limit(u64::MAX).reader();
        Ok(BufReader::new(body).lines())
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        deadline: Option<Duration>,
    ) -> Result<ureq::http::Response<Body>> {
        let url = format!("{}{path}", self.base);
        let mut request = Request::builder().method(method).uri(&url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = if body.is_empty() {
            let request = self.agent.configure_request(request.body(())?).timeout_global(deadline).build();
            self.agent.run(request)
        } else {
            let request = self.agent.configure_request(request.body(body)?).timeout_global(deadline).build();
            self.agent.run(request)
        };
        sent.with_context(|| format!("{method} {url}"))
    }
}
