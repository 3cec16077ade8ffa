//! The Lease object in the cluster: reads and watches it, and writes it only on top of the version that was read.

use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::{Client, Config};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// A client for the election alone. It shares no connection and no queue with the controllers, and it does not retry by
/// itself: the default client's back-off (up to 15 attempts) would outlast the lease.
pub fn client(config: &Config) -> Result<Client, kube::Error> {
    let mut config = config.clone();
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    Client::try_from(config)
}

/// A failed request about the lease.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Another process wrote the lease after we read it.
    #[error("the lease changed meanwhile")]
    Stale,
    #[error("no answer within {} ms", .0.as_millis())]
    Silent(Duration),
    #[error(
        "{message}; grant this service account get, create, update and watch on leases.coordination.k8s.io in \
         namespace {namespace}"
    )]
    Forbidden { message: String, namespace: String },
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Other(kube::Error),
}

/// The lease, and its version that we last read or wrote.
pub(super) struct LeaseObject {
    api: Api<Lease>,
    namespace: String,
    name: String,
    /// Carries the resourceVersion on which the next write is based.
    last: Option<Lease>,
    changes: Option<BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>>,
}

impl LeaseObject {
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            last: None,
            changes: None,
        }
    }

    /// The name of the lease.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The record as we last saw it.
    pub fn record(&self) -> Option<&LeaseSpec> {
        self.last.as_ref()?.spec.as_ref()
    }

    /// Reads the lease; `None` if it does not exist.
    pub async fn read(&mut self, limit: Duration) -> Result<Option<LeaseSpec>, Failure> {
        self.changes = None;
        let answer = timeout(limit, self.api.get_opt(&self.name)).await;
        let read = self.judge(answer, limit)?;
        Ok(self.remember(read))
    }

    /// Writes `record` if the lease is still as we last saw it.
    pub async fn write(&mut self, record: LeaseSpec, limit: Duration) -> Result<(), Failure> {
        let params = PostParams { field_manager: Some("causeway".to_owned()), ..PostParams::default() };
        let answer = if let Some(last) = &self.last {
            let lease = Lease { spec: Some(record), ..last.clone() };
            timeout(limit, self.api.replace(&self.name, &params, &lease)).await
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(record) };
            timeout(limit, self.api.create(&params, &lease)).await
        };
        self.last = Some(self.judge(answer, limit)?);
        Ok(())
    }

    /// Waits until the lease changes, without a time limit. Returns the new record, or `None` if the lease was deleted.
    pub async fn next_change(&mut self) -> Result<Option<LeaseSpec>, Failure> {
        loop {
            let changes = if let Some(changes) = &mut self.changes {
                changes
            } else {
                let only_this = WatchParams::default().fields(&format!("metadata.name={}", self.name));
                let seen = self.last.as_ref().and_then(|lease| lease.metadata.resource_version.as_deref());
                let opened = self.api.watch(&only_this, seen.unwrap_or("0")).await;
                self.changes.insert(opened.map_err(|error| self.explain(error))?.boxed())
            };
            match changes.try_next().await {
                Ok(Some(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                    return Ok(self.remember(Some(lease)));
                }
                Ok(Some(WatchEvent::Deleted(_))) => return Ok(self.remember(None)),
                Ok(Some(WatchEvent::Bookmark(_))) => {}
                Ok(Some(WatchEvent::Error(status))) => {
                    return Err(self.explain(kube::Error::Api(status)));
                }
                // The server ends every watch after a while. The next one resumes where this one stopped.
                Ok(None) => self.changes = None,
                Err(error) => return Err(self.explain(error)),
            }
        }
    }

    fn remember(&mut self, lease: Option<Lease>) -> Option<LeaseSpec> {
        self.last = lease;
        // A lease without a spec exists, but its record is empty.
        self.last.as_ref().map(|lease| lease.spec.clone().unwrap_or_default())
    }

    fn judge<T>(&self, answer: Result<Result<T, kube::Error>, Elapsed>, limit: Duration) -> Result<T, Failure> {
        match answer {
            Ok(answer) => answer.map_err(|error| self.explain(error)),
            Err(_) => Err(Failure::Silent(limit)),
        }
    }

    fn explain(&self, error: kube::Error) -> Failure {
        match error {
            kube::Error::Api(status) if status.is_forbidden() => {
                Failure::Forbidden { message: status.message.clone(), namespace: self.namespace.clone() }
            }
            // If we had read the lease, 404 means that it was deleted, which is a change. Otherwise the namespace is
            // missing.
            kube::Error::Api(status) if status.code == 409 || (status.code == 404 && self.last.is_some()) => {
                Failure::Stale
            }
            kube::Error::Api(status) => Failure::Refused(status.message.clone()),
            other => Failure::Other(other),
        }
    }
}
