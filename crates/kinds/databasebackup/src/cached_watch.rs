//! Objects of a kind as they were last seen, for look-ups by name, and a stream of those that changed.

use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_all};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::Notify;
use tracing::info;

use causeway_runtime::child_watch::Owner;
use causeway_runtime::room::Kept;
use causeway_runtime::{CacheSync, Decoded, Lost, ScopedStores, SlowBackoff, Unlisted, WatchBackoff, decoded};

/// The objects of a kind, in one store for each namespace that the operator serves.
pub struct CachedWatch<K: Resource<DynamicType = ()> + Clone + 'static> {
    stores: ScopedStores<K>,
    /// True if the kind was not installed when it was last looked for.
    missing: Arc<AtomicBool>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Default for CachedWatch<K> {
    fn default() -> Self {
        Self { stores: ScopedStores::default(), missing: Arc::default() }
    }
}

impl<K: Owner> CachedWatch<K> {
    /// Yields an object when it appears, when it is deleted, and when its `version` changes. An object without a
    /// version is yielded at each event.
    pub fn watch(
        &self,
        client: &Client,
        namespace: Option<&str>,
        config: watcher::Config,
        version: fn(&K) -> Option<i64>,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K> {
        let (reader, writer) = reflector::store();
        self.stores.add(namespace, reader);
        let events = watch_all(api(client, namespace), config).backoff(WatchBackoff::default());
        news(events, writer, self.stores.lost_objects().clone(), version)
    }

    /// The same for a kind that need not be installed. Then there are no objects, and the kind is looked for seldom.
    pub fn watch_optional(
        &self,
        client: &Client,
        namespace: Option<&str>,
        version: fn(&K) -> Option<i64>,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K> {
        let (reader, writer) = reflector::store();
        let (missing, noticed) = (self.missing.clone(), Arc::new(Notify::new()));
        self.stores.add_listed(namespace, reader.clone(), CacheSync::for_optional_store(reader, noticed.clone()));
        let events = watch_all(api(client, namespace), watcher::Config::default())
            .backoff(SlowBackoff::default())
            .filter_map(move |event| ready(of_installed(event, &missing, &noticed)));
        news(events, writer, self.stores.lost_objects().clone(), version)
    }

    /// Waits until the objects of that namespace have been listed once.
    pub async fn ready(&self, namespace: &str) {
        self.stores.ready(namespace).await;
    }

    /// Namespaces whose objects are not known.
    pub fn unlisted(&self) -> Unlisted {
        self.stores.unlisted_namespaces()
    }

    /// Reports whether the kind was not installed when it was last looked for.
    pub fn is_missing(&self) -> bool {
        self.missing.load(Ordering::Relaxed)
    }

    /// All that there are.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.stores.all_objects()
    }

    /// The one of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.stores.get(namespace, name)
    }

    /// References to all in a namespace.
    pub fn references_in(&self, namespace: &str) -> Vec<ObjectRef<K>> {
        let all = self.all().into_iter().filter(|object| object.namespace().as_deref() == Some(namespace));
        all.map(|object| ObjectRef::from_obj(&*object)).collect()
    }
}

fn api<K: Owner>(client: &Client, namespace: Option<&str>) -> Api<Decoded<K>> {
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// The event, unless it only says that the kind is not installed. That needs no warning at every attempt.
fn of_installed<K: Owner>(
    event: Result<Event<Decoded<K>>, watcher::Error>,
    missing: &AtomicBool,
    noticed: &Notify,
) -> Option<Result<Event<Decoded<K>>, watcher::Error>> {
    match &event {
        // A list of a kind that is installed is never answered with 404, whether or not its namespace exists.
        Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
            if !missing.swap(true, Ordering::Relaxed) {
                info!(kind = %K::kind(&()), "the kind is not installed, so there are no objects of it");
            }
            noticed.notify_one();
            return None;
        }
        Ok(Event::InitDone) => missing.store(false, Ordering::Relaxed),
        _ => {}
    }
    Some(event)
}

/// The objects of one watch that its store lacks although they are there.
struct Losses {
    lost: Lost,
    all: HashMap<String, ObjectMeta>,
    /// The uids in the list that is being received.
    listed: HashSet<String>,
}

impl Losses {
    /// Takes in an event before the store does: what a new list or a deletion shows to be gone is not lost.
    fn begin<K: Owner>(&mut self, event: &Result<Event<Decoded<K>>, watcher::Error>) {
        match event {
            Ok(Event::Init) => self.listed.clear(),
            Ok(Event::InitApply(object)) => self.listed.extend(object.uid()),
            Ok(Event::InitDone) => {
                let gone = self.all.extract_if(|uid, _| !self.listed.contains(uid));
                gone.for_each(|(_, metadata)| self.lost.note(&metadata, false));
            }
            Ok(Event::Delete(object)) => {
                self.all.remove(&object.uid().unwrap_or_default());
                self.lost.note(object.meta(), false);
            }
            _ => {}
        }
    }

    fn note(&mut self, metadata: ObjectMeta, lost: bool) {
        self.lost.note(&metadata, lost);
        let uid = metadata.uid.clone().unwrap_or_default();
        if lost {
            self.all.insert(uid, metadata);
        } else {
            self.all.remove(&uid);
        }
    }
}

/// Uid and namespace of an object that is there.
fn metadata_of<K: Owner>(event: &Result<Event<Decoded<K>>, watcher::Error>) -> Option<ObjectMeta> {
    let Ok(Event::Apply(object) | Event::InitApply(object)) = event else { return None };
    Some(ObjectMeta { uid: object.uid(), namespace: object.namespace(), ..ObjectMeta::default() })
}

/// Fills the store, and yields the objects whose version changed.
fn news<K: Owner>(
    events: impl Stream<Item = Result<Event<Decoded<K>>, watcher::Error>> + Send,
    writer: Writer<K>,
    lost: Lost,
    version: fn(&K) -> Option<i64>,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send {
    let (mut known, mut kept): (HashMap<String, i64>, Kept) = Default::default();
    let mut losses = Losses { lost, all: HashMap::new(), listed: HashSet::new() };
    let events = events.filter_map(move |event| {
        losses.begin(&event);
        let metadata = metadata_of(&event);
        let taken = decoded(event).and_then(|event| kept.take(event));
        if let Some(metadata) = metadata {
            losses.note(metadata, !matches!(taken, Some(Ok(Event::Apply(_) | Event::InitApply(_)))));
        }
        ready(taken)
    });
    events.reflect(writer).filter_map(move |event| {
        let news = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let uid = object.uid().unwrap_or_default();
                let before = version(&object).and_then(|version| Some((version, known.insert(uid, version)?)));
                before.is_none_or(|(version, before)| version != before).then_some(Ok(object))
            }
            Ok(Event::Delete(object)) => {
                known.remove(&object.uid().unwrap_or_default());
                Some(Ok(object))
            }
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => Some(Err(error)),
        };
        ready(news)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::timeout;
    use tower::service_fn;

    use super::*;
    use causeway_api::{EtcdCluster, Redis};

    /// An apiserver without the kind Redis, where the namespace `shop` is denied. Its watches never send an event.
    fn apiserver() -> Client {
        let answer = move |request: Request<Body>| async move {
            let uri = request.uri().clone();
            if uri.query().is_some_and(|query| query.contains("watch=true")) {
                return std::future::pending().await;
            }
            let code = match uri.path() {
                path if path.contains("/redises") => 404,
                path if path.contains("/namespaces/shop/") => 403,
                _ => 200,
            };
            let body = match code {
                200 => json!({ "metadata": { "resourceVersion": "1" }, "items": [] }),
                code => json!({ "kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "" }),
            };
            let answer = Response::builder().status(code).body(Body::from(serde_json::to_vec(&body).unwrap()));
            Ok::<_, kube::Error>(answer.unwrap())
        };
        Client::new(service_fn(answer), "default")
    }

    async fn is_ready<K: Owner>(watch: &CachedWatch<K>, namespace: &str) -> bool {
        timeout(Duration::from_mins(6), watch.ready(namespace)).await.is_ok()
    }

    /// Follows a stream, and fails at an error that would be logged.
    fn follow<K: Owner>(stream: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static) {
        tokio::spawn(stream.for_each(|event| {
            event.expect("no error");
            ready(())
        }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_kind_has_no_objects_and_blocks_nothing() {
        let (redises, clusters) = (CachedWatch::<Redis>::default(), CachedWatch::<EtcdCluster>::default());
        follow(redises.watch_optional(&apiserver(), None, |_| None));
        follow(clusters.watch_optional(&apiserver(), None, |_| None));
        assert!(is_ready(&redises, "shop").await && is_ready(&clusters, "shop").await);
        assert!(redises.is_missing() && !clusters.is_missing());
        assert!(redises.all().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_namespace_holds_up_no_object_of_another() {
        let clusters = CachedWatch::<EtcdCluster>::default();
        for namespace in ["shop", "blog"] {
            let news = clusters.watch(&apiserver(), Some(namespace), watcher::Config::default(), |_| None);
            tokio::spawn(news.for_each(|_| ready(())));
        }
        assert!(is_ready(&clusters, "blog").await);
        assert!(!is_ready(&clusters, "shop").await);
        assert_eq!(clusters.unlisted(), Unlisted::new(&["shop"]));
    }
}
