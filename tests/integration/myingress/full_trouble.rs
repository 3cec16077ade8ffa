//! Mistakes are reported with the field and the fix, leave nothing half-made, and hold no deletion up.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::{spec, stalled_by};
use crate::support::backends::remove_service;
use crate::support::scene::stalled;
use crate::support::{Account, Operator, Scene, full, wait_for};

/// Creates an object that cannot be carried out, and checks that nothing was made; returns its condition's message.
async fn refused(scene: &Scene, name: &str, spec: Value, reason: &str) -> String {
    scene.create::<MyIngress>(name, spec).await;
    let words = stalled_by(scene, name, reason).await;
    assert!(scene.balancers().await.is_empty(), "{reason}: nothing is half-made");
    scene.delete::<MyIngress>(name).await;
    scene.gone::<MyIngress>(name).await;
    words
}

fn listening(rules: &Value) -> Value {
    spec(json!({ "listeners": [{ "port": 80, "rules": rules }] }))
}

#[tokio::test]
async fn a_bad_spec_makes_nothing() {
    let scene = Scene::new("trouble").await;
    let _operator = Operator::start(&scene).await;
    let ok = json!({ "fixedResponse": { "statusCode": 200 } });
    for (number, (bad, field)) in [
        (
            json!([{ "hosts": ["a.example.com"], "action": { "forward": { "backends": [{ "name": "nowhere" }] } } }]),
            "spec.listeners[0].rules[0].action.forward",
        ),
        (json!([{ "paths": [{ "value": "no-slash" }], "action": ok }]), "spec.listeners[0].rules[0].paths[0]"),
        (json!([{ "sourceCidrs": ["192.0.2.1/33"], "action": ok }]), "spec.listeners[0].rules[0].sourceCidrs"),
        (json!([{ "hosts": ["a b"], "action": ok }]), "spec.listeners[0].rules[0].hosts[0]"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("bad-{number}");
        if let Err(refusal) = scene.try_create::<MyIngress>(&name, listening(&bad)).await {
            // The apiserver itself may refuse the mistake.
            assert!(refusal.to_string().contains(field), "{refusal}\nshould name {field}");
            continue;
        }
        let is_stalled = |object: &MyIngress| stalled(object).is_some();
        let object = scene.ingress(&name, "the mistake to be reported", is_stalled).await;
        let message = stalled_by(&scene, &name, &stalled(&object).expect("a reason")).await;
        assert!(message.starts_with(field), "{message}\nshould name {field}");
        assert!(scene.balancers().await.is_empty(), "{field}: nothing is half-made");
        scene.delete::<MyIngress>(&name).await;
        scene.gone::<MyIngress>(&name).await;
    }
}

#[tokio::test]
async fn what_is_missing_beside_the_object_is_told() {
    let scene = Scene::new("trouble").await;
    let _operator = Operator::start(&scene).await;
    let selector = |tags: Value| {
        let mut object = spec(json!({ "subnetSelector": { "tags": tags } }));
        object.as_object_mut().unwrap().remove("subnets");
        object
    };
    let words = refused(&scene, "subnets", selector(json!({ "no-such-tag": [] })), "SubnetsNotFound").await;
    assert!(words.contains("spec.subnetSelector"), "{words}");
    let adopting = spec(json!({ "adopt": "nobodys" }));
    let words = refused(&scene, "adopt", adopting, "AdoptionRefused").await;
    assert!(words.starts_with("spec.adopt"), "{words}");
}

#[tokio::test]
async fn a_selector_finds_one_subnet_in_each_zone() {
    let scene = Scene::new("subnets").await;
    let _operator = Operator::start(&scene).await;
    let mut object = spec(json!({ "subnetSelector": { "tags": { "kubernetes.io/role/elb": ["1"] } } }));
    object.as_object_mut().unwrap().remove("subnets");
    super::created(&scene, "app", object).await;
    let account = Account::of(&scene).await.0;
    assert_eq!(account["balancers"]["app-alb"]["subnets"], json!(["subnet-abc", "subnet-def", "subnet-ghi"]));
}

#[tokio::test]
async fn a_balancer_that_agrees_is_adopted() {
    let scene = Scene::new("adopt").await;
    // The balancer is made before the operator reads the region: otherwise it would report that there is none.
    let foreign = super::bystander::create(&scene, "old-web", &["subnet-abc", "subnet-def"], &[]).await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyIngress>("app", spec(json!({ "adopt": "old-web" }))).await;
    let words = stalled_by(&scene, "app", "AdoptionRefused").await;
    let (_, rest) = words.split_once("give it the tag ").expect("the tag");
    let (key, rest) = rest.split_once(" with the value ").expect("the value");
    super::bystander::add_tag(&scene, &foreign, key, rest.trim()).await;
    let alb = super::ready(&scene, "app").await;
    assert_eq!(alb.arn, foreign);
    assert_eq!(scene.balancers().await.len(), 1);
    assert_eq!(scene.tags(&foreign).await["ManagedBy"], "causeway");
}

#[tokio::test]
async fn a_foreign_listener_is_reported_and_left_alone() {
    let scene = Scene::new("trouble").await;
    let _operator = Operator::start(&scene).await;
    let alb = super::created(&scene, "app", spec(json!({}))).await;
    let response =
        aws_sdk_elasticloadbalancingv2::types::FixedResponseActionConfig::builder().status_code("200").build();
    let action = aws_sdk_elasticloadbalancingv2::types::Action::builder()
        .r#type(aws_sdk_elasticloadbalancingv2::types::ActionTypeEnum::FixedResponse)
        .fixed_response_config(response)
        .build();
    let call = scene.elb.create_listener().load_balancer_arn(&alb.arn).port(80);
    let call = call.protocol(aws_sdk_elasticloadbalancingv2::types::ProtocolEnum::Http).default_actions(action);
    let listener = call.send().await.expect("a listener").listeners.unwrap_or_default().remove(0).listener_arn.unwrap();
    let before = Account::of(&scene).await.facts(&scene);
    scene.edit::<MyIngress>("app", json!({ "listeners": [{ "port": 80 }] })).await;
    let words = stalled_by(&scene, "app", "ListenerTaken").await;
    assert!(words.starts_with("spec.listeners") && words.contains("80"), "{words}");
    assert_eq!(before.diff(&Account::of(&scene).await.facts(&scene)), "");
    scene.elb.delete_listener().listener_arn(listener).send().await.expect("the deletion");
    super::ready(&scene, "app").await;
}

#[tokio::test]
async fn a_reached_quota_is_reported_and_deletion_goes_on() {
    let scene = Scene::new("trouble").await;
    scene.emulator.settings(json!({ "target_groups": 2 })).await;
    let _operator = Operator::start(&scene).await;
    full::stage(&scene).await;
    scene.create::<MyIngress>(full::NAME, full::spec(&scene)).await;
    let is_stalled = |object: &MyIngress| stalled(object).is_some();
    let object = scene.ingress(full::NAME, "the quota to be reported", is_stalled).await;
    let reason = stalled(&object).expect("a reason");
    let words = stalled_by(&scene, full::NAME, &reason).await;
    assert!(
        words.contains("quota") || words.contains("TooManyTargetGroups") || words.contains("maximum"),
        "{reason}: {words}"
    );
    scene.delete::<MyIngress>(full::NAME).await;
    scene.gone::<MyIngress>(full::NAME).await;
    let after = Account::of(&scene).await;
    assert!(after.is_empty(), "{}", after.text());
}

#[tokio::test]
async fn deletion_waits_for_used_groups_and_needs_no_services() {
    let scene = Scene::new("deletion").await;
    scene.emulator.settings(json!({ "in_use_seconds": 3 })).await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    for service in ["shop", "cart", "api"] {
        remove_service(&scene, service).await;
    }
    scene.delete::<MyIngress>(full::NAME).await;
    scene.gone::<MyIngress>(full::NAME).await;
    wait_for("nothing to be left", || Account::of(&scene), Account::is_empty).await;
}

#[tokio::test]
async fn deletion_goes_on_with_a_spec_that_was_broken() {
    let scene = Scene::new("deletion").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    let mut broken = full::spec(&scene);
    broken["backends"] = json!([]);
    full::replace(&scene, full::NAME, &broken).await;
    let before = Account::of(&scene).await.facts(&scene);
    let is_stalled = |object: &MyIngress| stalled(object).is_some();
    scene.ingress(full::NAME, "the mistake to be reported", is_stalled).await;
    assert_eq!(before.diff(&Account::of(&scene).await.facts(&scene)), "", "what there is stays");
    scene.delete::<MyIngress>(full::NAME).await;
    scene.gone::<MyIngress>(full::NAME).await;
    let after = Account::of(&scene).await;
    assert!(after.is_empty(), "{}", after.text());
}
