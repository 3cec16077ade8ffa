//! What controllers are made from: kinds to serve, clients, and what the operator was told.

use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use clap::ValueEnum;

use crate::backup::jobs::Settings;
use crate::cluster::Cluster;
use crate::external::budget::Budget;
use crate::external::{etcd, redis as nodes};
use crate::leader::Fence;
use crate::runtime::Environment;
pub use crate::stateful::Rules;

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

    /// Whether clients wait for what its leader does: when a master or member fails.
    pub fn is_database(self) -> bool {
        matches!(self, Self::EtcdCluster | Self::Redis)
    }
}

/// What controllers are made from.
#[derive(Clone)]
pub struct Context {
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
    /// What the operator was told about databases.
    pub databases: Rules,
    /// What the operator was told about backups.
    pub backups: Settings,
    /// How long a balancer that was replaced goes on serving.
    pub replacement_grace: Duration,
    /// Rules that a security group may have, of each family of addresses.
    pub security_group_rules: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::definitions::definitions;

    #[test]
    fn every_kind_that_is_defined_can_be_served() {
        // Policies are read by all.
        let kinds = definitions().into_iter().map(|it| it.spec.names.kind);
        let defined: Vec<_> = kinds.filter(|kind| kind != "CausewayPolicy").collect();
        let served: Vec<_> = Served::value_variants().iter().map(|kind| kind.name()).collect();
        assert_eq!(served, defined);
        for kind in Served::value_variants() {
            assert_eq!(Served::from_str(&kind.name().to_lowercase(), true), Ok(*kind), "as the option has it");
        }
    }
}
