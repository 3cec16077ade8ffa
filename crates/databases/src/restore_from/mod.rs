//! `spec.restoreFrom` of a database: what `EtcdCluster` and `Redis` do alike about it. No kind of its own.
//!
//! The database runs empty first; then it owns a `DatabaseRestore` with itself as the target, and is not ready before that
//! succeeded.
//!
//! ```text
//! database serves ─▶ DatabaseRestore made ─▶ its uid noted in the status ─▶ it begins ─▶ how it ended noted ─▶ ready
//! ```
//!
//! A `DatabaseRestore` begins only after the status of its database names its uid, and none is made while the status names
//! one whose end is not known. So whatever is lost, whether an answer, a write of the status or the operator, nothing is
//! brought back a second time.

mod child;
mod decide;
mod facts;
#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
mod join;
mod restores;
#[cfg(test)]
mod tests;

pub use decide::Database;
pub use facts::Seen;
pub use join::join;
pub use restores::Restores;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use causeway_runtime::ActionEvent;
use causeway_runtime::manifest::Manifest;

/// One step of a restore.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Make the `DatabaseRestore`.
    Make {
        /// The object that is created.
        restore: Box<Manifest>,
    },
    /// Delete exactly that `DatabaseRestore`, and wait for its Job to stop.
    Stop {
        /// The name of the `DatabaseRestore`.
        name: String,
        /// The uid of the `DatabaseRestore`.
        uid: String,
    },
    /// Become the controller of exactly that `DatabaseRestore`, which has none any more.
    TakeBack {
        /// The name of the `DatabaseRestore`.
        name: String,
        /// The uid of the `DatabaseRestore`.
        uid: String,
        /// Its `resourceVersion`: it must not have changed since.
        version: String,
        /// Its owners from then on.
        owners: Vec<OwnerReference>,
    },
    /// Nothing but an event.
    Tell {
        /// Stable `CamelCase` word.
        reason: &'static str,
        /// A sentence for the user.
        note: String,
    },
}

impl Step {
    /// The event that reports the step. That a `DatabaseRestore` was made is reported when it is recorded: until then it
    /// does nothing.
    pub fn event(&self) -> Option<ActionEvent> {
        match self {
            Self::Make { .. } => None,
            Self::Stop { name, .. } => {
                let note = format!("Deleted DatabaseRestore {name}: spec.restoreFrom is gone");
                Some(ActionEvent::normal("RestoreStopped", note))
            }
            Self::TakeBack { name, .. } => {
                let note = format!("Took DatabaseRestore {name} back: it is this object's, and had no controller");
                Some(ActionEvent::warning("TakenBack", note))
            }
            Self::Tell { reason, note } => Some(ActionEvent::normal(reason, note.clone())),
        }
    }
}
