//! `MyApp` in the real cluster: real pods, their logs, and what happens when other clients change or delete them.

mod banner;
mod drift;
mod pods;
mod rollout;
mod scale;

use std::collections::BTreeMap;

use causeway_api::MyApp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::LogParams;
use serde_json::{Value, json};

use crate::support::rollout_watch::is_ready;
use crate::support::scene::condition;
use crate::support::{Scene, wait_for};

const IMAGE: &str = "nginx:latest";

/// A spec with that many pods.
fn pods(replicas: i32) -> Value {
    json!({ "image": IMAGE, "banner": "hello", "replicas": replicas })
}

/// Creates an app and waits until it is settled.
async fn running(scene: &Scene, name: &str, spec: Value) -> MyApp {
    scene.create::<MyApp>(name, spec).await;
    settled(scene, name, "all pods to be ready").await
}

/// Waits until an app's status says that everything is as its present spec wants it.
async fn settled(scene: &Scene, name: &str, what: &str) -> MyApp {
    scene.app(name, what, is_settled).await
}

fn is_settled(app: &MyApp) -> bool {
    let status = app.status.clone().unwrap_or_default();
    status.observed_generation == app.metadata.generation
        && condition(&status.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
}

/// Waits until the app's `Ready` condition gives that reason; returns its message.
async fn ready_says(scene: &Scene, name: &str, reason: &str) -> String {
    let ready = |app: &MyApp| condition(&app.status.clone().unwrap_or_default().conditions, "Ready");
    let says = |app: &MyApp| ready(app).is_some_and(|(_, answer, _)| answer == reason);
    let app = scene.app(name, &format!("{name} to be Ready=…/{reason}"), says).await;
    ready(&app).map(|(_, _, message)| message).unwrap_or_default()
}

/// Waits for an event about the app with that reason; returns its note.
async fn event(scene: &Scene, name: &str, reason: &str) -> String {
    let what = format!("an event {reason} about {name}");
    let events = wait_for(&what, || scene.events(name), |events| events.iter().any(|(it, _)| it == reason)).await;
    events.into_iter().find(|(it, _)| it == reason).map(|(_, note)| note).unwrap_or_default()
}

/// Waits until a pod has printed exactly this. A pod is ready as soon as its container runs, before it prints anything.
async fn prints(scene: &Scene, pod: &str, wanted: &str) {
    let api = scene.api::<Pod>();
    let look = || async { api.logs(pod, &LogParams::default()).await.expect("a log") };
    wait_for(&format!("{pod} to print what it should"), look, |log| log == wanted).await;
}

/// The namespace's pods by name, with their uids.
async fn uids(scene: &Scene) -> BTreeMap<String, String> {
    scene.pods().await.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
}

/// The names of the namespace's pods that are not being deleted, in order.
async fn names(scene: &Scene) -> Vec<String> {
    let staying = scene.pods().await.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut names: Vec<String> = staying.map(|pod| pod.name_any()).collect();
    names.sort();
    names
}

/// Waits until the pod of that name is another one than `before`, and ready.
async fn successor(scene: &Scene, name: &str, before: &str) -> Pod {
    let api = scene.api::<Pod>();
    let look = || async { api.get_opt(name).await.expect("an answer") };
    let succeeded =
        |pod: &Option<Pod>| pod.as_ref().is_some_and(|pod| pod.uid().as_deref() != Some(before) && is_ready(pod));
    wait_for(&format!("a ready successor of pod {name}"), look, succeeded).await.expect("the pod")
}
