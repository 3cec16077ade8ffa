//! The custom resources people write: types, defaults, bounds and validation rules, nothing else.
//!
//! The files under `crds/` are generated from here by `causeway crds`.
#![warn(missing_docs)]

pub mod access;
mod bounds;
pub mod causewaypolicy;
pub mod common;
pub mod databasebackup;
pub mod databaserestore;
#[cfg(test)]
mod decoding;
pub mod definitions;
mod duration;
pub mod etcdcluster;
pub mod myapp;
pub mod myingress;
mod names;
pub mod network;
mod placement;
pub mod pods;
mod polarity;
mod quantities;
pub mod redis;
mod served;

pub use common::{Conditioned, DeletionPolicy, Polarity};
pub use databasebackup::{DatabaseBackup, DatabaseBackupSpec, DatabaseBackupStatus};
pub use databaserestore::{DatabaseRestore, DatabaseRestoreSpec, DatabaseRestoreStatus};
pub use duration::Duration;
pub use etcdcluster::{EtcdCluster, EtcdClusterSpec, EtcdClusterStatus};
pub use myapp::{MyApp, MyAppSpec, MyAppStatus};
pub use myingress::{MyIngress, MyIngressSpec, MyIngressStatus};
pub use polarity::polarity;
pub use redis::{Redis, RedisSpec, RedisStatus};
pub use served::Served;
