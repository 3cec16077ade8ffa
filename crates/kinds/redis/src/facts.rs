//! The facts about a master and its replicas: their children, pods and volumes as Kubernetes has them, and the answers of each
//! node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::names;
pub use causeway_databases::Child;
use causeway_databases::password::Emptied;
use causeway_databases::redis::{Admission, Credentials, Endpoint, Info, Login, Writes};
use causeway_databases::refusals::{ChildKey, Refusal};
use causeway_databases::tls::facts::{SideFacts, StoredCertificate, Version};

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Children, pods and volumes as Kubernetes has them.
    pub set: Set,
    /// The slices of our Services by name, whichever controller wrote them.
    pub slices: BTreeMap<String, Child>,
    /// Passwords, where clients must give one.
    pub passwords: Passwords,
    /// Certificates, where TLS is spoken.
    pub certificates: Certificates,
    /// The operator's own image, where it knows it.
    pub own_image: Option<String>,
    /// Children of this very spec that the apiserver refused moments ago, by the child's kind and name.
    pub refused: BTreeMap<ChildKey, Refusal>,
    /// The last answers of nodes as masters, by the names of their pods. A node that has followed another since is not in it.
    pub words: BTreeMap<String, LastWord>,
    /// For how long this operator has seen the present `status.candidateSince`.
    pub candidate_seen: Duration,
}

/// The last answer of a node as a master, as far as this operator heard it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastWord {
    /// Its replication offset by the answer before the last one, half a second earlier: what it sent in between may still
    /// have been on its way.
    pub offset: u64,
    /// How long ago its last answer was.
    pub ago: Duration,
    /// It said within its last two seconds that it had no key left.
    pub empty: bool,
}

/// The passwords of clients and of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    /// We may not read Secrets.
    pub denied: bool,
    /// The Secret with the clients' password does not allow this object to use it.
    pub unshared: bool,
    /// The clients' password, in the Secret that the spec names or in the one that the operator made.
    pub user_provided: Option<SecretString>,
    /// That Secret, if the spec does not name it, and it exists without a password.
    pub emptied: Option<Emptied>,
    /// The users that the processes know.
    pub users: Option<Users>,
    /// The Secret with the users is gone, or a user changed it.
    pub users_lost: bool,
}

/// The users that the processes know, as our Secret has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    /// Password of the user as which replicas and the operator log in.
    pub internal: SecretString,
    /// Hash of the clients' password.
    pub current: String,
    /// Hash of the previous clients' password, which stays valid until the next change.
    pub previous: Option<String>,
    /// There is a user for exporters; the Secret lacks its password otherwise.
    pub exporter: bool,
    /// There is a user for the sentinel containers; it is made when `spec.sentinel` asks for them.
    pub sentinel: bool,
}

/// All that is known of a set's certificates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certificates {
    /// We may not read Secrets.
    pub denied: bool,
    /// Where they come from, and what nodes have.
    pub nodes: SideFacts,
    /// The certificate of the user's clients.
    pub for_clients: Option<StoredCertificate>,
    /// The Secret with the authority.
    pub authority: Option<Version>,
}

/// A text that is never shown. It is our own type, because that of the crate `secrecy` cannot be compared, and a
/// changed Secret is noticed by a comparison. It has no `Serialize`, so that no status can contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(pub String);

impl std::fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("…")
    }
}

/// The facts about a pod that only Redis needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a node")]
pub struct Node {
    /// The label with its role.
    pub role: Option<String>,
    /// Which settings were last applied to its process, and which process that was.
    pub settings: Option<String>,
    /// The file of settings that a new process of it would start with; none if it has no such file.
    pub conf: Option<String>,
    /// Which certificates its process has loaded, and which process that was.
    pub certificates: Option<String>,
    /// The note of the last request to rewrite its append-only file, as [`super::names::LOG`] has it.
    pub log_note: Option<String>,
    /// The Kubernetes node that it runs on.
    pub host: Option<String>,
    /// The zone of that Kubernetes node; needed where readers are led to replicas near them.
    pub zone: Option<String>,
    /// True if the kubelet restarts its process when that answers nothing for long.
    pub probed: bool,
    /// The operator could not log in to it as the spec has it, and came in another way.
    pub detour: bool,
    /// The user as which the operator logs in to it.
    pub login: Option<Login>,
    /// The credentials with which the operator speaks TLS with it.
    pub tls: Option<Arc<Credentials>>,
    /// The answer of its process.
    pub state: NodeState,
    /// True once it has answered since this operator began to listen to it.
    pub has_answered: bool,
    /// For how long it has reported the same role, and the same link to its master.
    pub unchanged: Duration,
    /// How many clients are connected to it; counted only if it was the master until a moment ago.
    pub clients: usize,
    /// Its answer to new clients, unless it lets them in.
    pub turned_away: Option<Admission>,
    /// It runs a script, and answers nothing else.
    pub busy: bool,
    /// The memory limit in bytes of its container, be it from the spec, a `LimitRange` or a webhook.
    pub memory_limit: Option<u64>,
    /// Bytes of memory that its data take; asked for only while the spec gives nodes less memory than it has.
    pub used: Option<u64>,
    /// Its answer to a write, if it is a master.
    pub writes: Option<Writes>,
    /// The recorded master answers, and has had no acknowledgement of this replica for two seconds.
    pub stalled: bool,
    /// The number of databases of its process, where that is known.
    pub databases: Option<u32>,
    /// Directives that a user changed in its process.
    pub drift: BTreeSet<String>,
}

/// A pod, with the facts that only Redis needs.
pub type Pod = causeway_databases::Pod<Node>;
/// Children, pods and volumes.
pub type Set = causeway_databases::Set<Node>;

/// The answer of a node, or its silence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It answers, with this INFO.
    Answers(Box<Info>),
    /// It answers with an error: it rejects the operator's login, for example, or refuses the command.
    Refuses(String),
    /// It has not answered for this long, and nothing shows that its process is gone.
    Silent(Duration),
    /// No process listens where it should: there is no process, or a firewall rejects the operator.
    #[default]
    Gone,
}

/// Redis's error code if the disk fails.
pub const DISK: &str = "MISCONF";

/// A node that has been silent for less than this counts as it was last seen.
pub const BRIEF_SILENCE: Duration = Duration::from_secs(2);

/// Conclusions about the node in a pod, in a trait because the type of pods belongs to another crate.
pub trait NodePod {
    /// Reports whether it has been silent for less than [`BRIEF_SILENCE`], which says nothing about its health.
    fn is_briefly_silent(&self) -> bool;

    /// Where its process answers.
    fn endpoint(&self) -> Option<Endpoint>;

    /// Returns the INFO of its process, if it answers.
    fn info(&self) -> Option<&Info>;

    /// Reports whether it refuses writes because of its disk.
    fn is_refused_by_disk(&self) -> bool;

    /// Reports whether its label has that role.
    fn has_role(&self, role: &str) -> bool;
}

impl NodePod for Pod {
    fn is_briefly_silent(&self) -> bool {
        matches!(self.own.state, NodeState::Silent(silence) if silence < BRIEF_SILENCE) && !self.terminating
    }

    fn endpoint(&self) -> Option<Endpoint> {
        let (login, tls) = (self.own.login.clone(), self.own.tls.clone());
        Some(Endpoint { address: format!("{}:{}", self.host()?, names::PORT), login, tls })
    }

    fn info(&self) -> Option<&Info> {
        match &self.own.state {
            NodeState::Answers(info) => Some(info),
            _ => None,
        }
    }

    fn is_refused_by_disk(&self) -> bool {
        self.own.writes.as_ref().is_some_and(|writes| writes.are_refused_for(DISK))
    }

    fn has_role(&self, role: &str) -> bool {
        self.own.role.as_deref() == Some(role)
    }
}
