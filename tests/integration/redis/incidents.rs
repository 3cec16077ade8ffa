//! Incidents of users of other operators do not happen here. Each test is named after what must hold. Tests of other
//! incidents are beside tests of the same kind: failovers, losses, rollouts.

use causeway_api::Redis;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::checker::{Checker, Promise};
use super::faults::{Cut, Stopped, kill, wipe};
use super::switchover::switched;
use super::{NAME, ROLE_LABEL, Stage, becomes, master, nodes, patient, running, settled, spec, succeeded};
use crate::support::{Operator, Scene, wait_for};

/// How often all connections of a master are closed: some of them while the operator asks it for its state.
const TURNS: usize = 50;

/// OT-CONTAINER-KIT#1158.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_returning_master_does_not_overwrite_newer_data() {
    let scene = Stage::new("redis-incident").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    let old = master(&scene).await;
    checker.event("the master cut off");
    let cut = Cut::new(&scene, &old).await;
    let new = succeeded(&scene, &old).await;
    checker.goes_on("another master").await;
    checker.writes(200).await;
    let newer = nodes::answer(&scene, &new).await;
    // The old master returns while no operator is there to demote it. It is still a master if its process is still the
    // same.
    operator.stop().await;
    checker.event("the old master returns, and no operator is there");
    drop(cut);
    let look = || async { nodes::one(&scene, &old).await };
    wait_for("the old master to answer", look, Option::is_some).await;
    checker.writes(200).await;
    checker.event("the operator returns");
    let _operator = Operator::start(&scene).await;
    settled(&scene, "all nodes again").await;
    let now = nodes::answer(&scene, &old).await;
    assert_eq!((now.role.as_str(), &now.history), ("slave", &newer.history), "it has the newer data");
    checker.goes_on("all nodes again").await;
    checker.finish("a master returns to newer data", Promise::WhatWasReplicated).await;
}

/// OT-CONTAINER-KIT#1738.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_role_label_is_corrected() {
    let scene = Stage::new("redis-incident").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (master, replica) = (master(&scene).await, super::replicas(&scene).await.remove(0));
    for (pod, role) in [(&master, json!("replica")), (&replica, json!("master")), (&master, Value::Null)] {
        label(&scene, pod, role.clone()).await;
        let look = || async { scene.api::<Pod>().get(pod).await.expect("the pod").metadata.labels.unwrap_or_default() };
        let expected = if *pod == master { "master" } else { "replica" };
        let what = format!("{pod}, labelled {role}, to be labelled {expected} again");
        wait_for(&what, look, |labels| labels.get(ROLE_LABEL).is_some_and(|role| role == expected)).await;
    }
    let object = settled(&scene, "all as before").await;
    assert_eq!(object.status.map(|status| status.epoch), Some(1), "no other node took over");
}

async fn label(scene: &Scene, pod: &str, role: Value) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { (ROLE_LABEL): role } } }));
    scene.api::<Pod>().patch(pod, &PatchParams::default(), &patch).await.expect("the label is accepted");
}

/// OT-CONTAINER-KIT#1883: each reconcile forgot the master that the one before had chosen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constant_reconciles_do_not_move_the_master() {
    let scene = Stage::new("redis-incident").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let (name, checker) = (master(&scene).await, Checker::start(&scene).await);
    for turn in 0..30 {
        let change = json!({ "maxmemory": format!("{}mb", 200 + turn) });
        scene.edit::<Redis>(NAME, json!({ "config": change })).await;
        checker.writes(10).await;
    }
    let object = settled(&scene, "the last edit").await;
    let status = object.status.expect("a status");
    assert_eq!((status.epoch, status.master), (1, Some(name)));
    checker.finish("30 edits in a row", Promise::Everything).await;
}

/// The same incident left a set without a master for 23 hours. Here the only master is made a replica by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_does_not_stay_without_a_master() {
    let scene = Stage::new("redis-incident").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let checker = Checker::start(&scene).await;
    checker.event("the master made a replica by hand");
    nodes::tell(&scene, &master(&scene).await, &["REPLICAOF", "127.0.0.1", "1"]).await;
    checker.goes_on("a master again").await;
    settled(&scene, "all nodes again").await;
    // And the other way round: a replica that was made a second master is demoted again, and the Service never led to
    // it.
    let replica = super::replicas(&scene).await.remove(0);
    checker.event("a replica made a master by hand");
    nodes::tell(&scene, &replica, &["REPLICAOF", "NO", "ONE"]).await;
    settled(&scene, "one master again").await;
    checker.goes_on("one master again").await;
    checker.finish("roles changed by hand", Promise::WhatWasReplicated).await;
}

/// kubeblocks#10753: an emptied master was back within seconds, and all replicas copied its empty data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_reborn_empty_wipes_no_replica() {
    let scene = Stage::new("redis-incident").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(300).await;
    for _ in 0..2 {
        let name = master(&scene).await;
        // A replica may lag: none is to have fewer than the one with the fewest has now.
        let before = nodes::fewest_keys(&scene).await;
        checker.event("the master's volume wiped and its process killed");
        wipe(&scene, &name).await;
        kill(&scene, &name).await;
        succeeded(&scene, &name).await;
        settled(&scene, "all nodes again").await;
        for (name, node) in nodes::every(&scene).await {
            assert!(node.keys >= before, "{name} has {} keys of {before}", node.keys);
        }
        checker.goes_on("all nodes again").await;
    }
    checker.finish("2 masters reborn empty", Promise::WhatWasReplicated).await;
}

/// dragonfly-operator#324: clients got READONLY until a user restarted them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_demoted_master_are_not_stuck() {
    let scene = Stage::new("redis-incident").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let checker = Checker::start(&scene).await;
    checker.event("a planned switch");
    let second = super::replicas(&scene).await.remove(0);
    switched(&scene, &second).await;
    checker.goes_on("after a planned switch, those with kept connections too").await;
    checker.event("the master hangs");
    let stopped = Stopped::new(&scene, &second).await;
    let third = succeeded(&scene, &second).await;
    checker.event("it wakes up");
    drop(stopped);
    settled(&scene, "all nodes again").await;
    assert_ne!(third, second);
    checker.goes_on("after a failover, those with kept connections too").await;
    checker.finish("clients of two demoted masters", Promise::WhatWasReplicated).await;
}

/// An operator that loses its connections to a node, while others keep theirs, must not take that for the node's
/// failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_its_replicas_hear_stays_the_master() {
    let scene = Stage::new("redis-incident").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let (name, checker) = (master(&scene).await, Checker::start(&scene).await);
    // All connections except those of replicas are closed again and again, the operator's among them.
    for _ in 0..TURNS {
        nodes::tell(&scene, &name, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        checker.writes(2).await;
    }
    let object = becomes(&scene, "the object", |_| true).await;
    let status = object.status.expect("a status");
    assert_eq!((status.epoch, status.master), (1, Some(name)));
    checker.finish(&format!("{TURNS} times all connections ended"), Promise::Everything).await;
}
