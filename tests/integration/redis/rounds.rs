//! Masters that lose their data, die and are back at once, over and over: no replica is ever emptied by one.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;

use super::checker::{Checker, Promise};
use super::faults::{kill, wipe};
use super::{Stage, master, nodes, patient, running, settled, succeeded, successor, uids};
use crate::support::{Operator, is_thorough};

/// For so long, new rounds begin. A thorough run has more of them: [`ROUNDS`].
const SPAN: Duration = Duration::from_secs(30);
/// Rounds of a thorough run.
const ROUNDS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_killed_and_back_at_once_wipe_no_replica() {
    let scene = Stage::new("redis-rounds").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(300).await;
    let begun = Instant::now();
    let mut rounds = 0;
    let mut killed = std::collections::BTreeSet::new();
    while if is_thorough() { rounds < ROUNDS } else { begun.elapsed() < SPAN } {
        let (name, before) = (master(&scene).await, uids(&scene).await);
        // A replica may lag: none is to have fewer than the one with the fewest has now.
        let keys = nodes::fewest_keys(&scene).await;
        checker.event("the master wiped and killed");
        wipe(&scene, &name).await;
        // The kubelet delays the restart of a container that was killed before, but not the start of a new pod.
        if killed.insert(before[&name].clone()) {
            kill(&scene, &name).await;
            succeeded(&scene, &name).await;
        } else {
            let at_once = DeleteParams::default().grace_period(0);
            scene.api::<Pod>().delete(&name, &at_once).await.expect("the deletion is accepted");
            succeeded(&scene, &name).await;
            successor(&scene, &name, &before[&name]).await;
        }
        settled(&scene, "all nodes again").await;
        rounds += 1;
        for (name, node) in nodes::every(&scene).await {
            assert!(node.keys >= keys, "round {rounds}: {name} has {} keys of {keys}", node.keys);
        }
    }
    checker.goes_on("the last round").await;
    checker.finish(&format!("{rounds} masters wiped, killed and back at once"), Promise::WhatWasReplicated).await;
}
