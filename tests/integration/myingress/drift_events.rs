//! Changes that others make to a load balancer in AWS are reported: an event names what was different, and a counter
//! counts it.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::types::{ListenerAttribute, TargetGroupAttribute};
use causeway_api::MyIngress;
use serde_json::json;

use super::parts_drift::{gone_action, group, https, ingress, retag, rule};
use super::two_sweeps;
use crate::support::account::becomes;
use crate::support::backends::{endpoints, secret};
use crate::support::{Account, Operator, Scene, full, wait_for};

const REASON: &str = "DriftRepaired";

/// How often the drift of each part was repaired.
pub fn counted(operator: &Operator) -> BTreeMap<String, u32> {
    let text = operator.metrics.encode().expect("a text");
    let lines = text.lines().filter_map(|line| line.strip_prefix("causeway_drift_repaired_total{part=\""));
    lines
        .map(|line| line.split_once("\"} ").expect("a value"))
        .map(|(part, times)| (part.to_owned(), times.parse().expect("a number")))
        .collect()
}

async fn counts(operator: &Operator, part: &str) {
    let look = || async { counted(operator) };
    wait_for(&format!("drift of a {part} to be counted"), look, |counted| counted.contains_key(part)).await;
}

#[tokio::test]
async fn only_changes_of_others_are_reported_with_both_values() {
    let scene = Scene::new("drift").await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    let operator = Operator::start(&scene).await;
    let arn = full::created(&scene).await;
    let good = Account::of(&scene).await.facts(&scene);
    assert_eq!(counted(&operator), BTreeMap::new(), "a creation is no drift");

    retag(&scene, &arn).await;
    counts(&operator, "tag").await;
    scene.has_event(full::NAME, REASON, "load balancer shop-alb: tags.team was pirates, not storefront").await;

    let key = "routing.http.response.strict_transport_security.header_value";
    let attribute = ListenerAttribute::builder().key(key).value("max-age=1").build();
    let call = scene.elb.modify_listener_attributes().listener_arn(https(&scene, &arn).await);
    call.attributes(attribute).send().await.expect("the change");
    counts(&operator, "listener_attribute").await;
    let words = format!("listener on port 443 of shop-alb: attributes.{key} was max-age=1, not ");
    scene.has_event(full::NAME, REASON, &words).await;

    let changed = rule(&scene, &arn, 0).await;
    scene.elb.modify_rule().rule_arn(changed).actions(gone_action()).send().await.expect("the change");
    counts(&operator, "rule").await;
    scene.has_event(full::NAME, REASON, "on port 443 of shop-alb: actions[0] was ").await;

    ingress(&scene, &arn, "192.0.2.0/24", 22, true).await;
    counts(&operator, "security_group_rule").await;
    scene.has_event(full::NAME, REASON, "192.0.2.0/24").await;

    let key = "deregistration_delay.timeout_seconds";
    let attribute = TargetGroupAttribute::builder().key(key).value("1").build();
    let call = scene.elb.modify_target_group_attributes().target_group_arn(group(&scene, "shop").await);
    call.attributes(attribute).send().await.expect("the change");
    counts(&operator, "target_group_attribute").await;
    scene.has_event(full::NAME, REASON, &format!("attributes.{key} was 1, not ")).await;

    becomes(&scene, "all of that", &good).await;
    two_sweeps(&scene).await;
    let parts = ["listener_attribute", "rule", "security_group_rule", "tag", "target_group_attribute"];
    let once: BTreeMap<String, u32> = parts.map(|part| (part.to_owned(), 1)).into();
    assert_eq!(counted(&operator), once);

    // Edits of the object, its Secret and its endpoints.
    scene.edit::<MyIngress>(full::NAME, json!({ "tags": { "team": "web" }, "idleTimeout": "30s" })).await;
    full::complete(&scene).await;
    secret(&scene, "shop-login", "clientSecret", "another").await;
    endpoints(&scene, "shop", &[("", 8080)], &["198.18.7.1", "198.18.7.2"]).await;
    two_sweeps(&scene).await;
    full::complete(&scene).await;
    assert_eq!(counted(&operator), once, "what users change is no drift");
}

#[tokio::test]
async fn a_persistent_rival_is_reported_once_and_counted() {
    let scene = Scene::new("drift").await;
    let operator = Operator::start(&scene).await;
    let arn = full::created(&scene).await;
    for times in 1..=3 {
        retag(&scene, &arn).await;
        let look = || async { counted(&operator).get("tag").copied() };
        wait_for("the next repair", look, |counted| *counted == Some(times)).await;
    }
    scene.has_event(full::NAME, REASON, "tags.team was pirates").await;
    let message = scene.events(full::NAME).await.into_iter().filter(|(reason, _)| reason == REASON);
    assert_eq!(message.count(), 1);
}

#[tokio::test]
async fn differences_at_the_start_are_repaired_and_no_drift() {
    let scene = Scene::new("drift").await;
    let operator = Operator::start(&scene).await;
    let arn = full::created(&scene).await;
    let good = Account::of(&scene).await.facts(&scene);
    operator.stop().await;
    retag(&scene, &arn).await;
    let operator = Operator::start(&scene).await;
    becomes(&scene, "a tag", &good).await;
    two_sweeps(&scene).await;
    assert_eq!(counted(&operator), BTreeMap::new());
}
