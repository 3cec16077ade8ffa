//! Pods that die, are deleted, evicted or finished return; a deleted app leaves none.

use std::fs;
use std::process::Command;
use std::time::Instant;

use causeway_api::MyApp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use serde_json::json;

use super::{IMAGE, event, is_ready, names, pods, ready_says, running, settled, successor, uids};
use crate::support::{Operator, Scene, wait_for};

#[tokio::test]
async fn pods_are_named_after_the_app_and_belong_to_it() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    let app = running(&scene, "example-app", pods(3)).await;
    assert_eq!(names(&scene).await, ["example-app-pod", "example-app-pod-1", "example-app-pod-2"]);
    for pod in scene.pods().await {
        let owner = &pod.owner_references()[0];
        assert_eq!((owner.kind.as_str(), &owner.uid, owner.controller), ("MyApp", &app.uid().unwrap(), Some(true)));
    }
    let status = app.status.unwrap();
    assert_eq!((status.replicas, status.ready_replicas, status.updated_replicas), (3, 3, 3));
}

#[tokio::test]
async fn a_deleted_pod_returns() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(2)).await;
    let before = uids(&scene).await;
    scene.delete::<Pod>("app-pod").await;
    successor(&scene, "app-pod", &before["app-pod"]).await;
    settled(&scene, "app", "both pods to be ready again").await;
    assert_eq!(uids(&scene).await["app-pod-1"], before["app-pod-1"], "the other pod stays");
}

#[tokio::test]
async fn a_pod_deleted_without_grace_returns() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(1)).await;
    let before = uids(&scene).await;
    let at_once = DeleteParams::default().grace_period(0);
    scene.api::<Pod>().delete("app-pod", &at_once).await.expect("the deletion is accepted");
    successor(&scene, "app-pod", &before["app-pod"]).await;
}

#[tokio::test]
async fn an_evicted_pod_returns() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(1)).await;
    let before = uids(&scene).await;
    scene.api::<Pod>().evict("app-pod", &EvictParams::default()).await.expect("the eviction is accepted");
    successor(&scene, "app-pod", &before["app-pod"]).await;
}

#[tokio::test]
async fn a_killed_pod_returns() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", json!({ "image": IMAGE, "banner": scene.namespace })).await;
    let process = process(&scene, "/bin/sh").await;
    let killed = Command::new("kill").args(["-KILL", &process]).status().expect("kill runs");
    assert!(killed.success());
    let api = scene.api::<Pod>();
    let restarted = |pod: &Pod| {
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        containers.map(|container| container.restart_count).sum::<i32>() == 1 && is_ready(pod)
    };
    wait_for("the killed container to run again", || async { api.get("app-pod").await.expect("the pod") }, restarted)
        .await;
    settled(&scene, "app", "the app to be ready again").await;
}

/// Waits for a program in the pod whose banner is the name of its namespace; returns the number of its process. A pod
/// is ready as soon as its container runs, before its shell does.
async fn process(scene: &Scene, program: &str) -> String {
    let variable = format!("BANNER={}", scene.namespace);
    let look = || async { process_with(&variable, program) };
    wait_for(&format!("{program} to run in the pod"), look, Option::is_some).await.expect("just seen")
}

/// The first process of that program that has this in its environment. The cluster's containers are processes of this
/// machine.
fn process_with(variable: &str, program: &str) -> Option<String> {
    let found = fs::read_dir("/proc").expect("/proc").filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.parse::<u32>().ok()?;
        let environment = fs::read(format!("/proc/{name}/environ")).ok()?;
        let runs_it = fs::read(format!("/proc/{name}/cmdline")).ok()?.starts_with(program.as_bytes());
        let has_it = environment.split(|byte| *byte == 0).any(|it| it == variable.as_bytes());
        (has_it && runs_it).then_some(name)
    });
    found.min_by_key(|pid| pid.parse::<u32>().ok())
}

#[tokio::test]
async fn a_finished_pod_is_replaced() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(1)).await;
    let before = uids(&scene).await;
    // The kubelet ends a pod for good when its deadline has passed: its phase is Failed then.
    let deadline = Patch::Merge(json!({ "spec": { "activeDeadlineSeconds": 1 } }));
    scene.api::<Pod>().patch("app-pod", &PatchParams::default(), &deadline).await.expect("the deadline is accepted");
    successor(&scene, "app-pod", &before["app-pod"]).await;
    scene.has_event("app", "Deleted", "it ended").await;
}

#[tokio::test]
async fn a_pod_stops_by_itself() {
    let scene = Scene::new("pods").await;
    let operator = Operator::start(&scene).await;
    running(&scene, "app", json!({ "image": IMAGE, "banner": scene.namespace })).await;
    // The shell heeds signals once it waits for this.
    process(&scene, "sleep").await;
    // No operator is to create the next pod meanwhile, and a finalizer keeps this pod for a last look.
    operator.stop().await;
    hold(&scene, "app-pod", json!(["example.com/hold"])).await;
    let begun = Instant::now();
    // A busy machine may not let it run within its own two seconds.
    let patient = DeleteParams::default().grace_period(60);
    scene.api::<Pod>().delete("app-pod", &patient).await.expect("the deletion is accepted");
    let exit_code = |pod: &Pod| {
        let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        containers.find_map(|it| Some(it.state.as_ref()?.terminated.as_ref()?.exit_code))
    };
    let look = || async { scene.api::<Pod>().get("app-pod").await.expect("the pod") };
    let pod = wait_for("the container to stop", look, |pod| exit_code(pod).is_some()).await;
    let took = begun.elapsed();
    println!("» a pod has stopped {} ms after its deletion", took.as_millis());
    hold(&scene, "app-pod", json!([])).await;
    assert_eq!(exit_code(&pod), Some(0), "otherwise it would have been killed after a minute");
}

async fn hold(scene: &Scene, pod: &str, finalizers: serde_json::Value) {
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    scene.api::<Pod>().patch(pod, &PatchParams::default(), &patch).await.expect("the finalizers are accepted");
}

#[tokio::test]
async fn a_deleted_app_takes_its_pods_along() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(2)).await;
    scene.delete::<MyApp>("app").await;
    wait_for("the pods to be gone", || scene.pods(), Vec::is_empty).await;
    scene.gone::<MyApp>("app").await;
}

#[tokio::test]
async fn a_namespace_that_enforces_restricted_pod_security_accepts_the_pods() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    scene.admits_restricted_pods_only().await;
    running(&scene, "app", pods(1)).await;
}

#[tokio::test]
async fn a_foreign_pod_of_the_name_is_reported_and_kept() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    let foreign: Pod = serde_json::from_value(json!({
        "metadata": { "name": "app-pod" },
        "spec": { "containers": [{ "name": "foreign", "image": IMAGE, "command": ["sleep", "3600"] }], "terminationGracePeriodSeconds": 0 },
    }))
    .unwrap();
    let foreign = scene.api::<Pod>().create(&kube::api::PostParams::default(), &foreign).await.expect("a foreign pod");
    scene.create::<MyApp>("app", pods(1)).await;
    let message = ready_says(&scene, "app", "NameTaken").await;
    assert!(message.contains("app-pod") && message.contains("delete that pod"), "{message}");
    assert_eq!(event(&scene, "app", "NameTaken").await, message);
    let now = scene.api::<Pod>().get("app-pod").await.expect("the foreign pod");
    assert_eq!(
        (now.uid(), now.labels(), &now.spec.as_ref().unwrap().containers.len()),
        (foreign.uid(), foreign.labels(), &1)
    );
    assert!(now.metadata.deletion_timestamp.is_none() && now.owner_references().is_empty());
    scene.delete::<Pod>("app-pod").await;
    settled(&scene, "app", "its own pod after the foreign one has gone").await;
}

#[tokio::test]
async fn a_command_that_fails_is_told() {
    let scene = Scene::new("pods").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyApp>("app", json!({ "image": IMAGE, "command": ["false"] })).await;
    let message = ready_says(&scene, "app", "PodsCrashing").await;
    assert!(message.contains("spec.command") && message.contains("app-pod"), "{message}");
}
