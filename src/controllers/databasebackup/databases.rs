//! The databases that an object backs up.

use jiff::Timestamp;
use kube::api::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::facts::Database;
use super::watches::Watches;
use crate::api::DatabaseBackup;
use crate::backup::jobs::{Served, of_etcd_cluster, of_redis, of_source};

/// What is to be backed up, as far as it exists. Such as are being deleted are not begun any more.
pub fn databases(watches: &Watches, object: &DatabaseBackup) -> Vec<Database> {
    let namespace = object.namespace();
    let source = object.spec.source.as_ref();
    if let Some(access) = source.and_then(of_source) {
        let served = source.map(Served::of_source).unwrap_or_default();
        return vec![Database { access, since: made(object.meta()), served }];
    }
    let wants = |name: &str, named: Option<&str>, meta: &ObjectMeta| {
        let is_here = meta.namespace == namespace && meta.deletion_timestamp.is_none();
        is_here && (source.is_none() || named == Some(name))
    };
    let cluster = source.and_then(|source| Some(source.etcd_cluster.as_ref()?.name.as_str()));
    let redis = source.and_then(|source| Some(source.redis.as_ref()?.name.as_str()));
    let clusters = watches.clusters.all().into_iter().filter(|it| wants(&it.name_any(), cluster, it.meta()));
    let redises = watches.redises.all().into_iter().filter(|it| wants(&it.name_any(), redis, it.meta()));
    let clusters = clusters.map(|it| Database {
        access: of_etcd_cluster(&it),
        since: made(it.meta()),
        served: Served::of_etcd_cluster(&it),
    });
    let redises = redises.map(|it| Database {
        access: of_redis(&it, false),
        since: made(it.meta()),
        served: Served::of_redis(&it),
    });
    let mut all: Vec<Database> = clusters.chain(redises).collect();
    all.sort_by(|one, other| one.access.source.folder.cmp(&other.access.source.folder));
    all
}

fn made(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0)
}
