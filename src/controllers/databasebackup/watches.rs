//! What wakes the controller beside the objects themselves: children, databases, and an annotation that asks for a backup.

use std::collections::HashMap;
use std::future::ready;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, StreamExt};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::databases::{cluster_came_up, redis_came_up};
use super::decide::{BACKUPS_LOST, bucket_reason};
use super::names::{LABEL, LOST, NOW};
use crate::api::{DatabaseBackup, EtcdCluster, Redis};
use crate::backup::jobs::{ACCOUNT_LABEL, SERVICE_ACCOUNT};
use crate::runtime::child_watch::{Owner, Watch};
use crate::runtime::{CacheSync, ConfigMaps, Decoded, decoded};

/// The watches.
pub struct Watches {
    pub cron_jobs: Watch<DatabaseBackup, CronJob>,
    pub config_maps: ConfigMaps<DatabaseBackup>,
    pub jobs: Watch<DatabaseBackup, Job>,
    pub accounts: CachedWatch<ServiceAccount>,
    pub clusters: CachedWatch<EtcdCluster>,
    pub redises: CachedWatch<Redis>,
    /// The objects themselves, for look-ups across objects and for their annotations.
    pub objects: Arc<CachedWatch<DatabaseBackup>>,
}

impl Watches {
    /// Watches nothing yet.
    pub fn new() -> Self {
        Self {
            cron_jobs: Watch::new(LABEL),
            config_maps: ConfigMaps::new(LABEL),
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
        let controller = self.config_maps.add_to(controller, client, namespace);
        let controller = self.jobs.add_to(controller, client, namespace);
        let labelled = watcher::Config::default().labels(ACCOUNT_LABEL);
        let accounts = self.accounts.watch(client, namespace, labelled, unshared);
        let controller = controller.watches_stream(accounts, owners);
        let databases = |objects: &Arc<CachedWatch<DatabaseBackup>>| {
            let objects = objects.clone();
            move |namespace: Option<String>| objects.within(&namespace.unwrap_or_default())
        };
        let clusters = self.clusters.watch(client, namespace, watcher::Config::default(), cluster);
        let concerned = databases(&self.objects);
        let controller = controller.watches_stream(clusters, move |it: EtcdCluster| concerned(it.namespace()));
        let redises = self.redises.watch(client, namespace, watcher::Config::default(), redis);
        let concerned = databases(&self.objects);
        let controller = controller.watches_stream(redises, move |it: Redis| concerned(it.namespace()));
        let objects = self.objects.watch(client, namespace, watcher::Config::default(), |_| None);
        controller.watches_stream(objects, |it: DatabaseBackup| asks(&it).then(|| ObjectRef::from_obj(&it)))
    }

    /// Waits until everything was listed once.
    pub async fn ready(&self) {
        tokio::join!(
            self.cron_jobs.ready(),
            self.config_maps.ready(),
            self.jobs.ready(),
            self.accounts.ready(),
            self.clusters.ready(),
            self.redises.ready(),
            self.objects.ready(),
        );
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

/// Whether an annotation asks for an immediate backup that has not begun, or acknowledges the loss of the bucket.
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

/// The objects of a kind as they were last seen, in one store for each namespace that the operator serves.
pub struct CachedWatch<K: Resource<DynamicType = ()> + Clone + 'static> {
    stores: Mutex<Vec<(Store<K>, CacheSync)>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Default for CachedWatch<K> {
    fn default() -> Self {
        Self { stores: Mutex::default() }
    }
}

impl<K: Owner> CachedWatch<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
{
    /// Yields an object when it appears, when it is deleted, and when its `version` changes. An object without a
    /// version is yielded at each event.
    fn watch(
        &self,
        client: &Client,
        namespace: Option<&str>,
        config: watcher::Config,
        version: fn(&K) -> Option<i64>,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K> {
        let api: Api<Decoded<K>> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let (reader, writer) = reflector::store();
        let listed = CacheSync::of(reader.clone());
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).push((reader, listed));
        let mut known: HashMap<String, i64> = HashMap::new();
        watcher(api, config).default_backoff().filter_map(|event| ready(decoded(event))).reflect(writer).filter_map(
            move |event| {
                let news = match event {
                    Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                        let uid = object.uid().unwrap_or_default();
                        let before = version(&object).and_then(|version| Some((version, known.insert(uid, version)?)));
                        before.is_none_or(|(version, before)| version != before).then_some(Ok(object))
                    }
                    Ok(watcher::Event::Delete(object)) => {
                        known.remove(&object.uid().unwrap_or_default());
                        Some(Ok(object))
                    }
                    Ok(watcher::Event::Init | watcher::Event::InitDone) => None,
                    Err(error) => Some(Err(error)),
                };
                ready(news)
            },
        )
    }

    async fn ready(&self) {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, listed) in stores {
            listed.wait().await;
        }
    }

    fn stores(&self) -> Vec<Store<K>> {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.iter().map(|(store, _)| store.clone()).collect()
    }

    /// All that there are.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.stores().iter().flat_map(Store::state).collect()
    }

    /// The one of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = ObjectRef::new(name).within(namespace);
        self.stores().iter().find_map(|store| store.get(&key))
    }

    /// References to all in a namespace.
    fn within(&self, namespace: &str) -> Vec<ObjectRef<K>> {
        let all = self.all().into_iter().filter(|object| object.namespace().as_deref() == Some(namespace));
        all.map(|object| ObjectRef::from_obj(&*object)).collect()
    }
}
