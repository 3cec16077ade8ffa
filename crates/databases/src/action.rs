//! The changes of children that every database makes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use causeway_runtime::manifest::Manifest;
use causeway_runtime::{ActionEvent, Replacement};

use super::{Claim, Database, Pod};
use crate::{restore_from, unlabelled};

/// One change of a child.
#[derive(Clone, Debug, PartialEq)]
pub enum ChildAction {
    /// Apply a child. With a UID, change only the object that has it.
    Apply { child: Box<Manifest>, uid: Option<String> },
    /// Make the object the controller of exactly that child, which has none. `owners` are all of its owners then.
    TakeBack { kind: String, name: String, uid: String, version: String, owners: Vec<OwnerReference> },
    /// Delete exactly that pod; its `StatefulSet` makes another. With `at_once`, it gets no time to finish.
    DeletePod { name: String, uid: String, why: String, at_once: bool },
    /// Delete exactly that pod, which waits in vain to be started again.
    Revive { name: String, uid: String, why: String },
    /// Wake the controller of exactly that `StatefulSet`, so that it makes a pod now instead of after its back-off.
    Hurry { name: String, uid: String, version: String, pod: String },
    /// Delete exactly that volume claim.
    DeleteClaim { name: String, uid: String, why: String },
    /// Delete exactly that network policy.
    DeletePolicy { name: String, uid: String },
    /// Let Kubernetes delete exactly that Service, as one without an owner.
    Abandon { name: String, uid: String },
    /// Put our label back on exactly that pod.
    LabelPod { name: String, uid: String },
    /// Put our label back on exactly that volume claim.
    LabelClaim { name: String, uid: String },
    /// Note whose data a volume holds, and that this object uses it.
    MarkClaim { name: String, uid: String, member: u64 },
    /// Note the epoch in which the node of that volume is the master.
    NoteEpoch { name: String, uid: String, epoch: i64 },
    /// Ask for a larger volume.
    GrowClaim { name: String, uid: String, size: String },
    /// Delete the `StatefulSet` but not its pods: what cannot be changed in it is made again.
    Orphan { name: String, uid: String },
    /// Take a step of the restore that the database begins with.
    Restore(restore_from::Step),
}

impl ChildAction {
    /// Deletes that pod.
    pub fn delete_pod<N>(pod: &Pod<N>, why: impl Into<String>) -> Self {
        Self::DeletePod { name: pod.name.clone(), uid: pod.uid.clone(), why: why.into(), at_once: false }
    }

    /// Deletes that volume claim.
    pub fn delete_claim(claim: &Claim, why: impl Into<String>) -> Self {
        Self::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone(), why: why.into() }
    }

    /// The pod that the action replaces, and why.
    pub fn replaces(&self) -> Option<Replacement<'_>> {
        match self {
            Self::DeletePod { name, why, .. } => Some(Replacement { kind: "Pod", name, why }),
            _ => None,
        }
    }

    /// The event that reports the action.
    pub fn event<D: Database>(&self) -> Option<ActionEvent> {
        let (reason, note) = match self {
            Self::Apply { child, uid: None } => ("Created", format!("Created {} {}", child.kind(), child.name())),
            Self::Apply { child, uid: Some(_) } => ("Updated", format!("Updated {} {}", child.kind(), child.name())),
            Self::TakeBack { kind, name, .. } => {
                let note = format!("Took {kind} {name} back: it has label {}, and had no controller", D::LABEL);
                return Some(ActionEvent::warning("TakenBack", note));
            }
            Self::DeletePod { name, why, .. } | Self::Revive { name, why, .. } => {
                ("PodDeleted", format!("Deleted pod {name}: {why}"))
            }
            Self::Hurry { pod, .. } => ("PodAccepted", format!("Pod {pod} is refused no longer, and is made now")),
            Self::DeleteClaim { name, why, .. } => ("VolumeDeleted", format!("Deleted volume claim {name}: {why}")),
            Self::DeletePolicy { name, .. } => ("NetworkPolicyDeleted", format!("Deleted NetworkPolicy {name}")),
            Self::Abandon { name, .. } => ("ServiceDeleted", format!("Deleted Service {name}")),
            Self::LabelPod { name, .. } => return Some(unlabelled::event("Pod", name, D::LABEL)),
            Self::LabelClaim { name, .. } => {
                return Some(unlabelled::event("PersistentVolumeClaim", name, D::LABEL));
            }
            Self::GrowClaim { name, size, .. } => ("VolumeGrown", format!("Asked for {size} for volume claim {name}")),
            Self::Restore(step) => return step.event(),
            Self::MarkClaim { .. } | Self::NoteEpoch { .. } | Self::Orphan { .. } => return None,
        };
        Some(ActionEvent::normal(reason, note))
    }
}
