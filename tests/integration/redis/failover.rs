//! Masters that fail: another node takes over, and what a replica had stays.

use std::collections::BTreeMap;
use std::time::Duration;

use causeway_api::Redis;
use futures::future::select_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::checker::{Checker, Promise, mixed, open};
use super::faults::{Cut, Stopped, kill};
use super::{NAME, Stage, WAIT_TIMEOUT, master, nodes, patient, running, settled, spec, succeeded, successor, uids};
use crate::support::{Operator, wait_for};

/// Masters that are killed, one after the other.
const KILLED: usize = 3;
/// Pause between two looks at a node whose next state matters at once.
const LOOK: Duration = Duration::from_millis(2);
/// Masters that hang, and that are cut off.
const AWAY: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_returns_as_a_replica() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(3)).await;
    let before = uids(&scene).await;
    let (checker, shared) = (Checker::start(&scene).await, mixed::start(&scene));
    for turn in 1..=KILLED {
        checker.writes(100).await;
        let name = master(&scene).await;
        checker.event("the master's process killed");
        kill(&scene, &name).await;
        succeeded(&scene, &name).await;
        checker.goes_on("another master").await;
        let object = settled(&scene, "all nodes again").await;
        let last = object.status.as_ref().and_then(|status| status.last_failover.clone()).expect("a failover");
        assert_eq!(last.from.as_deref(), Some(name.as_str()), "turn {turn}: {last:?}");
    }
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
    scene.has_event(NAME, "Fail", "cache-").await;
    shared.judged("redis-masters-killed").await.must_be_kept("what was confirmed, by all masters");
    checker.finish(&format!("{KILLED} masters killed"), Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_master_hands_over_and_loses_nothing() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    for _ in 0..2 {
        checker.writes(100).await;
        let (name, before) = (master(&scene).await, uids(&scene).await);
        checker.event("the master's pod deleted");
        scene.delete::<Pod>(&name).await;
        succeeded(&scene, &name).await;
        successor(&scene, &name, &before[&name]).await;
        settled(&scene, "all nodes again").await;
        checker.goes_on("all nodes again").await;
    }
    checker.finish("2 masters deleted with grace", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_deleted_without_grace_is_succeeded() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    for _ in 0..2 {
        checker.writes(100).await;
        let (name, before) = (master(&scene).await, uids(&scene).await);
        checker.event("the master's pod deleted without grace");
        let at_once = DeleteParams::default().grace_period(0);
        scene.api::<Pod>().delete(&name, &at_once).await.expect("the deletion is accepted");
        succeeded(&scene, &name).await;
        successor(&scene, &name, &before[&name]).await;
        settled(&scene, "all nodes again").await;
        checker.goes_on("all nodes again").await;
    }
    checker.finish("2 masters deleted without grace", Promise::WhatWasReplicated).await;
}

/// No user has to delete a master that hangs (dragonfly-operator#227).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_master_wakes_up_as_a_replica() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    for _ in 0..AWAY {
        checker.writes(100).await;
        let name = master(&scene).await;
        checker.event("the master hangs");
        let stopped = Stopped::new(&scene, &name).await;
        succeeded(&scene, &name).await;
        checker.goes_on("another master, while the old one hangs").await;
        // The old master wakes up, and still believes that it is the master.
        checker.event("the old master wakes up");
        drop(stopped);
        settled(&scene, "all nodes again").await;
        checker.goes_on("all nodes again").await;
    }
    checker.finish(&format!("{AWAY} masters hang and wake up"), Promise::WhatWasReplicated).await;
}

/// A write that clients sent to the hanging master waits in its sockets, and is the first that it reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_woken_master_acknowledges_no_waiting_write() {
    const WRITES: usize = 40;
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let (first, nodes) = (master(&scene).await, nodes::every(&scene).await);
    let mut addresses: BTreeMap<String, String> = nodes.into_iter().map(|(name, node)| (name, node.address)).collect();
    let hung = addresses.remove(&first).expect("the master's address");
    let mut clients = Vec::new();
    for _ in 0..WRITES {
        clients.push(TcpStream::connect((hung.as_str(), 6379)).await.expect("a connection"));
    }
    let stopped = Stopped::new(&scene, &first).await;
    for (index, client) in clients.iter_mut().enumerate() {
        client.write_all(format!("SET late-{index} 1\r\n").as_bytes()).await.expect("it is sent");
    }
    // Does not wait for the status: moments later, the pod of the old master is replaced.
    let mut another = Vec::new();
    for address in addresses.values() {
        another.push(Box::pin(becomes_master(address)));
    }
    let (next, ..) = timeout(WAIT_TIMEOUT, select_all(another)).await.expect("another master");
    drop(stopped);
    let mut acknowledged = Vec::new();
    for (index, client) in clients.iter_mut().enumerate() {
        let mut answer = String::new();
        // The connection is closed when the node steps down, or with its process.
        timeout(WAIT_TIMEOUT, client.read_to_string(&mut answer)).await.expect("an end").ok();
        if answer.starts_with("+OK") {
            acknowledged.push(index);
        }
    }
    let mut lost = Vec::new();
    let mut connection = open(&next, None).await.expect("the next master answers");
    for index in acknowledged {
        let kept: bool =
            redis::cmd("EXISTS").arg(format!("late-{index}")).query_async(&mut connection).await.expect("an answer");
        if !kept {
            lost.push(index);
        }
    }
    assert_eq!(lost, Vec::<usize>::new(), "writes that were acknowledged and are lost");
    settled(&scene, "all nodes again").await;
}

/// Returns the address once the node there is a master.
async fn becomes_master(address: &str) -> String {
    let mut connection = open(address, None).await.expect("it answers");
    loop {
        let role: redis::Value = redis::cmd("ROLE").query_async(&mut connection).await.expect("a role");
        if format!("{role:?}").contains("master") {
            return address.to_owned();
        }
        sleep(LOOK).await;
    }
}

/// A busy disk can stop all replicas for a moment, and what the master acknowledged meanwhile may not be in its file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_waits_for_pausing_replicas() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(2);
    wanted["failover"] = json!({ "hangTimeout": "300s" });
    running(&scene, wanted).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let name = master(&scene).await;
    checker.event("the replicas pause, and the master is killed");
    let mut paused = Vec::new();
    for replica in super::replicas(&scene).await {
        paused.push(Stopped::new(&scene, &replica).await);
    }
    kill(&scene, &name).await;
    let waits = |object: &Redis| {
        super::describe(object, "Ready").is_some_and(|(_, reason, message)| {
            reason == "NoMaster" && message.contains("waiting for a word of cache-")
        })
    };
    super::becomes(&scene, "the master to be back, and the replicas to be waited for", waits).await;
    drop(paused);
    succeeded(&scene, &name).await;
    settled(&scene, "all nodes again").await;
    checker.goes_on("all nodes again").await;
    checker.finish("a master killed while its replicas pause", Promise::WhatWasReplicated).await;
}

/// As if its Kubernetes node were gone (dragonfly-operator#302): nothing refuses a connection, and nothing answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_severed_master_returns_as_a_replica() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    for _ in 0..AWAY {
        checker.writes(100).await;
        let name = master(&scene).await;
        checker.event("the master cut off");
        let cut = Cut::new(&scene, &name).await;
        succeeded(&scene, &name).await;
        checker.goes_on("another master, while the old one is away").await;
        checker.event("the old master returns");
        drop(cut);
        settled(&scene, "all nodes again").await;
        checker.goes_on("all nodes again").await;
    }
    checker.finish(&format!("{AWAY} masters cut off for a while"), Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_masters_that_fail_in_a_row_are_succeeded() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let first = master(&scene).await;
    checker.event("the first master hangs");
    let stopped = Stopped::new(&scene, &first).await;
    let second = succeeded(&scene, &first).await;
    checker.event("the second master killed");
    kill(&scene, &second).await;
    let third = succeeded(&scene, &second).await;
    assert_ne!(third, first, "a node that hangs does not become the master");
    checker.goes_on("the third master").await;
    drop(stopped);
    settled(&scene, "all nodes again").await;
    checker.finish("two masters fail in a row", Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_fail_cost_no_write() {
    let scene = Stage::new("redis-failover").await;
    let _operator = Operator::start(&scene).await;
    let epoch = |object: &Redis| object.status.as_ref().map(|status| status.epoch);
    let mut wanted = spec(3);
    // A master that pauses with the machine keeps its role. An operator looks at a silent node only after this time, so
    // it is less than the 10 s after which a replica that hangs is replaced.
    wanted["failover"] = json!({ "hangTimeout": "8s" });
    let before = epoch(&running(&scene, wanted).await);
    let checker = Checker::start(&scene).await;
    let name = master(&scene).await;
    let replicas: Vec<String> = uids(&scene).await.into_keys().filter(|other| *other != name).collect();
    checker.event("a replica killed");
    kill(&scene, &replicas[0]).await;
    checker.event("another one hangs");
    let stopped = Stopped::new(&scene, &replicas[1]).await;
    let sick = |object: &Redis| super::says(object, "Replicated", "False");
    super::becomes(&scene, "the sick replica to be reported", sick).await;
    drop(stopped);
    settled(&scene, "all nodes again").await;
    checker.event("a replica cut off");
    let cut = Cut::new(&scene, &replicas[2]).await;
    let look = || async { nodes::one(&scene, &replicas[2]).await };
    wait_for("the cut", look, Option::is_none).await;
    super::becomes(&scene, "the replica that is away to be reported", sick).await;
    drop(cut);
    let object = settled(&scene, "all nodes again").await;
    assert_eq!(epoch(&object), before, "the master stayed");
    checker.finish("replicas killed, hanging, cut off", Promise::Everything).await;
}
