//! Members of etcd clusters: a few calls, each to one member, each with a deadline.
//!
//! Every call names the member that is to answer it: a client that chooses among several would report on the cluster, but
//! not on the member in question. <https://etcd.io/docs/v3.5/dev-guide/api_reference_v3/>

mod access;
mod bounded;
mod error;
mod grpc;
mod sessions;
mod types;

use std::sync::Arc;

use futures::future::BoxFuture;

use causeway_runtime::leader::Fence;
use causeway_runtime::metrics::Metrics;

pub use access::{Credentials, Endpoint, Password, ROOT};
pub use error::{EtcdError, Trouble};
pub use grpc::Grpc;
pub use types::{Alarm, AlarmKind, Member, Reply, Request, Status};

/// Carries a call to a member and its answer back. Tests implement it to let calls go wrong.
pub trait Transport: Send + Sync {
    /// Makes one call to a member.
    fn call<'a>(&'a self, to: &'a Endpoint, request: &'a Request) -> BoxFuture<'a, Result<Reply, EtcdError>>;
}

/// Calls members; changes only while this process leads.
#[derive(Clone)]
pub struct Etcd {
    transport: Arc<dyn Transport>,
    fence: Fence,
    metrics: Metrics,
}

impl Etcd {
    /// Calls through `transport`, changes only while `fence` is open; counts into `metrics`.
    pub fn new(transport: Arc<dyn Transport>, fence: Fence, metrics: Metrics) -> Self {
        Self { transport, fence, metrics }
    }

    async fn call(&self, to: &Endpoint, request: Request) -> Result<Reply, EtcdError> {
        let operation = request.name();
        if request.is_change() {
            self.fence.check().map_err(|error| EtcdError::new(operation, Trouble::NotLeading, error.to_string()))?;
        }
        let answer = tokio::time::timeout(request.deadline(), self.transport.call(to, &request)).await;
        let answer = answer.unwrap_or_else(|_| {
            let text = format!("no answer from {} within {} s", to.url, request.deadline().as_secs());
            Err(EtcdError::new(operation, Trouble::Unanswered, text))
        });
        let outcome = answer.as_ref().map(drop).map_err(|error| error.class().as_str());
        self.metrics.database_call("etcd", operation, outcome);
        match &answer {
            Ok(_) => tracing::debug!(operation, member = to.url, "etcd call"),
            Err(error) => tracing::debug!(operation, member = to.url, %error, "etcd call failed"),
        }
        answer
    }

    /// Returns the member's own status.
    pub async fn status(&self, member: &Endpoint) -> Result<Status, EtcdError> {
        self.status_by(member, Request::Status).await
    }

    /// Returns the same status to a caller that asks again and again.
    pub async fn pulse(&self, member: &Endpoint) -> Result<Status, EtcdError> {
        self.status_by(member, Request::Pulse).await
    }

    async fn status_by(&self, member: &Endpoint, request: Request) -> Result<Status, EtcdError> {
        match self.call(member, request).await? {
            Reply::Status(status) => Ok(status),
            _ => Err(EtcdError::unexpected_answer("Status")),
        }
    }

    /// Lists the members as a majority knows them: with a read, the member that is asked makes sure first that it is up
    /// to date.
    pub async fn members(&self, member: &Endpoint) -> Result<Vec<Member>, EtcdError> {
        self.call(member, Request::Read).await?;
        self.known_members(member).await
    }

    /// Lists the members that this one knows of, even if it is out of date.
    pub async fn known_members(&self, member: &Endpoint) -> Result<Vec<Member>, EtcdError> {
        match self.call(member, Request::Members).await? {
            Reply::Members(members) => Ok(members),
            _ => Err(EtcdError::unexpected_answer("MemberList")),
        }
    }

    /// Checks that the member serves reads. One that is defragmented reports a status, but serves no reads.
    pub async fn serves(&self, member: &Endpoint) -> Result<(), EtcdError> {
        match self.call(member, Request::LocalRead).await {
            Err(error) if !error.is_about_login() => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns true if the member asks for a login: a new client, where the endpoint has no password, or one that has
    /// logged in with it. etcd ends the logins of a user whose password changes. `None` if the member does not say.
    pub async fn asks_for_login(&self, member: &Endpoint) -> Option<bool> {
        let request = if member.login.is_none() { Request::LocalRead } else { Request::CheckLogin };
        match self.call(member, request).await {
            Ok(_) => Some(false),
            Err(error) if error.is_about_login() => Some(true),
            Err(_) => None,
        }
    }

    /// Lists the alarms of all members.
    pub async fn alarms(&self, member: &Endpoint) -> Result<Vec<Alarm>, EtcdError> {
        match self.call(member, Request::Alarms).await? {
            Reply::Alarms(alarms) => Ok(alarms),
            _ => Err(EtcdError::unexpected_answer("Alarm")),
        }
    }

    /// Logs in with the endpoint's password. Fails with [`Trouble::LoginRefused`] if it is wrong, and with
    /// [`Trouble::AuthOff`] if authentication is off.
    pub async fn login(&self, member: &Endpoint) -> Result<(), EtcdError> {
        self.call(member, Request::Login).await.map(drop)
    }

    /// Makes a call whose answer only says that it was done.
    pub async fn change(&self, member: &Endpoint, request: Request) -> Result<(), EtcdError> {
        self.call(member, request).await.map(drop)
    }
}
