//! A set as its users see it when it is new.

use std::time::Instant;

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use super::checker::{Checker, Promise, open};
use super::{NAME, Stage, becomes, describe, is_suspended, nodes, running, settled, spec, took};
use crate::support::wait::wait_for;
use crate::support::{Operator, Scene};

/// A connection through a Service, as soon as the node's proxy knows its endpoints.
async fn through(scene: &Scene, name: &str) -> MultiplexedConnection {
    let service = scene.api::<Service>().get(name).await.expect("the Service");
    let address = format!("{}:6379", service.spec.and_then(|spec| spec.cluster_ip).expect("an address"));
    let what = format!("the Service {name} to lead to a node");
    wait_for(&what, || open(&address, None), Result::is_ok).await.expect("just seen")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_minimal_manifest_becomes_a_master_and_three_replicas() {
    let scene = Stage::new("redis-creation").await;
    scene.admits_restricted_pods_only().await;
    let _operator = Operator::start(&scene).await;
    let manifest: Value = serde_saphyr::from_str(include_str!("../../../examples/redis.yaml")).expect("YAML");
    assert_eq!((&manifest["metadata"]["name"], &manifest["spec"]), (&json!(NAME), &json!({ "replicas": 3 })));

    let begun = Instant::now();
    let object = running(&scene, manifest["spec"].clone()).await;
    took("a master and three replicas", begun);
    let status = object.status.expect("a status");
    assert!(status.master.is_some_and(|name| name.starts_with("cache-")));
    assert_eq!(status.ready_replicas, 3);
    assert_eq!(status.version.as_deref(), Some("7.0.15"));
    let host = format!("{NAME}.{}.svc", scene.namespace);
    let connection = status.connection.expect("a connection");
    assert!(connection.host.starts_with(&host) && connection.port == 6379, "{connection:?}");

    let mut master = through(&scene, NAME).await;
    let replicas: (String, usize) = redis::pipe()
        .cmd("SET")
        .arg("key")
        .arg("value")
        .cmd("WAIT")
        .arg(3)
        .arg(10_000)
        .query_async(&mut master)
        .await
        .unwrap();
    assert_eq!(replicas, ("OK".to_owned(), 3));
    let mut replica = through(&scene, "cache-replicas").await;
    let read: String = redis::cmd("GET").arg("key").query_async(&mut replica).await.unwrap();
    assert_eq!(read, "value");
    let refused = redis::cmd("SET").arg("key").arg("other").query_async::<String>(&mut replica).await.unwrap_err();
    assert_eq!(refused.code(), Some("READONLY"), "{refused}");
    readers_are_led_to_replicas_near_them(&scene).await;
}

/// The hints of all replicas behind their Service: zones, and nodes.
async fn hints(scene: &Scene) -> Vec<(Vec<String>, Vec<String>)> {
    let of_service = ListParams::default().labels("kubernetes.io/service-name=cache-replicas");
    let slices = scene.api::<EndpointSlice>().list(&of_service).await.expect("slices").items;
    let hints = slices.into_iter().flat_map(|slice| slice.endpoints).map(|endpoint| endpoint.hints.unwrap_or_default());
    hints
        .map(|it| {
            let zones = it.for_zones.unwrap_or_default().into_iter().map(|zone| zone.name).collect();
            (zones, it.for_nodes.unwrap_or_default().into_iter().map(|node| node.name).collect())
        })
        .collect()
}

async fn readers_are_led_to_replicas_near_them(scene: &Scene) {
    let prefers = |near: Value| json!({ "replicaService": { "trafficDistribution": near } });
    scene.edit::<Redis>(NAME, prefers(json!("PreferSameNode"))).await;
    let node = Api::<Node>::all(scene.client.clone()).get("node-1").await.expect("the node");
    let zone = node.labels().get("topology.kubernetes.io/zone").cloned().expect("a zone");
    let near = (vec![zone], vec!["node-1".to_owned()]);
    let look = || hints(scene);
    wait_for("all replicas to have hints", look, |all| all.len() == 3 && all.iter().all(|it| *it == near)).await;
    let mut replica = through(scene, "cache-replicas").await;
    let read: String = redis::cmd("GET").arg("key").query_async(&mut replica).await.unwrap();
    assert_eq!(read, "value");
    scene.edit::<Redis>(NAME, prefers(Value::Null)).await;
    let no = (Vec::new(), Vec::new());
    wait_for("no replica to have hints", look, |all| all.len() == 3 && all.iter().all(|it| *it == no)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_without_replicas_serves_and_keeps_its_data() {
    let scene = Stage::new("redis-creation").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(0);
    // Otherwise a write may be acknowledged before it is in the file, and no replica has it.
    wanted["config"] = json!({ "appendfsync": "always" });
    running(&scene, wanted).await;
    let checker = Checker::start_without_replicas(&scene).await;
    checker.writes(100).await;
    checker.event("the only process killed");
    super::faults::kill(&scene, "cache-0").await;
    checker.goes_on("the only process killed").await;
    settled(&scene, "the master again").await;
    checker.finish("a master without replicas is killed", Promise::Everything).await;
}

/// Only the kubelet can notice that the process hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_single_master_is_restarted() {
    let scene = Stage::new("redis-creation").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(0)).await;
    let checker = Checker::start_without_replicas(&scene).await;
    checker.writes(100).await;
    checker.event("the only process hangs");
    let _stopped = super::faults::Stopped::new(&scene, "cache-0").await;
    let is_reported = |object: &Redis| {
        describe(object, "Ready").is_some_and(|(status, reason, message)| {
            status == "False"
                && reason == "MasterSilent"
                && message.contains("cache-0 on node")
                && message.contains("kubelet")
        })
    };
    becomes(&scene, "MasterSilent to be reported", is_reported).await;
    settled(&scene, "the master again").await;
    checker.goes_on("the restarted process").await;
    checker.finish("a master without replicas hangs", Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_set_is_left_alone() {
    let scene = Stage::new("redis-creation").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    scene.edit::<Redis>(NAME, json!({ "suspend": true })).await;
    becomes(&scene, "the suspension to be reported", is_suspended).await;
    scene.edit::<Redis>(NAME, json!({ "replicas": 2 })).await;
    let before = nodes::all(&scene, None).await;
    assert_eq!(before.len(), 2);
    scene.edit::<Redis>(NAME, json!({ "suspend": false })).await;
    settled(&scene, "the second replica").await;
}
