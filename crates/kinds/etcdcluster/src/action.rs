//! The changes that a plan can make.

use std::collections::BTreeMap;

use causeway_databases::ChildAction;
use causeway_databases::etcd::{Alarm, Endpoint, Password};
use causeway_databases::tls::RotationStep;
use causeway_databases::tls::write::Certify;
use causeway_runtime::ActionEvent;
use causeway_runtime::manifest::Manifest;

use super::auth::secrets::Note;
use super::database::EtcdDatabase;
use super::tls::Side;
use super::tls::facts::Version;

/// One change to Kubernetes or to etcd.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Change a child as every database does.
    Child(ChildAction),
    /// Apply the `DatabaseBackup`. With a UID, change only the object that has it.
    ApplyBackup { child: Box<Manifest>, uid: Option<String> },
    /// Delete exactly that `DatabaseBackup`.
    DeleteBackup { name: String, uid: String },
    /// Add a member that does not vote yet.
    AddLearner { name: String, peer_url: String, via: Endpoint },
    /// Let a learner vote.
    Promote { name: String, id: u64, via: Endpoint },
    /// Make a certificate that is due on that side.
    Certify(Side, Certify),
    /// Change the peer URL of a member; only while the pods, with their UIDs, are exactly these.
    UpdatePeer { name: String, id: u64, peer_url: String, pods: BTreeMap<String, String>, via: Endpoint },
    /// Remove a member for good.
    Remove { name: String, id: u64, why: String, via: Endpoint },
    /// Hand leadership over.
    MoveLeader { from: String, to: String, id: u64, via: Endpoint },
    /// Discard the history before a revision.
    Compact { revision: i64, via: Endpoint },
    /// Defragment a member, which gives unused space back to the disk. It serves no client meanwhile, so `others` must.
    Defragment { name: String, via: Endpoint, others: Vec<Endpoint> },
    /// End an alarm, for that reason.
    Disarm { alarm: Alarm, why: &'static str, via: Endpoint },
    /// Enable the downgrade from one version to another. etcd takes only the minor version of the target.
    EnableDowngrade { from: String, to: String, minor: u8, via: Endpoint },
    /// Cancel the downgrade, for that reason.
    CancelDowngrade { why: &'static str, via: Endpoint },
    /// Make the Secret with the password that root is to have: the `known` one, or a random one. Or write the password into
    /// the emptied version `before` of the Secret.
    MakePassword { secret: String, known: Option<Password>, before: Option<Version> },
    /// Record which password root has, and which one it gets next.
    NotePassword(Note),
    /// Make sure that the user root exists, with that password and all rights. Authentication is still off.
    PrepareRoot { password: Password, via: Endpoint },
    /// Give root another password.
    ChangePassword { password: Password, via: Endpoint },
    /// Turn authentication on: clients must log in.
    EnableAuth { via: Endpoint },
    /// Turn authentication off.
    DisableAuth { via: Endpoint },
}

impl Action {
    /// Reports whether another login may be needed afterwards.
    pub fn is_about_login(&self) -> bool {
        matches!(
            self,
            Self::NotePassword(_)
                | Self::PrepareRoot { .. }
                | Self::ChangePassword { .. }
                | Self::EnableAuth { .. }
                | Self::DisableAuth { .. }
        )
    }

    /// The event that reports the action.
    pub fn event(&self) -> Option<ActionEvent> {
        let (reason, note) = match self {
            Self::Child(action) => return action.event::<EtcdDatabase>(),
            Self::ApplyBackup { child, uid: None } => ("Created", format!("Created {} {}", child.kind(), child.name())),
            Self::ApplyBackup { child, .. } => ("Updated", format!("Updated {} {}", child.kind(), child.name())),
            Self::DeleteBackup { name, .. } => {
                ("Deleted", format!("Deleted DatabaseBackup {name}: spec.backupSchedule is gone"))
            }
            Self::AddLearner { name, .. } => ("MemberAdded", format!("Added {name} as a learner")),
            Self::Promote { name, .. } => ("MemberPromoted", format!("{name} has caught up and votes")),
            Self::Remove { name, why, .. } => ("MemberRemoved", format!("Removed {name} from the members: {why}")),
            Self::MoveLeader { from, to, .. } => ("LeaderMoved", format!("Moved leadership from {from} to {to}")),
            Self::Certify(side, Certify { need: RotationStep::Authority, why, .. }) => {
                ("AuthorityMade", format!("Made an authority for the {} side: {why}", side.name()))
            }
            Self::Certify(_, Certify { secret, why, .. }) => {
                ("CertificateWritten", format!("Wrote Secret {secret}: {why}"))
            }
            Self::UpdatePeer { name, peer_url, .. } => {
                ("MemberMoved", format!("{name} is reached by its peers at {peer_url}"))
            }
            Self::Compact { revision, .. } => ("Compacted", format!("Forgot what was before revision {revision}")),
            Self::Defragment { name, .. } => ("Defragmented", format!("Defragmented {name}")),
            Self::Disarm { alarm, why, .. } => ("Disarmed", format!("Ended the alarm {}: {why}", alarm.kind.as_str())),
            Self::EnableDowngrade { from, to, .. } => (
                "DowngradeEnabled",
                format!(
                    "Members may go back from {from} to {to}, once they have written their data as that reads them"
                ),
            ),
            Self::CancelDowngrade { why, .. } => ("DowngradeCancelled", format!("Cancelled etcd's downgrade: {why}")),
            Self::MakePassword { secret, .. } => {
                ("PasswordMade", format!("Made a password for root in Secret {secret}"))
            }
            Self::ChangePassword { .. } => ("PasswordChanged", "root has another password".into()),
            Self::EnableAuth { .. } => ("AuthEnabled", "Clients must log in from now on".into()),
            Self::DisableAuth { .. } => ("AuthDisabled", "Clients need not log in any more".into()),
            Self::NotePassword(_) | Self::PrepareRoot { .. } => return None,
        };
        Some(ActionEvent::normal(reason, note))
    }
}

impl From<ChildAction> for Action {
    fn from(action: ChildAction) -> Self {
        Self::Child(action)
    }
}
