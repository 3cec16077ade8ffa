//! One folder per kind; none knows of another. A new kind is a folder here, its types under `api/`, and a variant of
//! [`Served`]. What databases do alike about `spec.restoreFrom` is in `restore_from`, about
//! certificates in `tls`, and about pods that do not run in `pod_trouble` and `pod_refusal`, and about pods and volumes without a
//! label in `unlabelled`, about pods that wait in vain in `revival`, about fields
//! of children in `child_fields`, and about
//! waking controllers in `wake`, which are no kinds.

mod child_fields;
pub mod databasebackup;
pub mod databaserestore;
pub mod etcdcluster;
pub mod myapp;
pub mod myingress;
mod placement;
mod pod_refusal;
mod pod_trouble;
pub mod redis;
mod restore_from;
mod revival;
pub mod schedule;
mod tls;
mod unlabelled;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use clap::ValueEnum;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use crate::backup::jobs::Settings;
use crate::cluster::Cluster;
use crate::external::budget::Budget;
use crate::external::{etcd, redis as nodes};
use crate::leader::Fence;
use crate::runtime::Environment;

/// A kind of objects that an operator can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Served {
    /// Pods that print a banner.
    MyApp,
    /// Application Load Balancers.
    MyIngress,
    /// etcd.
    EtcdCluster,
    /// Redis.
    Redis,
    /// Backups in S3.
    DatabaseBackup,
    /// Backups that are brought back.
    DatabaseRestore,
}

impl Served {
    /// The kind's name, as manifests have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MyApp => "MyApp",
            Self::MyIngress => "MyIngress",
            Self::EtcdCluster => "EtcdCluster",
            Self::Redis => "Redis",
            Self::DatabaseBackup => "DatabaseBackup",
            Self::DatabaseRestore => "DatabaseRestore",
        }
    }

    fn controller(self, world: World) -> BoxFuture<'static, ()> {
        match self {
            Self::MyApp => myapp::controller(world).boxed(),
            Self::MyIngress => myingress::controller(world).boxed(),
            Self::EtcdCluster => etcdcluster::controller(world).boxed(),
            Self::Redis => redis::controller(world).boxed(),
            Self::DatabaseBackup => databasebackup::controller(world).boxed(),
            Self::DatabaseRestore => databaserestore::controller(world).boxed(),
        }
    }
}

/// What controllers are made from.
#[derive(Clone)]
pub struct World {
    /// The kinds to serve.
    pub kinds: Vec<Served>,
    /// The cluster side.
    pub environment: Environment,
    /// The AWS side.
    pub aws: SdkConfig,
    /// Lets changes of AWS pass only while this process leads.
    pub fence: Fence,
    /// How often AWS is called.
    pub budget: Budget,
    /// Carries calls to members of etcd clusters.
    pub etcd: Arc<dyn etcd::Transport>,
    /// Carries commands to nodes of Redis.
    pub redis: Arc<dyn nodes::Transport>,
    /// This cluster in ownership tags.
    pub cluster: Cluster,
    /// What the operator was told about backups.
    pub backups: Settings,
    /// How long a balancer that was replaced goes on serving.
    pub replacement_grace: Duration,
    /// Rules that a security group may have, of each family of addresses.
    pub security_group_rules: u16,
}

/// Runs the controller of each of `world.kinds` until `world.environment.stop`; then the calls in hand are finished.
pub async fn run(world: World) {
    join_all(world.kinds.iter().map(|kind| kind.controller(world.clone()))).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::definitions::definitions;

    #[test]
    fn every_kind_that_is_defined_can_be_served() {
        let defined: Vec<_> = definitions().into_iter().map(|it| it.spec.names.kind).collect();
        let served: Vec<_> = Served::value_variants().iter().map(|kind| kind.name()).collect();
        assert_eq!(served, defined);
        for kind in Served::value_variants() {
            assert_eq!(Served::from_str(&kind.name().to_lowercase(), true), Ok(*kind), "as the option has it");
        }
    }
}
