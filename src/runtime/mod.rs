//! The generic reconcile runner: everything that all kinds do alike.
//!
//! A kind implements [`Kind`]: how to read the world ([`Kind::observe`]), what to do about it ([`Kind::decide`],
//! [`Kind::decide_removal`]: pure), and how to do one step of it ([`Kind::apply`]). The runner adds the rest:
//! watching, bounded concurrency, deadlines, panics, finalizers, retries by class of error, status and events.
//!
//! ```text
//! watch event ─▶ controller ─▶ reconcile ─▶ observe ─▶ decide ─▶ apply ─┐
//!                                  ▲            ▲                      │ until nothing is left to do
//!                                  │            └──────────────────────┘
//!                                  └─ status, events, requeue
//! ```

mod backoff;
mod busy;
pub mod children;
mod conditions;
mod controller;
mod decoding;
mod events;
mod failure;
mod fingerprint;
mod kind;
mod listed;
pub mod manifest;
mod patience;
mod pods;
mod reconcile;
mod status;
mod watched;

pub use backoff::Failures;
pub use children::Children;
pub use conditions::{Health, NOT_TRIED, Part, settle};
pub use controller::{Environment, run};
pub use decoding::{Decoded, decoded, undecodable};
pub use failure::{Class, Failure, causes, class_of_kubernetes, class_of_status, said};
pub use fingerprint::{fingerprint, hexadecimal};
pub use kind::{ActionEvent, Kind, Plan, Removal};
pub use listed::Listed;
pub use patience::Patience;
pub use pods::{lost_node, requirements, unprivileged};
