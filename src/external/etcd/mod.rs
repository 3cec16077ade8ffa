//! Members of etcd clusters: a few calls, each to one member, each with a deadline.
//!
//! Every call names the member that is to answer it: a client that chooses among several would report on the cluster, but
//! not on the member in question. <https://etcd.io/docs/v3.5/dev-guide/api_reference_v3/>

mod access;
mod bounded;
mod error;
mod grpc;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::leader::Fence;
use crate::metrics::Metrics;

pub use access::{Credentials, Endpoint, Password, ROOT};
pub use error::{EtcdError, Trouble};
pub use grpc::Grpc;

/// A call to one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The status of the member. It answers without the other members, but later releases do so only after a login.
    Status,
    /// The same, asked once a second over a connection that is kept.
    Pulse,
    /// A read that a majority must agree to.
    Read,
    /// The members that this one knows of.
    Members,
    /// Adds a member that does not vote yet.
    AddLearner {
        /// Where its peers will reach it.
        peer_url: String,
    },
    /// Lets a learner vote that has caught up.
    Promote {
        /// The learner.
        id: u64,
    },
    /// Changes the peer URL of a member.
    UpdatePeer {
        /// The member.
        id: u64,
        /// Where its peers will reach it.
        peer_url: String,
    },
    /// Removes a member for good.
    Remove {
        /// The member.
        id: u64,
    },
    /// Hands leadership over; only the leader can do so.
    MoveLeader {
        /// A member that votes.
        to: u64,
    },
    /// Alarms of all members.
    Alarms,
    /// Ends an alarm.
    Disarm(Alarm),
    /// Discards the history before a revision, and waits until it is gone.
    Compact {
        /// The oldest revision that stays.
        revision: i64,
    },
    /// Gives space back to the disk; the member serves nobody meanwhile.
    Defragment,
    /// Enables a downgrade to the minor version before the members': they write their data in its format.
    /// <https://etcd.io/docs/v3.6/downgrades/downgrade_3_6/>
    EnableDowngrade {
        /// That version, such as 3.5.
        target: String,
    },
    /// Cancels a downgrade.
    CancelDowngrade,
    /// Logs in with the endpoint's password, even if there is a login already.
    Login,
    /// Adds the user [`ROOT`].
    AddRoot {
        /// Its password.
        password: Password,
    },
    /// Gives the user [`ROOT`] another password. Clients that logged in with the one before must do so again.
    ChangePassword {
        /// The new password.
        password: Password,
    },
    /// Adds the role [`ROOT`].
    AddRole,
    /// Gives the user [`ROOT`] its role; no effect if it has that already.
    GrantRole,
    /// Turns authentication on: everybody must log in. No effect if it is on already.
    EnableAuth,
    /// Turns authentication off: nobody must log in. No effect if it is off already.
    DisableAuth,
}

impl Request {
    /// The name of the call, in errors, logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status | Self::Pulse => "Status",
            Self::Read => "Range",
            Self::Members => "MemberList",
            Self::AddLearner { .. } => "MemberAdd",
            Self::Promote { .. } => "MemberPromote",
            Self::UpdatePeer { .. } => "MemberUpdate",
            Self::Remove { .. } => "MemberRemove",
            Self::MoveLeader { .. } => "MoveLeader",
            Self::Alarms | Self::Disarm(_) => "Alarm",
            Self::Compact { .. } => "Compact",
            Self::Defragment => "Defragment",
            Self::EnableDowngrade { .. } | Self::CancelDowngrade => "Downgrade",
            Self::Login => "Authenticate",
            Self::AddRoot { .. } => "UserAdd",
            Self::ChangePassword { .. } => "UserChangePassword",
            Self::AddRole => "RoleAdd",
            Self::GrantRole => "UserGrantRole",
            Self::EnableAuth => "AuthEnable",
            Self::DisableAuth => "AuthDisable",
        }
    }

    /// Whether it changes anything.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(self, Self::Status | Self::Pulse | Self::Read | Self::Members | Self::Alarms | Self::Login)
    }

    /// How long to wait for an answer. etcd itself gives up a proposal after seven seconds with its default election timeout.
    fn deadline(&self) -> Duration {
        match self {
            // The caller may stop waiting earlier.
            Self::Pulse => Duration::from_secs(5),
            Self::Status | Self::Members | Self::Read | Self::Alarms => Duration::from_secs(2),
            // Comparing a password is slow on purpose.
            Self::Login => Duration::from_secs(4),
            Self::Compact { .. } | Self::Defragment => Duration::from_mins(1),
            _ => Duration::from_secs(8),
        }
    }
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Status`] and [`Request::Pulse`].
    Status(Status),
    /// To [`Request::Members`] and [`Request::AddLearner`].
    Members(Vec<Member>),
    /// To [`Request::Alarms`].
    Alarms(Vec<Alarm>),
    /// To all others.
    Done,
}

/// What a member knows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The cluster it belongs to.
    pub cluster_id: u64,
    /// Its own ID.
    pub member_id: u64,
    /// Such as `3.5.9`.
    pub version: String,
    /// The leader as this member knows it; 0 where it knows none.
    pub leader: u64,
    /// Whether it does not vote yet.
    pub is_learner: bool,
    /// The last entry of its log.
    pub raft_index: u64,
    /// The last entry that it applied.
    pub applied_index: u64,
    /// Revision of the store.
    pub revision: i64,
    /// Bytes of its database on disk.
    pub db_size: i64,
    /// Bytes of them that hold data.
    pub db_in_use: i64,
    /// What it complains of: alarms, or that it has no leader.
    pub errors: Vec<String>,
    /// The minor version whose format its data have, such as 5; `None` before 3.6.
    pub storage_minor: Option<u8>,
    /// A downgrade is enabled; reported by 3.6 and later.
    pub downgrades: bool,
}

/// A member as the cluster knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its ID.
    pub id: u64,
    /// Empty until it has started.
    pub name: String,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; empty until it has started.
    pub client_urls: Vec<String>,
    /// Whether it does not vote yet.
    pub is_learner: bool,
}

/// An alarm of a member.
/// <https://etcd.io/docs/v3.5/op-guide/maintenance/#space-quota>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// The member that raised it.
    pub member: u64,
    /// What for.
    pub kind: AlarmKind,
}

/// What an alarm is raised for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// The database is as large as it may be; writes are refused.
    NoSpace,
    /// The member's data differ from the others'.
    Corrupt,
}

impl AlarmKind {
    /// The word that etcd has for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
        }
    }
}

/// Carries a call to a member and its answer back. Tests implement it to let calls go wrong.
pub trait Transport: Send + Sync {
    /// Makes one call.
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

    /// What a member knows of itself.
    pub async fn status(&self, member: &Endpoint) -> Result<Status, EtcdError> {
        self.status_by(member, Request::Status).await
    }

    /// The same, for a caller that asks again and again.
    pub async fn pulse(&self, member: &Endpoint) -> Result<Status, EtcdError> {
        self.status_by(member, Request::Pulse).await
    }

    async fn status_by(&self, member: &Endpoint, request: Request) -> Result<Status, EtcdError> {
        match self.call(member, request).await? {
            Reply::Status(status) => Ok(status),
            _ => Err(EtcdError::unexpected("Status")),
        }
    }

    /// The members as a majority knows them: with a read, the member that is asked makes sure first that it is up to date.
    pub async fn members(&self, member: &Endpoint) -> Result<Vec<Member>, EtcdError> {
        self.call(member, Request::Read).await?;
        self.known_members(member).await
    }

    /// The members that this one knows of, even if it is out of date.
    pub async fn known_members(&self, member: &Endpoint) -> Result<Vec<Member>, EtcdError> {
        match self.call(member, Request::Members).await? {
            Reply::Members(members) => Ok(members),
            _ => Err(EtcdError::unexpected("MemberList")),
        }
    }

    /// Alarms of all members.
    pub async fn alarms(&self, member: &Endpoint) -> Result<Vec<Alarm>, EtcdError> {
        match self.call(member, Request::Alarms).await? {
            Reply::Alarms(alarms) => Ok(alarms),
            _ => Err(EtcdError::unexpected("Alarm")),
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
