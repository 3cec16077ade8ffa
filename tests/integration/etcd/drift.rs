//! Children that a user changed or deleted are restored, and clients that write do not notice.

use std::time::Duration;

use causeway_api::EtcdClusterStatus;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::checker::Checker;
use super::{NAME, Stage, running, settled, spec, uids};
use crate::support::{Operator, Scene, wait_for};

/// An election on a busy machine explains a gap between writes of all clients up to this.
const UNNOTICED: Duration = Duration::from_mins(1);

/// Changes a child and waits until it is as before.
async fn repaired<K>(scene: &Scene, name: &str, change: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    let api = scene.api::<K>();
    let content = |object: &K| {
        let whole = serde_json::to_value(object).expect("JSON");
        json!([whole["spec"], whole["data"], whole["metadata"]["labels"], whole["metadata"]["ownerReferences"]])
    };
    let before = api.get(name).await.expect("the child");
    let changed =
        api.patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.expect("the change is accepted");
    assert_ne!(content(&changed), content(&before), "{name}: {change} changes something");
    let what = format!("{} {name} to be as before after {change}", K::kind(&()));
    wait_for(&what, || async { content(&api.get(name).await.expect("the child")) }, |now| *now == content(&before))
        .await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_children_are_repaired() {
    let scene = Stage::new("etcd-drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    repaired::<Service>(
        &scene,
        NAME,
        json!({ "spec": { "ports": [{ "name": "client", "port": 2379, "targetPort": 80 }] } }),
    )
    .await;
    repaired::<Service>(&scene, NAME, json!({ "spec": { "selector": { (super::LABEL): "other" } } })).await;
    repaired::<Service>(&scene, "db-peers", json!({ "spec": { "publishNotReadyAddresses": false } })).await;
    repaired::<Service>(&scene, NAME, json!({ "metadata": { "labels": { (super::LABEL): "other" } } })).await;
    repaired::<ConfigMap>(&scene, NAME, json!({ "data": { "ETCD_DATA_DIR": "/tmp" } })).await;
    repaired::<PodDisruptionBudget>(&scene, NAME, json!({ "spec": { "maxUnavailable": 3 } })).await;
    repaired::<StatefulSet>(&scene, NAME, json!({ "spec": { "updateStrategy": { "type": "RollingUpdate" } } })).await;
    repaired::<StatefulSet>(&scene, NAME, json!({ "spec": { "replicas": 4 } })).await;
    settled(&scene, "all as before").await;
    let after = uids(&scene).await;
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    checker.goes_on("all as before").await;
    let report = checker.finish(&scene, "children changed by hand").await;
    assert!(report.longest_gap < UNNOTICED, "{:?}", report.longest_gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_added_setting_reaches_no_member() {
    let scene = Stage::new("etcd-drift").await;
    let _operator = Operator::start(&scene).await;
    let before = running(&scene, spec(3)).await.status.expect("a status");
    let checker = Checker::start(&scene).await;
    // A member that applied this setting would begin a new cluster, without the others.
    let change = json!({ "data": { "ETCD_FORCE_NEW_CLUSTER": "true" } });
    let settings = scene.api::<ConfigMap>();
    settings.patch(NAME, &PatchParams::default(), &Patch::Merge(&change)).await.expect("the change is accepted");
    let old = scene.api::<Pod>().get("db-1").await.expect("the pod").uid();
    scene.api::<Pod>().delete("db-1", &DeleteParams::default()).await.expect("the deletion is accepted");
    let look = || async { scene.api::<Pod>().get_opt("db-1").await.expect("an answer").and_then(|pod| pod.uid()) };
    wait_for("another pod db-1", look, |now| now.is_some() && *now != old).await;
    let after = settled(&scene, "all members again").await.status.expect("a status");
    let ids = |status: EtcdClusterStatus| status.members.into_iter().map(|member| member.id).collect::<Vec<_>>();
    assert_eq!(ids(after), ids(before));
    checker.finish(&scene, "a setting added by hand").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_children_return() {
    let scene = Stage::new("etcd-drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    let usual = DeleteParams::default();
    returned::<Service>(&scene, NAME, &usual).await;
    returned::<Service>(&scene, "db-peers", &usual).await;
    returned::<ConfigMap>(&scene, NAME, &usual).await;
    returned::<PodDisruptionBudget>(&scene, NAME, &usual).await;
    returned::<StatefulSet>(&scene, NAME, &DeleteParams::orphan()).await;
    settled(&scene, "all children again").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    checker.goes_on("all children again").await;
    let report = checker.finish(&scene, "children deleted").await;
    assert!(report.longest_gap < UNNOTICED, "{:?}", report.longest_gap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_stateful_set_returns_with_all_data() {
    let scene = Stage::new("etcd-drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    returned::<StatefulSet>(&scene, NAME, &DeleteParams::background()).await;
    settled(&scene, "all members again").await;
    checker.goes_on("all members again").await;
    checker.finish(&scene, "a StatefulSet deleted with its pods").await;
}
