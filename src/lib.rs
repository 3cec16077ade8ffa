//! Causeway: a Kubernetes operator that bridges Kubernetes and AWS.
//!
//! Data flows one way, and so do the calls: [`operator`] makes the clients and the lease and starts the
//! [`controllers`]; the [`runtime`] hands each changed object to its kind, which observes, decides (pure) and applies
//! through the clients in [`external`]. Types that people write are in [`api`]. ARCHITECTURE.md follows an event from
//! the watch to the AWS call.
#![forbid(unsafe_code)]

pub mod api;
pub mod backup;
pub mod clients;
pub mod cluster;
pub mod config;
mod consent;
pub mod controllers;
#[cfg(test)]
mod documented;
pub mod external;
pub mod guardrails;
pub mod health;
pub mod install;
pub mod leader;
pub mod metrics;
mod network;
pub mod operator;
pub mod options;
pub mod plugin;
pub mod recovery;
pub mod runtime;
mod schedule;
pub mod sentinel;
mod stateful;
pub mod telemetry;
pub mod terminal;
mod transfer;
