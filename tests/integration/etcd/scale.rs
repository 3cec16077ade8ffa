//! Members are added and removed while clients write.

use std::time::Instant;

use causeway_api::EtcdCluster;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::checker::Checker;
use super::{NAME, Stage, becomes, claims, running, settled, spec, took, uids};
use crate::support::Operator;
use crate::support::wait::wait_within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaling_to_five_and_to_one_loses_nothing() {
    let scene = Stage::new("etcd-scale").await;
    let _operator = Operator::start(&scene).await;
    let begun = Instant::now();
    running(&scene, spec(1)).await;
    took("1 new member", begun);
    let first = uids(&scene).await;
    let checker = Checker::start(&scene).await;
    for replicas in [3_usize, 5, 3, 1] {
        let begun = Instant::now();
        scene.edit::<EtcdCluster>(NAME, json!({ "replicas": replicas })).await;
        settled(&scene, &format!("{replicas} members")).await;
        took(&format!("{replicas} members"), begun);
        // Volumes of members that were removed must never come back as they are.
        wait_within(super::WAIT_TIMEOUT, "their volumes only", || claims(&scene), |claims| claims.len() == replicas)
            .await;
        checker.goes_on(&format!("{replicas} members")).await;
    }
    assert_eq!(uids(&scene).await, first, "the first member was left alone");
    checker.finish(&scene, "1 → 3 → 5 → 3 → 1 members").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_leads_no_more_before_it_is_removed() {
    let scene = Stage::new("etcd-scale").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    super::bystander::lead(&scene, "db-2").await;
    let checker = Checker::start(&scene).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "replicas": 1 })).await;
    settled(&scene, "one member").await;
    checker.finish(&scene, "3 → 1 members, the first to go leads").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_in_the_middle_of_growing_is_followed() {
    let scene = Stage::new("etcd-scale").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    let checker = Checker::start(&scene).await;
    let patch = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    let scaled = scene.api::<EtcdCluster>().patch_scale(NAME, &PatchParams::default(), &patch).await;
    scaled.expect("the scale is accepted");
    let grown = |object: &EtcdCluster| object.status.as_ref().is_some_and(|status| status.member_count > 1);
    becomes(&scene, "the second member", grown).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "replicas": 1 })).await;
    settled(&scene, "one member").await;
    wait_within(super::WAIT_TIMEOUT, "one volume", || claims(&scene), |claims| claims.len() == 1).await;
    checker.finish(&scene, "1 → 5 members, changed to 1 on the way").await;
}
