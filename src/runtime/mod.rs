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
mod conditions;
mod controller;
mod events;
mod failure;
mod fingerprint;
mod kind;
mod reconcile;
mod status;

pub use conditions::{Health, settle};
pub use controller::{Environment, run};
pub use failure::{Class, Failure, class_of_kubernetes, class_of_status};
pub use fingerprint::fingerprint;
pub use kind::{ActionEvent, Kind, Plan, Removal};
