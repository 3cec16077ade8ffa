//! Pods that end, fail or vanish: requests fail only until the balancer can know about it.

use std::collections::BTreeSet;
use std::time::Instant;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};

use super::balanced;
use super::entrance::{self, Stage};
use super::load::{Load, Record};
use super::servers::{self, Servers};
use crate::support::{Operator, Scene, wait_for};

/// The failed requests that were not under way at any time between `begun` and `over`.
fn failed_outside(record: &Record, begun: Instant, over: Instant) -> String {
    let outside: Vec<_> = record.failures().into_iter().filter(|it| it.over < begun || it.sent > over).collect();
    record.listed(&outside)
}

fn print_window(record: &Record, begun: Instant) {
    let failures = record.failures();
    let since = |at: Option<Instant>| at.map(|at| at.saturating_duration_since(begun).as_millis());
    let (first, last) = (failures.first().map(|it| it.sent), failures.iter().map(|it| it.over).max());
    println!("»   the first failed {:?} ms after that, the last was over after {:?} ms", since(first), since(last));
}

/// Waits until exactly the ready pods are targets in AWS, and the balancer has applied that.
async fn settled(scene: &Scene, servers: &Servers) {
    let look = || async { (entrance::registered(scene, "web").await, servers.ready_targets(scene).await) };
    wait_for("the targets to be the ready pods", look, |(registered, ready)| registered == ready).await;
    entrance::in_force(scene).await;
}

#[tokio::test]
async fn a_killed_pod_fails_requests_only_until_it_is_deregistered() {
    let scene = Stage::new("killed").await;
    let _operator = Operator::start(&scene).await;
    let servers = Servers::gated("web", 3);
    let entrance = balanced(&scene, &servers).await;
    let load = Load::start(&entrance, &["/"]);
    let pod = servers.pods(&scene).await.remove(0);
    let begun = Instant::now();
    let at_once = DeleteParams::default().grace_period(0);
    scene.api::<Pod>().delete(&pod.name_any(), &at_once).await.expect("the deletion is accepted");
    let address = servers::address(&pod).expect("an address");
    let look = || entrance::registered(&scene, "web");
    wait_for("the pod's target to leave", look, |targets| {
        targets.iter().all(|it| !it.starts_with(&format!("{address}:")))
    })
    .await;
    entrance::in_force(&scene).await;
    let deregistered = Instant::now();
    servers.settle(&scene).await;
    settled(&scene, &servers).await;
    let back = Instant::now();
    load.wait_until("answers of all three", |exchanges| servers::by_pod(exchanges).len() == 3).await;
    let record = load.stop();
    record.print("a pod is killed without grace");
    print_window(&record, begun);
    println!(
        "»   deregistered after {} ms, three again after {} ms",
        (deregistered - begun).as_millis(),
        (back - begun).as_millis()
    );
    assert_eq!(failed_outside(&record, begun, deregistered), "");
}

#[tokio::test]
async fn an_unready_pod_loses_no_request_and_returns() {
    let scene = Stage::new("unready").await;
    let _operator = Operator::start(&scene).await;
    let servers = Servers::gated("web", 3);
    let entrance = balanced(&scene, &servers).await;
    let load = Load::start(&entrance, &["/"]);
    let pod = servers.pods(&scene).await.remove(0);
    for ready in [false, true] {
        let begun = Instant::now();
        servers::set_ready(&pod, ready).await;
        let api = scene.api::<Pod>();
        let look = || async { api.get(&pod.name_any()).await.expect("the pod") };
        wait_for("the pod to notice", look, |pod| servers::is(pod, "Ready") == ready).await;
        settled(&scene, &servers).await;
        let wanted = if ready { 3 } else { 2 };
        load.wait_until("answers of those that are ready", |exchanges| {
            exchanges.len() > 20 && servers::by_pod(exchanges).len() == wanted
        })
        .await;
        println!("» {wanted} targets {} ms after the pod was made ready={ready}", begun.elapsed().as_millis());
    }
    let record = load.stop();
    record.print("a pod becomes unready and ready again");
    record.assert_no_failures();
}

#[tokio::test]
async fn all_pods_gone_and_back_fail_requests_only_in_between() {
    let scene = Stage::new("gone").await;
    let _operator = Operator::start(&scene).await;
    let mut servers = Servers::gated("web", 3);
    let entrance = balanced(&scene, &servers).await;
    let load = Load::start(&entrance, &["/"]);
    let begun = Instant::now();
    servers.replicas = 0;
    servers.settle(&scene).await;
    wait_for("no targets", || entrance::registered(&scene, "web"), BTreeSet::is_empty).await;
    entrance::in_force(&scene).await;
    load.wait_until("no server to answer", |exchanges| {
        exchanges.len() > 20 && exchanges.iter().all(|it| it.describe() == "503 No")
    })
    .await;
    let back = Instant::now();
    servers.replicas = 3;
    servers.settle(&scene).await;
    entrance::serving(&scene, "web", 3).await;
    let served = Instant::now();
    load.wait_until("answers of all three", |exchanges| servers::by_pod(exchanges).len() == 3).await;
    let record = load.stop();
    record.print("all pods gone and back");
    print_window(&record, begun);
    let recovered = record.failures().iter().map(|it| it.over).max().map(|last| (last - back).as_millis());
    println!("»   scaled up after {} ms; the last failed {recovered:?} ms after that", (back - begun).as_millis());
    assert_eq!(failed_outside(&record, begun, served), "");
}

#[tokio::test]
async fn endpoints_that_vanish_by_mistake_lose_no_request() {
    let scene = Stage::new("vanished").await;
    let _operator = Operator::start(&scene).await;
    let servers = Servers::gated("web", 3);
    let entrance = balanced(&scene, &servers).await;
    let load = Load::start(&entrance, &["/"]);
    scene.emulator.clear_journal().await;
    let slices = scene.api::<EndpointSlice>();
    slices.delete_collection(&DeleteParams::default(), &ListParams::default()).await.expect("the slices go");
    wait_for(
        "new slices",
        || async { slices.list(&ListParams::default()).await.expect("slices").items },
        |slices| slices.iter().any(|slice| slice.endpoints.len() == 3),
    )
    .await;
    scene.delete::<Service>("web").await;
    wait_for("no slices", || async { slices.list(&ListParams::default()).await.expect("slices").items }, Vec::is_empty)
        .await;
    servers.apply(&scene).await;
    entrance::serving(&scene, "web", 3).await;
    load.wait_until("answers of all three", |exchanges| servers::by_pod(exchanges).len() == 3).await;
    let record = load.stop();
    record.print("all slices and the Service are deleted, and return");
    record.assert_no_failures();
    let calls = scene.emulator.elb_operations().await;
    assert!(!calls.iter().any(|call| call == "DeregisterTargets"), "{calls:?}");
}
