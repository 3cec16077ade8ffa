//! The kinds that an operator can serve, by name and by API resource.

use clap::ValueEnum;
use kube::api::ApiResource;

use super::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};

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
    /// The kind's name, as written in manifests.
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

    /// The kind's API resource. The definitions hold the same facts, but building them takes time and memory.
    pub fn resource(self) -> ApiResource {
        match self {
            Self::MyApp => ApiResource::erase::<MyApp>(&()),
            Self::MyIngress => ApiResource::erase::<MyIngress>(&()),
            Self::EtcdCluster => ApiResource::erase::<EtcdCluster>(&()),
            Self::Redis => ApiResource::erase::<Redis>(&()),
            Self::DatabaseBackup => ApiResource::erase::<DatabaseBackup>(&()),
            Self::DatabaseRestore => ApiResource::erase::<DatabaseRestore>(&()),
        }
    }

    /// Reports whether the kind's clients depend on the leader: a failed master or member is replaced only while there is one.
    pub fn is_database(self) -> bool {
        matches!(self, Self::EtcdCluster | Self::Redis)
    }
}

#[cfg(test)]
mod tests {
    use super::super::definitions::definitions;
    use super::*;

    #[test]
    fn every_kind_that_is_defined_can_be_served() {
        // `CausewayPolicy` has no controller of its own.
        let kinds = definitions().into_iter().filter(|it| it.spec.names.kind != "CausewayPolicy");
        let defined = kinds.map(|it| {
            let spec = it.spec;
            (spec.names.kind, spec.group, spec.versions[0].name.clone(), spec.names.plural)
        });
        let served = Served::value_variants().iter().map(|kind| {
            let ApiResource { group, version, plural, .. } = kind.resource();
            (kind.name().to_owned(), group, version, plural)
        });
        assert_eq!(served.collect::<Vec<_>>(), defined.collect::<Vec<_>>());
        for kind in Served::value_variants() {
            assert_eq!(Served::from_str(&kind.name().to_lowercase(), true), Ok(*kind), "as the option has it");
        }
    }
}
