//! What the full example costs in calls to AWS.

use std::collections::BTreeMap;

use causeway::api::MyIngress;
use serde_json::json;

use super::operator_without_sweeps;
use crate::support::account::{target_groups, targets};
use crate::support::backends::endpoints;
use crate::support::{Scene, full, wait_for};

/// Calls since the journal was cleared, by operation.
async fn calls(scene: &Scene) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in scene.emulator.journal().await {
        *counts.entry(call.operation).or_default() += 1;
    }
    counts
}

/// Calls that change something.
fn changes(calls: &BTreeMap<String, usize>) -> BTreeMap<&str, usize> {
    let reads = ["Describe", "List", "Get"];
    let changes = calls.iter().filter(|(operation, _)| !reads.iter().any(|read| operation.starts_with(read)));
    changes.map(|(operation, count)| (operation.as_str(), *count)).collect()
}

fn expected<'a>(calls: &[(&'a str, usize)]) -> BTreeMap<&'a str, usize> {
    calls.iter().copied().collect()
}

/// Waits until the journal has these changes; then lets all that is under way end and looks again.
async fn changed(scene: &Scene, what: &str, wanted: &[(&str, usize)]) {
    let wanted = expected(wanted);
    wait_for(what, || calls(scene), |calls| changes(calls) == wanted).await;
}

#[tokio::test]
async fn creation_makes_each_thing_once_and_asks_little() {
    let scene = Scene::new("cost").await;
    let operator = operator_without_sweeps(&scene).await;
    full::stage(&scene).await;
    wait_for("the region to be read", || calls(&scene), |calls| calls.contains_key("DescribeTargetGroups")).await;
    scene.emulator.clear_journal().await;
    scene.create::<MyIngress>(full::NAME, full::spec(&scene)).await;
    full::complete(&scene).await;
    let calls = calls(&scene).await;
    println!("» calls to create the full example: {} {calls:?}", calls.values().sum::<usize>());
    let wanted = [
        ("AuthorizeSecurityGroupIngress", 1),
        ("CreateListener", 2),
        ("CreateLoadBalancer", 1),
        ("CreateRule", 6),
        ("CreateSecurityGroup", 1),
        ("CreateTargetGroup", 3),
        ("ModifyListenerAttributes", 1),
        ("ModifyLoadBalancerAttributes", 1),
        ("ModifyTargetGroupAttributes", 3),
        ("RegisterTargets", 3),
    ];
    assert_eq!(changes(&calls), expected(&wanted));
    // What only AWS knows: the VPC of the subnets, which networks that VPC has, certificates, whose the balancer is, and the health of targets, which is
    // asked for until it is known.
    let count = |operation: &str| calls.get(operation).copied().unwrap_or_default();
    for (operation, most) in [
        ("DescribeSubnets", 2),
        ("ListCertificates", 1),
        ("DescribeTags", 1),
        ("DescribeSecurityGroups", 0),
        ("DescribeListeners", 0),
        ("DescribeRules", 0),
        ("DescribeTargetGroupAttributes", 0),
        ("DescribeLoadBalancerAttributes", 0),
        ("DescribeListenerAttributes", 0),
    ] {
        assert!(count(operation) <= most, "{operation}: {calls:?}");
    }
    operator.stop().await;
}

#[tokio::test]
async fn a_touch_costs_nothing_and_an_edit_one_call() {
    let scene = Scene::new("cost").await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    let _operator = operator_without_sweeps(&scene).await;
    full::created(&scene).await;
    let mut spec = full::spec(&scene);

    scene.emulator.clear_journal().await;
    spec["deletionPolicy"] = json!("Retain");
    full::replace(&scene, full::NAME, &spec).await;
    full::complete(&scene).await;
    assert_eq!(calls(&scene).await, BTreeMap::new(), "a new generation that asks for nothing new in AWS");

    full::rules(&mut spec)[0]["action"]["forward"]["backends"][0]["weight"] = json!(5);
    full::replace(&scene, full::NAME, &spec).await;
    full::complete(&scene).await;
    assert_eq!(calls(&scene).await, BTreeMap::from([("ModifyRule".to_owned(), 1)]), "another weight");

    scene.emulator.clear_journal().await;
    full::rules(&mut spec).swap(1, 2);
    full::replace(&scene, full::NAME, &spec).await;
    full::complete(&scene).await;
    assert_eq!(calls(&scene).await, BTreeMap::from([("SetRulePriorities".to_owned(), 1)]), "another order");
}

#[tokio::test]
async fn a_change_of_targets_is_one_call() {
    let scene = Scene::new("cost").await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    let _operator = operator_without_sweeps(&scene).await;
    full::created(&scene).await;
    let mut groups = target_groups(&scene).await.into_iter();
    let cart = groups.rfind(|it| it.target_group_name().is_some_and(|name| name.starts_with("shop-cart")));
    let cart = cart.and_then(|group| group.target_group_arn).expect("the group");
    scene.emulator.clear_journal().await;
    endpoints(&scene, "cart", &[("http", 8080)], &["198.18.7.2", "198.18.7.4", "198.18.7.5"]).await;
    changed(&scene, "two targets to be registered at once", &[("RegisterTargets", 1)]).await;
    wait_for("three targets", || targets(&scene, &cart), |all| all.len() == 3).await;
    endpoints(&scene, "cart", &[("http", 8080)], &["198.18.7.4", "198.18.7.5"]).await;
    changed(&scene, "one to be deregistered", &[("DeregisterTargets", 1), ("RegisterTargets", 1)]).await;
}

#[tokio::test]
async fn deletion_deletes_each_thing_once() {
    let scene = Scene::new("cost").await;
    let _operator = operator_without_sweeps(&scene).await;
    full::created(&scene).await;
    scene.emulator.clear_journal().await;
    scene.delete::<MyIngress>(full::NAME).await;
    scene.gone::<MyIngress>(full::NAME).await;
    let calls = calls(&scene).await;
    println!("» calls to delete the full example: {} {calls:?}", calls.values().sum::<usize>());
    let wanted = [("DeleteLoadBalancer", 1), ("DeleteSecurityGroup", 1), ("DeleteTargetGroup", 3)];
    assert_eq!(changes(&calls), expected(&wanted), "listeners and rules go with the balancer");
    let reads = calls.values().sum::<usize>() - 5;
    assert!(reads <= 5, "{reads} reads: whose it is before each deletion");
}
