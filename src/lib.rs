//! Causeway: a Kubernetes operator that bridges Kubernetes and AWS.
//!
//! Data flows one way, and so do the calls: [`operator`] makes the clients and the lease and starts the
//! [`controllers`]; the [`runtime`] hands each changed object to its kind, which observes, decides (pure) and applies
//! through the clients in [`external`]. Types that people write are in [`api`]. ARCHITECTURE.md follows an event from
//! the watch to the AWS call.

pub mod config;
pub mod controllers;
#[cfg(test)]
mod coverage;
#[cfg(test)]
mod documented;
pub mod operator;
