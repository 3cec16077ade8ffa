//! A deleted cluster keeps its volumes, unless its spec says otherwise.

use std::time::Instant;

use causeway_api::EtcdCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::checker::Checker;
use super::{NAME, Stage, WAIT_TIMEOUT, claims, pods, running, settled, spec, took};
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

async fn delete_all(scene: &Scene) {
    scene.delete::<EtcdCluster>(NAME).await;
    scene.gone::<EtcdCluster>(NAME).await;
    scene.gone::<StatefulSet>(NAME).await;
    scene.gone::<Service>(NAME).await;
    wait_within(WAIT_TIMEOUT, "all pods to be gone", || pods(scene), Vec::is_empty).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_made_again_finds_its_data() {
    let scene = Stage::new("etcd-deletion").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let volumes = claims(&scene).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    delete_all(&scene).await;
    assert_eq!(claims(&scene).await, volumes, "the volumes stay");
    let begun = Instant::now();
    running(&scene, spec(3)).await;
    took("a cluster made again serves", begun);
    assert_eq!(claims(&scene).await, volumes, "the volumes are the same");
    checker.goes_on("the cluster made again").await;
    checker.finish(&scene, "deleted and made again").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_made_again_with_fewer_members_finds_its_data() {
    let scene = Stage::new("etcd-deletion").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    delete_all(&scene).await;
    running(&scene, spec(1)).await;
    checker.goes_on("the cluster made again").await;
    checker.finish(&scene, "deleted with three members and made again with one").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_go_where_that_was_asked_for() {
    let scene = Stage::new("etcd-deletion").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    assert_eq!(claims(&scene).await.len(), 3);
    scene.edit::<EtcdCluster>(NAME, json!({ "deletionPolicy": "Delete" })).await;
    settled(&scene, "the new policy").await;
    delete_all(&scene).await;
    wait_within(WAIT_TIMEOUT, "all volumes to be gone", || claims(&scene), std::collections::BTreeMap::is_empty).await;
}
