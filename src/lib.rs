//! Causeway: a Kubernetes operator that bridges Kubernetes and AWS.
//!
//! [`operator`] makes the clients and the leases and starts the [`controllers`]: a crate for each kind, which observes, decides
//! (pure) and applies. ARCHITECTURE.md has the crates, and follows an event from the watch to the AWS call.

pub mod config;
pub mod controllers;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod documented;
pub mod operator;
