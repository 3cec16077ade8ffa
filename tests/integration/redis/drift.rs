//! Children that a user changed or deleted are restored, and clients that write do not notice.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::checker::{Checker, Promise};
use super::{LABEL, NAME, ROLE_LABEL, Stage, nodes, patient, running, settled, uids};
use crate::support::{Operator, Scene, wait_for};

/// Changes a child and waits until it is as before.
async fn repaired<K>(scene: &Scene, name: &str, change: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api = scene.api::<K>();
    let content = |object: &K| {
        let whole = serde_json::to_value(object).expect("JSON");
        let metadata = &whole["metadata"];
        json!([whole["spec"], whole["data"], whole["endpoints"], metadata["labels"], metadata["ownerReferences"]])
    };
    let before = api.get(name).await.expect("the child");
    let changed =
        api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.expect("the change is accepted");
    assert_ne!(content(&changed), content(&before), "{name}: {change} changes something");
    let what = format!("{} {name} to be as before after {change}", K::kind(&()));
    let look = || async { content(&api.get(name).await.expect("the child")) };
    wait_for(&what, look, |now| *now == content(&before)).await;
}

/// Deletes a child and waits until another one is there.
async fn returned<K>(scene: &Scene, name: &str, parameters: &DeleteParams)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api = scene.api::<K>();
    let before = api.get(name).await.expect("the child").uid();
    api.delete(name, parameters).await.expect("the deletion is accepted");
    let look = || async { api.get_opt(name).await.expect("an answer").and_then(|child| child.uid()) };
    let what = format!("another {} {name}", K::kind(&()));
    wait_for(&what, look, |now| now.is_some() && *now != before).await;
}

/// Changes the settings that new processes of a pod start with, and waits until they are as before.
async fn settings_return(scene: &Scene, pod: &str, change: Value) {
    let api = scene.api::<Pod>();
    let look = || async { api.get(pod).await.expect("the pod").annotations().get(CONF).cloned() };
    let before = look().await;
    assert!(before.as_ref().is_some_and(|file| file.contains("appendonly")), "{before:?}");
    let change = json!({ "metadata": { "annotations": { (CONF): change } } });
    api.patch(pod, &PatchParams::default(), &Patch::Merge(&change)).await.expect("the change is accepted");
    wait_for(&format!("the settings of {pod} to be as before"), look, |now| *now == before).await;
}

/// The annotation of pods with the settings that new processes start with.
const CONF: &str = "causeway.example.com/redis-conf";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_children_are_repaired() {
    let scene = Stage::new("redis-drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    repaired::<Service>(&scene, NAME, json!({ "spec": { "selector": { (ROLE_LABEL): "replica" } } })).await;
    repaired::<Service>(&scene, NAME, json!({ "metadata": { "labels": { (LABEL): "other" } } })).await;
    repaired::<Service>(&scene, "cache-replicas", json!({ "spec": { "selector": { "app": "other" } } })).await;
    repaired::<Service>(&scene, "cache-peers", json!({ "spec": { "publishNotReadyAddresses": false } })).await;
    repaired::<EndpointSlice>(&scene, "cache-ipv4", json!({ "endpoints": [] })).await;
    repaired::<EndpointSlice>(&scene, "cache-ipv4", json!({ "metadata": { "labels": { (LABEL): null } } })).await;
    repaired::<EndpointSlice>(&scene, "cache-replicas-ipv4", json!({ "endpoints": [] })).await;
    repaired::<PodDisruptionBudget>(&scene, NAME, json!({ "spec": { "maxUnavailable": 3 } })).await;
    repaired::<StatefulSet>(&scene, NAME, json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } })).await;
    repaired::<StatefulSet>(&scene, NAME, json!({ "spec": { "replicas": 3 } })).await;
    settings_return(&scene, "cache-0", json!("save 1 1")).await;
    settings_return(&scene, "cache-1", json!(null)).await;
    settled(&scene, "all as before").await;
    let after = uids(&scene).await;
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    checker.goes_on("all as before").await;
    checker.finish("children changed by hand", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_children_return() {
    let scene = Stage::new("redis-drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    let usual = DeleteParams::default();
    returned::<Service>(&scene, NAME, &usual).await;
    returned::<Service>(&scene, "cache-replicas", &usual).await;
    returned::<Service>(&scene, "cache-peers", &usual).await;
    returned::<EndpointSlice>(&scene, "cache-ipv4", &usual).await;
    returned::<EndpointSlice>(&scene, "cache-replicas-ipv4", &usual).await;
    returned::<PodDisruptionBudget>(&scene, NAME, &usual).await;
    returned::<StatefulSet>(&scene, NAME, &DeleteParams::orphan()).await;
    settled(&scene, "all children again").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    checker.goes_on("all children again").await;
    checker.finish("children deleted", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_stateful_set_returns_with_all_data() {
    let scene = Stage::new("redis-drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    checker.event("the StatefulSet deleted with its pods");
    returned::<StatefulSet>(&scene, NAME, &DeleteParams::background()).await;
    settled(&scene, "all nodes again").await;
    checker.goes_on("all nodes again").await;
    checker.finish("a StatefulSet deleted with its pods", Promise::Everything).await;
}

/// Redis returns all three limits together. Another setting that is changed by hand shows that the values were compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_redis_writes_differently_is_no_drift() {
    let scene = Stage::new("redis-drift").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(1);
    wanted["config"] = json!({ "client-output-buffer-limit": "replica 4mb 4mb 0", "maxmemory": "100mb" });
    running(&scene, wanted).await;
    let before = uids(&scene).await;
    for _ in 0..3 {
        let name = super::master(&scene).await;
        nodes::tell(&scene, &name, &["CONFIG", "SET", "maxmemory", "1gb"]).await;
        let look = || async { nodes::setting(&scene, &name, "maxmemory").await };
        wait_for("maxmemory to be as in the spec", look, |value| value == "104857600").await;
    }
    scene.has_event(NAME, "DriftRepaired", "maxmemory").await;
    let events = scene.events(NAME).await;
    let told: Vec<_> = events.iter().filter(|(_, note)| note.contains("client-output-buffer-limit")).collect();
    assert!(told.is_empty(), "{told:?}");
    let limit = nodes::setting(&scene, &super::master(&scene).await, "client-output-buffer-limit").await;
    assert!(limit.contains("slave 4194304 4194304 0") || limit.contains("replica 4194304 4194304 0"), "{limit}");
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
}
