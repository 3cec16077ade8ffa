//! Watches of the children that a database in a `StatefulSet` has: they wake the controller, and keep what was seen last.

use std::collections::BTreeSet;
use std::future::ready;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::cache_sync::CacheSync;
use super::config_maps::ConfigMaps;
use super::decoding::{Decoded, decoded};

/// Objects in one answer of a list: each may have more than a megabyte. Pages come one after the other, and databases are looked
/// after only when all are there.
const PAGE: u32 = 100;

/// The watches of all kinds of children of objects of kind `O`.
pub struct Children<O> {
    /// How its pods are made.
    pub statefulsets: Watch<O, StatefulSet>,
    /// How many pods may be away.
    pub budgets: Watch<O, PodDisruptionBudget>,
    /// Who may connect.
    pub policies: Watch<O, NetworkPolicy>,
    /// Settings.
    pub config_maps: ConfigMaps<O>,
    /// How clients and peers find the pods.
    pub services: Watch<O, Service>,
    /// Processes.
    pub pods: Watch<O, Pod>,
    /// Volumes.
    pub claims: Watch<O, PersistentVolumeClaim>,
}

impl<O: Owner> Children<O> {
    /// Of children whose `label` names their object.
    pub fn labelled(label: &'static str) -> Self {
        Self {
            statefulsets: Watch::new(label),
            budgets: Watch::new(label),
            policies: Watch::new(label),
            config_maps: ConfigMaps::new(label),
            services: Watch::new(label),
            pods: Watch::new(label),
            claims: Watch::new(label),
        }
    }

    /// Lets the children wake the controller.
    pub fn add_to(&self, controller: Controller<O>, client: &Client, namespace: Option<&str>) -> Controller<O> {
        let controller = self.statefulsets.add_to(controller, client, namespace);
        let controller = self.budgets.add_to(controller, client, namespace);
        let controller = self.policies.add_to(controller, client, namespace);
        let controller = self.config_maps.add_to(controller, client, namespace);
        let controller = self.services.add_to(controller, client, namespace);
        let controller = self.pods.add_to(controller, client, namespace);
        self.claims.add_to(controller, client, namespace)
    }

    /// Waits until everything was listed once.
    pub async fn ready(&self) {
        tokio::join!(
            self.statefulsets.ready(),
            self.budgets.ready(),
            self.policies.ready(),
            self.config_maps.ready(),
            self.services.ready(),
            self.pods.ready(),
            self.claims.ready(),
        );
    }
}

/// A custom resource that has children.
pub trait Owner:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<O> Owner for O where
    O: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// The watch of one kind of children; a store for each namespace that is served.
pub struct Watch<O, K: Resource<DynamicType = ()> + Clone + 'static> {
    label: &'static str,
    stores: Mutex<Vec<(Store<K>, CacheSync)>>,
    /// Takes away what nobody needs, before it is kept.
    prune: fn(&mut K, &str),
    owner: PhantomData<fn() -> O>,
}

impl<O, K> Watch<O, K>
where
    O: Owner,
    K: Owner,
    ObjectRef<K>: Hash,
{
    /// Of children whose `label` names their object.
    pub fn new(label: &'static str) -> Self {
        Self { label, stores: Mutex::default(), prune: |_, _| {}, owner: PhantomData }
    }

    /// The same, of which less is kept.
    #[must_use]
    pub fn pruned(self, prune: fn(&mut K, &str)) -> Self {
        Self { prune, ..self }
    }

    /// Lets the children wake the controller.
    pub fn add_to(&self, controller: Controller<O>, client: &Client, namespace: Option<&str>) -> Controller<O> {
        let api: Api<Decoded<K>> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let (reader, writer) = reflector::store();
        let listed = CacheSync::of(reader.clone());
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).push((reader, listed));
        let (label, prune) = (self.label, self.prune);
        let seen = watcher(api, watcher::Config::default().labels(label).page_size(PAGE))
            .default_backoff()
            .filter_map(|event| ready(decoded(event)))
            .modify(move |child| prune(child, label))
            .reflect(writer)
            .touched_objects();
        controller.watches_stream(seen, move |child: K| concerned(&child, label))
    }

    fn stores(&self) -> Vec<Store<K>> {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.iter().map(|(store, _)| store.clone()).collect()
    }

    /// Waits until they were listed once.
    pub async fn ready(&self) {
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, listed) in stores {
            listed.wait().await;
        }
    }

    /// The child of the object's own name.
    pub fn get(&self, object: &O) -> Option<Arc<K>> {
        self.named(object, &object.name_any())
    }

    /// The child of that name beside the object.
    pub fn named(&self, object: &O, name: &str) -> Option<Arc<K>> {
        let key = ObjectRef::new(name).within(&object.namespace().unwrap_or_default());
        self.stores().iter().find_map(|store| store.get(&key))
    }

    /// Whether there is one of that name.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        let key = ObjectRef::new(name).within(namespace);
        self.stores().iter().any(|store| store.get(&key).is_some())
    }

    /// The children that carry the object's label.
    pub fn of(&self, object: &O) -> Vec<Arc<K>> {
        let is_of = |child: &Arc<K>| {
            child.namespace() == object.namespace() && child.labels().get(self.label) == Some(&object.name_any())
        };
        self.stores().iter().flat_map(Store::state).filter(is_of).collect()
    }
}

/// Whom a child concerns: the object that its label names, and the one that controls it, for somebody may have changed
/// the label.
pub fn concerned<O: Owner, K: Resource>(child: &K, label: &str) -> Vec<ObjectRef<O>> {
    let labelled = child.labels().get(label);
    let is_controller = |owner: &&OwnerReference| owner.controller == Some(true) && owner.kind == O::kind(&());
    let controlling = child.owner_references().iter().find(is_controller).map(|owner| &owner.name);
    let names: BTreeSet<&String> = labelled.into_iter().chain(controlling).collect();
    let namespace = child.namespace().unwrap_or_default();
    names.into_iter().map(|name| ObjectRef::new(name).within(&namespace)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::EtcdCluster;

    const LABEL: &str = "causeway.example.com/etcd";

    fn names(metadata: &serde_json::Value) -> Vec<String> {
        let child = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata });
        let child: Service = serde_json::from_value(child).expect("a Service");
        concerned::<EtcdCluster, _>(&child, LABEL).into_iter().map(|object| object.name).collect()
    }

    #[test]
    fn a_child_wakes_its_controller_whatever_its_label_says() {
        let owner = json!([{
            "apiVersion": "mycompany.com/v1alpha1", "kind": "EtcdCluster", "name": "db", "uid": "1", "controller": true,
        }]);
        assert_eq!(names(&json!({ "name": "db", "labels": { (LABEL): "db" }, "ownerReferences": owner })), ["db"]);
        assert_eq!(names(&json!({ "name": "db", "labels": { (LABEL): "x" }, "ownerReferences": owner })), ["db", "x"]);
        assert_eq!(names(&json!({ "name": "data-db-0", "labels": { (LABEL): "db" } })), ["db"]);
    }

    #[test]
    fn a_child_of_a_child_wakes_the_one_that_its_label_names() {
        let owner =
            json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "1", "controller": true }]);
        assert_eq!(names(&json!({ "name": "db-0", "labels": { (LABEL): "db" }, "ownerReferences": owner })), ["db"]);
    }
}
