//! A deleted set keeps its volumes, unless its spec says otherwise.

use std::collections::BTreeMap;
use std::time::Instant;

use causeway_api::Redis;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::checker::{Checker, Promise};
use super::{NAME, Stage, WAIT_TIMEOUT, claims, pods, running, settled, spec, took};
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

async fn delete_all(scene: &Scene) {
    scene.delete::<Redis>(NAME).await;
    scene.gone::<Redis>(NAME).await;
    scene.gone::<StatefulSet>(NAME).await;
    scene.gone::<Service>(NAME).await;
    wait_within(WAIT_TIMEOUT, "all pods to be gone", || pods(scene), Vec::is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_made_again_finds_its_data() {
    let scene = Stage::new("redis-deletion").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let volumes = claims(&scene).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    // With cache-2 as the master, only its volume is sure to have all data in the end. A new set would begin with
    // cache-0.
    super::switchover::switched(&scene, "cache-2").await;
    checker.writes(100).await;
    checker.event("deleted");
    delete_all(&scene).await;
    assert_eq!(claims(&scene).await, volumes, "the volumes stay");
    let begun = Instant::now();
    running(&scene, spec(2)).await;
    took("a set made again serves", begun);
    assert_eq!(claims(&scene).await, volumes, "the volumes are the same");
    checker.goes_on("the set made again").await;
    checker.finish("deleted and made again", Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_go_where_that_was_asked_for() {
    let scene = Stage::new("redis-deletion").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    assert_eq!(claims(&scene).await.len(), 2);
    scene.edit::<Redis>(NAME, json!({ "deletionPolicy": "Delete" })).await;
    settled(&scene, "the new policy").await;
    delete_all(&scene).await;
    wait_within(WAIT_TIMEOUT, "all volumes to be gone", || claims(&scene), BTreeMap::is_empty).await;
}
