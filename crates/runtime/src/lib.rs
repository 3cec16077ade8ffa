//! The generic reconcile runner: everything that all kinds have in common.
//!
//! A kind implements [`Kind`]: how to read the cluster and AWS ([`Kind::observe`]), what to do
//! ([`Kind::decide`], [`Kind::decide_removal`]: pure), and how to do one step ([`Kind::apply`]). The runner adds the rest:
//! watching, bounded concurrency, deadlines, panics, finalizers, retries by class of error, status and events.
//!
//! ```text
//! watch event ─▶ controller ─▶ reconcile ─▶ observe ─▶ decide ─▶ apply ─┐
//!                                  ▲            ▲                      │ until nothing is left to do
//!                                  │            └──────────────────────┘
//!                                  └─ status, events, requeue
//! ```
#![warn(missing_docs)]

mod backoff;
mod busy;
mod cache_sync;
pub mod child_watch;
mod children;
pub mod clients;
pub mod cluster;
mod conditions;
mod config_maps;
pub mod consent;
mod controller;
mod decoding;
#[cfg(any(test, feature = "testing"))]
pub mod denied;
mod event_rates;
mod events;
mod failure;
mod fingerprint;
pub mod guardrails;
pub mod health;
pub mod https;
pub mod install;
mod kind;
pub mod leader;
mod listing;
pub mod manifest;
pub mod metrics;
pub mod options;
mod per_object;
mod pods;
pub mod quantity;
mod reconcile;
mod replacements;
pub mod room;
mod round_robin;
pub mod schedule;
mod scoped_stores;
mod slots;
mod slow_backoff;
mod status;
pub mod telemetry;
pub mod tenant;
pub mod terminal;
mod warm_up;
mod watch_backoff;
mod watched;

pub use backoff::Failures;
pub use cache_sync::CacheSync;
pub use children::Children;
pub use conditions::{Cause, ConditionStatus, ExtraCondition, Health, SUSPENDED, merge_conditions};
pub use config_maps::of_metadata;
pub use controller::{Environment, run};
pub use decoding::{Decoded, decoded, undecodable};
pub use failure::{Class, Failure, api_message, causes, class_of_kubernetes, class_of_status};
pub use fingerprint::fingerprint;
pub use kind::{ActionEvent, Kind, Plan, Removal};
pub use listing::list;
pub use per_object::PerObject;
#[cfg(any(test, feature = "testing"))]
pub use pods::without_memory;
pub use pods::{TERMINATION_LOG, lost_node, requirements, restricted_context, unprivileged_context};
pub use replacements::Replacement;
pub use round_robin::RoundRobin;
pub use scoped_stores::{Lost, ScopedStores, Unlisted};
pub use slots::{Slot, Slots};
pub use slow_backoff::SlowBackoff;
pub use watch_backoff::WatchBackoff;
