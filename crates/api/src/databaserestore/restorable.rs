//! The kinds whose databases can begin with a backup.

use kube::{Resource, ResourceExt};

use crate::databasebackup::{Named, Source};
use crate::{EtcdCluster, Redis};

/// A kind whose databases can begin with a backup.
pub trait Restorable: Resource<DynamicType = ()> {
    /// The object as the target of a restore.
    fn target(&self) -> Source;
}

impl Restorable for EtcdCluster {
    fn target(&self) -> Source {
        Source { etcd_cluster: Some(Named { name: self.name_any() }), ..Source::default() }
    }
}

impl Restorable for Redis {
    fn target(&self) -> Source {
        Source { redis: Some(Named { name: self.name_any() }), ..Source::default() }
    }
}
