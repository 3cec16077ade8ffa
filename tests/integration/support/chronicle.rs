//! Every version of every object of a scene, in the order in which the apiserver wrote them. States that last only
//! milliseconds are seen, too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Resource, ResourceExt};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Scene, wait_for};

/// Objects as they were at one moment, by kind and name.
pub type Moment = BTreeMap<(String, String), Value>;

/// Running watches of a scene's pods, of what makes pods, and of objects of one kind of ours.
pub struct Chronicle {
    written: Arc<Mutex<Vec<Entry>>>,
    watched: Vec<Api<DynamicObject>>,
    tasks: Vec<JoinHandle<()>>,
}
#[derive(Clone, Debug)]
pub struct Entry {
    /// The resource version, which orders writes across all kinds.
    /// <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>
    pub version: u64,
    /// Kind and name.
    pub key: (String, String),
    /// None where it was deleted.
    pub object: Option<Value>,
}

impl Chronicle {
    /// Starts the watches. The objects that exist now are recorded when this returns.
    pub async fn start<K>(scene: &Scene) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        let kinds = [
            ApiResource::erase::<K>(&()),
            ApiResource::erase::<Pod>(&()),
            ApiResource::erase::<StatefulSet>(&()),
            ApiResource::erase::<CronJob>(&()),
        ];
        let written: Arc<Mutex<Vec<Entry>>> = Arc::default();
        let (mut watched, mut tasks) = (Vec::new(), Vec::new());
        for kind in kinds {
            let api: Api<DynamicObject> = Api::namespaced_with(scene.client.clone(), &scene.namespace, &kind);
            let (begun, listed) = oneshot::channel();
            tasks.push(tokio::spawn(follow(api.clone(), kind.kind, written.clone(), begun)));
            listed.await.expect("the objects are listed");
            watched.push(api);
        }
        Self { written, watched, tasks }
    }

    /// Everything that was written until now, in order. Call it once the objects have settled: a write during the call
    /// may be missing.
    pub async fn complete(self) -> Vec<Entry> {
        let mut there = BTreeSet::new();
        for api in &self.watched {
            let objects = api.list(&ListParams::default()).await.expect("a list").items;
            there.extend(objects.iter().map(version_of));
        }
        let seen = || async {
            let written = self.written.lock().unwrap();
            let seen: BTreeSet<u64> = written.iter().map(|entry| entry.version).collect();
            there.difference(&seen).count()
        };
        wait_for("the watches to show what is there", seen, |missing| *missing == 0).await;
        let mut written = self.written.lock().unwrap().clone();
        written.sort_by_key(|entry| entry.version);
        written
    }
}

impl Drop for Chronicle {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn follow(api: Api<DynamicObject>, kind: String, written: Arc<Mutex<Vec<Entry>>>, begun: oneshot::Sender<()>) {
    let mut begun = Some(begun);
    let mut events = watcher(api, Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        // The watcher goes on after an error.
        let Ok(event) = event else { continue };
        let (object, is_there) = match event {
            Event::Init => {
                assert!(begun.is_some(), "the watch of {kind} lost its place: what happened meanwhile is not known");
                continue;
            }
            Event::InitDone => {
                if let Some(begun) = begun.take() {
                    let _ = begun.send(());
                }
                continue;
            }
            Event::InitApply(object) | Event::Apply(object) => (object, true),
            Event::Delete(object) => (object, false),
        };
        let key = (kind.clone(), object.name_any());
        let version = version_of(&object);
        let object = is_there.then(|| serde_json::to_value(object).expect("an object"));
        written.lock().unwrap().push(Entry { version, key, object });
    }
}

fn version_of(object: &DynamicObject) -> u64 {
    object.resource_version().expect("a version").parse().expect("a number")
}
