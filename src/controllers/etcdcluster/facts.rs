//! What is known of a cluster: its children, pods and volumes as Kubernetes has them, its members as etcd has them.

use std::collections::{BTreeMap, BTreeSet};

use std::sync::Arc;

use serde_json::Value;

use super::auth::Auth;
pub use super::damage::Loss;
use super::tls::facts::Certificates;
use super::tls::{Mode, Transport};
use super::{membership, names};
use crate::api::EtcdCluster;
use crate::controllers::pod_trouble::{Evidence, Unmade};
use crate::controllers::restore_from::Seen;
use crate::external::etcd::{Alarm, Credentials, Endpoint, Member, Status};

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
    /// Services, `ConfigMap`, disruption budget and `StatefulSet` of our names, by kind and name.
    pub children: BTreeMap<(String, String), Child>,
    /// The pods, by ordinal.
    pub pods: BTreeMap<i32, Pod>,
    /// A pod that is missing, and that the apiserver refuses.
    pub unmade: Option<Unmade>,
    /// The volume claims, by ordinal.
    pub claims: BTreeMap<i32, Claim>,
    /// What each member that answers says of itself, by ordinal.
    pub statuses: BTreeMap<i32, Status>,
    /// Members that answer, and tell nothing of themselves to whoever has not logged in, by ordinal.
    pub reserved: BTreeSet<i32>,
    /// Pods and claims of our names that are somebody else's, by ordinal: with what there is to say of them.
    pub foreign: BTreeMap<i32, String>,
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
    /// The `DatabaseRestore` of our name.
    pub restore: Seen,
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

/// A child as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The object.
    pub value: Value,
    /// Its uid.
    pub uid: String,
    /// Whether this cluster's object controls it.
    pub ours: bool,
}

/// What matters of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its uid, so that an action cannot hit a successor of the same name.
    pub uid: String,
    /// The revision it was made from.
    pub revision: String,
    /// Where it answers.
    pub address: Option<String>,
    /// It serves.
    pub ready: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// A `StatefulSet` controls it.
    pub controlled: bool,
    /// Somebody took our label off.
    pub unlabelled: bool,
    /// It was made, or told to stop, moments ago.
    pub young: bool,
    /// What its member speaks.
    pub transport: Transport,
    /// It begins the cluster anew from its data whenever it starts.
    pub forced: bool,
    /// Whether it skipped revisions first.
    pub skip: Skip,
    /// What its container said last before it gave up; `None` while it runs well.
    pub last_words: Option<String>,
    /// How that ended.
    pub exit_code: Option<i32>,
    /// How often it was started anew.
    pub restarts: i32,
    /// Why it does not start, in the kubelet's or scheduler's word.
    pub trouble: Option<String>,
    /// What Kubernetes says of that beside.
    pub evidence: Evidence,
    /// How its process was killed, where it waits long to be started again, and may be helped.
    pub revival: Option<String>,
    /// Its node, where that does not answer any more.
    pub lost_node: Option<String>,
    /// It has had a node for a while.
    pub placed: bool,
}

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

/// What matters of a volume claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a claim")]
pub struct Claim {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// It was made for this very object, and not for an earlier one of its name.
    pub ours: bool,
    /// An earlier object of the name left it, and members of this one have used it since.
    pub adopted: bool,
    /// Somebody took our label off.
    pub unlabelled: bool,
    /// The member whose data it holds, where that was noted.
    pub member: Option<u64>,
    /// It is being deleted.
    pub terminating: bool,
    /// It has a volume.
    pub bound: bool,
    /// What it asks for.
    pub size: String,
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

impl Pod {
    /// Whether its member has certificates.
    pub fn speaks_tls(&self) -> bool {
        self.transport.peer.mode.has_files() || self.transport.client.mode.has_files()
    }

    /// Where its member answers clients; none where it speaks TLS and nobody knows how to.
    pub fn endpoint(&self, credentials: Option<&Arc<Credentials>>) -> Option<Endpoint> {
        let address = self.address.as_ref()?;
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        let (scheme, tls) = match (self.transport.client.mode, credentials) {
            (Mode::Plain, _) | (Mode::Both, None) => ("http", None),
            (Mode::Both | Mode::Secure, Some(credentials)) => ("https", Some(credentials.clone())),
            (Mode::Secure, None) => return None,
        };
        Some(Endpoint { url: format!("{scheme}://{host}:{}", names::CLIENT_PORT), tls, login: None })
    }
}

impl Claim {
    /// Whether it is this object's to delete: made for it, or used by it since.
    pub fn is_deletable(&self) -> bool {
        self.ours || self.adopted
    }
}

impl Observed {
    /// A child of that kind and name.
    pub fn child(&self, kind: &str, name: &str) -> Option<&Child> {
        self.children.get(&(kind.to_owned(), name.to_owned()))
    }

    /// Where the member of that ordinal answers clients, with the password that it asks for.
    pub fn endpoint(&self, ordinal: i32) -> Option<Endpoint> {
        let endpoint = self.pods.get(&ordinal)?.endpoint(self.credentials.as_ref())?;
        Some(Endpoint { login: self.auth.access.login().cloned(), ..endpoint })
    }

    /// The members that are ours, by ordinal.
    pub fn members(&self, object: &EtcdCluster) -> BTreeMap<i32, &Member> {
        let all = self.quorum.as_ref().map(|quorum| quorum.members.as_slice());
        membership::ours(object, self, all.unwrap_or_default())
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
