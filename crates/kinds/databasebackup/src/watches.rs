//! Watches that wake the controller besides the objects themselves: children, databases, and an annotation that asks for a
//! backup.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, watcher};
use kube::{Client, Resource, ResourceExt};

use causeway_api::{DatabaseBackup, EtcdCluster, Redis};
use causeway_backup::jobs::{ACCOUNT_LABEL, SERVICE_ACCOUNT};
use causeway_runtime::child_watch::Watch;

use super::cached_watch::CachedWatch;
use super::databases::{cluster_came_up, redis_came_up};
use super::facts::{BACKUPS_LOST, bucket_reason};
use super::names::{LABEL, LOST, NOW};

pub struct Watches {
    pub cron_jobs: Watch<DatabaseBackup, CronJob>,
    pub jobs: Watch<DatabaseBackup, Job>,
    pub accounts: CachedWatch<ServiceAccount>,
    pub clusters: CachedWatch<EtcdCluster>,
    pub redises: CachedWatch<Redis>,
    /// The objects themselves, for look-ups across objects and for their annotations.
    pub objects: Arc<CachedWatch<DatabaseBackup>>,
}

impl Watches {
    /// Returns watches that have not started.
    pub fn new() -> Self {
        Self {
            cron_jobs: Watch::new(LABEL),
            jobs: Watch::new(LABEL),
            accounts: CachedWatch::default(),
            clusters: CachedWatch::default(),
            redises: CachedWatch::default(),
            objects: Arc::default(),
        }
    }

    /// Lets every watch trigger the controller.
    pub fn add_to(
        &self,
        controller: Controller<DatabaseBackup>,
        client: &Client,
        namespace: Option<&str>,
    ) -> Controller<DatabaseBackup> {
        let controller = self.cron_jobs.add_to(controller, client, namespace);
        let controller = self.jobs.add_to(controller, client, namespace);
        let labelled = watcher::Config::default().labels(ACCOUNT_LABEL);
        let accounts = self.accounts.watch(client, namespace, labelled, unshared);
        let controller = controller.watches_stream(accounts, owners);
        let databases = |objects: &Arc<CachedWatch<DatabaseBackup>>| {
            let objects = objects.clone();
            move |namespace: Option<String>| objects.references_in(&namespace.unwrap_or_default())
        };
        let clusters = self.clusters.watch_optional(client, namespace, cluster);
        let concerned = databases(&self.objects);
        let controller = controller.watches_stream(clusters, move |it: EtcdCluster| concerned(it.namespace()));
        let redises = self.redises.watch_optional(client, namespace, redis);
        let concerned = databases(&self.objects);
        let controller = controller.watches_stream(redises, move |it: Redis| concerned(it.namespace()));
        let objects = self.objects.watch(client, namespace, watcher::Config::default(), |_| None);
        controller.watches_stream(objects, |it: DatabaseBackup| asks(&it).then(|| ObjectRef::from_obj(&it)))
    }

    /// Waits until everything in the object's namespace was listed once.
    pub async fn ready(&self, object: &DatabaseBackup) {
        let namespace = object.namespace().unwrap_or_default();
        tokio::join!(
            self.cron_jobs.ready(object),
            self.jobs.ready(object),
            self.accounts.ready(&namespace),
            self.clusters.ready(&namespace),
            self.redises.ready(&namespace),
            self.objects.ready(&namespace),
        );
    }

    /// Reports whether the kind of the database that the object names is not installed.
    pub fn lacks_kind(&self, object: &DatabaseBackup) -> bool {
        let source = object.spec.source.as_ref();
        source.is_some_and(|source| {
            (source.etcd_cluster.is_some() && self.clusters.is_missing())
                || (source.redis.is_some() && self.redises.is_missing())
        })
    }
}

/// A hash that ignores who the owners are. Otherwise each new owner would wake all the others.
#[expect(clippy::unnecessary_wraps, reason = "what the watch asks for")]
fn unshared(account: &ServiceAccount) -> Option<i64> {
    let mut hasher = DefaultHasher::new();
    (account.labels(), account.automount_service_account_token, account.owner_references().is_empty())
        .hash(&mut hasher);
    Some(hasher.finish().cast_signed())
}

/// A version of the spec and of whether the cluster has come up: it is backed up only from then on.
fn cluster(object: &EtcdCluster) -> Option<i64> {
    object.meta().generation.map(|generation| generation * 2 + i64::from(cluster_came_up(object)))
}

/// The same for a Redis.
fn redis(object: &Redis) -> Option<i64> {
    object.meta().generation.map(|generation| generation * 2 + i64::from(redis_came_up(object)))
}

/// Reports whether an annotation asks for an immediate backup that has not begun, or acknowledges the loss of the bucket.
fn asks(object: &DatabaseBackup) -> bool {
    let begun = object.status.as_ref().and_then(|status| status.backup_now.as_ref());
    let asks = object.annotations().get(NOW).is_some_and(|token| Some(token) != begun);
    asks || (object.annotations().contains_key(LOST) && bucket_reason(object) == Some(BACKUPS_LOST))
}

/// The objects that share a service account.
#[expect(clippy::needless_pass_by_value, reason = "what a watch gives to its mapper")]
fn owners(account: ServiceAccount) -> Vec<ObjectRef<DatabaseBackup>> {
    let namespace = account.namespace().unwrap_or_default();
    let owners = account.owner_references().iter().filter(|owner| owner.kind == DatabaseBackup::kind(&()));
    let ours = account.name_any() == SERVICE_ACCOUNT;
    owners.filter(|_| ours).map(|owner| ObjectRef::new(&owner.name).within(&namespace)).collect()
}
