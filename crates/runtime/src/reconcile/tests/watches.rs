//! Events of a watch on their way to the store.

use std::sync::Arc;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::runtime::reflector::{self, Store, store::Writer};
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;
use serde_json::{Value, json};

use causeway_api::MyApp;

use super::{Reconciler, Waiting, apiserver, object, reconciler};
use crate::Class;
use crate::decoding::Decoded;
use crate::guardrails::Guardrails;
use crate::health::Health;
use crate::watched::Watched;

/// A watch of all namespaces, and its store.
struct Watch {
    watched: Watched<Waiting>,
    store: Store<MyApp>,
    writer: Writer<MyApp>,
}

impl Watch {
    fn new(reconciler: &Arc<Reconciler<Waiting>>) -> Self {
        let (store, writer) = reflector::store();
        let health = Health::default().watch("MyApp", None);
        let watched = Watched::new(reconciler.clone(), None, store.clone(), health, Guardrails::default());
        Self { watched, store, writer }
    }

    fn pass(&mut self, event: Event<Decoded<MyApp>>) {
        if let Some(Ok(event)) = self.watched.take(Ok(event)) {
            self.writer.apply_watcher_event(&event);
        }
    }

    /// Passes a list of these objects.
    fn list(&mut self, objects: impl IntoIterator<Item = Decoded<MyApp>>) {
        self.pass(Event::Init);
        objects.into_iter().for_each(|object| self.pass(Event::InitApply(object)));
        self.pass(Event::InitDone);
    }
}

/// An object of which only the metadata can be decoded.
fn lost_object(name: &str, uid: &str) -> Decoded<MyApp> {
    let metadata = ObjectMeta {
        namespace: Some("default".into()),
        name: Some(name.into()),
        uid: Some(uid.into()),
        ..ObjectMeta::default()
    };
    Decoded::Lost { metadata: Box::new(metadata), problem: "spec: no object".into() }
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_reported_once() {
    let sent: Arc<Mutex<Vec<Value>>> = Arc::default();
    let reconciler = reconciler(&apiserver(sent.clone()));
    let mut watch = Watch::new(&reconciler);
    for _ in 0..2 {
        assert!(watch.watched.take(Ok(Event::Apply(lost_object("app", "uid-1")))).is_none());
        tokio::task::yield_now().await;
    }
    let events = || sent.lock().clone();
    while events().is_empty() {
        tokio::task::yield_now().await;
    }
    let reported: Vec<_> = events().iter().map(|it| (it["reason"].clone(), it["regarding"]["name"].clone())).collect();
    assert_eq!(reported, [(json!("Undecodable"), json!("app"))]);
}

#[tokio::test(start_paused = true)]
async fn a_denied_namespace_is_named_and_stops_nothing_else() {
    let reconciler = reconciler(&apiserver(Arc::default()));
    let (metrics, health) = (reconciler.metrics.clone(), Health::default());
    let watched = |namespace| {
        let (store, writer) = reflector::store();
        let (health, guardrails) = (health.watch("MyApp", Some(namespace)), Guardrails::default());
        (Watched::new(reconciler.clone(), Some(namespace), store, health, guardrails), writer)
    };
    let ((mut shop, _of_shop), (mut blog, _of_blog)) = (watched("shop"), watched("blog"));
    let is_named =
        || metrics.encode().unwrap().contains(r#"causeway_denied_namespaces{kind="MyApp",namespace="shop"} 1"#);
    blog.take(Ok(Event::Init));
    blog.take(Ok(Event::InitDone));
    for _ in 0..13 {
        shop.take(Ok(Event::Init));
        let status = kube::core::Status::failure("no RoleBinding", "Forbidden").with_code(403);
        shop.take(Err(watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!((health.healthy(), is_named()), (Ok(()), true));
    }
    shop.take(Ok(Event::Init));
    shop.take(Ok(Event::InitDone));
    assert!(!is_named());
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_served_once_it_is_there() {
    let health = Health::default();
    health.watch("Redis", None).record_answer();
    let (store, _writer) = reflector::store();
    let (of_apps, guardrails) = (health.watch("MyApp", None), Guardrails::default());
    let mut watched = Watched::new(reconciler(&apiserver(Arc::default())), None, store, of_apps, guardrails);
    for _ in 0..13 {
        watched.take(Ok(Event::Init));
        let status = kube::core::Status::failure("could not find the resource", "NotFound").with_code(404);
        let passed_on = watched.take(Err(watcher::Error::InitialListFailed(kube::Error::Api(status.boxed()))));
        assert!(passed_on.is_none(), "it is named once, not at every attempt");
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(health.healthy(), Ok(()));
    }
    watched.take(Ok(Event::Init));
    let listed = watched.take(Ok(Event::InitApply(Decoded::Object(object(&json!([]))))));
    assert!(matches!(listed, Some(Ok(Event::InitApply(_)))));
}

#[tokio::test]
async fn an_object_that_a_list_leaves_out_is_forgotten() {
    let reconciler = reconciler(&apiserver(Arc::default()));
    let mut watch = Watch::new(&reconciler);
    watch.list([Decoded::Object(object(&json!([])))]);
    reconciler.failures.record_failure("uid-1", Class::Transient, reconciler.sweep);
    assert_eq!((watch.store.state().len(), reconciler.failures.count()), (1, 1));
    watch.list([]);
    assert!(!reconciler.alive.lock().contains("uid-1"));
    assert_eq!((watch.store.state().len(), reconciler.failures.count()), (0, 0));
}

#[tokio::test]
async fn an_undecodable_object_in_a_list_does_not_seem_deleted() {
    let reconciler = reconciler(&apiserver(Arc::default()));
    let mut watch = Watch::new(&reconciler);
    watch.list([Decoded::Object(object(&json!([])))]);
    watch.list([lost_object("app", "uid-1"), lost_object("never-decoded", "uid-2")]);
    let names: Vec<_> = watch.store.state().iter().map(|it| it.name_any()).collect();
    assert_eq!(names, ["app"], "the store keeps it as it was");
    assert_eq!(reconciler.undecodable.lock().len(), 2);
    // Another object of the same name is not the earlier one.
    watch.list([lost_object("app", "uid-3")]);
    assert_eq!(watch.store.state().len(), 0);
    let undecodable = reconciler.undecodable.lock().clone();
    assert_eq!(undecodable, ["uid-3".to_owned()].into(), "what a list leaves out counts no longer");
    watch.pass(Event::Delete(lost_object("app", "uid-3")));
    assert!(reconciler.undecodable.lock().is_empty());
}
