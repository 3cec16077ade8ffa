//! Several objects on one balancer: what agrees, what does not, and which object gets the complaint.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use causeway_api::MyIngress;

use super::actions::nothing_here;
use super::fixtures::{built, describe, joining, standing};
use super::{CertificatesModel, Model, SecurityModel};

const CERTIFICATE: &str = "arn:aws:acm:eu-west-1:000000000000:certificate/a";

/// The model of both objects, which agree.
fn both(first: &MyIngress, second: &MyIngress) -> Model {
    let built = built(&[first, second]);
    assert!(built.complaints.is_empty(), "{:?}", built.complaints);
    built.model.unwrap()
}

/// The complaint about the second object. The model is as if the first were alone.
fn refused(first: &MyIngress, second: &MyIngress) -> String {
    let together = built(&[first, second]);
    assert_eq!(together.model, built(&[first]).model);
    describe(&together, "b")
}

fn answering(host: &str, priority: Option<u16>) -> Value {
    json!({ "hosts": [host], "priority": priority, "action": { "fixedResponse": { "statusCode": 200 } } })
}

fn on_80(more: &[(&str, Value)]) -> Value {
    let mut listener = json!({ "port": 80 });
    for (key, value) in more {
        listener[*key] = value.clone();
    }
    json!({ "listeners": [listener] })
}

fn on_443(more: &[(&str, Value)]) -> Value {
    let mut spec = on_80(more);
    spec["listeners"][0]["port"] = json!(443);
    spec
}

#[test]
fn rules_of_a_shared_port_follow_each_other() {
    let first = standing("a", on_80(&[("rules", json!([answering("a.x", None), answering("b.x", Some(9))]))]));
    let second = joining("b", on_80(&[("rules", json!([answering("c.x", None), answering("d.x", Some(1))]))]));
    let rules = &both(&first, &second).listeners[&80].rules;
    let fields: Vec<_> =
        rules.iter().map(|rule| (rule.member.1.as_str(), &rule.field[rule.field.len() - 3..])).collect();
    assert_eq!(fields, [("b", "[1]"), ("a", "[0]"), ("b", "[0]"), ("a", "[1]")]);
}

#[test]
fn rules_keep_the_order_of_their_members_under_any_anchor() {
    let first = joining("a", on_80(&[("rules", json!([answering("a.x", None)]))]));
    let second = standing("b", on_80(&[("rules", json!([answering("b.x", None)]))]));
    let rules = &both(&first, &second).listeners[&80].rules;
    assert_eq!(rules.iter().map(|rule| rule.member.1.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn backends_of_the_same_name_are_two() {
    let spec = || {
        let mut spec = on_80(&[(
            "rules",
            json!([{ "hosts": ["a.x"], "action": { "forward": { "backends": [{ "name": "app" }] } } }]),
        )]);
        spec["backends"] = json!([{ "name": "app", "port": 80 }]);
        spec
    };
    assert_eq!(both(&standing("a", spec()), &joining("b", spec())).groups.len(), 2);
}

#[test]
fn what_only_one_gives_goes_for_all() {
    let policy =
        [("sslPolicy", json!("P")), ("certificateArns", json!([CERTIFICATE])), ("attributes", json!({ "a": "1" }))];
    let default =
        [("defaultAction", json!({ "fixedResponse": { "statusCode": 418 } })), ("attributes", json!({ "b": "2" }))];
    let listener = &both(&standing("a", on_443(&policy)), &joining("b", on_443(&default))).listeners[&443];
    assert_eq!(listener.ssl_policy.as_deref(), Some("P"));
    assert_eq!(listener.attributes.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert_ne!(listener.default_actions, nothing_here());
}

#[test]
fn certificates_of_a_member_replace_none_found_by_host() {
    let given = ("certificateArns", json!([CERTIFICATE]));
    let rules = |host: &str| ("rules", json!([answering(host, None)]));
    let first = standing("a", on_443(&[given, rules("a.x")]));
    let listener = &both(&first, &joining("b", on_443(&[rules("b.x")]))).listeners[&443];
    let hosts = BTreeSet::from(["b.x".to_owned()]);
    assert_eq!(listener.certificates, CertificatesModel::Chosen { given: vec![CERTIFICATE.to_owned()], hosts });
}

#[test]
fn members_unite_the_certificates_that_they_give_for_a_port() {
    let (other, third) = (format!("{CERTIFICATE}b"), format!("{CERTIFICATE}c"));
    let given = |arns: &[&str]| on_443(&[("certificateArns", json!(arns))]);
    let first = standing("a", given(&[CERTIFICATE, &other]));
    let listener = &both(&first, &joining("b", given(&[&third, &other]))).listeners[&443];
    let given = vec![CERTIFICATE.to_owned(), other, third];
    assert_eq!(listener.certificates, CertificatesModel::Chosen { given, hosts: BTreeSet::new() });
}

#[test]
fn contradicting_listeners_are_a_complaint_about_the_later_member() {
    let response = |status: u16| json!({ "fixedResponse": { "statusCode": status } });
    let certificates = || ("certificateArns", json!([CERTIFICATE]));
    for (first, second, field) in [
        (on_80(&[]), on_80(&[("protocol", json!("HTTPS")), certificates()]), "protocol"),
        (
            on_443(&[certificates(), ("sslPolicy", json!("P"))]),
            on_443(&[certificates(), ("sslPolicy", json!("Q"))]),
            "sslPolicy",
        ),
        (on_80(&[("attributes", json!({ "a": "1" }))]), on_80(&[("attributes", json!({ "a": "2" }))]), "attributes[a]"),
        (on_80(&[("defaultAction", response(200))]), on_80(&[("defaultAction", response(201))]), "defaultAction"),
    ] {
        let message = refused(&standing("a", first), &joining("b", second));
        let words = "differs from that of shop/a, which has the same port and came first: make them equal, or leave it out here";
        assert_eq!(message, format!("spec.listeners[0].{field} {words}"));
    }
}

#[test]
fn a_priority_is_given_once() {
    let spec = || on_80(&[("rules", json!([answering("a.x", Some(7))]))]);
    let message = refused(&standing("a", spec()), &joining("b", spec()));
    let rule = "spec.listeners[0].rules[0]";
    assert_eq!(message, format!("{rule}.priority is 7, as that of {rule} of shop/a: choose another number"));
}

#[test]
fn only_the_first_anchor_describes_the_balancer() {
    let acl = "arn:aws:wafv2:eu-west-1:000000000000:regional/webacl/a/b";
    for (second, field) in [
        (json!({ "subnets": ["subnet-c", "subnet-d"] }), "subnets"),
        (json!({ "subnetSelector": { "tags": { "a": [] } } }), "subnetSelector"),
        (json!({ "scheme": "internal" }), "scheme"),
        (json!({ "ipAddressType": "dualstack" }), "ipAddressType"),
        (json!({ "wafAclArn": acl }), "wafAclArn"),
        (json!({ "minimumCapacityUnits": 100 }), "minimumCapacityUnits"),
        (json!({ "securityGroups": ["sg-1"] }), "securityGroups"),
        (json!({ "inboundCidrs": ["::/0"] }), "inboundCidrs"),
        (json!({ "http2": false }), "attributes[routing.http2.enabled]"),
    ] {
        let message = refused(&standing("a", json!({})), &joining("b", second));
        assert!(message.starts_with(&format!("spec.{field} ")), "{message}");
        assert!(message.contains("differs from that of shop/a, which says where the balancer stands"), "{message}");
    }
}

#[test]
fn to_repeat_what_the_balancer_is_does_no_harm() {
    let spec = json!({ "scheme": "internal", "http2": false, "securityGroups": ["sg-1"], "minimumCapacityUnits": 100 });
    both(&standing("a", spec.clone()), &standing("b", spec.clone()));
    both(&standing("a", spec.clone()), &joining("b", spec.clone()));
    both(&standing("a", spec), &joining("b", json!({})));
}

#[test]
fn networks_and_tags_add_up() {
    let first = standing("a", json!({ "inboundCidrs": ["10.0.0.0/8"], "tags": { "a": "1", "b": "2" } }));
    let second = joining("b", json!({ "inboundCidrs": ["::/0"], "tags": { "b": "2", "c": "3" } }));
    let balancer = both(&first, &second).balancer;
    assert_eq!(balancer.tags.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    let cidrs = BTreeSet::from(["10.0.0.0/8".to_owned(), "::/0".to_owned()]);
    assert_eq!(
        balancer.security,
        SecurityModel::Managed { cidrs, prefix_lists: BTreeSet::new(), targets: BTreeSet::new() }
    );
    let message = refused(&first, &joining("b", json!({ "tags": { "b": "3" } })));
    assert_eq!(
        message,
        "spec.tags[b] differs from that of shop/a, which came first: make them equal, or leave it out here"
    );
}

#[test]
fn the_member_that_overflows_a_limit_is_left_out() {
    let rules = |number: usize| -> Value { (0..number).map(|it| answering(&format!("h{it}.x"), None)).collect() };
    let first = standing("a", on_80(&[("rules", rules(99))]));
    both(&first, &joining("b", on_80(&[("rules", rules(1))])));
    let message = refused(&first, &joining("b", on_80(&[("rules", rules(2))])));
    assert!(message.starts_with("spec.listeners brings the balancer to 101 rules, and AWS takes 100"), "{message}");
}

#[test]
fn only_a_member_with_too_long_a_name_is_left_out() {
    let (first, spec) = (standing("a", on_80(&[])), json!({ "listeners": [{ "port": 81 }] }));
    let (longest, longer) = ("x".repeat(256 - "shop/".len()), "x".repeat(257 - "shop/".len()));
    let with = |name: &str| built(&[&first, &joining(name, spec.clone())]);
    assert!(with(&longest).complaints.is_empty());
    assert_eq!(with(&longer).model, built(&[&first]).model);
    let message = describe(&with(&longer), &longer);
    assert!(message.starts_with("metadata.name: shop/x") && message.contains(" has 257 characters"), "{message}");
    assert!(built(&[&standing(&longer, spec.clone())]).complaints.is_empty(), "alone it needs no such tag");
}
