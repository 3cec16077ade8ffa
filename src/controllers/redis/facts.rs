//! What is known of a master and its replicas: their children, pods and volumes as Kubernetes has them, and what each
//! node says of itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::names;
use crate::external::redis::{Credentials, Endpoint, Info, Login, Writes};
use crate::stateful;
pub use crate::stateful::Child;
use crate::stateful::tls::facts::{SideFacts, StoredCertificate, Version};

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Children, pods and volumes as Kubernetes has them.
    pub set: Set,
    /// The slices of our Services by name, whoever wrote them.
    pub slices: BTreeMap<String, Child>,
    /// Passwords, where clients must give one.
    pub passwords: Passwords,
    /// Certificates, where TLS is spoken.
    pub certificates: Certificates,
    /// The operator's own image, where it knows it.
    pub own_image: Option<String>,
}

/// What is known of passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passwords {
    /// We may not read Secrets.
    pub denied: bool,
    /// The Secret with the password of clients does not agree to be used.
    pub unshared: bool,
    /// The password of clients, in the Secret that the spec names or in the one that is made for it.
    pub user_provided: Option<SecretString>,
    /// The users that the processes know.
    pub users: Option<Users>,
    /// Their Secret is gone, or somebody changed it.
    pub users_lost: bool,
}

/// The users that the processes know, as our Secret has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Users {
    /// Password of replicas and of ours.
    pub internal: SecretString,
    /// Hash of the clients' password.
    pub current: String,
    /// Hash of the one before, which stays good until the next change.
    pub previous: Option<String>,
    /// Exporters have a user: Secrets from before they had one lack it.
    pub exporter: bool,
    /// What answers as Redis Sentinel does has a user: it has none before it is asked for.
    pub sentinel: bool,
}

/// All that is known of a set's certificates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Certificates {
    /// We may not read Secrets.
    pub denied: bool,
    /// Where they come from, and what nodes have.
    pub nodes: SideFacts,
    /// What the user's clients have.
    pub for_clients: Option<StoredCertificate>,
    /// The Secret with the authority.
    pub authority: Option<Version>,
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretString(pub String);

impl std::fmt::Debug for SecretString {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("…")
    }
}

/// What matters of a pod to Redis alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The label that tells its role.
    pub role: Option<String>,
    /// The settings that its process was told last, and which process.
    pub settings: Option<String>,
    /// The certificates that its process has loaded, and which process.
    pub certificates: Option<String>,
    /// The node of Kubernetes that it is on.
    pub host: Option<String>,
    /// The zone of that, where readers are led to replicas near them.
    pub zone: Option<String>,
    /// As whom we speak to it.
    pub login: Option<Login>,
    /// With what we speak TLS to it.
    pub tls: Option<Arc<Credentials>>,
    /// What its process says.
    pub state: NodeState,
    /// Whether it has answered since this operator began to listen to it.
    pub heard: bool,
    /// How many clients are with it, where it was the master until a moment ago.
    pub clients: usize,
    /// What it answers to a write, where it is a master.
    pub writes: Option<Writes>,
    /// Directives that somebody changed in its process.
    pub drift: BTreeSet<String>,
}

/// A pod.
pub type Pod = stateful::Pod<Node>;
/// Children, pods and volumes.
pub type Set = stateful::Set<Node>;

/// What a node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
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

/// Whoever is silent for less long counts as it was known last.
pub const MOMENT: Duration = Duration::from_secs(2);

impl Pod {
    /// Whether it does not answer for a moment, which says nothing.
    pub fn is_unheard(&self) -> bool {
        matches!(self.own.state, NodeState::Silent(silence) if silence < MOMENT) && !self.terminating
    }

    /// Where its process answers.
    pub fn endpoint(&self) -> Option<Endpoint> {
        let (login, tls) = (self.own.login.clone(), self.own.tls.clone());
        Some(Endpoint { address: format!("{}:{}", self.host()?, names::PORT), login, tls })
    }

    /// What its process says of itself.
    pub fn info(&self) -> Option<&Info> {
        match &self.own.state {
            NodeState::Answers(info) => Some(info),
            _ => None,
        }
    }

    /// Whether its label tells that role.
    pub fn has_role(&self, role: &str) -> bool {
        self.own.role.as_deref() == Some(role)
    }
}
