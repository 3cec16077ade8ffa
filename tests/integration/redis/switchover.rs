//! The master moves because a user wants that: not a write is lost.

use std::time::Duration;

use causeway_api::Redis;
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::checker::{Checker, Promise};
use super::{NAME, Stage, becomes, is_settled, master, patient, running, settled, uids};
use crate::support::{Operator, Scene};

const SWITCHES: usize = 5;
/// Each connection of [`an_earlier_master_without_clients_is_left_in_peace`] lasts so long.
const PROBED: Duration = Duration::from_millis(200);

/// Asks for another master and waits until it is.
pub async fn switched(scene: &Scene, to: &str) {
    scene.edit::<Redis>(NAME, json!({ "switchover": { "master": to } })).await;
    let done = |object: &Redis| {
        is_settled(object) && object.status.as_ref().and_then(|status| status.master.as_deref()) == Some(to)
    };
    becomes(scene, &format!("{to} to be the master"), done).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_switch_under_load_loses_nothing() {
    let scene = Stage::new("redis-switch").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(3)).await;
    let before = uids(&scene).await;
    let checker = Checker::start(&scene).await;
    for turn in 0..SWITCHES {
        checker.writes(100).await;
        let to = super::replicas(&scene).await.remove(turn % 3);
        checker.event(&format!("asked for {to}"));
        switched(&scene, &to).await;
        // This includes clients that kept their connections.
        checker.goes_on(&format!("{to} is the master")).await;
    }
    settled(&scene, "all nodes").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    let object = scene.api::<Redis>().get(NAME).await.unwrap();
    assert_eq!(object.status.map(|status| status.epoch), i64::try_from(1 + SWITCHES).ok());
    checker.finish(&format!("{SWITCHES} planned switches"), Promise::Everything).await;
}

/// Closing connections again and again would keep readers from the earlier master, and the object from being ready. The
/// kubelet's probes connect now and then; here connections are made all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_earlier_master_without_clients_is_left_in_peace() {
    let scene = Stage::new("redis-switch").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (from, to) = (master(&scene).await, super::replicas(&scene).await.remove(0));
    let pod = super::pods(&scene).await.into_iter().find(|pod| pod.name_any() == from);
    let address = format!("{}:6379", pod.and_then(|pod| pod.status?.pod_ip).expect("an address"));
    tokio::spawn(async move {
        let (mut often, mut _open) = (tokio::time::interval(PROBED), None);
        loop {
            often.tick().await;
            _open = TcpStream::connect(&address).await.ok();
        }
    });
    switched(&scene, &to).await;
    let last = |object: &Redis| object.status.as_ref().and_then(|status| status.last_failover.clone());
    let done = |object: &Redis| last(object).is_some_and(|last| last.to == to && last.left.is_empty());
    let object = becomes(&scene, "no client to be left with the earlier master", done).await;
    assert_eq!(last(&object).and_then(|last| last.closed), None, "no connection had to be closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_impossible_switchover_is_reported() {
    let scene = Stage::new("redis-switch").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (name, checker) = (master(&scene).await, Checker::start(&scene).await);
    for (wanted, words) in [("cache-7", "spec.switchover.master"), ("other", "spec.switchover.master")] {
        scene.edit::<Redis>(NAME, json!({ "switchover": { "master": wanted } })).await;
        let (_, message) = super::stalls(&scene, &format!("a message about {wanted}")).await;
        assert!(message.contains(words) && message.contains(wanted), "{message}");
        assert_eq!(master(&scene).await, name);
    }
    scene.edit::<Redis>(NAME, json!({ "switchover": Value::Null })).await;
    settled(&scene, "the edit taken back").await;
    checker.finish("a switch to an unknown node", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switchover_waits_for_a_lagging_replica() {
    let scene = Stage::new("redis-switch").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let checker = Checker::start(&scene).await;
    let (name, to) = (master(&scene).await, super::replicas(&scene).await.remove(0));
    let hung = uids(&scene).await.remove(&to);
    let stopped = super::faults::Stopped::new(&scene, &to).await;
    let sick = |object: &Redis| super::says(object, "Replicated", "False");
    becomes(&scene, "the sick replica to be reported", sick).await;
    checker.event("asked for a replica that hangs");
    scene.edit::<Redis>(NAME, json!({ "switchover": { "master": to } })).await;
    checker.writes(100).await;
    // A replica that hangs for long is replaced, and its successor may become the master.
    let now = master(&scene).await;
    let is_same = uids(&scene).await.get(&to) == hung.as_ref();
    assert!(now == name || !is_same, "the switch does not go to a replica that hangs");
    checker.event("the replica wakes up");
    drop(stopped);
    switched(&scene, &to).await;
    checker.goes_on("it is the master").await;
    checker.finish("a switch to a replica that hangs for a while", Promise::Everything).await;
}
