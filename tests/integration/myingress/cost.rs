//! Calls to AWS cost money and run into throttling: they are counted.

use std::time::{Duration, Instant};

use causeway_api::MyIngress;
use causeway_runtime::clients;
use causeway_runtime::metrics::Metrics;
use serde_json::json;

use super::{created, operator_without_sweeps, ready, spec};
use crate::support::figures::{counted, figure, kubernetes_writes};
use crate::support::{Operator, Scene, full, wait_for};

/// How many reconciles of `MyIngress` succeeded so far.
fn reconciles(operator: &Operator) -> u64 {
    let text = operator.metrics.encode().expect("metrics");
    let lines = text.lines().filter(|line| line.starts_with("causeway_reconciles_total{"));
    let ours = lines.filter(|line| line.contains("kind=\"MyIngress\"") && line.contains("\"ok\""));
    ours.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn a_bare_object_costs_no_more_than_the_benchmark_says() {
    let scene = Scene::new("cost").await;
    let writes = Metrics::new();
    let client = clients::kubernetes(Operator::config().await, &writes).expect("a client");
    let operator = Operator::start_with(&scene, client, scene.aws.clone(), Duration::from_hours(1));
    let recorded = |name: &str| figure("foundation", name);
    // The region has been read once the first one is ready.
    created(&scene, "first", spec(json!({}))).await;

    scene.emulator.clear_journal().await;
    created(&scene, "app", spec(json!({}))).await;
    let calls = scene.emulator.elb_operations().await;
    println!("» creation: {calls:?}");
    assert!(calls.len() <= recorded("aws_calls_create").calls.values().sum(), "{calls:?}");
    assert_eq!(calls[0], "CreateLoadBalancer");

    // The event is the last write of the creation.
    scene.has_event("app", "Active", "").await;
    scene.emulator.clear_journal().await;
    let before = (reconciles(&operator), kubernetes_writes(&writes));
    // A new generation that asks for nothing new in AWS.
    scene.edit::<MyIngress>("app", json!({ "deletionPolicy": "Retain" })).await;
    ready(&scene, "app").await;
    // The status is written before the reconcile has ended.
    wait_for("a reconcile", || async { reconciles(&operator) }, |count| *count > before.0).await;
    assert_eq!(counted(scene.emulator.elb_operations().await), recorded("aws_calls_noop").calls);
    let written = kubernetes_writes(&writes) - before.1;
    assert!(written <= recorded("kubernetes_writes_noop").value, "{written} writes to Kubernetes");

    scene.edit::<MyIngress>("app", json!({ "deletionPolicy": "Delete" })).await;
    ready(&scene, "app").await;
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    let calls = scene.emulator.elb_operations().await;
    assert_eq!(calls.last().map(String::as_str), Some("DeleteLoadBalancer"), "whose it is comes first");
    assert_eq!(counted(calls), recorded("aws_calls_delete").calls);
}

/// Calls that change nothing.
fn is_read(operation: &str) -> bool {
    operation.starts_with("Describe") || operation.starts_with("List") || operation.starts_with("Get")
}

/// Besides its changes, an object costs a read of the tags of the balancer that AWS returned (a create also succeeds
/// for one that exists), one of its state, and one of the health of each target group, as AWS describes one group a
/// call. The first object of a region and VPC also pays for the reads that all objects share.
#[tokio::test]
async fn a_full_object_costs_its_changes_and_five_reads() {
    const SHARED: [&str; 3] = ["DescribeSubnets", "DescribeSubnets", "ListCertificates"];
    let scene = Scene::new("cost").await;
    let _operator = operator_without_sweeps(&scene).await;
    created(&scene, "first", spec(json!({}))).await;
    full::stage(&scene).await;
    let mut expected = ["DescribeLoadBalancers", "DescribeTags"].map(str::to_owned).to_vec();
    expected.extend(full::TARGETS.map(|_| "DescribeTargetHealth".to_owned()));
    for (name, shared) in [("shop", &SHARED[..]), ("later", &[])] {
        scene.emulator.clear_journal().await;
        let begun = Instant::now();
        scene.create::<MyIngress>(name, full::spec(&scene)).await;
        scene.ingress(name, "the full example to be complete", full::is_complete).await;
        let calls: Vec<_> = scene.emulator.journal().await.into_iter().map(|call| call.operation).collect();
        let (mut reads, changes): (Vec<_>, Vec<_>) = calls.into_iter().partition(|operation| is_read(operation));
        println!("» a full object ({name}): {} changes, {} reads: {reads:?}", changes.len(), reads.len());
        let mut expected: Vec<_> = expected.iter().cloned().chain(shared.iter().map(ToString::to_string)).collect();
        expected.sort();
        reads.sort();
        // On a slow machine, what is not ready yet is read again: the balancer and each group once a second at most.
        let looked_again = reads.len() - expected.len().min(reads.len());
        reads.dedup();
        expected.dedup();
        assert_eq!(reads, expected, "{changes:?}");
        let seconds = usize::try_from(begun.elapsed().as_secs()).expect("a few");
        assert!(looked_again <= (full::TARGETS.len() + 1) * (1 + seconds), "{looked_again} further looks");
    }
}

#[tokio::test]
async fn a_restart_reads_the_region_in_batches() {
    const COUNT: u64 = 25;
    let scene = Scene::new("cost").await;
    let operator = operator_without_sweeps(&scene).await;
    for number in 0..COUNT {
        scene.create::<MyIngress>(&format!("app-{number}"), spec(json!({}))).await;
    }
    for number in 0..COUNT {
        ready(&scene, &format!("app-{number}")).await;
    }
    operator.stop().await;
    scene.emulator.clear_journal().await;
    let operator = operator_without_sweeps(&scene).await;
    wait_for("every object to be reconciled", || async { reconciles(&operator) }, |count| *count >= COUNT).await;
    let mut calls = scene.emulator.elb_operations().await;
    // Both lists are read at the same time.
    calls.sort();
    assert_eq!(
        calls,
        ["DescribeAccountLimits", "DescribeLoadBalancers", "DescribeTags", "DescribeTags", "DescribeTargetGroups"],
        "pages of 400, 20 ARNs a call, and the account's quotas once an hour"
    );
}

#[tokio::test]
async fn a_reconcile_of_nothing_new_writes_nothing_to_the_object() {
    let scene = Scene::new("cost").await;
    let operator = operator_without_sweeps(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    let before = scene.api::<MyIngress>().get("app").await.unwrap().metadata.resource_version;
    operator.stop().await;
    let operator = operator_without_sweeps(&scene).await;
    wait_for("the object to be reconciled", || async { reconciles(&operator) }, |count| *count >= 1).await;
    assert_eq!(scene.api::<MyIngress>().get("app").await.unwrap().metadata.resource_version, before);
}
