//! Restricts what objects may name, by namespace, as a platform team decides:
//! [`CausewayPolicy`](causeway_api::causewaypolicy::CausewayPolicy).
//!
//! ```text
//! policies, labels of namespaces ──▶ watch ──▶ Policies ─┐
//! object ──▶ asks: fields and their values ──────────────┴▶ verdict ──▶ the kind reports it, and creates nothing new
//! ```
//!
//! What is not known is not allowed. A policy that cannot be read forbids everything in the namespaces that it may
//! select, and if policies cannot be listed, everything is forbidden. Objects that exist already are still looked
//! after.

mod allowed;
pub mod asks;
mod beyond;
mod census;
mod form;
#[cfg(any(test, feature = "testing"))]
pub mod leaves;
pub mod limits;
mod problems;
mod required;
pub mod selector;
mod status;
mod verdict;
mod watch;

pub use asks::{Ask, Topic};
pub use beyond::Beyond;
pub use required::Required;
pub use verdict::Policies;
pub use watch::Guardrails;

/// The reason if a policy does not allow something.
pub const DENIED: &str = "PolicyDenied";
/// The reason if policies are not known.
pub const UNKNOWN: &str = "PoliciesUnknown";

/// A reason, and a sentence that names the field, the value, the policy and what is allowed.
pub type Denial = (&'static str, String);
