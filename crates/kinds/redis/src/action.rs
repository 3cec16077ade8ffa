//! The changes that can be made.

use causeway_databases::ChildAction;
use causeway_databases::redis::{Endpoint, Login};
use causeway_databases::tls::RotationStep;
use causeway_databases::tls::facts::Version;
use causeway_databases::tls::write::Certify;
use causeway_runtime::ActionEvent;
use causeway_runtime::manifest::Manifest;

use super::applied_config::AppliedConfig;
use super::database::RedisDatabase;

/// One change, to Kubernetes objects or to Redis processes.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Change a child as every database does.
    Child(ChildAction),
    /// Write an `EndpointSlice`, by which a Service finds its nodes. The write succeeds only if the slice is still the
    /// one that was observed: another operator may be the leader by now.
    WriteSlice(Box<SliceWrite>),
    /// Remove the selector of the Service with that uid: the operator writes its `EndpointSlice`s.
    Unselect { service: String, uid: String },
    /// Delete the Endpoints and `EndpointSlice`s that Kubernetes wrote for a Service while it had a selector.
    Sweep { service: String, slices: Vec<(String, String)> },
    /// Set the role label of a pod, or remove it.
    SetRole { pod: Target, role: Option<&'static str> },
    /// Make a node a replica of another. A node that was a master also loses its client connections (`drop_clients`):
    /// its clients must find the new master.
    Follow { node: Target, master: String, drop_clients: bool },
    /// Make a node a master, if its process is still the one with that run id.
    Promote { node: Target, run_id: String, why: &'static str },
    /// Let the master hand over to a replica without loss. Meanwhile, `hide` keeps new clients away from it.
    HandOver { from: Target, to: String, address: String, hide: Option<Box<SliceWrite>> },
    /// Make a master whose pod is gone from the apiserver hand over or step down: its process may live on for a moment.
    /// Only if its data have that history: the address may be another process's by now.
    Fence { at: Endpoint, history: String, successor: String },
    /// Send a hung master the commands to become a replica and to drop its clients. It finds them when it wakes up, and
    /// so acknowledges none of the writes that wait in its sockets.
    StepDown { node: Target, successor: String },
    /// End the process of an earlier master that runs a script, and answers nothing else. If it has come back meanwhile,
    /// this fails, and the master is looked at again. If it hangs by now, it is told to step down.
    EndBusy { node: Target, successor: String },
    /// Abort a handover: the master keeps its role.
    KeepMastership { node: Target },
    /// Have a node rewrite its append-only file, and record that in an annotation of its pod.
    RewriteLog { node: Target, note: String },
    /// Close the connections of a node's clients: they must find the new master.
    DropClients { node: Target },
    /// Apply settings and users to a running process, and record that in an annotation of its pod.
    Configure {
        node: Target,
        settings: Vec<(String, String)>,
        users: Vec<Vec<String>>,
        follow_as: Option<Login>,
        note: AppliedConfig,
        /// The process was started with these settings, as its file has them.
        is_new: bool,
        /// Directives that a user had changed, and that are changed back.
        mended: Vec<String>,
    },
    /// Write the file of settings that new processes of a pod start with.
    WriteSettings { pod: Target, file: String },
    /// Make a certificate that is due.
    Certify(Certify),
    /// Make a running process load the certificates with exactly that content, and record that in an annotation of its
    /// pod.
    LoadCertificates { node: Target, settings: Vec<(String, String)>, content: String, note: String, renewed: bool },
    /// Generate the clients' password, in a Secret of that name: a new one, or the emptied version `before` of it.
    MakePassword { secret: String, before: Option<Version> },
    /// Write the Secret with the users, for a clients' password with this hash.
    MakeUsers { secret: String, hash: String },
    /// Only emit an event.
    Tell { reason: &'static str, note: String },
}

/// An `EndpointSlice` to write.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceWrite {
    /// The slice as it is to be written.
    pub slice: Manifest,
    /// Uid and resource version of the slice that exists.
    pub before: Option<(String, String)>,
    /// The node to which the slice leads clients, and the run id of its process: it must still be a master.
    pub master: Option<(Target, String)>,
}

/// A pod and its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name of the pod.
    pub name: String,
    /// The uid of the pod.
    pub uid: String,
    /// Where its process answers.
    pub endpoint: Option<Endpoint>,
}

impl Action {
    /// The event that reports the action.
    pub fn event(&self) -> Option<ActionEvent> {
        let (reason, note) = match self {
            Self::Child(ChildAction::Apply { child, .. }) if child.kind() == "Secret" => {
                ("UsersWritten", format!("Wrote Secret {}; its users are loaded into the processes", child.name()))
            }
            Self::Child(action) => return action.event::<RedisDatabase>(),
            Self::Promote { node, why, .. } => ("Promoted", format!("Made {} the master: {why}", node.name)),
            Self::Follow { node, drop_clients: true, .. } => {
                ("Demoted", format!("Made {} a replica, and closed its clients' connections", node.name))
            }
            Self::EndBusy { node, .. } => {
                let lost = "what the script had written is lost, and nothing that was acknowledged";
                ("ScriptEnded", format!("Ended the process of {}, which a script kept busy: {lost}", node.name))
            }
            Self::Unselect { service, .. } => {
                ("ServiceTaken", format!("Removed the selector of Service {service}: Causeway manages its endpoints"))
            }
            Self::Configure { node, mended, .. } if !mended.is_empty() => {
                let message =
                    format!("Changed back what another client had changed in {}: {}", node.name, mended.join(", "));
                ("DriftRepaired", message)
            }
            Self::Configure { node, .. } => ("Configured", format!("Changed settings of {} while it runs", node.name)),
            Self::MakePassword { secret, .. } => {
                ("PasswordMade", format!("Made a password for clients in Secret {secret}"))
            }
            Self::Certify(Certify { need: RotationStep::Authority, why, .. }) => {
                ("AuthorityMade", format!("Made an authority: {why}"))
            }
            Self::Certify(Certify { secret, why, .. }) => {
                ("CertificateWritten", format!("Wrote Secret {secret}: {why}"))
            }
            Self::LoadCertificates { node, renewed: true, .. } => {
                ("CertificatesLoaded", format!("{} has loaded its certificates again", node.name))
            }
            Self::Tell { reason, note } => (*reason, note.clone()),
            Self::WriteSlice(_)
            | Self::Sweep { .. }
            | Self::SetRole { .. }
            | Self::Follow { .. }
            | Self::MakeUsers { .. }
            | Self::WriteSettings { .. }
            | Self::Fence { .. }
            | Self::StepDown { .. }
            | Self::HandOver { .. }
            | Self::KeepMastership { .. }
            | Self::RewriteLog { .. }
            | Self::LoadCertificates { .. }
            | Self::DropClients { .. } => return None,
        };
        // No user asked for these, so they are warnings.
        let is_warning = matches!(reason, "FailedOver" | "DataLost" | "DataChosen" | "ScriptEnded");
        let message = if is_warning { ActionEvent::warning } else { ActionEvent::normal };
        Some(message(reason, note))
    }
}

impl From<ChildAction> for Action {
    fn from(action: ChildAction) -> Self {
        Self::Child(action)
    }
}
