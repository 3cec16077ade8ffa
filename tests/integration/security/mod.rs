//! Attacks, as a tenant or a pod of another namespace performs them: each of them fails.

mod admission;
mod asked;
mod backups;
mod children;
mod costly;
mod dumps;
mod exporter;
mod groups;
mod limits;
mod manifests;
mod memory;
mod metrics;
mod network;
mod oidc;
mod plans;
mod policies;
mod secrets;
mod start;
mod status;
mod targets;
mod tenant;
