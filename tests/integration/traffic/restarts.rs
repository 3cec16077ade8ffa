//! The operator is killed and comes back while everything behind the balancer changes.

use std::collections::BTreeSet;
use std::time::Instant;

use super::balanced;
use super::entrance::{self, Stage};
use super::load::Load;
use super::servers::{self, Servers};
use crate::support::{Operator, wait_for};

#[tokio::test]
async fn no_client_notices_that_the_operator_was_away() {
    let scene = Stage::new("restart").await;
    let operator = Operator::start(&scene).await;
    let mut servers = Servers::gated("web", 3);
    let entrance = balanced(&scene, &servers).await;
    let load = Load::start(&entrance, &["/"]);
    let before = entrance::registered(&scene, "web").await;

    // As with a kill, the operator finishes nothing.
    drop(operator);
    servers.version += 1;
    servers.apply(&scene).await;
    let able = |pods: &Vec<k8s_openapi::api::core::v1::Pod>| {
        pods.iter().filter(|pod| servers::is(pod, "ContainersReady")).count() == 6
    };
    wait_for("three new pods that wait at the gate", || servers.pods(&scene), able).await;
    load.wait_until("requests that are answered meanwhile", |exchanges| exchanges.len() > 100).await;
    assert_eq!(entrance::registered(&scene, "web").await, before, "targets stay while the operator is away");
    let all: BTreeSet<String> =
        servers.pods(&scene).await.iter().filter_map(servers::address).map(|it| format!("{it}:8080")).collect();

    let begun = Instant::now();
    let _operator = Operator::start(&scene).await;
    let look = || entrance::registered(&scene, "web");
    wait_for("the new pods to be targets", look, |targets| targets.is_superset(&(&all - &before))).await;
    let right = begun.elapsed();
    servers.settle(&scene).await;
    entrance::serving(&scene, "web", 3).await;
    load.wait_until("answers of the new pods alone", |exchanges| {
        exchanges.len() > 50 && servers::by_pod(exchanges).len() == 3
    })
    .await;
    let record = load.stop();
    record.print("a roll-out while the operator is away");
    println!("»   targets right {} ms after its return", right.as_millis());
    record.assert_no_failures();
}
