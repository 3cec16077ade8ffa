//! A master whose node is cut off.

use causeway_api::Redis;
use serde_json::json;

use super::super::{CUT, Cut, POWERLESS, becomes, by_node, everywhere, nodes_are_there};
use crate::redis::checker::{Checker, Promise};
use crate::redis::{self, NAME, describe, master, pods, running, settled, succeeded, switchover};
use crate::support::{Operator, Scene};

/// One node of the set on each node of Kubernetes, the master on the given one.
pub async fn with_master_on(scene: &Scene, node: &str) -> String {
    nodes_are_there(scene, &[CUT, POWERLESS]).await;
    let mut wanted = everywhere(redis::spec(2));
    wanted["failover"] = json!({ "minReplicasToWrite": 1 });
    running(scene, wanted).await;
    let places = by_node(&pods(scene).await);
    assert_eq!(places.len(), 3, "one on each node: {places:?}");
    let name = places[node][0].clone();
    if master(scene).await != name {
        switchover::switched(scene, &name).await;
        scene.edit::<Redis>(NAME, json!({ "switchover": null })).await;
        settled(scene, "the field removed").await;
    }
    name
}

/// dragonfly-operator#302: nothing happened until a user deleted the pod.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_on_a_severed_node_is_succeeded() {
    let scene = Scene::new("lost-nodes").await;
    let _operator = Operator::start(&scene).await;
    let name = with_master_on(&scene, CUT).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    checker.event("the master's node cut off");
    let cut = Cut::new(CUT);
    succeeded(&scene, &name).await;
    checker.goes_on("another master").await;
    becomes(&scene, CUT, false).await;
    let lost = |object: &Redis| describe(object, "Ready").is_some_and(|(_, reason, _)| reason == "NodeLost");
    let object = redis::becomes(&scene, "the lost node to be reported", lost).await;
    let (_, reason, message) = describe(&object, "Ready").expect("a condition");
    println!("»   {reason}: {message}");
    assert!(message.contains(&name) && message.contains(CUT), "{message}");
    checker.goes_on("while its node is away").await;
    checker.event("the node is back");
    drop(cut);
    becomes(&scene, CUT, true).await;
    settled(&scene, "all nodes again").await;
    checker.goes_on("all nodes again").await;
    checker.finish("the master's node cut off for a minute", Promise::WhatWasReplicated).await;
}
