//! All nodes fail at once, or lose their data.

use std::time::Instant;

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::checker::{Checker, Promise};
use super::faults::{kill, wipe};
use super::{NAME, Stage, becomes, claim_of, claims, master, nodes, running, settled, spec, successor, took, uids};
use crate::support::{Operator, Scene, wait_for};

async fn delete_all_pods(scene: &Scene) {
    let at_once = DeleteParams::default().grace_period(0);
    scene.api::<Pod>().delete_collection(&at_once, &super::ours()).await.expect("the deletion is accepted");
}

/// A set whose nodes write to disk before they acknowledge. With `everysec`, a write waits for the sync before it for
/// two seconds at most: <https://github.com/redis/redis/blob/7.0.15/src/aof.c> (`flushAppendOnlyFile`).
async fn running_durably(scene: &Scene, replicas: i32) {
    let mut wanted = spec(replicas);
    wanted["config"] = json!({ "appendfsync": "always" });
    running(scene, wanted).await;
}

/// spotahome/redis-operator#77: the data were gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pods_killed_at_once_keep_the_data() {
    let scene = Stage::new("redis-losses").await;
    let _operator = Operator::start(&scene).await;
    running_durably(&scene, 3).await;
    let checker = Checker::start(&scene).await;
    checker.writes(300).await;
    // New pods use the volumes while the processes of the old pods still serve. How long that lasts differs, so there
    // are three turns.
    for _ in 0..3 {
        let before = uids(&scene).await;
        let begun = checker.event("all pods killed");
        delete_all_pods(&scene).await;
        for (name, uid) in &before {
            successor(&scene, name, uid).await;
        }
        settled(&scene, "all nodes again").await;
        took("after all pods were killed all nodes are back", begun);
        checker.goes_on("all nodes again").await;
    }
    checker.finish("all pods killed at once, three times", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_processes_killed_at_once_keep_the_data() {
    let scene = Stage::new("redis-losses").await;
    let _operator = Operator::start(&scene).await;
    running_durably(&scene, 2).await;
    let checker = Checker::start(&scene).await;
    checker.writes(300).await;
    let begun = checker.event("all processes killed");
    for name in uids(&scene).await.into_keys() {
        kill(&scene, &name).await;
    }
    checker.goes_on("all nodes again").await;
    settled(&scene, "all nodes again").await;
    took("after all processes were killed all nodes are back", begun);
    checker.finish("all processes killed at once", Promise::Everything).await;
}

/// All processes die at once, and the master's data are gone, too. The replicas' data are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_master_is_not_trusted_after_restarts() {
    let scene = Stage::new("redis-losses").await;
    let _operator = Operator::start(&scene).await;
    running_durably(&scene, 2).await;
    let checker = Checker::start(&scene).await;
    checker.writes(300).await;
    let name = master(&scene).await;
    checker.event("the master's data gone, and all processes killed");
    wipe(&scene, &name).await;
    for name in uids(&scene).await.into_keys() {
        kill(&scene, &name).await;
    }
    checker.goes_on("all nodes again").await;
    settled(&scene, "all nodes again").await;
    assert_ne!(master(&scene).await, name, "a node without data is not the master");
    checker.finish("an empty master among nodes that all restart", Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_gone_is_filled_again() {
    let scene = Stage::new("redis-losses").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let name = master(&scene).await;
    let replica = uids(&scene).await.into_keys().find(|other| *other != name).expect("a replica");
    for (name, role) in [(replica, "a replica"), (name, "the master")] {
        let (volumes, pods) = (claims(&scene).await, uids(&scene).await);
        let begun = checker.event(&format!("the volume of {role} deleted"));
        scene.delete::<PersistentVolumeClaim>(&claim_of(&name)).await;
        let at_once = DeleteParams::default().grace_period(0);
        scene.api::<Pod>().delete(&name, &at_once).await.expect("the deletion is accepted");
        successor(&scene, &name, &pods[&name]).await;
        settled(&scene, "all nodes again").await;
        took(&format!("{role} whose volume was deleted is whole again"), begun);
        assert_ne!(claims(&scene).await[&claim_of(&name)], volumes[&claim_of(&name)], "another volume");
        checker.goes_on("all nodes again").await;
    }
    checker.finish("two volumes deleted, one after the other", Promise::WhatWasReplicated).await;
}

/// No node is left with data. The loss is reported, and does not stop the set for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_are_gone_everywhere_are_told_of() {
    let scene = Stage::new("redis-losses").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(1);
    wanted["failover"] = json!({ "dataLossTimeout": "5s" });
    running(&scene, wanted).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let known = |object: &Redis| object.status.iter().flat_map(|it| &it.nodes).all(|node| node.keys > 0);
    becomes(&scene, "the operator to know of data", known).await;
    let begun = Instant::now();
    checker.event("all volumes deleted");
    let all = ListParams::default();
    scene.api::<PersistentVolumeClaim>().delete_collection(&DeleteParams::default(), &all).await.expect("accepted");
    delete_all_pods(&scene).await;
    let lost = |object: &Redis| super::says(object, "DataLost", "True");
    let object = becomes(&scene, "the loss to be reported", lost).await;
    took("the loss of all data is reported", begun);
    let (_, reason, message) = super::describe(&object, "DataLost").expect("a condition");
    println!("»   {reason}: {message}");
    scene.has_event(NAME, "DataLost", "began empty").await;
    checker.finish("all volumes deleted", Promise::Nothing).await;
    let look = || async { nodes::all(&scene, None).await };
    wait_for("both nodes to answer", look, |nodes| nodes.len() == 2 && nodes.values().all(Option::is_some)).await;
}

/// Keys that a client removed are not lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_that_was_emptied_on_purpose_has_lost_nothing() {
    let scene = Stage::new("redis-losses").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(2);
    wanted["config"] = json!({ "appendfsync": "always" });
    wanted["failover"] = json!({ "dataLossTimeout": "5s" });
    running(&scene, wanted).await;
    for turn in 0..2 {
        for key in 0..100 {
            nodes::tell(&scene, &master(&scene).await, &["SET", &format!("key-{key}"), "value"]).await;
        }
        let known = |object: &Redis| object.status.iter().flat_map(|it| &it.nodes).all(|node| node.keys > 0);
        becomes(&scene, "the operator to know of data", known).await;
        nodes::tell(&scene, &master(&scene).await, &["FLUSHALL"]).await;
        let begun = Instant::now();
        if turn == 0 {
            for name in uids(&scene).await.into_keys() {
                kill(&scene, &name).await;
            }
        } else {
            delete_all_pods(&scene).await;
        }
        becomes(&scene, "the nodes to be away", |object| !super::is_settled(object)).await;
        settled(&scene, "all nodes again").await;
        took("after all nodes were emptied and killed they are back", begun);
        nodes::tell(&scene, &master(&scene).await, &["SET", "key", "value"]).await;
        let object = becomes(&scene, "the object", |_| true).await;
        assert!(super::describe(&object, "DataLost").is_none_or(|(status, ..)| status == "False"), "{object:?}");
    }
}
