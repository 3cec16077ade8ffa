//! Guests of a group bring rules and backends, and change nothing that belongs to the others.

use std::collections::BTreeMap;

use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use causeway_api::MyIngress;
use causeway_api::myingress::Scheme;

use super::fixtures::{born, built, describe, guest};
use super::specs::member;
use super::{Built, Model, order};

const ARN: &str = "arn:aws:acm:eu-west-1:000000000000:certificate/a";

fn rule(host: &str, priority: Option<u16>) -> Value {
    json!({ "hosts": [host], "priority": priority, "action": { "fixedResponse": { "statusCode": 200 } } })
}

/// A member of the group's own namespace.
fn home(listeners: &Value) -> MyIngress {
    let group = json!({ "name": "all", "allowedNamespaces": ["guests"] });
    born("home", 9, json!({ "group": group, "subnets": ["subnet-a", "subnet-b"], "listeners": listeners }))
}

fn at_home() -> MyIngress {
    home(&json!([
        { "port": 80, "rules": [rule("home.example.com", None), rule("late.example.com", Some(300))] },
        { "port": 443, "certificateArns": [ARN], "rules": [rule("home.example.com", None)] },
    ]))
}

fn on_80(rules: &Value) -> Value {
    json!({ "listeners": [{ "port": 80, "rules": rules }] })
}

/// The complaint about the guest. The model is as if the guest were not there.
fn refused(home: &MyIngress, spec: Value) -> String {
    let guest = guest("guest", 0, spec);
    let together = built(&[home, &guest]);
    assert_eq!(together.model, built(&[home]).model);
    assert_eq!(together.complaints.values().map(|it| it.reason).collect::<Vec<_>>(), ["GuestRefused"]);
    describe(&together, "guest")
}

#[test]
fn guests_cannot_set_shared_fields() {
    let acl = "arn:aws:wafv2:eu-west-1:000000000000:regional/webacl/a/b";
    for (field, value) in [
        ("subnets", json!(["subnet-a", "subnet-b"])),
        ("subnetSelector", json!({ "tags": { "a": [] } })),
        ("scheme", json!("internal")),
        ("ipAddressType", json!("ipv4")),
        ("securityGroups", json!(["sg-1"])),
        ("targetSecurityGroups", json!(["sg-1"])),
        ("inboundCidrs", json!(["::/0"])),
        ("inboundPrefixLists", json!(["pl-1"])),
        ("idleTimeout", json!("60s")),
        ("deletionProtection", json!(true)),
        ("http2", json!(true)),
        ("dropInvalidHeaders", json!(true)),
        ("accessLogs", json!({ "bucket": "logs" })),
        ("wafAclArn", json!(acl)),
        ("minimumCapacityUnits", json!(100)),
        ("attributes", json!({ "routing.http2.enabled": "true" })),
        ("tags", json!({ "team": "guests" })),
    ] {
        let message = refused(&at_home(), json!({ field: value }));
        assert!(message.starts_with(&format!("spec.{field} is for members of namespace shop")), "{message}");
    }
}

#[test]
fn what_listeners_are_is_not_for_guests_to_set() {
    let store = "arn:aws:elasticloadbalancing:eu-west-1:000000000000:truststore/a/b";
    let group = "arn:aws:elasticloadbalancing:eu-west-1:000000000000:targetgroup/a/b";
    let response = json!({ "fixedResponse": { "statusCode": 200 } });
    let theirs =
        json!([{ "hosts": ["g.example.com"], "action": { "forward": { "targetGroups": [{ "arn": group }] } } }]);
    for (field, value, words) in [
        ("port", json!(8080), "port is 8080, which members of namespace shop alone can open: use 80 or 443"),
        ("protocol", json!("HTTP"), "protocol differs from that of the group's listener"),
        ("certificateArns", json!([ARN]), "certificateArns is for members of namespace shop"),
        ("sslPolicy", json!("P"), "sslPolicy is for members of namespace shop"),
        ("mutualAuthentication", json!({ "mode": "verify", "trustStoreArn": store }), "mutualAuthentication is for"),
        ("inboundCidrs", json!(["::/0"]), "inboundCidrs is for members of namespace shop"),
        ("attributes", json!({ "a": "b" }), "attributes is for members of namespace shop"),
        ("defaultAction", response, "defaultAction is for members of namespace shop"),
        ("rules", theirs, "rules[0].action.forward.targetGroups is for members of namespace shop"),
    ] {
        let mut listener = json!({ "port": 443 });
        listener[field] = value;
        let message = refused(&at_home(), json!({ "listeners": [listener] }));
        assert!(message.starts_with(&format!("spec.listeners[0].{words}")), "{message}\nshould say: {words}");
    }
}

#[test]
fn a_guest_speaks_what_the_listener_speaks() {
    let home = home(&json!([{ "port": 8443, "protocol": "HTTPS", "certificateArns": [ARN] }]));
    let pool = "arn:aws:cognito-idp:eu-west-1:000000000000:userpool/a";
    let login = json!({ "userPoolArn": pool, "clientId": "c", "domain": "d" });
    let action = json!({ "authenticateCognito": login, "fixedResponse": { "statusCode": 200 } });
    let rules = json!([{ "hosts": ["g.example.com"], "action": action }]);
    let together = built(&[&home, &guest("guest", 0, json!({ "listeners": [{ "port": 8443, "rules": rules }] }))]);
    assert_eq!(together.complaints, BTreeMap::new());
}

#[test]
fn a_guest_is_never_the_anchor_and_never_leads() {
    let standing = json!({ "subnets": ["subnet-c", "subnet-d"], "scheme": "internal" });
    let early = guest("guest", 0, standing);
    let home = at_home();
    let mut members = vec![&early, &home];
    order(&mut members, "shop");
    assert_eq!(members.iter().map(|it| it.name_any()).collect::<Vec<_>>(), ["home", "guest"]);
    assert_eq!(built(&members).model.unwrap().balancer.scheme, Scheme::InternetFacing);
    let alone = built(&[&early]);
    assert_eq!(alone.model, None);
    assert!(describe(&alone, "guest").starts_with("spec.group: no valid member of namespace shop sets subnets"));
}

fn hosts(model: &Model) -> Vec<String> {
    let rules = model.listeners[&80].rules.iter();
    rules.map(|rule| format!("{}/{}", rule.member.1, rule.field.rsplit('.').next().unwrap_or_default())).collect()
}

#[test]
fn a_guests_priority_orders_only_its_own_rules() {
    let spec = on_80(&json!([rule("g.example.com", None), rule("first.example.com", Some(1))]));
    let first = guest("early", 0, spec);
    let second = guest("later", 1, on_80(&json!([rule("h.example.com", Some(1))])));
    let model = built(&[&at_home(), &first, &second]).model.unwrap();
    assert_eq!(hosts(&model), ["home/rules[0]", "home/rules[1]", "early/rules[1]", "early/rules[0]", "later/rules[0]"]);
    let priorities: Vec<_> = model.listeners[&80].rules.iter().map(|rule| rule.priority).collect();
    assert_eq!(priorities, [None, Some(300), None, None, None]);
}

#[test]
fn certificates_are_found_by_the_hosts_at_home() {
    let home = home(&json!([{ "port": 443, "rules": [rule("home.example.com", None)] }]));
    let bank = json!({ "listeners": [{ "port": 443, "rules": [rule("bank.example.org", None)] }] });
    let together = built(&[&home, &guest("guest", 0, bank)]).model.unwrap();
    assert_eq!(together.listeners[&443].certificates, built(&[&home]).model.unwrap().listeners[&443].certificates);
}

#[test]
fn what_others_answer_is_not_answered_by_a_guest() {
    let action = json!({ "fixedResponse": { "statusCode": 200 } });
    let with = |mut rule: Value| {
        rule["action"] = action.clone();
        rule
    };
    let path = |value: &str| json!([{ "value": value }]);
    let office = json!(["192.0.2.0/24"]);
    for (ours, theirs, refuses) in [
        // Our rule answers all of these requests.
        (json!({ "hosts": ["a.example.com"] }), json!({ "hosts": ["A.example.com"], "paths": path("/x") }), true),
        (json!({ "hosts": ["*.example.com"] }), json!({ "hosts": ["a.example.com"] }), true),
        (json!({ "paths": path("/shop") }), json!({ "hosts": ["a.example.com"], "paths": path("/shop/cart") }), true),
        // Clients that our rule does not let pass must not reach the guest.
        (json!({ "hosts": ["a.example.com"], "sourceCidrs": office }), json!({ "hosts": ["a.example.com"] }), true),
        (json!({ "hosts": ["a.example.com"], "sourceCidrs": office }), json!({ "hosts": ["*.example.com"] }), true),
        (json!({ "hosts": ["a.example.com"], "sourceCidrs": office }), json!({ "paths": path("/") }), true),
        // The rules are about different requests.
        (json!({ "hosts": ["a.example.com"] }), json!({ "hosts": ["*.example.com"] }), false),
        (
            json!({ "hosts": ["a.example.com"], "paths": path("/shop") }),
            json!({ "hosts": ["a.example.com"], "paths": path("/blog") }),
            false,
        ),
        (
            json!({ "hosts": ["a.example.com"], "paths": path("/admin"), "sourceCidrs": office }),
            json!({ "hosts": ["a.example.com"], "paths": path("/blog") }),
            false,
        ),
        (json!({ "headers": [{ "name": "x", "values": ["bad"] }] }), json!({ "hosts": ["a.example.com"] }), false),
        (json!({ "hostRegexes": ["^a"] }), json!({ "hosts": ["a.example.com"] }), false),
    ] {
        let home = home(&json!([{ "port": 80, "rules": [with(ours.clone())] }]));
        let guest = guest("guest", 0, on_80(&json!([with(theirs.clone())])));
        let together = built(&[&home, &guest]);
        let message = describe(&together, "guest");
        assert_eq!(!message.is_empty(), refuses, "{ours} and {theirs}: {message}");
        if refuses {
            let words =
                "spec.listeners[0].rules[0] is about requests that are for spec.listeners[0].rules[0] of shop/home";
            assert!(message.starts_with(words), "{message}");
        }
    }
}

#[test]
fn a_guest_over_the_limits_is_left_out() {
    let many = |number: usize, name: &str| -> Value {
        (0..number).map(|it| rule(&format!("{name}{it}.example.org"), None)).collect::<Vec<Value>>().into()
    };
    let greedy = guest("greedy", 0, on_80(&many(100, "g")));
    let modest = guest("modest", 1, on_80(&many(1, "m")));
    let together = built(&[&at_home(), &greedy, &modest]);
    assert_eq!(together.complaints.keys().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["greedy"]);
    assert!(describe(&together, "greedy").contains("rules, and AWS takes 100"));
}

#[test]
fn a_guest_with_a_taken_group_name_is_left_out() {
    // A search has found these two names: the hashes in the groups' names are the same.
    let (ours, theirs) = ("app-------e6278", "app-------465c1");
    let forward = |host: &str, backend: &str| {
        let action = json!({ "forward": { "backends": [{ "name": backend }] } });
        json!([{ "port": 80, "rules": [{ "hosts": [host], "action": action }] }])
    };
    let guest = |backend: &str| {
        let backends = json!([{ "name": backend, "service": "mine", "port": 80 }]);
        guest("home", 0, json!({ "listeners": forward("g.example.com", backend), "backends": backends }))
    };
    let mut home = home(&forward("home.example.com", ours));
    home.spec.backends = serde_json::from_value(json!([{ "name": ours, "port": 80 }])).unwrap();
    let together = built(&[&home, &guest(theirs)]);
    assert_eq!(together.model, built(&[&home]).model);
    assert_eq!(together.model.unwrap().groups.into_keys().collect::<Vec<_>>(), ["home-app-771b3340be"]);
    let complaints: Vec<_> = together.complaints.iter().map(|(member, it)| (member.0.as_str(), it.reason)).collect();
    assert_eq!(complaints, [("guests", "BackendInvalid")]);
    assert_eq!(built(&[&home, &guest("app")]).complaints, BTreeMap::new());
}

/// Any object in another namespace. Half of them set nothing that a guest may not set.
fn any_guest(name: &'static str) -> impl Strategy<Value = MyIngress> {
    (member(name), any::<bool>()).prop_map(move |(mut object, modest)| {
        object.metadata.namespace = Some("guests".into());
        let spec = &mut object.spec;
        if let Some(group) = &mut spec.group {
            group.namespace = Some("shop".into());
        }
        if modest {
            spec.subnets.clear();
            spec.scheme = Scheme::default();
            spec.inbound_cidrs.clear();
            spec.tags.clear();
            spec.attributes.clear();
            for listener in &mut spec.listeners {
                listener.certificate_arns.clear();
                listener.default_action = None;
                listener.attributes.clear();
                listener.protocol = None;
                for (number, rule) in listener.rules.iter_mut().enumerate() {
                    rule.hosts = vec![format!("{name}{number}.guests.example.com")];
                }
            }
        }
        object
    })
}

fn ordered(members: &[MyIngress]) -> Built {
    let mut members: Vec<&MyIngress> = members.iter().collect();
    order(&mut members, "shop");
    built(&members)
}

/// The model and the complaints, without what belongs to these members.
fn drop_members(mut built: Built, out: impl Fn(&(String, String)) -> bool) -> Built {
    if let Some(model) = &mut built.model {
        model.groups.retain(|_, group| !out(&group.member));
        for listener in model.listeners.values_mut() {
            listener.rules.retain(|rule| !out(&rule.member));
        }
    }
    built.complaints.retain(|member, _| !out(member));
    built
}

fn is_guest(member: &(String, String)) -> bool {
    member.0 == "guests"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn guests_change_nothing_for_the_other_members(
        home in (member("a"), member("b")), guests in (any_guest("g"), any_guest("h")),
    ) {
        let home = [home.0, home.1];
        let all = [home.to_vec(), vec![guests.0, guests.1]].concat();
        let (together, alone) = (ordered(&all), ordered(&home));
        for listener in together.model.iter().flat_map(|model| model.listeners.values()) {
            prop_assert!(listener.rules.iter().map(|rule| is_guest(&rule.member)).is_sorted(), "guests come last");
            prop_assert!(listener.rules.iter().all(|rule| !is_guest(&rule.member) || rule.priority.is_none()));
        }
        prop_assert_eq!(drop_members(together, is_guest), alone);
    }

    #[test]
    fn a_later_guest_takes_nothing_from_an_earlier_one(
        home in member("a"), early in any_guest("g"), late in any_guest("h"),
    ) {
        let before = ordered(&[home.clone(), early.clone()]);
        let mut late = late;
        // With the same order and no creation time it comes after the early guest.
        let order = early.spec.group.as_ref().and_then(|group| group.order);
        late.spec.group.as_mut().unwrap().order = order;
        late.metadata.creation_timestamp = None;
        let after = ordered(&[home, early, late]);
        prop_assert_eq!(drop_members(after, |member| member.1 == "h"), before);
    }
}
