//! What is known of a master and its replicas: their children, pods and volumes as Kubernetes has them, and what each
//! node says of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::names;
use super::tls::Certificates;
use crate::controllers::pod_trouble::{Evidence, Unmade};
use crate::controllers::restore_from::Seen;
use crate::external::redis::{Credentials, Endpoint, Info, Login, Writes};

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Services, `ConfigMap`, disruption budget and `StatefulSet` of our names, by kind and name.
    pub children: BTreeMap<(String, String), Child>,
    /// The slices of our Services by name, whoever wrote them.
    pub slices: BTreeMap<String, Child>,
    /// The pods, by ordinal.
    pub pods: BTreeMap<i32, Pod>,
    /// A pod that is missing, and that the apiserver refuses.
    pub unmade: Option<Unmade>,
    /// The volume claims, by ordinal.
    pub claims: BTreeMap<i32, Claim>,
    /// Pods and claims of our names that are somebody else's, by ordinal: with what there is to say of them.
    pub foreign: BTreeMap<i32, String>,
    /// Passwords, where clients must give one.
    pub passwords: Passwords,
    /// Certificates, where TLS is spoken.
    pub certificates: Certificates,
    /// The `DatabaseRestore` of our name.
    pub restore: Seen,
}

/// What is known of passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    /// We may not read Secrets.
    pub denied: bool,
    /// The password of clients, in the Secret that the spec names or in the one that is made for it.
    pub given: Option<Hidden>,
    /// The users that the processes know.
    pub users: Option<Users>,
    /// Their Secret is gone, or somebody changed it.
    pub users_lost: bool,
}

/// The users that the processes know, as our Secret has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    /// Password of replicas and of ours.
    pub internal: Hidden,
    /// Hash of the clients' password.
    pub current: String,
    /// Hash of the one before, which stays good until the next change.
    pub previous: Option<String>,
    /// Exporters have a user: Secrets from before they had one lack it.
    pub exporter: bool,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("…")
    }
}

/// A child as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The object.
    pub value: Value,
    /// Its uid.
    pub uid: String,
    /// Whether this object controls it.
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
    /// The label that tells its role.
    pub role: Option<String>,
    /// The settings that its process was told last, and which process.
    pub settings: Option<String>,
    /// Where it answers.
    pub address: Option<String>,
    /// The node of Kubernetes that it is on.
    pub node: Option<String>,
    /// As whom we speak to it.
    pub login: Option<Login>,
    /// With what we speak TLS to it.
    pub tls: Option<Arc<Credentials>>,
    /// The certificates that its process has loaded, and which process.
    pub certificates: Option<String>,
    /// Kubernetes takes it for ready: a kubelet that does not answer, or a container beside Redis, takes that from it.
    pub ready: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// A `StatefulSet` controls it.
    pub controlled: bool,
    /// Somebody took our label off.
    pub unlabelled: bool,
    /// Why it does not start, in the kubelet's or scheduler's word.
    pub trouble: Option<String>,
    /// What Kubernetes says of that beside.
    pub evidence: Evidence,
    /// What its process said last before it gave up.
    pub last_words: Option<String>,
    /// How its process was killed, where it waits long to be started again, and may be helped.
    pub revival: Option<String>,
    /// Its node of Kubernetes, where that does not answer any more.
    pub lost_node: Option<String>,
    /// It has had a node for a while.
    pub placed: bool,
    /// What its process says.
    pub voice: Voice,
    /// What it answers to a write, where it is a master.
    pub writes: Option<Writes>,
    /// Directives that somebody changed in its process.
    pub drift: BTreeSet<String>,
}

/// What a node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Voice {
    /// It answers.
    Answers(Box<Info>),
    /// It answers that it does not know us.
    Refuses(String),
    /// Nothing for so long, and nothing that would tell that it is gone.
    Silent(Duration),
    /// There is no process.
    #[default]
    Gone,
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
    /// Somebody took our label off.
    pub unlabelled: bool,
    /// It is being deleted.
    pub terminating: bool,
    /// It has a volume.
    pub bound: bool,
    /// What it asks for.
    pub size: String,
}

/// Whoever is silent for less long counts as it was known last.
pub const MOMENT: Duration = Duration::from_secs(2);

impl Pod {
    /// Whether it does not answer for a moment, which says nothing.
    pub fn is_unheard(&self) -> bool {
        matches!(self.voice, Voice::Silent(silence) if silence < MOMENT) && !self.terminating
    }

    /// Where its process answers.
    pub fn endpoint(&self) -> Option<Endpoint> {
        let address = self.address.as_ref()?;
        let host = if address.contains(':') { format!("[{address}]") } else { address.clone() };
        let (login, tls) = (self.login.clone(), self.tls.clone());
        Some(Endpoint { address: format!("{host}:{}", names::PORT), login, tls })
    }

    /// What its process says of itself.
    pub fn info(&self) -> Option<&Info> {
        match &self.voice {
            Voice::Answers(info) => Some(info),
            _ => None,
        }
    }

    /// Whether its process gave up because its volume is full.
    pub fn has_no_space(&self) -> bool {
        self.last_words.as_ref().is_some_and(|words| words.contains("No space left on device"))
    }

    /// Whether its label tells that role.
    pub fn has_role(&self, role: &str) -> bool {
        self.role.as_deref() == Some(role)
    }
}

impl Observed {
    /// A child of that kind and name.
    pub fn child(&self, kind: &str, name: &str) -> Option<&Child> {
        self.children.get(&(kind.to_owned(), name.to_owned()))
    }
}
