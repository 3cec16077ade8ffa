//! Edits of the spec reach AWS: in place where AWS can, by a replacement where it cannot.

use std::time::Duration;

use causeway_api::MyIngress;
use jiff::Timestamp;
use serde_json::json;

use super::bystander::{attributes, read_balancer, subnets};
use super::{alb, changes, created, operator_without_sweeps, ready, spec};
use crate::support::account::{listeners, rules, target_groups};
use crate::support::ec2::security_groups;
use crate::support::scene::is_ready;
use crate::support::{Operator, Scene, full, wait_for};

#[tokio::test]
async fn changed_subnets_move_the_same_balancer() {
    let scene = Scene::new("change").await;
    let _operator = Operator::start(&scene).await;
    let before = created(&scene, "app", spec(json!({}))).await;
    scene.edit::<MyIngress>("app", json!({ "subnets": ["subnet-def", "subnet-ghi"] })).await;
    assert_eq!(ready(&scene, "app").await, before, "same ARN, same DNS name");
    assert_eq!(subnets(&read_balancer(&scene, &before.arn).await.balancer), ["subnet-def", "subnet-ghi"]);
    assert_eq!(changes(&scene).await, ["CreateLoadBalancer", "SetSubnets"]);
}

#[tokio::test]
async fn subnets_in_another_order_change_nothing() {
    let scene = Scene::new("change").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    scene.edit::<MyIngress>("app", json!({ "subnets": ["subnet-def", "subnet-abc"] })).await;
    ready(&scene, "app").await;
    assert_eq!(changes(&scene).await, ["CreateLoadBalancer"]);
}

#[tokio::test]
async fn dropped_tags_are_removed_and_foreign_ones_stay() {
    let scene = Scene::new("change").await;
    let _operator = Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({ "tags": { "team": "payments", "env": "test" } }))).await;
    super::bystander::add_tag(&scene, &alb.arn, "cost-center", "42").await;
    scene.edit::<MyIngress>("app", json!({ "tags": { "team": "checkout", "env": null, "new": "one" } })).await;
    ready(&scene, "app").await;
    let tags = scene.tags(&alb.arn).await;
    let ours: Vec<_> = tags.iter().filter(|(key, _)| !key.contains('/') && *key != "ManagedBy").collect();
    let expected = [("cost-center", "42"), ("new", "one"), ("team", "checkout")];
    assert_eq!(ours.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
    scene.edit::<MyIngress>("app", json!({ "tags": null })).await;
    ready(&scene, "app").await;
    let tags = scene.tags(&alb.arn).await;
    assert!(!tags.contains_key("team") && !tags.contains_key("new") && tags.contains_key("cost-center"), "{tags:?}");
}

#[tokio::test]
async fn dropped_tags_are_removed_from_every_part() {
    let scene = Scene::new("change").await;
    let _operator = operator_without_sweeps(&scene).await;
    let arn = full::created(&scene).await;
    let mut parts = vec![arn.clone()];
    for listener in listeners(&scene, &arn).await.into_values() {
        let listener = listener.listener_arn.expect("an ARN");
        let own = rules(&scene, &listener).await.into_iter().filter(|rule| rule.is_default() != Some(true));
        parts.extend(own.filter_map(|rule| rule.rule_arn));
        parts.push(listener);
    }
    parts.extend(target_groups(&scene).await.into_iter().filter_map(|group| group.target_group_arn));
    assert_eq!(parts.len(), 12, "the balancer, 2 listeners, 6 rules and 3 target groups");
    for part in &parts {
        assert_eq!(scene.tags(part).await["team"], "storefront");
        super::bystander::add_tag(&scene, part, "cost-center", "42").await;
    }
    scene.emulator.clear_journal().await;
    let mut edited = full::spec(&scene);
    edited.as_object_mut().unwrap().remove("tags");
    full::replace(&scene, full::NAME, &edited).await;
    full::complete(&scene).await;
    for part in &parts {
        let tags = scene.tags(part).await;
        assert!(!tags.contains_key("team") && tags["cost-center"] == "42", "{part}: {tags:?}");
    }
    let security = security_groups(&scene).await.into_iter();
    let mut ours = security.filter(|group| group.tags.contains_key("ManagedBy"));
    let tags = ours.next().expect("a security group of ours").tags;
    assert!(!tags.contains_key("team"), "{tags:?}");
    let calls = scene.emulator.journal().await;
    let count = |operation: &str| calls.iter().filter(|call| call.operation == operation).count();
    assert_eq!((count("RemoveTags"), count("DeleteTags")), (5, 1), "one for the listeners with all their rules");
}

#[tokio::test]
async fn dropped_attributes_go_back_to_the_default() {
    let scene = Scene::new("change").await;
    let _operator = Operator::start(&scene).await;
    let set = json!({ "idle_timeout.timeout_seconds": "120", "routing.http2.enabled": "false" });
    let alb = created(&scene, "app", spec(json!({ "attributes": set }))).await;
    scene.edit::<MyIngress>("app", json!({ "attributes": { "routing.http2.enabled": null } })).await;
    ready(&scene, "app").await;
    let now = attributes(&scene, &alb.arn).await;
    assert_eq!((now["idle_timeout.timeout_seconds"].as_str(), now["routing.http2.enabled"].as_str()), ("120", "true"));
    scene.edit::<MyIngress>("app", json!({ "attributes": null })).await;
    ready(&scene, "app").await;
    assert_eq!(attributes(&scene, &alb.arn).await["idle_timeout.timeout_seconds"], "60");
}

#[tokio::test]
async fn keys_dropped_without_an_operator_are_still_removed() {
    let scene = Scene::new("change").await;
    let operator = Operator::start(&scene).await;
    let set = json!({ "tags": { "team": "payments" }, "attributes": { "idle_timeout.timeout_seconds": "120" } });
    let alb = created(&scene, "app", spec(set)).await;
    operator.stop().await;
    scene.edit::<MyIngress>("app", json!({ "tags": null, "attributes": null })).await;
    let _operator = Operator::start(&scene).await;
    ready(&scene, "app").await;
    let now = read_balancer(&scene, &alb.arn).await;
    assert!(!now.tags.contains_key("team"), "{:?}", now.tags);
    assert_eq!(now.attributes["idle_timeout.timeout_seconds"], "60");
}

#[tokio::test]
async fn a_replaced_balancer_serves_until_the_new_one_is_active() {
    let scene = Scene::new("change").await;
    // Without sweeps: the emulator's setting is for the present balancers too.
    let _operator = operator_without_sweeps(&scene).await;
    let old = created(&scene, "app", spec(json!({}))).await;
    scene.emulator.settings(json!({ "provisioning_seconds": 600 })).await;
    scene.edit::<MyIngress>("app", json!({ "scheme": "internal" })).await;
    wait_for("the second balancer", || scene.balancers(), |balancers| balancers.len() == 2).await;
    let status = scene.api::<MyIngress>().get("app").await.unwrap();
    assert_eq!(alb(&status).arn, old.arn, "the status names the one that serves");
    scene.emulator.settings(json!({ "provisioning_seconds": 0 })).await;

    let new = ready(&scene, "app").await;
    assert_ne!((&new.arn, &new.dns), (&old.arn, &old.dns));
    let left = wait_for("the old one to be gone", || scene.balancers(), |balancers| balancers.len() == 1).await;
    assert_eq!(left[0].load_balancer_arn(), Some(new.arn.as_str()));
    assert_eq!(left[0].scheme().map(ToString::to_string).as_deref(), Some("internal"));
    assert_eq!(changes(&scene).await, ["CreateLoadBalancer", "CreateLoadBalancer", "DeleteLoadBalancer"]);
}

#[tokio::test]
async fn a_replaced_balancer_keeps_its_grace_period_over_a_restart() {
    const GRACE: Duration = Duration::from_secs(20);
    let scene = Scene::new("change").await;
    let patient = || async {
        let sweep = Duration::from_secs(2);
        let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), sweep);
        context.replacement_grace = GRACE;
        Operator::start_in(context)
    };
    let gone = json!({ "fixedResponse": { "statusCode": 410 } });
    let operator = patient().await;
    let old = created(&scene, "app", spec(json!({ "listeners": [{ "port": 80, "defaultAction": gone }] }))).await;
    scene.edit::<MyIngress>("app", json!({ "scheme": "internal" })).await;
    let object = scene.ingress("app", "app to be ready", is_ready).await;
    let new = alb(&object);
    assert_ne!((&new.arn, &new.dns), (&old.arn, &old.dns));
    let replaced = object.status.unwrap().replaced.expect("the old one");
    assert_eq!((&replaced.arn, &replaced.dns), (&old.arn, &old.dns));
    let over = replaced.since.0 + GRACE;

    operator.stop().await;
    let _operator = patient().await;
    super::two_sweeps(&scene).await;
    let answer = scene.elb.describe_listeners().load_balancer_arn(&old.arn).send().await;
    let is_whole = answer.is_ok_and(|answer| answer.listeners().iter().any(|listener| listener.port() == Some(80)));
    // On a slow machine the period may be over by now.
    assert!(is_whole || Timestamp::now() >= over, "it is as it was");
    let left = wait_for("the old one to be gone", || scene.balancers(), |balancers| balancers.len() == 1).await;
    assert_eq!(left[0].load_balancer_arn(), Some(new.arn.as_str()));
    let calls = scene.emulator.journal().await;
    let deletion = calls.iter().find(|call| call.operation == "DeleteLoadBalancer").expect("it was deleted");
    let deleted: Timestamp = deletion.time.parse().expect("a time");
    assert!(deleted >= over, "deleted at {deleted}, before {over}");
    let replaced = || async { scene.api::<MyIngress>().get("app").await.unwrap().status.unwrap().replaced };
    wait_for("the status to forget it", replaced, Option::is_none).await;
}

#[tokio::test]
async fn a_scheme_changed_back_keeps_the_old_balancer() {
    let scene = Scene::new("change").await;
    // Without sweeps: the emulator's setting is for the present balancers too.
    let _operator = operator_without_sweeps(&scene).await;
    let old = created(&scene, "app", spec(json!({}))).await;
    scene.emulator.settings(json!({ "provisioning_seconds": 3600 })).await;
    scene.edit::<MyIngress>("app", json!({ "scheme": "internal" })).await;
    wait_for("the second balancer", || scene.balancers(), |balancers| balancers.len() == 2).await;
    scene.edit::<MyIngress>("app", json!({ "scheme": "internet-facing" })).await;
    assert_eq!(ready(&scene, "app").await, old);
    let left = wait_for("the second one to be gone", || scene.balancers(), |balancers| balancers.len() == 1).await;
    assert_eq!(left[0].load_balancer_arn(), Some(old.arn.as_str()));
}

#[tokio::test]
async fn a_scheme_changed_to_and_fro_ends_with_one_balancer() {
    let scene = Scene::new("change").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    for scheme in ["internal", "internet-facing", "internal"] {
        scene.edit::<MyIngress>("app", json!({ "scheme": scheme })).await;
        let alb = ready(&scene, "app").await;
        let left = wait_for("one balancer", || scene.balancers(), |balancers| balancers.len() == 1).await;
        assert_eq!(left[0].load_balancer_arn(), Some(alb.arn.as_str()));
        assert_eq!(left[0].scheme().map(ToString::to_string).as_deref(), Some(scheme));
    }
}

#[tokio::test]
async fn a_protected_replaced_balancer_is_reported() {
    let scene = Scene::new("change").await;
    let _operator = Operator::start(&scene).await;
    let old = created(&scene, "app", spec(json!({}))).await;
    super::bystander::set_attribute(&scene, &old.arn, "deletion_protection.enabled", "true").await;
    scene.edit::<MyIngress>("app", json!({ "scheme": "internal" })).await;
    let message = super::stalled_by(&scene, "app", "DeletionProtected").await;
    assert!(message.contains("spec.deletionProtection"), "{message}");
    let object = scene.api::<MyIngress>().get("app").await.unwrap();
    assert_ne!(alb(&object).arn, old.arn);
    super::bystander::set_attribute(&scene, &old.arn, "deletion_protection.enabled", "false").await;
    ready(&scene, "app").await;
    assert_eq!(scene.balancers().await.len(), 1);
}
