//! The databases that an object backs up.

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use causeway_api::{DatabaseBackup, EtcdCluster, Redis};
use causeway_backup::jobs::{Served, of_etcd_cluster, of_redis, of_source};

use super::facts::Database;

/// The existing databases to back up, and whether each has come up since it was made. A database that is being deleted
/// is left out, so no new backup of it starts.
pub fn databases(
    object: &DatabaseBackup,
    clusters: impl IntoIterator<Item = Arc<EtcdCluster>>,
    redises: impl IntoIterator<Item = Arc<Redis>>,
) -> Vec<(bool, Database)> {
    let namespace = object.namespace();
    let source = object.spec.source.as_ref();
    if let Some(access) = source.and_then(|it| of_source(it, object.spec.method)) {
        let served = source.map(Served::of_source).unwrap_or_default();
        return vec![(true, Database { access, since: created_at(object.meta()), served })];
    }
    let wants = |name: &str, named: Option<&str>, meta: &ObjectMeta| {
        let is_here = meta.namespace == namespace && meta.deletion_timestamp.is_none();
        is_here && (source.is_none() || named == Some(name))
    };
    let cluster = source.and_then(|source| Some(source.etcd_cluster.as_ref()?.name.as_str()));
    let redis = source.and_then(|source| Some(source.redis.as_ref()?.name.as_str()));
    let clusters = clusters.into_iter().filter(|it| wants(&it.name_any(), cluster, it.meta()));
    let redises = redises.into_iter().filter(|it| wants(&it.name_any(), redis, it.meta()));
    let clusters = clusters.map(|it| {
        let (access, served) = (of_etcd_cluster(&it), Served::of_etcd_cluster(&it));
        (cluster_came_up(&it), Database { access, since: created_at(it.meta()), served })
    });
    let redises = redises.map(|it| {
        let (access, served) = (of_redis(&it, false), Served::of_redis(&it));
        (redis_came_up(&it), Database { access, since: created_at(it.meta()), served })
    });
    let mut all: Vec<(bool, Database)> = clusters.chain(redises).collect();
    all.sort_by(|(_, one), (_, other)| one.access.source.folder.cmp(&other.access.source.folder));
    all
}

/// Reports whether a cluster ever served: its ID stays in the status.
pub fn cluster_came_up(object: &EtcdCluster) -> bool {
    object.status.as_ref().is_some_and(|status| status.cluster_id.is_some())
}

/// Reports whether a Redis ever had a master.
pub fn redis_came_up(object: &Redis) -> bool {
    object.status.as_ref().is_some_and(|status| status.master.is_some())
}

fn created_at(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0)
}
