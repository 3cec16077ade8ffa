//! The changes that can be made.

use crate::api::Redis;
use crate::external::redis::{Endpoint, Login};
use crate::runtime::ActionEvent;
use crate::runtime::manifest::Manifest;
use crate::stateful::ChildAction;
use crate::stateful::tls::RotationStep;
use crate::stateful::tls::write::Certify;

/// One change of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Change a child as every database does.
    Child(ChildAction),
    /// Lead clients of a Service as that slice says. Only if it is as we saw it: somebody may lead in our place by now.
    Lead(Box<Publication>),
    /// Take the selector from exactly that Service: whom it leads to is in slices of ours.
    Unselect { service: String, uid: String },
    /// Delete what Kubernetes wrote for a Service while it had a selector.
    Sweep { service: String, slices: Vec<(String, String)> },
    /// Tell a pod's role by its label, or none.
    SetRole { pod: Target, role: Option<&'static str> },
    /// Make a node a replica of another. One that took writes loses its clients: they must find the new master.
    Follow { node: Target, master: String, drop_clients: bool },
    /// Make exactly that process a master.
    Promote { node: Target, run_id: String, why: &'static str },
    /// Let the master hand over to a replica without loss, and keep new clients from it.
    HandOver { from: Target, to: String, address: String, hide: Option<Box<Publication>> },
    /// Let a master whose pod is gone from the apiserver, but whose process may live on for a moment, hand over or step
    /// down; only if it has that history.
    Fence { at: Endpoint, history: String, successor: String },
    /// Let a master that hangs find, when it wakes up, that it is a replica and its clients are gone: the writes that wait in
    /// its sockets are acknowledged to nobody.
    StepDown { node: Target, successor: String },
    /// Let a master that is about to hand over stay what it is.
    KeepMastership { node: Target },
    /// Close the connections of clients, which must find the new master.
    DropClients { node: Target },
    /// Tell a running process its settings, and note that on its pod.
    Configure {
        node: Target,
        settings: Vec<(String, String)>,
        users: Vec<Vec<String>>,
        follow_as: Option<Login>,
        note: String,
        /// Directives that somebody had changed.
        mended: Vec<String>,
    },
    /// Make a certificate that is due.
    Certify(Certify),
    /// Let a running process load the certificates of exactly that content, and note that on its pod.
    LoadCertificates { node: Target, settings: Vec<(String, String)>, content: String, note: String, renewed: bool },
    /// Make the password of clients, in a Secret of that name.
    MakePassword { secret: String },
    /// Make the users for a password of clients, of which this is the hash.
    MakeUsers { secret: String, hash: String },
    /// Nothing but an event: something was completed.
    Tell { reason: &'static str, note: String },
}

/// A slice that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// The slice.
    pub slice: Manifest,
    /// Uid and version of the one that is there.
    pub before: Option<(String, String)>,
    /// Who must be a master, that very process: clients are led to it.
    pub master: Option<(Target, String)>,
}

/// A pod and its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The pod.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Where its process answers.
    pub endpoint: Option<Endpoint>,
}

impl Action {
    /// The event that tells of the action.
    pub fn event(&self) -> Option<ActionEvent> {
        let (reason, note) = match self {
            Self::Child(ChildAction::Apply { child, .. }) if child.kind() == "Secret" => {
                ("UsersWritten", format!("Wrote Secret {}: processes are told of its users", child.name()))
            }
            Self::Child(action) => return action.event::<Redis>(),
            Self::Promote { node, why, .. } => ("Promoted", format!("Made {} the master: {why}", node.name)),
            Self::Follow { node, drop_clients: true, .. } => {
                ("Demoted", format!("Made {} a replica, and closed its clients' connections", node.name))
            }
            Self::Unselect { service, .. } => {
                ("ServiceTaken", format!("Took the selector from Service {service}: Causeway says whom it leads to"))
            }
            Self::Configure { node, mended, .. } if !mended.is_empty() => {
                let message = format!("Changed back what somebody had changed in {}: {}", node.name, mended.join(", "));
                ("DriftRepaired", message)
            }
            Self::Configure { node, .. } => ("Configured", format!("Changed settings of {} while it runs", node.name)),
            Self::MakePassword { secret } => {
                ("PasswordMade", format!("Made a password for clients in Secret {secret}"))
            }
            Self::Certify(Certify { need: RotationStep::Authority, why, .. }) => {
                ("AuthorityMade", format!("Made an authority: {why}"))
            }
            Self::Certify(Certify { secret, why, .. }) => {
                ("CertificateWritten", format!("Wrote Secret {secret}: {why}"))
            }
            Self::LoadCertificates { node, renewed: true, .. } => {
                ("CertificatesLoaded", format!("{} has loaded its certificates anew", node.name))
            }
            Self::Tell { reason, note } => (*reason, note.clone()),
            Self::Lead(_)
            | Self::Sweep { .. }
            | Self::SetRole { .. }
            | Self::Follow { .. }
            | Self::MakeUsers { .. }
            | Self::Fence { .. }
            | Self::StepDown { .. }
            | Self::HandOver { .. }
            | Self::KeepMastership { .. }
            | Self::LoadCertificates { .. }
            | Self::DropClients { .. } => return None,
        };
        // Nobody asked for them.
        let message =
            if matches!(reason, "FailedOver" | "DataLost") { ActionEvent::warning } else { ActionEvent::normal };
        Some(message(reason, note))
    }
}

impl From<ChildAction> for Action {
    fn from(action: ChildAction) -> Self {
        Self::Child(action)
    }
}
