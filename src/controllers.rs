//! The kinds that the operator serves. Each has a crate of its own, and its own `Inputs`, which [`Context`] fills.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

pub use causeway_api::Served;
use causeway_aws::budget::Budget;
use causeway_backup::jobs::Settings;
use causeway_databasebackup::{self as databasebackup, restore as databaserestore};
pub use causeway_databases::Rules;
use causeway_databases::{etcd, redis as nodes};
use causeway_runtime::Environment;
use causeway_runtime::cluster::Cluster;
use causeway_runtime::leader::Fence;
use {
    causeway_etcdcluster as etcdcluster, causeway_myapp as myapp, causeway_myingress as myingress,
    causeway_redis as redis,
};

/// The parts from which controllers are built.
#[derive(Clone)]
pub struct Context {
    /// The kinds to serve.
    pub kinds: Vec<Served>,
    /// The environment of controllers in the cluster.
    pub environment: Environment,
    /// The configuration of AWS clients.
    pub aws: SdkConfig,
    /// Lets changes to AWS pass only while this process leads.
    pub fence: Fence,
    /// Limits the rate of calls to AWS.
    pub budget: Budget,
    /// Sends calls to members of etcd clusters.
    pub etcd: Arc<dyn etcd::Transport>,
    /// Sends commands to Redis nodes.
    pub redis: Arc<dyn nodes::Transport>,
    /// This cluster, as ownership tags name it.
    pub cluster: Cluster,
    /// The operator's options for databases.
    pub databases: Rules,
    /// The operator's options for backups.
    pub backups: Settings,
    /// The time that a replaced load balancer goes on serving.
    pub replacement_grace: Duration,
    /// The number of rules that a security group may have for each address family.
    pub security_group_rules: u16,
}

impl Context {
    fn myingress(self) -> myingress::Inputs {
        myingress::Inputs {
            environment: self.environment,
            aws: self.aws,
            fence: self.fence,
            budget: self.budget,
            cluster: self.cluster,
            replacement_grace: self.replacement_grace,
            security_group_rules: self.security_group_rules,
        }
    }

    fn etcdcluster(self) -> etcdcluster::Inputs {
        etcdcluster::Inputs {
            environment: self.environment,
            etcd: self.etcd,
            fence: self.fence,
            image: self.backups.image,
            rules: self.databases,
        }
    }

    fn redis(self) -> redis::Inputs {
        redis::Inputs {
            environment: self.environment,
            redis: self.redis,
            fence: self.fence,
            image: self.backups.image,
            rules: self.databases,
        }
    }

    fn databasebackup(self) -> databasebackup::Inputs {
        databasebackup::Inputs {
            restores: self.kinds.contains(&Served::DatabaseRestore),
            environment: self.environment,
            aws: self.aws,
            fence: self.fence,
            settings: self.backups,
        }
    }

    fn databaserestore(self) -> databaserestore::Inputs {
        databaserestore::Inputs {
            environment: self.environment,
            aws: self.aws,
            fence: self.fence,
            settings: self.backups,
        }
    }
}

/// Runs the controllers of `context.kinds` until `context.environment.stop`. Calls in flight are finished before it
/// returns.
pub async fn run(context: Context) {
    let environment = &context.environment;
    environment.guardrails.expect(context.kinds.iter().map(|kind| kind.name()), &environment.namespaces);
    join_all(context.kinds.iter().map(|kind| controller(*kind, context.clone()))).await;
}

fn controller(kind: Served, context: Context) -> BoxFuture<'static, ()> {
    match kind {
        Served::MyApp => myapp::controller(context.environment).boxed(),
        Served::MyIngress => myingress::controller(context.myingress()).boxed(),
        Served::EtcdCluster => etcdcluster::controller(context.etcdcluster()).boxed(),
        Served::Redis => redis::controller(context.redis()).boxed(),
        Served::DatabaseBackup => databasebackup::controller(context.databasebackup()).boxed(),
        Served::DatabaseRestore => databaserestore::controller(context.databaserestore()).boxed(),
    }
}
