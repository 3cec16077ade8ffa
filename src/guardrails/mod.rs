//! What a platform team lets objects of namespaces name: [`CausewayPolicy`](crate::api::causewaypolicy::CausewayPolicy).
//!
//! ```text
//! policies, labels of namespaces ──▶ watch ──▶ Policies ─┐
//! object ──▶ asks: fields and their values ──────────────┴▶ verdict ──▶ the kind tells of it, and makes nothing new
//! ```
//!
//! What cannot be known is not allowed: a policy that cannot be read forbids all that it may be about, and policies that cannot
//! be listed forbid everything. What is there already is looked after all the same.

mod allowed;
pub mod asks;
mod beyond;
mod census;
mod limits;
mod problems;
mod required;
mod selector;
mod status;
mod verdict;
mod watch;

pub use asks::{Ask, Topic};
pub use beyond::Beyond;
pub use required::Required;
pub use verdict::Policies;
pub use watch::Guardrails;

/// The reason where a policy does not allow something.
pub const DENIED: &str = "PolicyDenied";
/// The reason where policies are not known.
pub const UNKNOWN: &str = "PoliciesUnknown";

/// A reason, and a sentence that names field, value, policy and what is allowed.
pub type Denial = (&'static str, String);
