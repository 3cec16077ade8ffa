//! A node that loses its power for good. Tests run in the order of their names: this is the last one that needs the
//! node.

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::DeleteParams;

use super::cut::redis::with_master_on;
use super::{POWERLESS, becomes, take_power};
use crate::redis::checker::{Checker, Promise};
use crate::redis::{self, claim_of, describe, settled, succeeded};
use crate::support::{Operator, Scene};

/// The test follows the condition's advice: it deletes the node's object, and the claim whose volume was lost with the
/// node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_on_a_node_without_power_is_succeeded() {
    let scene = Scene::new("lost-nodes").await;
    let _operator = Operator::start(&scene).await;
    let name = with_master_on(&scene, POWERLESS).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    checker.event("the master's node without power");
    take_power(POWERLESS);
    succeeded(&scene, &name).await;
    checker.goes_on("another master").await;
    becomes(&scene, POWERLESS, false).await;
    let lost = |object: &Redis| describe(object, "Ready").is_some_and(|(_, reason, _)| reason == "NodeLost");
    let object = redis::becomes(&scene, "the lost node to be reported", lost).await;
    let (_, _, message) = describe(&object, "Ready").expect("a condition");
    assert!(message.contains(&format!("kubectl delete node {POWERLESS}")), "{message}");

    // Two nodes are left: the third pod shares one of them.
    let nodes: Api<Node> = Api::all(scene.client.clone());
    nodes.delete(POWERLESS, &DeleteParams::default()).await.expect("the deletion is accepted");
    scene.delete::<PersistentVolumeClaim>(&claim_of(&name)).await;
    let at_once = DeleteParams::default().grace_period(0);
    scene.api::<Pod>().delete(&name, &at_once).await.ok();
    settled(&scene, "all nodes again, elsewhere").await;
    checker.goes_on("all nodes again, elsewhere").await;
    checker.finish("the master's node lost for good", Promise::WhatWasReplicated).await;
}
