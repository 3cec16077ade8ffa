//! One folder per kind; none knows of another. A new kind is a folder here, its types under `api/`, and a line in
//! [`run`]. What databases do alike about `spec.restoreFrom` is in `restore_from`, about
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
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use crate::backup::jobs::Settings;
use crate::cluster::Cluster;
use crate::external::budget::Budget;
use crate::external::{etcd, redis as nodes};
use crate::leader::Fence;
use crate::runtime::Environment;

/// What controllers are made from.
#[derive(Clone)]
pub struct World {
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

/// Runs every controller until `world.environment.stop`; then the calls in hand are finished.
pub async fn run(world: World) {
    let controllers: Vec<BoxFuture<()>> = vec![
        myapp::controller(world.clone()).boxed(),
        myingress::controller(world.clone()).boxed(),
        etcdcluster::controller(world.clone()).boxed(),
        redis::controller(world.clone()).boxed(),
        databasebackup::controller(world.clone()).boxed(),
        databaserestore::controller(world.clone()).boxed(),
    ];
    join_all(controllers).await;
}
