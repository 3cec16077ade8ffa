//! A set whose master refuses writes is not ready: another node takes over, what a user changed is changed back, or the
//! refusal is reported.

use causeway_api::Redis;
use serde_json::json;

use super::checker::{Checker, Promise};
use super::faults::{Unwritable, takes_a_snapshot};
use super::{NAME, Stage, becomes, describe, master, nodes, patient, running, settled, spec, succeeded};
use crate::support::{Operator, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_whose_disk_takes_nothing_hands_over() {
    let scene = Stage::new("redis-writes").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(2);
    wanted["config"] = json!({ "save": "3600 1" });
    running(&scene, wanted).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let name = master(&scene).await;
    checker.event("a snapshot fails");
    let unwritable = Unwritable::at_a_snapshot(&scene, &name).await;
    succeeded(&scene, &name).await;
    checker.goes_on("another master").await;
    let last = scene.api::<Redis>().get(NAME).await.expect("the object").status.and_then(|it| it.last_failover);
    assert_eq!(last.map(|last| last.reason).as_deref(), Some("DiskFailed"));
    drop(unwritable);
    settled(&scene, "all nodes again").await;
    checker.finish("a disk that takes nothing", Promise::Everything).await;
}

/// There is no replica that could take over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_without_successor_is_reported() {
    let scene = Stage::new("redis-writes").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(0);
    wanted["config"] = json!({ "save": "3600 1" });
    running(&scene, wanted).await;
    nodes::tell(&scene, "cache-0", &["SET", "key", "value"]).await;
    let unwritable = Unwritable::at_a_snapshot(&scene, "cache-0").await;
    let refuses = |object: &Redis| {
        describe(object, "Ready").is_some_and(|(status, reason, words)| {
            status == "False" && reason == "WritesRefused" && words.contains("MISCONF")
        })
    };
    becomes(&scene, "the refusal to be reported", refuses).await;
    drop(unwritable);
    takes_a_snapshot(&scene, "cache-0").await;
    settled(&scene, "writes again").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_changed_by_hand_are_restored() {
    let scene = Stage::new("redis-writes").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let name = master(&scene).await;
    for (directive, value, wanted) in [("min-replicas-to-write", "9", "0"), ("maxmemory", "1", "1610612736")] {
        checker.event(directive);
        nodes::tell(&scene, &name, &["CONFIG", "SET", directive, value]).await;
        let look = || async { nodes::setting(&scene, &name, directive).await };
        wait_for(&format!("{directive} to be {wanted} again"), look, |now| now == wanted).await;
        scene.has_event(NAME, "DriftRepaired", directive).await;
        checker.goes_on("writes again").await;
    }
    settled(&scene, "all as before").await;
    assert_eq!(master(&scene).await, name, "no other node took over");
    checker.finish("settings changed by hand", Promise::Everything).await;
}

/// The spec asks for this limit: it is not changed back, but reported by its field.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_full_is_told() {
    let scene = Stage::new("redis-writes").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(0)).await;
    scene.edit::<Redis>(NAME, json!({ "config": { "maxmemory": "1" } })).await;
    let refuses = |object: &Redis| {
        describe(object, "Ready").is_some_and(|(status, reason, words)| {
            status == "False" && reason == "WritesRefused" && words.contains("spec.config.maxmemory")
        })
    };
    becomes(&scene, "the refusal to be reported", refuses).await;
    scene.edit::<Redis>(NAME, json!({ "config": { "maxmemory": "64mb" } })).await;
    settled(&scene, "writes again").await;
}

/// The write that asks a master whether it takes writes reaches neither the append-only file nor a listener.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_for_writes_changes_nothing() {
    let scene = Stage::new("redis-writes").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(0)).await;
    nodes::tell(&scene, "cache-0", &["SET", "key", "value"]).await;
    let calls = || async { nodes::field(&scene, "cache-0", "cmdstat_setrange").await };
    wait_for("the master to be asked", calls, |calls| calls.contains("rejected_calls=0,failed_calls=0")).await;
    let before = nodes::field(&scene, "cache-0", "aof_current_size").await;
    let asked = calls().await;
    wait_for("it to be asked again", calls, |calls| *calls != asked).await;
    assert_eq!(nodes::field(&scene, "cache-0", "aof_current_size").await, before);
    assert_eq!(nodes::answer(&scene, "cache-0").await.keys, 1);
}
