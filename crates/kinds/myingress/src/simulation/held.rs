//! Shared parts that stay as they are while a member of a group cannot take part: the balancer itself, settings of
//! listeners, and open ports.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use causeway_aws::elbv2::{MutualAuthentication, Pairs, RuleAction};
use causeway_runtime::Health;

use super::groups::members;
use super::{Simulation, specs};
use crate::model::fixtures::{describe, guest};
use crate::region::assets::{ListenerMember, Member};

const CERTIFICATE: &str = "arn:aws:acm:eu-west-1:000000000000:certificate/one";
const ACL: &str = "arn:aws:wafv2:eu-west-1:000000000000:regional/webacl/guard/1";

/// Makes a member unable to take part: by suspension, or by a mistake.
fn leave_out(simulation: &mut Simulation, name: &str, suspended: bool) {
    if suspended {
        simulation.object(name).spec.suspend = true;
    } else {
        let rule = json!({ "port": 9999, "rules": [{ "paths": [{ "type": "Prefix", "value": "/" }],
            "action": { "forward": { "backends": [{ "name": "nowhere" }] } } }] });
        simulation.object(name).spec.listeners.push(serde_json::from_value(rule).unwrap());
    }
    simulation.settle(None);
}

fn bring_back(simulation: &mut Simulation, name: &str) {
    let spec = &mut simulation.object(name).spec;
    spec.suspend = false;
    spec.listeners.retain(|listener| listener.port != 9999);
    simulation.settle(None);
}

/// A group, settled.
fn group(specs: &[Value]) -> Simulation {
    let mut simulation = Simulation::with(members(specs));
    simulation.settle(None);
    simulation
}

/// The balancers without their listeners.
fn balancers(simulation: &Simulation) -> Vec<Member> {
    let all = simulation.aws.assets.balancers.values();
    all.map(|member| Member { listeners: None, tags: Pairs::new(), ..member.clone() }).collect()
}

fn listener(simulation: &Simulation, port: u16) -> ListenerMember {
    let all = simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flat_map(|it| it.values()));
    all.into_iter().find(|it| it.listener.settings.port == port).unwrap().clone()
}

/// The hosts of the rules on port 80.
fn hosts(simulation: &Simulation) -> BTreeSet<String> {
    let rules = listener(simulation, 80).rules;
    let conditions = rules.values().flat_map(|it| it.rule.settings.conditions.clone());
    conditions.map(|condition| format!("{condition:?}")).collect()
}

fn rule(host: &str) -> Value {
    json!([{ "hosts": [host], "action": { "fixedResponse": { "statusCode": 200 } } }])
}

fn message(simulation: &Simulation, name: &str) -> (&'static str, String) {
    match simulation.health.iter().find(|((_, it), _)| it == name).map(|(_, health)| health) {
        Some(Health::Ready(cause) | Health::Stalled(cause)) => (cause.reason, cause.message.clone()),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_balancer_keeps_web_acl_and_attributes_without_their_member() {
    let (name, place) = (json!({ "name": "all" }), json!(["subnet-a", "subnet-b"]));
    let a = json!({
        "group": name, "subnets": place, "wafAclArn": ACL, "deletionProtection": true, "minimumCapacityUnits": 100,
        "listeners": [{ "port": 80, "rules": rule("a.example.com") }],
    });
    let b = json!({ "group": name, "subnets": place, "listeners": [{ "port": 80, "rules": rule("b.example.com") }] });
    // It repeats what `a` says.
    let c = json!({ "group": name, "wafAclArn": ACL, "deletionProtection": true });
    for suspended in [false, true] {
        let mut simulation = group(&[a.clone(), b.clone(), c.clone()]);
        let before = balancers(&simulation);
        assert_eq!(before[0].web_acl, Some(Some(ACL.into())));
        leave_out(&mut simulation, "a", suspended);
        simulation.object("b").spec.listeners[0].rules = serde_json::from_value(rule("new.example.com")).unwrap();
        simulation.settle(None);
        assert_eq!(balancers(&simulation), before, "suspended: {suspended}");
        let hosts = hosts(&simulation);
        assert!(hosts.iter().any(|it| it.contains("new.example.com")), "the rules of the others go on: {hosts:?}");
        assert!(hosts.iter().any(|it| it.contains("a.example.com")), "{hosts:?}");
        let (reason, message) = message(&simulation, "b");
        let why = if suspended { "spec.suspend is true" } else { "spec.listeners[1].rules[0]" };
        assert!(reason == "BalancerHeldUp" && message.contains("shop/a") && message.contains(why), "{message}");
        assert_eq!(self::message(&simulation, "c").0, "BalancerHeldUp", "what it repeats contradicts no member");
        // Once it takes part again, its edits apply.
        simulation.object("a").spec.waf_acl_arn = None;
        simulation.object("c").spec.waf_acl_arn = None;
        bring_back(&mut simulation, "a");
        assert_eq!(balancers(&simulation)[0].web_acl, Some(None));
        assert_eq!(self::message(&simulation, "b").0, "Active");
    }
}

#[test]
fn no_other_scheme_is_made_without_its_member() {
    let (name, place) = (json!({ "name": "all" }), json!(["subnet-a", "subnet-b"]));
    let a = json!({
        "group": name, "subnets": place, "scheme": "internal", "inboundCidrs": ["10.0.0.0/8"],
        "listeners": [{ "port": 80, "rules": rule("a.example.com") }],
    });
    let b = json!({ "group": name, "subnets": place, "inboundCidrs": ["0.0.0.0/0"], "listeners": [{ "port": 80 }] });
    let c = json!({ "group": name, "listeners": [{ "port": 80, "rules": rule("c.example.com") }] });
    for suspended in [false, true] {
        let mut simulation = group(&[a.clone(), b.clone(), c.clone()]);
        assert_eq!(message(&simulation, "b").0, "GroupConflict");
        let before = balancers(&simulation);
        simulation.grace = std::time::Duration::from_mins(2);
        // The wrong edit asks for another scheme, too.
        simulation.object("a").spec.scheme = causeway_api::myingress::Scheme::InternetFacing;
        leave_out(&mut simulation, "a", suspended);
        simulation.object("c").spec.listeners[0].rules = serde_json::from_value(rule("new.example.com")).unwrap();
        simulation.settle(None);
        assert_eq!(balancers(&simulation), before, "suspended: {suspended}");
        let hosts = hosts(&simulation);
        assert!(hosts.iter().any(|it| it.contains("new.example.com")), "the rules of the others go on: {hosts:?}");
        assert!(hosts.iter().any(|it| it.contains("a.example.com")), "{hosts:?}");
        let (reason, text) = message(&simulation, "b");
        assert!(reason == "GroupConflict" && text.contains("spec.scheme differs from that of shop/a"), "{text}");
        let ingress = simulation.aws.assets.security_groups.values().flat_map(|group| &group.ingress);
        assert_eq!(ingress.count(), 1, "what contradicts lets no network in");
    }
}

#[test]
fn a_member_that_never_took_part_holds_up_no_balancer() {
    let place = json!(["subnet-a", "subnet-b"]);
    let a = json!({ "group": { "name": "all" }, "subnets": place, "scheme": "internal", "tags": { "aws:x": "" } });
    let b = json!({ "group": { "name": "all" }, "subnets": place, "wafAclArn": ACL, "idleTimeout": "61s" });
    let simulation = group(&[a, b]);
    let made = balancers(&simulation);
    assert_eq!((made.len(), &made[0].web_acl), (1, &Some(Some(ACL.into()))));
    assert_eq!(made[0].attributes.as_ref().unwrap()["idle_timeout.timeout_seconds"], "61");
}

#[test]
fn guests_do_not_see_why_the_balancer_is_held_up() {
    let (name, place) = (json!({ "name": "all", "allowedNamespaces": ["guests"] }), json!(["subnet-a", "subnet-b"]));
    let a = json!({ "group": name, "subnets": place, "listeners": [{ "port": 80 }] });
    let mut simulation = Simulation::with(members(&[a.clone(), a]));
    simulation.objects.push(guest(
        "guest",
        5,
        json!({ "listeners": [{ "port": 80, "rules": rule("g.example.com") }] }),
    ));
    simulation.settle(None);
    leave_out(&mut simulation, "a", false);
    assert_eq!(message(&simulation, "guest").0, "Active");
    let object = simulation.object("b").clone();
    assert!(describe(&simulation.observe(&object).built, "a").contains("nowhere"));
}

#[test]
fn a_listener_keeps_settings_of_an_absent_member() {
    let name = json!({ "name": "all" });
    let a = json!({
        "group": name, "subnets": ["subnet-a", "subnet-b"],
        "listeners": [{ "port": 443, "rules": rule("a.example.com") }],
    });
    let b = json!({ "group": name, "listeners": [{
        "port": 443, "certificateArns": [CERTIFICATE], "sslPolicy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
        "mutualAuthentication": { "mode": "passthrough" }, "defaultAction": { "redirect": { "host": "example.org" } },
        "attributes": { "routing.http.response.x_frame_options.header_value": "DENY" },
    }] });
    for suspended in [false, true] {
        let mut simulation = group(&[a.clone(), b.clone()]);
        let before = listener(&simulation, 443);
        let settings = &before.listener.settings;
        assert_eq!(settings.mutual_authentication, Some(MutualAuthentication::Passthrough));
        assert!(matches!(settings.default_actions[..], [RuleAction::Redirect(_)]));
        leave_out(&mut simulation, "b", suspended);
        let after = listener(&simulation, 443);
        assert_eq!((&after.listener, &after.attributes), (&before.listener, &before.attributes), "{suspended}");
        // Settings of another member apply.
        let listeners = json!([{ "port": 443, "defaultAction": { "fixedResponse": { "statusCode": 410 } },
            "certificateArns": ["arn:aws:acm:eu-west-1:000000000000:certificate/two"], "rules": rule("a.example.com") }]);
        simulation.object("a").spec.listeners = serde_json::from_value(listeners).unwrap();
        simulation.settle(None);
        let after = listener(&simulation, 443).listener.settings;
        assert!(matches!(after.default_actions[..], [RuleAction::FixedResponse(_)]), "{after:?}");
        assert!(after.certificate.unwrap().ends_with("/two"));
        assert_eq!(after.mutual_authentication, Some(MutualAuthentication::Passthrough));
        // Settings of the suspended member that no other has go with it.
        simulation.object("b").spec.suspend = false;
        simulation.delete("b");
        simulation.settle(None);
        assert_eq!(listener(&simulation, 443).listener.settings.mutual_authentication, None);
    }
}

#[test]
fn a_removed_default_action_goes_despite_an_absent_member() {
    let name = json!({ "name": "all" });
    let default = json!({ "forward": { "backends": [{ "name": "app" }] } });
    let a = json!({
        "group": name, "subnets": ["subnet-a", "subnet-b"], "backends": [{ "name": "app", "port": 80 }],
        "listeners": [{ "port": 80, "defaultAction": default }],
    });
    let mut simulation = group(&[a, json!({ "group": name, "listeners": [{ "port": 80 }] })]);
    leave_out(&mut simulation, "b", false);
    let a = simulation.object("a");
    a.spec.backends.clear();
    a.spec.listeners[0].default_action = None;
    simulation.settle(None);
    assert!(simulation.aws.assets.groups.is_empty());
}

#[test]
fn networks_of_an_absent_member_stay_let_in() {
    let name = json!({ "name": "all" });
    let a = json!({
        "group": name, "subnets": ["subnet-a", "subnet-b"], "inboundCidrs": ["10.0.0.0/8"],
        "tags": { "team": "a" }, "listeners": [{ "port": 80 }, { "port": 8080 }],
    });
    let b = json!({
        "group": name, "inboundCidrs": ["192.168.1.1/16"], "inboundPrefixLists": ["pl-1"], "tags": { "cost": "b" },
        "listeners": [{ "port": 80 }, { "port": 81 }],
    });
    let ingress = |simulation: &Simulation| -> BTreeSet<_> {
        simulation.aws.assets.security_groups.values().flat_map(|group| group.ingress.clone()).collect()
    };
    for suspended in [false, true] {
        let mut simulation = group(&[a.clone(), b.clone()]);
        let (before, whole) = (ingress(&simulation), simulation.aws.assets.balancers.clone());
        assert_eq!(before.len(), 9, "three sources on three ports: {before:?}");
        leave_out(&mut simulation, "b", suspended);
        assert_eq!(ingress(&simulation), before, "suspended: {suspended}");
        assert_eq!(simulation.aws.assets.balancers, whole, "the tags stay, too");
        // Where another member lets in networks of its own, they replace the others.
        let listeners = json!([{ "port": 80, "inboundCidrs": ["172.16.0.0/12"] }, { "port": 8080 }]);
        simulation.object("a").spec.listeners = serde_json::from_value(listeners).unwrap();
        simulation.settle(None);
        let on_80 = ingress(&simulation).into_iter().filter(|it| it.ports.is_some_and(|it| it.from == 80));
        assert_eq!(on_80.count(), 1);
        simulation.object("b").spec.inbound_cidrs.clear();
        simulation.object("b").spec.tags.clear();
        bring_back(&mut simulation, "b");
        let text = format!("{:?}", ingress(&simulation));
        assert!(!text.contains("192.168."), "{text}");
        assert!(simulation.aws.assets.balancers.values().all(|it| !it.tags.contains_key("cost")));
    }
}

#[test]
fn an_absent_members_port_opens_to_no_further_networks() {
    let name = json!({ "name": "all" });
    let a = json!({
        "group": name, "subnets": ["subnet-a", "subnet-b"], "inboundCidrs": ["0.0.0.0/0"],
        "listeners": [{ "port": 80 }, { "port": 443, "certificateArns": [CERTIFICATE] }],
    });
    let narrow = json!([{ "port": 80, "inboundCidrs": ["192.168.0.0/16"] }]);
    let b = json!({ "group": name, "inboundCidrs": ["0.0.0.0/0"], "listeners": narrow });
    for suspended in [false, true] {
        let mut simulation = group(&[a.clone(), b.clone()]);
        let before = simulation.aws.assets.security_groups.clone();
        leave_out(&mut simulation, "b", suspended);
        assert_eq!(simulation.aws.assets.security_groups, before, "suspended: {suspended}");
    }
}

#[test]
fn members_change_without_the_only_one_with_subnets() {
    let rule = |host: &str| json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": 200 } } });
    let group = json!({ "name": "all" });
    let owner = json!({
        "group": group, "subnets": ["subnet-0", "subnet-1"], "inboundCidrs": ["10.0.0.0/8"], "wafAclArn": ACL,
        "tags": { "team": "a" }, "listeners": [{ "port": 80, "rules": [rule("owner.example.com")] }],
    });
    let member = |host: &str| json!({ "group": group, "listeners": [{ "port": 80, "rules": [rule(host)] }] });
    for suspended in [false, true] {
        let mut simulation = self::group(&[owner.clone(), member("before.example.com")]);
        let before = balancers(&simulation);
        let groups = simulation.aws.assets.security_groups.clone();
        leave_out(&mut simulation, "a", suspended);
        simulation.object("b").spec = serde_json::from_value(member("after.example.com")).unwrap();
        simulation.settle(None);
        assert_eq!((balancers(&simulation), &simulation.aws.assets.security_groups), (before, &groups));
        let hosts = hosts(&simulation);
        let has = |host: &str| hosts.iter().any(|it| it.contains(host));
        assert!(has("owner") && has("after") && !has("before"), "{hosts:?}");
        let health = &simulation.health[&("shop".to_owned(), "b".to_owned())];
        assert!(matches!(health, Health::Ready(cause) if cause.reason == "BalancerHeldUp"), "{health:?}");
        bring_back(&mut simulation, "a");
        assert!(simulation.health.values().all(|it| matches!(it, Health::Ready(cause) if cause.reason == "Active")));
    }
}

proptest! {
    // An eighth of the usual number of cases, for each case takes long.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn a_balancer_stays_as_it_is_without_its_anchor(
        first in specs::standing(), second in specs::standing(), third in specs::joining(8081),
        edited in specs::standing(), suspended: bool, crash in 0..40_usize,
    ) {
        let all = [first, second, third].map(|spec| {
            let mut spec = specs::drop_fields(&spec, &["suspend"]);
            spec["group"] = json!({ "name": "all" });
            spec
        });
        let mut simulation = group(&all);
        let before = balancers(&simulation);
        simulation.object("b").spec = serde_json::from_value(json!({ "group": { "name": "all" } })).unwrap();
        leave_out(&mut simulation, "a", suspended);
        prop_assert_eq!(&balancers(&simulation), &before, "no other member says where it stands");
        let mut edited = edited;
        edited["group"] = json!({ "name": "all" });
        simulation.object("b").spec = serde_json::from_value(edited).unwrap();
        simulation.settle(Some(crash));
        prop_assert_eq!(&balancers(&simulation), &before);
        bring_back(&mut simulation, "a");
        let ours = |all: &[Member]| all.iter().map(|it| (it.balancer.clone(), it.web_acl.clone())).collect::<Vec<_>>();
        prop_assert_eq!(ours(&balancers(&simulation)), ours(&before));
    }
}
