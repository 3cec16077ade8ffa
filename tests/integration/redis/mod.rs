//! `Redis` in the real cluster: real nodes with real data, and clients that write all the time while masters die, hang,
//! lose their data and come back.

mod auth;
pub mod checker;
mod clients;
mod compared;
mod creation;
mod deletion;
mod directives;
mod discovery;
mod doors;
mod drift;
mod edits;
mod exporter;
mod failover;
pub mod faults;
mod incidents;
mod leaders;
mod losses;
mod modules;
pub mod nodes;
mod ownership;
mod proof;
mod restarts;
mod rollout;
mod rounds;
mod scale;
mod sentinel;
mod service;
mod severed;
pub mod switchover;
pub mod tls;
mod writes;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::{Duration, Instant};

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::support::Scene;
use crate::support::rollout_watch::is_ready;
use crate::support::scene::condition;
use crate::support::wait::wait_within;

/// The set of every test, and its master's Service.
pub const NAME: &str = "cache";
/// The label of all that belongs to it.
pub const LABEL: &str = "causeway.example.com/redis";
/// The label with a pod's role.
pub const ROLE_LABEL: &str = "causeway.example.com/role";
/// Several nodes start, on a machine that runs other tests, too.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(6);

/// How many of these tests run at the same time in one process. Each has up to six nodes, and measures how long no
/// client could write.
static PLACES: Semaphore = Semaphore::const_new(4);

/// A scene with enough processor time for its nodes.
pub struct Stage {
    scene: Scene,
    _place: SemaphorePermit<'static>,
}

impl Stage {
    /// A new scene, as soon as there is room for it.
    pub async fn new(name: &str) -> Self {
        let place = PLACES.acquire().await.expect("the semaphore is never closed");
        Self { scene: Scene::new(name).await, _place: place }
    }
}

impl Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

/// A spec with that many replicas beside the master.
pub fn spec(replicas: i32) -> Value {
    json!({ "replicas": replicas })
}

/// The same for a test in which no master hangs. On a busy machine, everything may pause for more than the 2 s of the
/// default: then a master that serves would count as hung, and one that was killed could be the next one, too, because
/// the election waits for silent replicas no longer than that.
pub fn patient(replicas: i32) -> Value {
    json!({ "replicas": replicas, "failover": { "hangTimeout": "60s" } })
}

/// Creates a set and waits until all its nodes serve.
pub async fn running(scene: &Scene, spec: Value) -> Redis {
    scene.create::<Redis>(NAME, spec).await;
    settled(scene, "the first nodes").await
}

/// Waits until the status says that everything is as the spec wants it, and until the nodes say so, too.
pub async fn settled(scene: &Scene, what: &str) -> Redis {
    settled_with(scene, what, None).await
}

/// The same for nodes that ask for a password.
pub async fn settled_with(scene: &Scene, what: &str, password: Option<&str>) -> Redis {
    let object = becomes(scene, what, is_settled).await;
    nodes::complete(scene, object.spec.replicas, password).await;
    object
}

/// Waits until the object is as `good` says.
pub async fn becomes(scene: &Scene, what: &str, good: impl Fn(&Redis) -> bool) -> Redis {
    let api = scene.api::<Redis>();
    wait_within(WAIT_TIMEOUT, what, || async { api.get(NAME).await.expect("the object") }, good).await
}

/// Reports whether the status says that everything is as the spec wants it.
pub fn is_settled(object: &Redis) -> bool {
    let status = object.status.clone().unwrap_or_default();
    let replicas = object.spec.replicas;
    let masters = status.nodes.iter().filter(|node| node.role == "master").count();
    status.observed_generation == object.metadata.generation
        && ["Ready", "Replicated"].iter().all(|type_| says(object, type_, "True"))
        && [status.replicas, status.ready_replicas] == [replicas; 2]
        && status.failover.is_none()
        && status.nodes.iter().all(|node| node.ready)
        && masters == 1
}

/// Reports whether the status says that the operator leaves the set alone, as the spec asks.
fn is_suspended(object: &Redis) -> bool {
    describe(object, "Ready").is_some_and(|(_, reason, _)| reason == "Suspended")
}

/// Reports whether the condition of that type has that status.
fn says(object: &Redis, type_: &str, expected: &str) -> bool {
    describe(object, type_).is_some_and(|(status, ..)| status == expected)
}

/// A condition as (status, reason, message).
pub fn describe(object: &Redis, type_: &str) -> Option<(String, String, String)> {
    condition(&object.status.as_ref()?.conditions, type_)
}

/// Waits until the object is stalled; returns reason and message.
async fn stalls(scene: &Scene, what: &str) -> (String, String) {
    let current = |object: &Redis| {
        let seen = object.status.as_ref().and_then(|status| status.observed_generation);
        seen == object.metadata.generation && says(object, "Stalled", "True")
    };
    let object = becomes(scene, what, current).await;
    describe(&object, "Stalled").map(|(_, reason, message)| (reason, message)).unwrap_or_default()
}

/// The pod that the status calls the master.
pub async fn master(scene: &Scene) -> String {
    let object = scene.api::<Redis>().get(NAME).await.expect("the object");
    object.status.and_then(|status| status.master).expect("a master")
}

/// The pods that are not the master, by name.
pub async fn replicas(scene: &Scene) -> Vec<String> {
    let master = master(scene).await;
    uids(scene).await.into_keys().filter(|name| *name != master).collect()
}

/// Waits until another one is the master, and everything is as it should be; returns it.
pub async fn succeeded(scene: &Scene, before: &str) -> String {
    let another = |object: &Redis| {
        let now = object.status.as_ref().and_then(|status| status.master.as_deref());
        now.is_some_and(|now| now != before)
    };
    let object = becomes(scene, &format!("another master than {before}"), another).await;
    object.status.and_then(|status| status.master).expect("just seen")
}

/// Lists the nodes' pods.
pub async fn pods(scene: &Scene) -> Vec<Pod> {
    scene.api::<Pod>().list(&ours()).await.expect("pods").items
}

/// The nodes' volume claims by name, with their uids.
async fn claims(scene: &Scene) -> BTreeMap<String, String> {
    let list = scene.api::<PersistentVolumeClaim>().list(&ours()).await.expect("claims").items;
    list.into_iter().map(|claim| (claim.name_any(), claim.uid().unwrap_or_default())).collect()
}

/// The pods' uids by name.
pub async fn uids(scene: &Scene) -> BTreeMap<String, String> {
    pods(scene).await.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
}

/// Selects the objects of the set.
pub fn ours() -> ListParams {
    ListParams::default().labels(&format!("{LABEL}={NAME}"))
}

/// Waits until another pod than `before` has that name, and is ready; returns it.
async fn successor(scene: &Scene, name: &str, before: &str) -> Pod {
    let api = scene.api::<Pod>();
    let look = || async { api.get_opt(name).await.expect("an answer") };
    let succeeded =
        |pod: &Option<Pod>| pod.as_ref().is_some_and(|pod| pod.uid().as_deref() != Some(before) && is_ready(pod));
    wait_within(WAIT_TIMEOUT, &format!("a ready successor of {name}"), look, succeeded).await.expect("the pod")
}

/// The name of a node's claim.
pub fn claim_of(pod: &str) -> String {
    format!("data-{pod}")
}

/// Prints how long something took.
fn took(what: &str, begun: Instant) {
    println!("» {what} after {:.1} s", begun.elapsed().as_secs_f64());
}

/// Waits until another pod than `before` has that name and runs, ready or not.
async fn successor_that_starts(scene: &Scene, name: &str, before: &str) {
    let api = scene.api::<Pod>();
    let look = || async { api.get_opt(name).await.expect("an answer") };
    let runs = |pod: &Option<Pod>| {
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        pod.as_ref().is_some_and(|pod| pod.uid().as_deref() != Some(before) && phase(pod).as_deref() == Some("Running"))
    };
    wait_within(WAIT_TIMEOUT, &format!("a successor of {name} that runs"), look, runs).await;
}
