//! Members whose node is cut off.

use causeway_api::EtcdCluster;

use super::super::{CUT, Cut, POWERLESS, becomes, by_node, everywhere, nodes_are_there};
use crate::etcd::checker::Checker;
use crate::etcd::{self, bystander, describe, running, settled, uids};
use crate::support::{Operator, Scene};

/// A member on a lost node is reported, but not replaced: it may still be running there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_on_a_severed_node_returns() {
    let scene = Scene::new("lost-nodes").await;
    let _operator = Operator::start(&scene).await;
    nodes_are_there(&scene, &[CUT, POWERLESS]).await;
    running(&scene, everywhere(etcd::spec(3))).await;
    let places = by_node(&etcd::pods(&scene).await);
    assert_eq!(places.len(), 3, "one on each node: {places:?}");
    let name = &places[CUT][0];
    bystander::lead(&scene, name).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    checker.writes(200).await;
    let cut = Cut::new(CUT);
    checker.goes_on("another leader").await;
    becomes(&scene, CUT, false).await;
    let lost = |object: &EtcdCluster| describe(object, "Ready").is_some_and(|(_, reason, _)| reason == "NodeLost");
    let object = etcd::becomes(&scene, "the lost node to be reported", lost).await;
    let (_, reason, message) = describe(&object, "Ready").expect("a condition");
    println!("»   {reason}: {message}");
    assert!(message.contains(name) && message.contains(CUT), "{message}");
    checker.goes_on("while its node is away").await;
    drop(cut);
    becomes(&scene, CUT, true).await;
    settled(&scene, "all members again").await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
    checker.goes_on("all members again").await;
    checker.finish(&scene, "the leader's node cut off for a minute").await;
}
