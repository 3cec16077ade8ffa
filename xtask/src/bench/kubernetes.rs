//! The Kubernetes API through `kubectl proxy`. A watch that is opened before an apply shows to the millisecond when the
//! status arrived.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::http::Http;
use crate::cluster::Cluster;

/// A client of the API. Dropping it ends its proxy.
pub struct Kubernetes {
    proxy: Child,
    http: Http,
}

impl Kubernetes {
    /// Starts a proxy to the cluster's API server.
    pub fn connect(cluster: &Cluster) -> Result<Self> {
        let mut proxy = cluster
            .kubectl()
            .args(["proxy", "--port=0"])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start kubectl")?;
        let mut line = String::new();
        if let Some(output) = proxy.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        // From here on the proxy ends even after a failure.
        let mut kubernetes = Self { proxy, http: Http::new("") };
        let address = line.trim().strip_prefix("Starting to serve on ");
        let address = address.with_context(|| format!("kubectl proxy says {line:?}"))?;
        kubernetes.http = Http::new(&format!("http://{address}"));
        Ok(kubernetes)
    }

    /// Sends the same request as `kubectl apply --server-side`.
    pub fn apply(&self, path: &str, object: &Value) -> Result<()> {
        let path = format!("{path}?fieldManager=bench&force=true");
        let headers = [("Content-Type", "application/apply-patch+yaml")];
        self.http.send("PATCH", &path, &headers, &object.to_string()).map(drop)
    }

    /// Deletes an object, or all of a collection. Finalizers may delay the end.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.http.send("DELETE", path, &[], "").map(drop)
    }

    /// A watch of a collection: first its present objects, then all changes.
    pub fn watch(&self, path: &str) -> Result<Watch> {
        let lines = self.http.lines(&format!("{path}?watch=true"))?;
        let (sender, events) = channel();
        // The thread ends with the stream, at the latest when the proxy ends.
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let at = Instant::now();
                let Ok(Value::Object(mut event)) = serde_json::from_str(&line) else { break };
                let deleted = event.get("type").is_some_and(|kind| kind == "DELETED");
                let object = event.remove("object").unwrap_or_default();
                if sender.send(Event { at, deleted, object }).is_err() {
                    break;
                }
            }
        });
        Ok(Watch { events })
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        self.proxy.kill().ok();
        self.proxy.wait().ok();
    }
}

/// A change of an object: added, modified or deleted.
pub struct Event {
    /// When this process received the event.
    pub at: Instant,
    /// True if the object was deleted.
    pub deleted: bool,
    /// The object after the change, or its last state.
    pub object: Value,
}

impl Event {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }
}

/// A stream of events.
pub struct Watch {
    events: Receiver<Event>,
}

impl Watch {
    /// Waits for an event that `seen` accepts, and returns its time.
    pub fn wait_until(&self, what: &str, limit: Duration, mut seen: impl FnMut(&Event) -> bool) -> Result<Instant> {
        let end = Instant::now() + limit;
        loop {
            match self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(event) if seen(&event) => return Ok(event.at),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => bail!("waited {} s for {what}", limit.as_secs()),
                Err(RecvTimeoutError::Disconnected) => bail!("the watch ended while waiting for {what}"),
            }
        }
    }
}
