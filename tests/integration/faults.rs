//! AWS on a bad day: errors of every kind, throttling, missing permissions, answers that never come.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aws_sdk_elasticloadbalancingv2::types::{Action, ActionTypeEnum, ProtocolEnum, RuleCondition, TargetTypeEnum};
use causeway_api::MyIngress;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::myingress::bystander;
use crate::support::operator::CLUSTER_UID;
use crate::support::scene::{condition, is_ready, stalled};
use crate::support::{Account, Operator, Scene, full, wait_for};

/// One in five calls fails, each kind as often as the others: 1 - (1 - p)^7 = 0.2.
const EACH: f64 = 0.0314;
const SEED: u64 = 20_240_607;
const MANY: usize = 50;

fn spec() -> Value {
    json!({ "subnets": ["subnet-abc", "subnet-def"], "tags": { "team": "shop" } })
}

/// Makes a part of the account's calls fail: with [`EACH`], a fifth.
async fn bad_day(scene: &Scene, each: f64) {
    let kinds = ["throttle", "500", "503", "expired_token", "reset_before", "reset_after"];
    for (seed, kind) in (SEED..).zip(kinds) {
        scene.emulator.fault(json!({ "kind": kind, "probability": each, "seed": seed })).await;
    }
    scene.emulator.fault(json!({ "kind": "delay", "delay_ms": 300, "probability": each, "seed": SEED })).await;
}

async fn objects(scene: &Scene) -> Vec<MyIngress> {
    scene.api::<MyIngress>().list(&ListParams::default()).await.expect("a list").items
}

async fn create_many(scene: &Scene, count: usize) {
    join_all((0..count).map(|index| async move { scene.create::<MyIngress>(&format!("shop-{index}"), spec()).await }))
        .await;
}

/// Names of objects that are not ready.
async fn waiting(scene: &Scene) -> Vec<String> {
    objects(scene).await.iter().filter(|object| !is_ready(object)).map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn failing_calls_lose_nothing_and_make_nothing_twice() {
    let scene = Scene::new("faults").await;
    scene.emulator.settings(json!({ "load_balancers": 2 * MANY })).await;
    let _operator = Operator::start(&scene).await;
    bad_day(&scene, EACH).await;
    create_many(&scene, MANY).await;
    wait_for("every MyIngress to be ready", || waiting(&scene), Vec::is_empty).await;
    let journal = scene.emulator.journal().await;
    let failed = journal
        .iter()
        .filter(|call| call.service == "elbv2" && call.outcome.as_deref().is_some_and(|outcome| outcome != "OK"))
        .count();
    scene.emulator.no_faults().await;

    let objects = objects(&scene).await;
    assert_eq!(objects.len(), MANY);
    let mut owners = BTreeMap::new();
    for balancer in scene.balancers().await {
        let arn = balancer.load_balancer_arn.unwrap_or_default();
        let tags = scene.tags(&arn).await;
        let owner = tags.get("causeway.example.com/uid").cloned().unwrap_or_default();
        let earlier = owners.insert(owner.clone(), (arn.clone(), tags));
        assert!(earlier.is_none(), "two balancers of owner {owner}: {earlier:?} and {arn}");
    }
    assert_eq!(owners.len(), MANY);
    for object in &objects {
        let (arn, tags) = &owners[&object.uid().unwrap_or_default()];
        assert_eq!(object.status.as_ref().and_then(|status| status.alb.as_ref()).map(|alb| &alb.arn), Some(arn));
        let expected = [
            ("ManagedBy", "causeway"),
            ("causeway.example.com/cluster", &scene.namespace),
            ("causeway.example.com/cluster-uid", CLUSTER_UID),
            ("causeway.example.com/name", &object.name_any()),
            ("causeway.example.com/namespace", &scene.namespace),
            ("causeway.example.com/uid", &object.uid().unwrap_or_default()),
            ("team", "shop"),
        ];
        let expected: BTreeMap<String, String> = expected.map(|(key, value)| (key.into(), value.into())).into();
        assert_eq!(*tags, expected);
    }

    bad_day(&scene, EACH).await;
    scene
        .api::<MyIngress>()
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .expect("accepted");
    let left = || async { self::objects(&scene).await.iter().map(ResourceExt::name_any).collect::<Vec<_>>() };
    wait_for("every MyIngress to be gone", left, Vec::is_empty).await;
    scene.emulator.no_faults().await;
    assert!(scene.balancers().await.is_empty());
    println!(
        "» bad day: {MANY} balancers made and deleted; {failed} of {} calls failed while they were made",
        journal.len()
    );
}

#[tokio::test]
async fn a_missing_permission_is_named_and_its_return_is_noticed() {
    let scene = Scene::new("faults").await;
    let _operator = Operator::start(&scene).await;
    scene.emulator.fault(json!({ "kind": "access_denied", "operation": "CreateLoadBalancer" })).await;
    scene.create::<MyIngress>("shop", spec()).await;
    let object = scene
        .ingress("shop", "the missing permission in Stalled", |it| stalled(it).as_deref() == Some("PermissionMissing"))
        .await;
    let conditions = object.status.unwrap_or_default().conditions;
    let (.., message) = condition(&conditions, "Stalled").expect("it is stalled");
    assert!(message.contains("elasticloadbalancing:CreateLoadBalancer"), "{message}");
    let text = |events: &Vec<(String, String)>| {
        events.iter().any(|(reason, note)| {
            reason == "PermissionMissing" && note.contains("elasticloadbalancing:CreateLoadBalancer")
        })
    };
    wait_for("an event that names the permission", || scene.events("shop"), text).await;
    scene.emulator.no_faults().await;
    let object = scene.ingress("shop", "the balancer once the permission is there", is_ready).await;
    assert_eq!(stalled(&object), None);
}

#[tokio::test]
async fn a_throttled_operator_does_not_add_to_the_storm() {
    const OBJECTS: usize = 10;
    const WINDOW: Duration = Duration::from_secs(10);
    /// With a pause of 0.2 s that doubles, an object tries for the sixth time after this time, and then once in 4 s.
    const SIXTH: Duration = Duration::from_millis(6200);
    let scene = Scene::new("faults").await;
    let _operator = Operator::start(&scene).await;
    // The operator must have read the region first: until then it tries no change.
    scene.create::<MyIngress>("first", spec()).await;
    scene.ingress("first", "the balancer to be active", is_ready).await;
    scene.emulator.fault(json!({ "kind": "throttle" })).await;
    scene.emulator.clear_journal().await;
    let begun = Instant::now();
    create_many(&scene, OBJECTS).await;
    // No condition to wait for: this is the time in which the calls are counted.
    tokio::time::sleep(WINDOW).await;
    let operations = scene.emulator.elb_operations().await;
    let took = begun.elapsed();
    let creates = operations.iter().filter(|operation| *operation == "CreateLoadBalancer").count();
    println!(
        "» throttle storm: {OBJECTS} objects made {} calls in {:.1} s, {creates} of them creates",
        operations.len(),
        took.as_secs_f64()
    );
    let tries = 6 + usize::try_from(took.saturating_sub(SIXTH).as_secs() / 4).expect("few");
    assert!((OBJECTS..=tries * OBJECTS).contains(&creates), "{creates} creates");
    // The reads of the snapshot come on top of that.
    assert!(operations.len() <= (tries + 2) * OBJECTS, "{operations:?}");
    let reconciling = |object: &MyIngress| {
        condition(&object.status.as_ref()?.conditions, "Reconciling").map(|(_, why, words)| (why, words))
    };
    for index in 0..OBJECTS {
        let throttled = |object: &MyIngress| reconciling(object).is_some_and(|(why, _)| why == "Throttled");
        let object = scene.ingress(&format!("shop-{index}"), "the throttling to be reported", throttled).await;
        let (_, words) = reconciling(&object).expect("just seen");
        assert_eq!(words, "AWS throttles CreateLoadBalancer; trying again");
    }
    // A retry does not write the same status again.
    let events = scene.api::<Event>().list(&ListParams::default()).await.expect("events").items;
    assert!(events.len() <= 4 * OBJECTS, "{} events", events.len());
    scene.emulator.no_faults().await;
    wait_for("every MyIngress to be ready", || waiting(&scene), Vec::is_empty).await;
    assert_eq!(scene.balancers().await.len(), OBJECTS + 1);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_makes_nothing_twice() {
    let scene = Scene::new("faults").await;
    let _operator = Operator::start(&scene).await;
    // The delay is longer than any call's timeout: AWS acts after the operator gave up.
    scene
        .emulator
        .fault(json!({ "kind": "delay", "delay_ms": 11_000, "operation": "CreateLoadBalancer", "times": 1 }))
        .await;
    scene.create::<MyIngress>("shop", spec()).await;
    let object = scene.ingress("shop", "the balancer to be active", is_ready).await;
    let creates = || async {
        let calls = scene.emulator.journal().await.into_iter();
        calls.filter(|call| call.operation == "CreateLoadBalancer").map(|call| call.outcome).collect::<Vec<_>>()
    };
    wait_for("the late call to end", creates, |calls| calls.len() >= 2 && calls.iter().all(Option::is_some)).await;
    let balancers = scene.balancers().await;
    let arns: Vec<_> = balancers.iter().filter_map(|balancer| balancer.load_balancer_arn.clone()).collect();
    assert_eq!(arns, [object.status.unwrap_or_default().alb.expect("a balancer").arn]);
    scene.delete::<MyIngress>("shop").await;
    scene.gone::<MyIngress>("shop").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn full_balancers_live_through_faults_and_spare_foreign_resources() {
    const FULL: usize = 10;
    let scene = Scene::new("faults").await;
    full::stage(&scene).await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    foreign(&scene).await;
    let beginning = Account::of(&scene).await;
    let before = beginning.facts(&scene);
    let _operator = Operator::start(&scene).await;
    // One call in twenty fails: a full balancer needs some forty calls, and the first that fails ends an attempt.
    bad_day(&scene, EACH / 4.0).await;
    join_all((0..FULL).map(|index| {
        let scene = &scene;
        async move { scene.create::<MyIngress>(&format!("shop-{index}"), full::spec(scene)).await }
    }))
    .await;
    for index in 0..FULL {
        let name = format!("shop-{index}");
        scene.ingress(&name, &format!("{name} to be ready with healthy targets"), full::is_complete).await;
    }
    scene.emulator.no_faults().await;
    let account = Account::of(&scene).await;
    let count = |account: &Account, part: &str| account.0[part].as_object().map_or(0, serde_json::Map::len);
    let made = |part: &str| count(&account, part) - count(&beginning, part);
    assert_eq!([made("balancers"), made("targetGroups"), made("securityGroups")], [FULL, 3 * FULL, FULL]);
    for (name, balancer) in
        account.0["balancers"].as_object().into_iter().flatten().filter(|(name, _)| *name != "foreign")
    {
        let listeners = balancer["listeners"].as_object().expect("listeners");
        assert_eq!(listeners.keys().collect::<Vec<_>>(), ["443", "80"], "{name}");
        assert_eq!(listeners["443"]["rules"].as_array().map(Vec::len), Some(7), "{name}: six and the default one");
    }

    bad_day(&scene, EACH / 4.0).await;
    let all = (DeleteParams::default(), ListParams::default());
    scene.api::<MyIngress>().delete_collection(&all.0, &all.1).await.expect("the deletion is accepted");
    wait_for("every MyIngress to be gone", || async { objects(&scene).await.len() }, |left| *left == 0).await;
    scene.emulator.no_faults().await;
    assert_eq!(
        before.diff(&Account::of(&scene).await.facts(&scene)),
        "",
        "nothing is left, and nothing foreign was touched"
    );
}

/// A balancer of another owner with a listener, a rule and a target group.
async fn foreign(scene: &Scene) {
    let balancer = bystander::create(scene, "foreign", &["subnet-abc", "subnet-def"], &[("team", "others")]).await;
    let group = scene.elb.create_target_group().name("foreign").protocol(ProtocolEnum::Http).port(80);
    let group = group.vpc_id("vpc-causeway").target_type(TargetTypeEnum::Ip).send().await.expect("a target group");
    let group = group.target_groups.unwrap_or_default().remove(0).target_group_arn;
    let forward = Action::builder().r#type(ActionTypeEnum::Forward).set_target_group_arn(group).build();
    let listener = scene.elb.create_listener().load_balancer_arn(balancer).protocol(ProtocolEnum::Http).port(80);
    let listener = listener.default_actions(forward.clone()).send().await.expect("a listener");
    let path = RuleCondition::builder().field("path-pattern").values("/others/*").build();
    let rule = scene.elb.create_rule().set_listener_arn(listener.listeners.unwrap_or_default().remove(0).listener_arn);
    rule.priority(100).conditions(path).actions(forward).send().await.expect("a rule");
}
