//! A checker that never complains proves nothing: here it has to.

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::checker::{Checker, Promise, mixed};
use super::service::slices;
use super::{LABEL, NAME, ROLE_LABEL, Stage, nodes, pods};
use crate::history::judge::Verdict;
use crate::support::backends::apply_service;
use crate::support::rollout_watch::is_ready;
use crate::support::{Scene, wait_for};

/// A server without an operator. Its role decides whether it is behind the Service.
async fn server(scene: &Scene, name: &str, role: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { (LABEL): NAME, (ROLE_LABEL): role } },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "redis", "image": "redis:7.0.15",
                "args": ["--protected-mode", "no", "--save", "", "--repl-diskless-sync-delay", "0"],
            }],
        },
    });
    let parameters = PatchParams::apply("test");
    scene.api::<Pod>().patch(name, &parameters, &Patch::Apply(&object)).await.expect("the pod is accepted");
    let look = || async { scene.api::<Pod>().get(name).await.expect("the pod") };
    wait_for(&format!("{name} to be ready"), look, is_ready).await;
}

async fn label(scene: &Scene, name: &str, role: &str) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { (ROLE_LABEL): role } } }));
    scene.api::<Pod>().patch(name, &PatchParams::default(), &patch).await.expect("the label is accepted");
}

/// Waits until the Service leads to both servers.
async fn both_are_behind_the_service(scene: &Scene) {
    let pods = |slices: &Vec<(String, Vec<String>)>| slices.iter().map(|(_, pods)| pods.len()).sum::<usize>();
    wait_for("both pods to be behind the Service", || slices(scene, NAME), |slices| pods(slices) == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_masters_behind_the_service_and_lost_writes_are_noticed() {
    let scene = Stage::new("redis-proof").await;
    let selector = json!({ (LABEL): NAME, (ROLE_LABEL): "master" });
    apply_service(&scene, NAME, json!({ "selector": selector, "ports": [{ "name": "redis", "port": 6379 }] })).await;
    server(&scene, "cache-0", "master").await;
    server(&scene, "cache-1", "replica").await;
    assert_eq!(pods(&scene).await.len(), 2);
    let leader = nodes::answer(&scene, "cache-0").await.address;
    nodes::tell(&scene, "cache-1", &["REPLICAOF", &leader, "6379"]).await;

    // `FLUSHALL` removes all that a replica confirmed: the judge has to notice that.
    let shared = mixed::start(&scene);
    shared.calls(60).await;
    nodes::tell(&scene, "cache-0", &["FLUSHALL"]).await;
    shared.calls(60).await;
    let judgement = shared.judged("redis-flushed").await;
    assert_eq!(judgement.verdict, Verdict::Broken, "{}", judgement.summary());

    // A switch that is done wrong: both nodes take writes for a while, and then those of the old master are gone.
    let checker = Checker::start(&scene).await;
    checker.event("both are masters");
    nodes::tell(&scene, "cache-1", &["REPLICAOF", "NO", "ONE"]).await;
    label(&scene, "cache-1", "master").await;
    both_are_behind_the_service(&scene).await;
    checker.writes(200).await;
    label(&scene, "cache-0", "replica").await;
    let follower = nodes::answer(&scene, "cache-1").await.address;
    nodes::tell(&scene, "cache-0", &["REPLICAOF", &follower, "6379"]).await;
    checker.event("one is");
    checker.serves("one master", 2).await;
    let complaints = checker.complaints(Promise::Everything).await;
    let tells = |of: &str| complaints.iter().any(|complaint| complaint.contains(of));
    assert!(tells("long-lived") && tells("writable masters"), "{complaints:?}");

    let checker = Checker::start_without_replicas(&scene).await;
    nodes::tell(&scene, "cache-0", &["REPLICAOF", "NO", "ONE"]).await;
    label(&scene, "cache-0", "master").await;
    both_are_behind_the_service(&scene).await;
    checker.writes(200).await;
    label(&scene, "cache-0", "replica").await;
    let complaints = checker.complaints(Promise::Nothing).await;
    let expected = ["several writable masters behind the Service", "several pods bear the master's label"];
    assert!(complaints.len() == 2 && complaints.iter().zip(expected).all(|(it, of)| it.contains(of)), "{complaints:?}");
    scene.delete::<Service>(NAME).await;
}
