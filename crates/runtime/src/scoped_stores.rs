//! The objects of a kind as watches show them, in one store for each namespace that is served. A namespace that cannot
//! be listed delays only its own objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::{Mutex, MutexGuard};

use super::cache_sync::CacheSync;

/// The stores of one kind.
pub struct ScopedStores<K: Resource<DynamicType = ()> + Clone + 'static> {
    scopes: Mutex<Vec<Scope<K>>>,
    lost: Lost,
}

struct Scope<K: Resource<DynamicType = ()> + Clone + 'static> {
    /// `None` for all namespaces.
    namespace: Option<String>,
    store: Store<K>,
    listed: CacheSync,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Default for ScopedStores<K> {
    fn default() -> Self {
        Self { scopes: Mutex::default(), lost: Lost::default() }
    }
}

impl<K> ScopedStores<K>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    /// Adds the store of a namespace, or of all.
    pub fn add(&self, namespace: Option<&str>, store: Store<K>) {
        let listed = CacheSync::for_store(store.clone());
        self.add_listed(namespace, store, listed);
    }

    /// Adds a store whose first list `listed` waits for.
    pub fn add_listed(&self, namespace: Option<&str>, store: Store<K>, listed: CacheSync) {
        self.scopes().push(Scope { namespace: namespace.map(str::to_owned), store, listed });
    }

    /// Waits until the objects of that namespace have been listed once.
    pub async fn ready(&self, namespace: &str) {
        let listed: Vec<CacheSync> = {
            let scopes = self.scopes();
            let serves = |scope: &&Scope<K>| scope.namespace.as_deref().is_none_or(|served| served == namespace);
            scopes.iter().filter(serves).map(|scope| scope.listed.clone()).collect()
        };
        for listed in listed {
            listed.wait().await;
        }
    }

    /// Waits until all objects have been listed once, also those of namespaces that the operator is denied.
    pub async fn all_ready(&self) {
        let listed: Vec<CacheSync> = self.scopes().iter().map(|scope| scope.listed.clone()).collect();
        for listed in listed {
            listed.wait().await;
        }
    }

    /// Namespaces of which not all objects are known: those that have not been listed yet, and those with lost objects.
    pub fn unlisted_namespaces(&self) -> Unlisted {
        let scopes = self.scopes();
        let unlisted = scopes.iter().filter(|scope| !scope.listed.is_over());
        let unlisted = unlisted.map(|scope| scope.namespace.clone());
        let lost: BTreeSet<String> = self.lost.lock().values().cloned().collect();
        Unlisted(unlisted.chain(lost.into_iter().map(Some)).collect())
    }

    /// Returns all objects that are known.
    pub fn all_objects(&self) -> Vec<Arc<K>> {
        self.scopes().iter().flat_map(|scope| scope.store.state()).collect()
    }

    /// Returns the object of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        let key = ObjectRef::new(name).within(namespace);
        self.scopes().iter().find_map(|scope| scope.store.get(&key))
    }

    fn scopes(&self) -> MutexGuard<'_, Vec<Scope<K>>> {
        self.scopes.lock()
    }

    /// The objects that no store has although they are there.
    pub fn lost_objects(&self) -> &Lost {
        &self.lost
    }
}

/// Objects that are there and in no store: nothing but their metadata could be decoded, or there is no room for them.
/// Namespaces by uid.
#[derive(Clone, Debug, Default)]
pub struct Lost(Arc<Mutex<BTreeMap<String, String>>>);

impl Lost {
    /// Records whether this object is lost.
    pub fn note(&self, metadata: &ObjectMeta, lost: bool) {
        let uid = metadata.uid.clone().unwrap_or_default();
        if lost {
            self.lock().insert(uid, metadata.namespace.clone().unwrap_or_default());
        } else {
            self.lock().remove(&uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock()
    }
}

/// Namespaces of which not all objects are known; `None` stands for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unlisted(Vec<Option<String>>);

impl Unlisted {
    /// The namespaces of these names.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(namespaces: &[&str]) -> Self {
        Self(namespaces.iter().map(|namespace| Some((*namespace).to_owned())).collect())
    }

    /// Returns true if the objects of that namespace are among those that are not known.
    pub fn contains(&self, namespace: &str) -> bool {
        self.0.iter().any(|unlisted| unlisted.as_deref().is_none_or(|unlisted| unlisted == namespace))
    }

    /// Returns true if all objects are known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The namespaces for a message; `None` if all objects are known.
    pub fn names(&self) -> Option<String> {
        let names: Vec<&str> = self.0.iter().map(|unlisted| unlisted.as_deref().unwrap_or("*")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::{reflector, watcher};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_cannot_be_listed_delays_only_itself() {
        let stores = ScopedStores::<ConfigMap>::default();
        let (shop, _denied) = reflector::store();
        let (blog, mut writer) = reflector::store();
        stores.add(Some("shop"), shop);
        stores.add(Some("blog"), blog);
        let is_ready = async |namespace: &str| timeout(Duration::from_mins(6), stores.ready(namespace)).await.is_ok();
        assert_eq!(stores.unlisted_namespaces(), Unlisted::new(&["shop", "blog"]));
        writer.apply_watcher_event(&watcher::Event::Init);
        assert!(!is_ready("blog").await);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        assert!(is_ready("blog").await && !is_ready("shop").await);
        let unlisted = stores.unlisted_namespaces();
        assert!(unlisted.contains("shop") && !unlisted.contains("blog"));
        assert_eq!(unlisted.names().as_deref(), Some("shop"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_list_of_all_namespaces_is_that_of_each() {
        let stores = ScopedStores::<ConfigMap>::default();
        let (all, mut writer) = reflector::store();
        stores.add(None, all);
        assert!(stores.unlisted_namespaces().contains("shop"));
        writer.apply_watcher_event(&watcher::Event::Init);
        writer.apply_watcher_event(&watcher::Event::InitDone);
        assert!(timeout(Duration::from_mins(6), stores.ready("shop")).await.is_ok());
        assert!(stores.unlisted_namespaces().is_empty());
    }

    #[test]
    fn a_lost_object_makes_its_namespace_incomplete() {
        let stores = ScopedStores::<ConfigMap>::default();
        let metadata =
            |uid: &str| ObjectMeta { uid: Some(uid.into()), namespace: Some("shop".into()), ..ObjectMeta::default() };
        stores.lost_objects().note(&metadata("1"), true);
        stores.lost_objects().note(&metadata("2"), true);
        assert_eq!(stores.unlisted_namespaces(), Unlisted::new(&["shop"]));
        stores.lost_objects().note(&metadata("1"), false);
        assert!(stores.unlisted_namespaces().contains("shop"));
        stores.lost_objects().note(&metadata("2"), false);
        assert!(stores.unlisted_namespaces().is_empty());
    }
}
