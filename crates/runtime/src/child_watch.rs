//! The watch of one kind of children.

use std::collections::BTreeSet;
use std::future::ready;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{Controller, WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::decoding::{Decoded, decoded};
use super::room::Kept;
use super::scoped_stores::ScopedStores;
use super::watch_backoff::WatchBackoff;

/// A custom resource that has children, or a child.
pub trait Owner:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
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
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

/// The watch of one kind of children, with a store for each namespace that is served.
pub struct Watch<O, K: Resource<DynamicType = ()> + Clone + 'static> {
    label: &'static str,
    /// True if only children with the label are watched.
    labelled: bool,
    stores: ScopedStores<K>,
    /// Removes unneeded fields before the child is stored.
    prune: fn(&mut K, &str),
    owner: PhantomData<fn() -> O>,
}

impl<O, K> Watch<O, K>
where
    O: Owner,
    K: Owner,
    ObjectRef<K>: Hash,
{
    /// Watches children whose `label` names their object.
    pub fn new(label: &'static str) -> Self {
        Self { label, labelled: true, stores: ScopedStores::default(), prune: |_, _| {}, owner: PhantomData }
    }

    /// Sets the function that removes fields from children before they are stored.
    #[must_use]
    pub fn prune_with(self, prune: fn(&mut K, &str)) -> Self {
        Self { prune, ..self }
    }

    /// Watches all objects of the kind. Only children wake the controller.
    #[must_use]
    pub fn with_others(self) -> Self {
        Self { labelled: false, ..self }
    }

    /// Adds the watch to the controller, so that children wake it.
    pub fn add_to(&self, controller: Controller<O>, client: &Client, namespace: Option<&str>) -> Controller<O> {
        let api: Api<Decoded<K>> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let (reader, writer) = reflector::store();
        self.stores.add(namespace, reader);
        let (label, prune, mut kept) = (self.label, self.prune, Kept::default());
        let config = watcher::Config::default();
        let seen = watcher(api, if self.labelled { config.labels(label) } else { config })
            .backoff(WatchBackoff::default())
            .filter_map(|event| ready(decoded(event)))
            .modify(move |child| prune(child, label))
            .filter_map(move |event| ready(kept.take(event)))
            .reflect(writer)
            .touched_objects();
        controller.watches_stream(seen, move |child: K| owners_to_wake(&child, label))
    }

    /// Waits until the first list of the object's namespace is complete.
    pub async fn ready(&self, object: &O) {
        self.stores.ready(&object.namespace().unwrap_or_default()).await;
    }

    /// Returns the child with the object's own name.
    pub fn get(&self, object: &O) -> Option<Arc<K>> {
        self.get_named(object, &object.name_any())
    }

    /// Returns the child of that name in the object's namespace.
    pub fn get_named(&self, object: &O, name: &str) -> Option<Arc<K>> {
        self.stores.get(&object.namespace().unwrap_or_default(), name)
    }

    /// Returns true if there is a child of that name.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        self.stores.get(namespace, name).is_some()
    }

    /// Returns all that are known in the object's namespace.
    pub fn in_namespace_of(&self, object: &O) -> Vec<Arc<K>> {
        self.stores.all_objects().into_iter().filter(|child| child.namespace() == object.namespace()).collect()
    }

    /// Returns the children with the object's label.
    pub fn children_of(&self, object: &O) -> Vec<Arc<K>> {
        let is_of = |child: &Arc<K>| {
            child.namespace() == object.namespace() && child.labels().get(self.label) == Some(&object.name_any())
        };
        self.stores.all_objects().into_iter().filter(is_of).collect()
    }
}

/// Returns the objects to wake for a child: the one that its label names, and the one that controls it. They differ if
/// a user changed the label.
pub fn owners_to_wake<O: Owner, K: Resource>(child: &K, label: &str) -> Vec<ObjectRef<O>> {
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

    use k8s_openapi::api::core::v1::Service;

    use super::*;
    use causeway_api::EtcdCluster;

    const LABEL: &str = "causeway.example.com/etcd";

    fn names(metadata: &serde_json::Value) -> Vec<String> {
        let child = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata });
        let child: Service = serde_json::from_value(child).expect("a Service");
        owners_to_wake::<EtcdCluster, _>(&child, LABEL).into_iter().map(|object| object.name).collect()
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
    fn a_grandchild_wakes_the_object_in_its_label() {
        let owner =
            json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "1", "controller": true }]);
        assert_eq!(names(&json!({ "name": "db-0", "labels": { (LABEL): "db" }, "ownerReferences": owner })), ["db"]);
    }
}
