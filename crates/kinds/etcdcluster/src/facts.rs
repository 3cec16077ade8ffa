//! The facts about a cluster: its children, pods and volumes as Kubernetes has them, its members as etcd has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::auth::Auth;
use super::database::MemberPod;
use super::tls::Transport;
use super::tls::facts::Certificates;
use causeway_databases::etcd::{Alarm, Credentials, Endpoint, Member, Status};
use causeway_databases::refusals::{ChildKey, Refusal};
pub use causeway_databases::{Child, Claim};

/// History that was compacted for lack of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Up to this revision.
    pub revision: i64,
    /// True if a member was defragmented since. Only then is the size in use that it reports reliable: until the next write, a
    /// member counts pages as used that the last write freed.
    pub measured: bool,
    /// True if the alarm was disarmed since, and no member was defragmented after that. If it is raised all the same, a member
    /// may run with a lower quota than the spec's.
    pub disarmed: bool,
}

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Children, pods and volumes as Kubernetes has them.
    pub set: Set,
    /// The status of each member that answers, by ordinal.
    pub statuses: BTreeMap<i32, Status>,
    /// Members that answer, but report nothing without a login, by ordinal.
    pub reserved: BTreeSet<i32>,
    /// A member or a majority that did not answer may do so in a moment: it answered moments ago, and nothing shows that
    /// anything has changed.
    pub unsure: bool,
    /// The members as one that answers knows them, if there is no majority; the list may be out of date.
    pub remembered: Vec<Member>,
    /// The members and alarms that a majority agrees on; `None` while there is none, or no member could be asked.
    pub quorum: Option<Quorum>,
    /// The certificates of the cluster.
    pub certificates: Certificates,
    /// The credentials for members that use TLS.
    pub credentials: Option<Arc<Credentials>>,
    /// Passwords, and how members let us in.
    pub auth: Auth,
    /// Which history was compacted since there is no space. A restart forgets this: history is then compacted again.
    pub compacted: Option<Compaction>,
    /// Pods of members that could not be defragmented since then: etcd writes a copy, for which a full volume has no
    /// room.
    pub undefragmented: BTreeSet<String>,
    /// Pods of members whose recorded turn to be defragmented did not begin. A restart forgets this: the turn is over then.
    pub deferred: BTreeSet<String>,
    /// The `DatabaseBackup` of our name.
    pub backup: Backup,
    /// Our own image, whose program a recovery runs; none where the operator does not know it.
    pub own_image: Option<String>,
    /// Children of this very spec that the apiserver refused moments ago, by the child's kind and name.
    pub refused: BTreeMap<ChildKey, Refusal>,
}

/// The `DatabaseBackup`, as the last look found it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Backup {
    /// The operator has not looked yet.
    #[default]
    Unknown,
    /// Its kind is not installed.
    KindMissing,
    /// We must not read or change it.
    Denied,
    /// The API server refuses it, with these words.
    Refused(String),
    /// It does not exist, although its kind does.
    Absent,
    /// It exists, with this content.
    Present(Child),
}

/// The facts about a pod that only etcd needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The image of its member.
    pub image: Option<String>,
    /// The transport of its member.
    pub transport: Transport,
    /// It has `--force-new-cluster`: whenever it starts, it rebuilds the cluster from its data.
    pub forced: bool,
    /// Its progress in skipping revisions before that.
    pub skip: Skip,
    /// The memory limit of its member in bytes, be it from a `LimitRange`.
    pub memory_limit: Option<u64>,
}

/// A pod, with the facts that only etcd needs.
pub type Pod = causeway_databases::Pod<Node>;
/// Children, pods and volumes.
pub type Set = causeway_databases::Set<Node>;

/// The progress of a member that rebuilds its cluster in skipping revisions before that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Skip {
    /// No recovery asked it to.
    #[default]
    NotAsked,
    /// It has not finished yet.
    Pending,
    /// It skipped them.
    Done,
    /// It could not, for that reason.
    Refused(String),
}

/// The cluster as a majority of its members knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quorum {
    /// ID of the cluster.
    pub cluster_id: u64,
    /// The members, learners and strangers included.
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

    /// Returns the status of the member at that ordinal, if it is that member.
    pub fn status_of(&self, ordinal: i32, member: &Member) -> Option<&Status> {
        self.statuses.get(&ordinal).filter(|status| status.member_id == member.id)
    }

    /// Reports whether a member answers and has a leader.
    pub fn is_healthy(&self, ordinal: i32, member: &Member) -> bool {
        self.status_of(ordinal, member).is_some_and(|status| status.leader != 0)
    }
}
