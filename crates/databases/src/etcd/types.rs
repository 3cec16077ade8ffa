//! Calls and answers, as plain data.

use std::time::Duration;

use super::access::Password;

/// A call to one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The status of the member. It answers without the other members, but later releases do so only after a login.
    Status,
    /// The same, asked once a second over a connection that is kept.
    Pulse,
    /// A read that a majority must agree to.
    Read,
    /// A read of the member's own data, which waits while the member is defragmented. Its status does not.
    LocalRead,
    /// The same over a connection that has logged in, if there is one. It never logs in itself.
    CheckLogin,
    /// The members that this one knows of.
    Members,
    /// Adds a member that does not vote yet.
    AddLearner {
        /// The URL at which its peers will reach it.
        peer_url: String,
    },
    /// Lets a learner vote that has caught up.
    Promote {
        /// The id of the learner.
        id: u64,
    },
    /// Changes the peer URL of a member.
    UpdatePeer {
        /// The id of the member.
        id: u64,
        /// The URL at which its peers will reach it.
        peer_url: String,
    },
    /// Removes a member for good.
    Remove {
        /// The id of the member.
        id: u64,
    },
    /// Hands leadership over; only the leader can do so.
    MoveLeader {
        /// A member that votes.
        to: u64,
    },
    /// Alarms of all members.
    Alarms,
    /// Ends an alarm of a member.
    Disarm(Alarm),
    /// Discards the history before a revision, and waits until it is gone.
    Compact {
        /// The oldest revision that stays.
        revision: i64,
    },
    /// Gives space back to the disk; the member serves no reads or writes meanwhile.
    Defragment,
    /// Enables a downgrade to the minor version before the members': they write their data in its format.
    /// <https://etcd.io/docs/v3.6/downgrades/downgrade_3_6/>
    EnableDowngrade {
        /// That version, such as 3.5.
        target: String,
    },
    /// Cancels an enabled downgrade.
    CancelDowngrade,
    /// Logs in with the endpoint's password, even if there is a login already.
    Login,
    /// Adds the user [`ROOT`](super::ROOT).
    AddRoot {
        /// The password of the user.
        password: Password,
    },
    /// Gives the user [`ROOT`](super::ROOT) another password. Clients that logged in with the one before must do so
    /// again.
    ChangePassword {
        /// The new password of the user.
        password: Password,
    },
    /// Adds the role [`ROOT`](super::ROOT).
    AddRole,
    /// Gives the user [`ROOT`](super::ROOT) its role; no effect if it has that already.
    GrantRole,
    /// Turns authentication on: every client must log in. No effect if it is on already.
    EnableAuth,
    /// Turns authentication off: no client must log in. No effect if it is off already.
    DisableAuth,
}

impl Request {
    /// The name of the call, in errors, logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status | Self::Pulse => "Status",
            Self::Read | Self::LocalRead | Self::CheckLogin => "Range",
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

    /// Returns true if the call changes anything.
    #[must_use]
    pub fn is_change(&self) -> bool {
        let reads = matches!(self, Self::Status | Self::Pulse | Self::Read | Self::LocalRead | Self::CheckLogin);
        !reads && !matches!(self, Self::Members | Self::Alarms | Self::Login)
    }

    /// Returns the time to wait for an answer. etcd itself gives up a proposal after seven seconds with its default
    /// election timeout.
    pub(super) fn deadline(&self) -> Duration {
        match self {
            // The caller may stop waiting earlier.
            Self::Pulse => Duration::from_secs(5),
            Self::Status | Self::Members | Self::Read | Self::LocalRead | Self::CheckLogin | Self::Alarms => {
                Duration::from_secs(2)
            }
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
    /// The answer to [`Request::Status`] and [`Request::Pulse`].
    Status(Status),
    /// The answer to [`Request::Members`] and [`Request::AddLearner`].
    Members(Vec<Member>),
    /// The answer to [`Request::Alarms`].
    Alarms(Vec<Alarm>),
    /// The answer to all others.
    Done,
}

/// The status of a member, as it knows itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The cluster it belongs to.
    pub cluster_id: u64,
    /// The id of the member.
    pub member_id: u64,
    /// The version, such as `3.5.9`.
    pub version: String,
    /// The leader as this member knows it; 0 where it knows none.
    pub leader: u64,
    /// True while it does not vote yet.
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
    /// The complaints of the member: alarms, or that it has no leader.
    pub errors: Vec<String>,
    /// The minor version whose format its data have, such as 5; `None` before 3.6.
    pub storage_minor: Option<u8>,
    /// A downgrade is enabled; reported by 3.6 and later.
    pub downgrades: bool,
}

/// A member as the cluster knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The id of the member.
    pub id: u64,
    /// Empty until it has started.
    pub name: String,
    /// The URLs at which its peers reach it.
    pub peer_urls: Vec<String>,
    /// The URLs at which clients reach it; empty until it has started.
    pub client_urls: Vec<String>,
    /// True while it does not vote yet.
    pub is_learner: bool,
}

/// An alarm of a member.
/// <https://etcd.io/docs/v3.5/op-guide/maintenance/#space-quota>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Alarm {
    /// The member that raised it.
    pub member: u64,
    /// The kind of the alarm.
    pub kind: AlarmKind,
}

/// The trouble for which an alarm is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlarmKind {
    /// The database is as large as it may be; writes are refused.
    NoSpace,
    /// The member's data differ from the others'.
    Corrupt,
}

impl AlarmKind {
    /// Returns etcd's name of the alarm.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSpace => "NOSPACE",
            Self::Corrupt => "CORRUPT",
        }
    }
}
