//! What is known of a cluster: its children, pods and volumes as Kubernetes has them, its members as etcd has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::auth::Auth;
use super::tls::Transport;
use super::tls::facts::Certificates;
use crate::external::etcd::{Alarm, Credentials, Endpoint, Member, Status};
use crate::stateful;
pub use crate::stateful::{Child, Claim};

/// History that was forgotten for want of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// The revision up to which.
    pub revision: i64,
    /// Whether a member gave back unused space since: only then what it tells of its space is surely true. Until the
    /// next write, a member counts pages as used that were freed by the last one.
    pub measured: bool,
}

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Children, pods and volumes as Kubernetes has them.
    pub set: Set,
    /// What each member that answers says of itself, by ordinal.
    pub statuses: BTreeMap<i32, Status>,
    /// Members that answer, and tell nothing of themselves to whoever has not logged in, by ordinal.
    pub reserved: BTreeSet<i32>,
    /// What a member or a majority did not answer it may answer in a moment: it did so moments ago, and nothing tells that
    /// anything changed.
    pub unsure: bool,
    /// The members as one that answers knows them, where there is no majority; it may be out of date.
    pub remembered: Vec<Member>,
    /// What a majority agrees on; `None` while there is none, or nobody could be asked.
    pub quorum: Option<Quorum>,
    /// What is known of certificates.
    pub certificates: Certificates,
    /// How members are called that speak TLS.
    pub credentials: Option<Arc<Credentials>>,
    /// What is known of passwords, and how members let us in.
    pub auth: Auth,
    /// What history we had forgotten since there is no space. Forgotten itself by a restart: then it is done again.
    pub compacted: Option<Compaction>,
    /// The `DatabaseBackup` of our name.
    pub backup: Backup,
    /// Our own image, whose program a recovery runs; none where the operator does not know it.
    pub own_image: Option<String>,
    /// With which words the apiserver refused the pods that this very spec asks for.
    pub refused: Option<String>,
}

/// What is known of the `DatabaseBackup`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Backup {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// Its kind is not installed.
    KindMissing,
    /// We must not read or change it.
    Denied,
    /// There is none.
    Absent,
    /// It is there.
    Present(Child),
}

/// What matters of a pod to etcd alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The image of its member.
    pub image: Option<String>,
    /// What its member speaks.
    pub transport: Transport,
    /// It begins the cluster anew from its data whenever it starts.
    pub forced: bool,
    /// Whether it skipped revisions first.
    pub skip: Skip,
}

/// A pod.
pub type Pod = stateful::Pod<Node>;
/// Children, pods and volumes.
pub type Set = stateful::Set<Node>;

/// Whether a member that begins its cluster anew skipped revisions first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Skip {
    /// Nobody asked it to.
    #[default]
    NotAsked,
    /// It has not come to an end yet.
    Pending,
    /// It did.
    Done,
    /// It could not, for that reason.
    Refused(String),
}

/// What a majority agrees on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// ID of the cluster.
    pub cluster_id: u64,
    /// The members.
    pub members: Vec<Member>,
    /// Alarms of all members.
    pub alarms: Vec<Alarm>,
}

impl Observed {
    /// Where the member of that ordinal answers clients, with the password that it asks for.
    pub fn endpoint(&self, ordinal: i32) -> Option<Endpoint> {
        let endpoint = self.set.pods.get(&ordinal)?.endpoint(self.credentials.as_ref())?;
        Some(Endpoint { login: self.auth.access.login().cloned(), ..endpoint })
    }

    /// What the member at that ordinal says of itself, if it is that member.
    pub fn status_of(&self, ordinal: i32, member: &Member) -> Option<&Status> {
        self.statuses.get(&ordinal).filter(|status| status.member_id == member.id)
    }

    /// Whether a member answers and has a leader.
    pub fn is_healthy(&self, ordinal: i32, member: &Member) -> bool {
        self.status_of(ordinal, member).is_some_and(|status| status.leader != 0)
    }
}
