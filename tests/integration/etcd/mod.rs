//! `EtcdCluster` in the real cluster: real members with real data, and clients that write all the time while members
//! come, go, fall ill and are replaced.

mod access;
mod auth;
mod backup;
pub mod bystander;
pub mod checker;
mod clients;
mod defrag;
mod deletion;
mod drift;
mod edges;
mod edits;
mod ownership;
mod placement;
mod pods;
mod quorum;
mod restarts;
mod rollout;
mod scale;
mod space;
mod tls;
mod volumes;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::{Duration, Instant};

use causeway_api::EtcdCluster;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::support::Scene;
use crate::support::rollout_watch::is_ready;
use crate::support::scene::condition;
use crate::support::wait::wait_within;
pub use pods::{Stopped, process_of, signal};

/// The cluster of every test.
pub const NAME: &str = "db";
/// The label of all that belongs to it.
pub const LABEL: &str = "causeway.example.com/etcd";
/// Several members start, one after the other, on a machine that runs other tests, too.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(6);

/// How many of these tests run at the same time in one process. Each has up to five members, which time each other out
/// when they get no processor time for a second.
static PLACES: Semaphore = Semaphore::const_new(3);

/// A scene with enough processor time for its members.
struct Stage {
    scene: Scene,
    _place: SemaphorePermit<'static>,
}

impl Stage {
    /// A new scene, as soon as there is room for it.
    async fn new(name: &str) -> Self {
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

/// A spec with that many members.
pub fn spec(replicas: i32) -> Value {
    json!({ "version": "3.5.9", "replicas": replicas, "storageSize": "1Gi" })
}

/// Creates a cluster and waits until all its members serve.
pub async fn running(scene: &Scene, spec: Value) -> EtcdCluster {
    scene.create::<EtcdCluster>(NAME, spec).await;
    settled(scene, "the first members").await
}

/// Waits until the status says that everything is as the spec wants it, and until the members say so, too.
pub async fn settled(scene: &Scene, what: &str) -> EtcdCluster {
    let object = becomes(scene, what, is_settled).await;
    bystander::complete(scene, object.spec.replicas, &object.spec.version).await;
    object
}

/// Waits until the object is as `good` says.
pub async fn becomes(scene: &Scene, what: &str, good: impl Fn(&EtcdCluster) -> bool) -> EtcdCluster {
    let api = scene.api::<EtcdCluster>();
    wait_within(WAIT_TIMEOUT, what, || async { api.get(NAME).await.expect("the object") }, good).await
}

/// Reports whether the status says that everything is as the spec wants it.
pub fn is_settled(object: &EtcdCluster) -> bool {
    let status = object.status.clone().unwrap_or_default();
    let replicas = object.spec.replicas;
    status.observed_generation == object.metadata.generation
        && ["Ready", "Quorate", "AllMembersReady"].iter().all(|type_| says(object, type_, "True"))
        && [status.replicas, status.ready_replicas, status.member_count] == [replicas; 3]
        && status.members.iter().all(|member| member.is_healthy && !member.is_learner)
        && status.current_version.as_ref() == Some(&object.spec.version)
}

/// Reports whether the condition of that type has that status.
fn says(object: &EtcdCluster, type_: &str, expected: &str) -> bool {
    describe(object, type_).is_some_and(|(status, ..)| status == expected)
}

/// A condition as (status, reason, message).
pub fn describe(object: &EtcdCluster, type_: &str) -> Option<(String, String, String)> {
    condition(&object.status.as_ref()?.conditions, type_)
}

/// Waits until the object is stalled; returns reason and message.
async fn stalls(scene: &Scene, what: &str) -> (String, String) {
    let current = |object: &EtcdCluster| {
        let seen = object.status.as_ref().and_then(|status| status.observed_generation);
        seen == object.metadata.generation && says(object, "Stalled", "True")
    };
    let object = becomes(scene, what, current).await;
    describe(&object, "Stalled").map(|(_, reason, message)| (reason, message)).unwrap_or_default()
}

/// Lists the members' pods.
pub async fn pods(scene: &Scene) -> Vec<Pod> {
    scene.api::<Pod>().list(&ours()).await.expect("pods").items
}

/// The members' volume claims by name, with their uids.
pub async fn claims(scene: &Scene) -> BTreeMap<String, String> {
    let list = scene.api::<PersistentVolumeClaim>().list(&ours()).await.expect("claims").items;
    list.into_iter().map(|claim| (claim.name_any(), claim.uid().unwrap_or_default())).collect()
}

/// The pods' uids by name.
pub async fn uids(scene: &Scene) -> BTreeMap<String, String> {
    pods(scene).await.into_iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect()
}

/// Selects the objects of the cluster.
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

/// The name of the member with that ordinal.
fn member(ordinal: usize) -> String {
    format!("{NAME}-{ordinal}")
}

/// The name of a member's claim.
fn claim_of(pod: &str) -> String {
    format!("data-{pod}")
}

/// Prints how long something took.
fn took(what: &str, begun: Instant) {
    println!("» {what} after {:.1} s", begun.elapsed().as_secs_f64());
}
