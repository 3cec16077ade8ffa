//! Replicas are added and removed while clients write.

use std::time::Instant;

use causeway_api::Redis;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::checker::{Checker, Promise};
use super::switchover::switched;
use super::{NAME, Stage, becomes, claims, master, running, settled, spec, took};
use crate::support::Operator;
use crate::support::wait::wait_within;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_come_and_go_and_no_write_is_lost() {
    let scene = Stage::new("redis-scale").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    for replicas in [5_usize, 1, 3] {
        let begun = Instant::now();
        if replicas == 1 {
            // The master is among the nodes that are removed.
            checker.event("asked for cache-5");
            switched(&scene, "cache-5").await;
        }
        checker.event(&format!("{replicas} replicas"));
        scene.edit::<Redis>(NAME, json!({ "replicas": replicas, "switchover": null })).await;
        settled(&scene, &format!("{replicas} replicas")).await;
        took(&format!("{replicas} replicas"), begun);
        checker.goes_on(&format!("{replicas} replicas")).await;
    }
    assert!(["cache-0", "cache-1"].contains(&master(&scene).await.as_str()), "the master moved before its pod went");
    checker.finish("3 → 5 → 1 → 3 replicas", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_in_the_middle_of_growing_is_followed() {
    let scene = Stage::new("redis-scale").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(0)).await;
    let checker = Checker::start_without_replicas(&scene).await;
    let patch = Patch::Merge(json!({ "spec": { "replicas": 4 } }));
    let scaled = scene.api::<Redis>().patch_scale(NAME, &PatchParams::default(), &patch).await;
    scaled.expect("the scale is accepted");
    let grown = |object: &Redis| object.status.as_ref().is_some_and(|status| status.replicas > 0);
    becomes(&scene, "the first replica", grown).await;
    scene.edit::<Redis>(NAME, json!({ "replicas": 1 })).await;
    settled(&scene, "one replica").await;
    // Volumes of removed nodes hold old data: no later node is to find them.
    let few = |claims: &std::collections::BTreeMap<String, String>| claims.len() == 2;
    wait_within(super::WAIT_TIMEOUT, "the volumes of those that stay", || claims(&scene), few).await;
    checker.finish("0 → 4 replicas, changed to 1 on the way", Promise::Everything).await;
}
