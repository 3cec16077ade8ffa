//! The cost of the full example in calls to AWS.

use std::collections::BTreeMap;

use causeway_api::MyIngress;
use serde_json::json;

use super::operator_without_sweeps;
use crate::support::account::{target_groups, targets};
use crate::support::backends::endpoints;
use crate::support::figures::{counted, figure};
use crate::support::{Scene, full, wait_for};

/// Calls since the journal was cleared, by operation.
async fn calls(scene: &Scene) -> BTreeMap<String, usize> {
    counted(scene.emulator.journal().await.into_iter().map(|call| call.operation))
}

fn recorded(name: &str) -> BTreeMap<String, usize> {
    figure("myingress", name).calls
}

/// Calls that change something.
fn changes(calls: &BTreeMap<String, usize>) -> BTreeMap<&str, usize> {
    let changes = calls.iter().filter(|(operation, _)| !is_read(operation));
    changes.map(|(operation, count)| (operation.as_str(), *count)).collect()
}

fn is_read(operation: &str) -> bool {
    ["Describe", "List", "Get"].iter().any(|read| operation.starts_with(read))
}

/// The changes are those of the benchmark, and no read is made more often. Only reads that wait for a state may be
/// repeated.
fn assert_no_worse(calls: &BTreeMap<String, usize>, recorded: &BTreeMap<String, usize>) {
    assert_eq!(changes(calls), changes(recorded));
    let until_it_is_so = ["DescribeLoadBalancers", "DescribeTargetHealth"];
    for (operation, count) in calls.iter().filter(|(operation, _)| !until_it_is_so.contains(&operation.as_str())) {
        let most = recorded.get(operation).copied().unwrap_or_default();
        assert!(*count <= most, "{operation}, at most {most}: {calls:?}");
    }
}

/// Waits until the journal has exactly these changes.
async fn changed(scene: &Scene, what: &str, wanted: &BTreeMap<&str, usize>) {
    wait_for(what, || calls(scene), |calls| changes(calls) == *wanted).await;
}

#[tokio::test]
async fn creation_costs_what_the_benchmark_says() {
    let scene = Scene::new("cost").await;
    let operator = operator_without_sweeps(&scene).await;
    full::stage(&scene).await;
    // The first sweep makes these calls at the same time, and none of them belongs to the object.
    let sweep = ["DescribeLoadBalancers", "DescribeTargetGroups", "DescribeAccountLimits"];
    let swept = |calls: &BTreeMap<String, usize>| sweep.iter().all(|operation| calls.contains_key(*operation));
    wait_for("the region to be read", || calls(&scene), swept).await;
    scene.emulator.clear_journal().await;
    scene.create::<MyIngress>(full::NAME, full::spec(&scene)).await;
    full::complete(&scene).await;
    let calls = calls(&scene).await;
    println!("» calls to create the full example: {} {calls:?}", calls.values().sum::<usize>());
    assert_no_worse(&calls, &recorded("aws_calls_create"));
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
    assert_eq!(calls(&scene).await, recorded("aws_calls_noop"), "a new generation that asks for nothing new in AWS");

    full::rules(&mut spec)[0]["action"]["forward"]["backends"][0]["weight"] = json!(5);
    full::replace(&scene, full::NAME, &spec).await;
    full::complete(&scene).await;
    assert_eq!(calls(&scene).await, recorded("aws_calls_weight"), "another weight");

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
    let registered = recorded("aws_calls_target");
    changed(&scene, "two targets to be registered at once", &changes(&registered)).await;
    wait_for("three targets", || targets(&scene, &cart), |all| all.len() == 3).await;
    endpoints(&scene, "cart", &[("http", 8080)], &["198.18.7.4", "198.18.7.5"]).await;
    let deregistered = BTreeMap::from([("DeregisterTargets", 1), ("RegisterTargets", 1)]);
    changed(&scene, "one to be deregistered", &deregistered).await;
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
    // Listeners and rules go with the balancer.
    assert_no_worse(&calls, &recorded("aws_calls_delete"));
}
