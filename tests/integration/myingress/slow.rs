//! An AWS that answers slowly, or refuses every second call: what that costs is counted and printed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_api::MyIngress;
use futures::StreamExt;
use futures::future::join_all;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;

use super::{created, operator_without_sweeps, spec};
use crate::support::ec2::security_groups;
use crate::support::scene::is_ready;
use crate::support::wait::wait_within;
use crate::support::{Scene, full, is_thorough, wait_for};

/// Objects that wait for the same slow answers: more than are reconciled at the same time.
const MANY: usize = 25;
/// The same in a thorough run.
const MANY_THOROUGH: usize = 300;
/// It takes a few thousand calls, on a machine that does other things as well.
const LONG: Duration = Duration::from_mins(20);

async fn objects(scene: &Scene) -> Vec<MyIngress> {
    scene.api::<MyIngress>().list(&ListParams::default()).await.expect("a list").items
}

async fn counts(scene: &Scene) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for call in scene.emulator.journal().await {
        *counts.entry(call.operation).or_default() += 1;
    }
    counts
}

/// How long after its creation each object had a status, as a watch shows it.
async fn first_statuses(scene: &Scene, many: usize) -> Vec<Duration> {
    let mut events = watcher(scene.api::<MyIngress>(), watcher::Config::default()).applied_objects().boxed();
    let (mut created, mut times) = (BTreeMap::new(), BTreeMap::new());
    while times.len() < many {
        // The watcher restarts a broken watch by itself.
        let Ok(object) = events.next().await.expect("a watch goes on") else { continue };
        let begun = *created.entry(object.name_any()).or_insert_with(Instant::now);
        if object.status.as_ref().is_some_and(|status| !status.conditions.is_empty()) {
            times.entry(object.name_any()).or_insert_with(|| begun.elapsed());
        }
    }
    times.into_values().collect()
}

#[tokio::test]
async fn full_objects_become_ready_despite_slow_regional_reads() {
    let many = if is_thorough() { MANY_THOROUGH } else { MANY };
    let scene = Scene::new("slow").await;
    full::stage(&scene).await;
    scene.emulator.settings(json!({ "load_balancers": 2 * many })).await;
    for operation in ["DescribeSecurityGroups", "DescribeSubnets", "ListCertificates"] {
        scene.emulator.fault(json!({ "kind": "delay", "delay_ms": 10_000, "operation": operation })).await;
    }
    let operator = operator_without_sweeps(&scene).await;
    let begun = Instant::now();
    let create = join_all((0..many).map(|index| {
        let scene = &scene;
        async move { scene.create::<MyIngress>(&format!("shop-{index}"), full::spec(scene)).await }
    }));
    let waiting = || async {
        objects(&scene).await.iter().filter(|object| !is_ready(object)).map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    let ready = async {
        create.await;
        wait_within(LONG, "every MyIngress to be ready", waiting, Vec::is_empty).await
    };
    let (statuses, _) = tokio::join!(first_statuses(&scene, many), ready);
    let all = counts(&scene).await;
    let count = |operation: &str| all.get(operation).copied().unwrap_or_default();
    println!(
        "» slow regional reads of 10 s: {many} full objects ready after {:?}; each had a status after {:.1} s at most; {} calls",
        begun.elapsed(),
        statuses.iter().max().map_or(0.0, Duration::as_secs_f64),
        all.values().sum::<usize>()
    );
    // A call whose answer got lost may be made again: nothing is made twice by that.
    assert_eq!(scene.balancers().await.len(), many);
    assert!(count("CreateLoadBalancer") >= many, "{all:?}");
    let groups = security_groups(&scene).await.into_iter();
    assert_eq!(groups.filter(|group| group.tags.contains_key("causeway.example.com/uid")).count(), many);
    assert!(count("CreateSecurityGroup") >= many, "{all:?}");
    // More calls are possible: when a call got no answer and the region is read again, the operator forgets what it had
    // read.
    assert!(
        (2..=4).contains(&count("DescribeSubnets")),
        "for their VPC, and for its networks, not each for itself: {all:?}"
    );
    assert!((1..=2).contains(&count("ListCertificates")), "{all:?}");
    // The operator need not look for what it made itself, unless a call got no answer.
    assert!(count("DescribeSecurityGroups") <= 4, "for all objects, not each for itself: {all:?}");
    operator.stop().await;

    // A new process knows none of the groups: it reads all of them together, and only once.
    scene.emulator.clear_journal().await;
    let _operator = operator_without_sweeps(&scene).await;
    scene.edit::<MyIngress>("shop-7", json!({ "tags": { "team": "seen" } })).await;
    scene.ingress("shop-7", "the edit to be carried out", full::is_complete).await;
    let all = counts(&scene).await;
    // One call lists the groups. One call for each 200 of them finds the rules elsewhere that let them in.
    assert_eq!(all.get("DescribeSecurityGroups"), Some(&(1 + many.div_ceil(200))), "{all:?}");
    let changes = ["CreateLoadBalancer", "CreateSecurityGroup", "ModifyTargetGroupAttributes", "CreateRule"];
    for operation in changes {
        assert_eq!(all.get(operation), None, "{all:?}");
    }
}

#[tokio::test]
async fn an_unreadable_list_blocks_none_of_the_others() {
    let scene = Scene::new("slow").await;
    let _operator = crate::support::Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({ "tags": { "team": "shop" } }))).await;
    scene.emulator.fault(json!({ "kind": "503", "operation": "DescribeTargetGroups" })).await;
    scene.emulator.fault(json!({ "kind": "503", "operation": "DescribeSecurityGroups" })).await;
    let tags = scene.elb.remove_tags().resource_arns(&alb.arn).tag_keys("team").send();
    tags.await.expect("the tag is removed");
    let team = || async { scene.tags(&alb.arn).await.get("team").cloned() };
    wait_for("the tag to be put back", team, |team| team.as_deref() == Some("shop")).await;
}

#[tokio::test]
async fn ten_objects_get_on_while_every_second_call_is_refused() {
    const OBJECTS: usize = 10;
    const THROTTLED: Duration = Duration::from_secs(30);
    let scene = Scene::new("slow").await;
    let _operator = operator_without_sweeps(&scene).await;
    created(&scene, "first", spec(json!({}))).await;
    scene.emulator.clear_journal().await;
    scene.emulator.fault(json!({ "kind": "throttle", "service": "elbv2", "probability": 0.5, "seed": 14 })).await;
    let begun = Instant::now();
    join_all((0..OBJECTS).map(|index| {
        let scene = &scene;
        async move { scene.create::<MyIngress>(&format!("app-{index}"), spec(json!({}))).await }
    }))
    .await;
    let times: RefCell<[BTreeMap<String, Duration>; 2]> = RefCell::default();
    let over = AtomicBool::new(false);
    let look = || async {
        if begun.elapsed() >= THROTTLED && !over.swap(true, Ordering::Relaxed) {
            scene.emulator.no_faults().await;
        }
        let objects = objects(&scene).await;
        let [named, ready] = &mut *times.borrow_mut();
        for object in objects.iter().filter(|object| object.name_any() != "first") {
            if object.status.as_ref().is_some_and(|status| status.alb.is_some()) {
                named.entry(object.name_any()).or_insert_with(|| begun.elapsed());
            }
            if is_ready(object) {
                ready.entry(object.name_any()).or_insert_with(|| begun.elapsed());
            }
        }
        ready.len()
    };
    wait_for("every MyIngress to be ready", look, |ready| *ready == OBJECTS).await;
    let [named, ready] = times.into_inner();
    let seconds = |times: &BTreeMap<String, Duration>| {
        let mut all: Vec<_> = times.values().map(Duration::as_secs_f64).collect();
        all.sort_by(f64::total_cmp);
        all.iter().map(|it| format!("{it:.1}")).collect::<Vec<_>>().join(" ")
    };
    let all = counts(&scene).await;
    // The objects are usually ready before the refusals end, which would also hit the test's own calls below.
    scene.emulator.no_faults().await;
    println!(
        "» every second call refused for 30 s: DNS after {} s; ready after {} s; {all:?}",
        seconds(&named),
        seconds(&ready)
    );
    let arns: BTreeSet<_> = scene.balancers().await.into_iter().filter_map(|it| it.load_balancer_arn).collect();
    assert_eq!(arns.len(), OBJECTS + 1, "none is made twice");
    // Half of the calls are refused, and each of these is made again. Reconciles that started from the beginning would
    // make many more calls.
    let total: usize = all.iter().filter(|(name, _)| *name != "DescribeLoadBalancers").map(|(_, count)| count).sum();
    assert!(total <= 8 * OBJECTS, "{all:?}");
}

#[tokio::test]
async fn the_dns_name_is_shown_despite_unreadable_tags() {
    let scene = Scene::new("slow").await;
    let _operator = operator_without_sweeps(&scene).await;
    created(&scene, "first", spec(json!({}))).await;
    scene.emulator.fault(json!({ "kind": "throttle", "operation": "DescribeTags" })).await;
    scene.create::<MyIngress>("app", spec(json!({}))).await;
    let named = |object: &MyIngress| object.status.as_ref().is_some_and(|status| status.alb.is_some());
    let object = scene.ingress("app", "the DNS name to be shown", named).await;
    assert!(!is_ready(&object), "whose it is, is not known yet");
    scene.emulator.no_faults().await;
    scene.ingress("app", "the balancer to be ready", is_ready).await;
    assert_eq!(scene.balancers().await.len(), 2);
}
