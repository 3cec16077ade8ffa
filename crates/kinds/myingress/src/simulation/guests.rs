//! The effects of a group's guests on the other members, step by step.

use std::time::Duration;

use serde_json::{Value, json};

use causeway_api::myingress::Scheme;
use causeway_api::{DeletionPolicy, MyIngress};
use causeway_aws::elbv2::{Condition, Match, Pairs};
use causeway_runtime::{Health, Unlisted};

use super::Simulation;
use crate::action::{Action, BalancerAction, ListenerAction};
use crate::decide::{bindings, decide};
use crate::members::key;
use crate::model::fixtures::{born, guest};
use crate::ownership::{Owner, member_of};
use crate::refusals::Refusal;

/// A rule that answers requests for that host.
pub fn rule(host: &str, priority: Option<u16>) -> Value {
    json!({ "hosts": [host], "priority": priority, "action": { "fixedResponse": { "statusCode": 200 } } })
}

/// A listener on port 80 with these rules.
pub fn listeners(rules: &[Value]) -> Value {
    json!([{ "port": 80, "rules": rules }])
}

/// A member of the group's own namespace, which allows guests.
pub fn home(rules: &[Value]) -> MyIngress {
    let group = json!({ "name": "all", "allowedNamespaces": ["guests"] });
    born("home", 9, json!({ "group": group, "subnets": ["subnet-a", "subnet-b"], "listeners": listeners(rules) }))
}

fn with(rules: &[Value], guests: &[Value]) -> Simulation {
    let mut simulation =
        Simulation::with(vec![guest("guest", 0, json!({ "listeners": listeners(guests) })), home(rules)]);
    simulation.settle(None);
    simulation
}

/// Gives that object these rules.
pub fn edit(simulation: &mut Simulation, name: &str, rules: &[Value]) {
    simulation.object(name).spec.listeners = serde_json::from_value(listeners(rules)).unwrap();
}

/// Member and host of each rule on port 80, in the order of their evaluation.
pub fn evaluated(simulation: &Simulation) -> Vec<String> {
    let listeners = simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flatten());
    let mut rules: Vec<_> = listeners.flat_map(|(_, listener)| listener.rules.values()).collect();
    rules.sort_by_key(|rule| rule.rule.priority);
    let host = |condition: &Condition| match condition {
        Condition::Host(Match::Wildcards(hosts)) => hosts.first().cloned(),
        _ => None,
    };
    let name = |rule: &&crate::region::assets::RuleMember| {
        let (_, member) = member_of(&rule.tags).unwrap_or_default();
        let host = rule.rule.settings.conditions.iter().find_map(host).unwrap_or_default();
        format!("{member} {}", host.split('.').next().unwrap_or_default())
    };
    rules.iter().map(name).collect()
}

/// Returns the reason why the object with that name is stalled; an empty text if it is not.
pub fn reason(simulation: &Simulation, name: &str) -> &'static str {
    let health = simulation.health.iter().find(|((_, it), _)| it == name).map(|(_, health)| health);
    match health {
        Some(Health::Stalled(cause)) => cause.reason,
        _ => "",
    }
}

#[test]
fn a_frozen_guest_keeps_no_place_before_the_others() {
    let mut simulation = with(&[rule("a.example.com", None)], &[rule("*.example.com", Some(1))]);
    assert_eq!(evaluated(&simulation), ["home a", "guest *"]);
    for trouble in ["suspended", "wrong"] {
        if trouble == "suspended" {
            simulation.object("guest").spec.suspend = true;
        } else {
            simulation.object("guest").spec.suspend = false;
            simulation.object("guest").spec.tags.insert("team".into(), "x".into());
        }
        edit(&mut simulation, "home", &[rule("a.example.com", None)]);
        simulation.settle(None);
        // Every number that the guest's rule could have.
        for priority in [None, Some(100), Some(200), Some(300), Some(50_000 - 1)] {
            edit(&mut simulation, "home", &[rule("a.example.com", None), rule("new.example.com", priority)]);
            simulation.settle(None);
            assert_eq!(evaluated(&simulation), ["home a", "home new", "guest *"], "{trouble} {priority:?}");
            assert_eq!(reason(&simulation, "home"), "");
        }
    }
    assert_eq!(reason(&simulation, "guest"), "GuestRefused");
    // If there is no number after those of the others, the guest has no rule.
    edit(&mut simulation, "home", &[rule("a.example.com", Some(50_000))]);
    simulation.settle(None);
    assert_eq!((evaluated(&simulation), reason(&simulation, "home")), (vec!["home a".to_owned()], ""));
}

#[test]
fn rules_of_a_suspended_member_at_home_come_before_guests() {
    let mut simulation = with(&[rule("a.example.com", None)], &[]);
    let group = json!({ "name": "all" });
    let second = json!({ "group": group, "listeners": listeners(&[rule("b.example.com", Some(4000))]) });
    simulation.objects.push(born("second", 10, second));
    simulation.settle(None);
    simulation.object("second").spec.suspend = true;
    edit(&mut simulation, "guest", &[rule("*.example.com", Some(1))]);
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "second b", "guest *"]);
}

#[test]
fn without_room_parts_of_a_frozen_guest_give_way() {
    let many = |name: &str, number: usize| -> Vec<Value> {
        (0..number).map(|it| rule(&format!("{name}{it}.example.org"), None)).collect()
    };
    let mut simulation = with(&[rule("a.example.com", None)], &many("g", 99));
    assert_eq!(evaluated(&simulation).len(), 100);
    edit(&mut simulation, "home", &many("h", 2));
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home h0", "home h1"]);
    assert_eq!(reason(&simulation, "guest"), "LimitReached");
}

#[test]
fn a_former_guest_has_nothing_on_the_balancer() {
    let mut simulation = with(&[rule("a.example.com", None)], &[rule("g.example.com", None)]);
    simulation.object("guest").spec.suspend = true;
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "guest g"]);
    simulation.object("home").spec.group.as_mut().unwrap().allowed_namespaces.clear();
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a"]);
    simulation.object("guest").spec.suspend = false;
    simulation.settle(None);
    assert_eq!((evaluated(&simulation), reason(&simulation, "guest")), (vec!["home a".to_owned()], "GroupNotAllowed"));
}

#[test]
fn members_close_a_port_although_a_guest_is_on_it() {
    let mut simulation = with(&[rule("a.example.com", None)], &[rule("g.example.com", None)]);
    simulation.object("home").spec.listeners.clear();
    simulation.settle(None);
    let listeners = simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flatten());
    assert_eq!(listeners.count(), 0);
    assert_eq!(reason(&simulation, "guest"), "GuestRefused");
}

#[test]
fn only_members_at_home_replace_or_delete_the_balancer() {
    let mut simulation = with(&[rule("a.example.com", None)], &[rule("g.example.com", None)]);
    let before: Vec<String> = simulation.aws.assets.balancers.keys().cloned().collect();
    simulation.journal.clear();
    let attacks = [
        json!({ "scheme": "internal" }),
        json!({ "subnets": ["subnet-0", "subnet-1"], "scheme": "internal" }),
        json!({ "deletionProtection": false, "tags": { "a": "b" } }),
    ];
    for attack in attacks {
        let spec = guest("guest", 0, attack).spec;
        simulation.object("guest").spec = spec;
        simulation.settle(None);
    }
    simulation.delete("guest");
    simulation.settle(None);
    assert_eq!(simulation.aws.assets.balancers.keys().cloned().collect::<Vec<_>>(), before);
    let of_balancer =
        |action: &&Action| matches!(action, Action::Balancer(it) if !matches!(it, BalancerAction::Verify { .. }));
    assert_eq!(simulation.journal.iter().find(of_balancer), None);
    assert_eq!(evaluated(&simulation), ["home a"]);
    // A guest that stays does not keep the balancer.
    simulation.objects.push(guest("guest", 0, json!({ "listeners": listeners(&[rule("g.example.com", None)]) })));
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "guest g"]);
    simulation.delete("home");
    simulation.settle(None);
    assert!(simulation.aws.assets.balancers.is_empty() && simulation.aws.assets.groups.is_empty());
}

/// A group in which home and guest have a backend each, while home's balancer is being replaced by one of the other
/// scheme; and the ARN of the old balancer.
fn replacing() -> (Simulation, String) {
    let backed = |host: &str| {
        let rule = json!({ "hosts": [host], "action": { "forward": { "backends": [{ "name": "app" }] } } });
        (listeners(&[rule]), json!([{ "name": "app", "port": 80 }]))
    };
    let mut simulation = with(&[], &[]);
    for (name, host) in [("home", "a.example.com"), ("guest", "g.example.com")] {
        let (listeners, backends) = backed(host);
        let spec = &mut simulation.object(name).spec;
        spec.listeners = serde_json::from_value(listeners).unwrap();
        spec.backends = serde_json::from_value(backends).unwrap();
    }
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "guest g"]);
    let old = simulation.aws.assets.balancers.keys().next().unwrap().clone();
    simulation.object("home").spec.scheme = Scheme::Internal;
    (simulation, old)
}

/// The actions that are planned for home now.
fn planned(simulation: &mut Simulation) -> (Owner, Vec<Action>) {
    let home = simulation.object("home").clone();
    let observed = simulation.observe(&home);
    let actions = decide(&home, &observed, simulation.now).actions;
    (observed.owner, actions)
}

#[test]
fn a_guest_with_unhealthy_targets_keeps_no_replaced_balancer() {
    let (mut simulation, old) = replacing();
    let before: Vec<String> = simulation.aws.assets.groups.keys().cloned().collect();
    let which = key(simulation.object("home"));
    simulation.reconcile(&which);
    let is_guests = |tags: &Pairs| member_of(tags).is_some_and(|(namespace, _)| namespace == "guests");
    let new = simulation.aws.assets.groups.iter().filter(|(arn, it)| !before.contains(arn) && is_guests(&it.tags));
    simulation.aws.sick = new.map(|(arn, _)| arn.clone()).collect();
    assert_eq!(simulation.aws.sick.len(), 1);
    simulation.settle(None);
    assert!(!simulation.aws.assets.balancers.contains_key(&old));
    assert_eq!(reason(&simulation, "home"), "");
}

#[test]
fn a_guest_with_a_refused_rule_keeps_no_replaced_balancer() {
    let (mut simulation, old) = replacing();
    let is_guests = |action: &Action| match action {
        Action::Listener(ListenerAction::CreateRule { tags, .. }) => {
            member_of(tags).is_some_and(|(namespace, _)| namespace == "guests")
        }
        _ => false,
    };
    let refused = (0..20).find_map(|_| {
        let (owner, actions) = planned(&mut simulation);
        let refused = actions.iter().find(|action| is_guests(action)).cloned();
        if refused.is_none() {
            simulation.carry_out(&owner, &actions);
            simulation.aws.time_passes();
        }
        refused
    });
    simulation.refusals = vec![Refusal {
        action: refused.expect("its rule is to be made"),
        reason: "RuleInvalid",
        message: "AWS refuses the rule".into(),
        blamed: Some(("guests".into(), "guest".into())),
        retry_in: Duration::from_secs(30),
    }];
    let which = key(simulation.object("home"));
    for _ in 0..10 {
        simulation.reconcile(&which);
        simulation.aws.time_passes();
        simulation.sweep();
    }
    assert!(!simulation.aws.assets.balancers.contains_key(&old));
}

#[test]
fn a_retained_balancer_stays_whatever_its_guests_do() {
    let mut simulation = with(&[rule("a.example.com", None)], &[]);
    let backed = json!([{ "hosts": ["g.example.com"], "action": { "forward": { "backends": [{ "name": "app" }] } } }]);
    let spec = &mut simulation.object("guest").spec;
    spec.listeners = serde_json::from_value(json!([{ "port": 80, "rules": backed }])).unwrap();
    spec.backends = serde_json::from_value(json!([{ "name": "app", "port": 80 }])).unwrap();
    simulation.settle(None);
    let owner = Simulation::owner(simulation.object("home"));
    assert_eq!(
        (evaluated(&simulation), simulation.followed(&owner).len()),
        (vec!["home a".into(), "guest g".into()], 1)
    );
    simulation.object("home").spec.deletion_policy = DeletionPolicy::Retain;
    let kept = simulation.aws.assets.clone();
    simulation.delete("home");
    simulation.settle(None);
    assert_eq!(simulation.followed(&owner), [].into(), "no task changes its targets any more");
    let guest = simulation.object("guest").clone();
    let observed = simulation.observe(&guest);
    let early = bindings(observed.built.model.as_ref(), &observed.members, &owner, &observed.assets);
    assert_eq!(early, [], "neither after a restart");
    simulation.delete("guest");
    simulation.settle(None);
    assert!(simulation.objects.is_empty());
    assert_eq!(simulation.aws.assets, kept);
}

#[test]
fn guests_in_an_unlisted_namespace_keep_their_parts() {
    let forward =
        json!({ "hosts": ["shop.example.com"], "action": { "forward": { "backends": [{ "name": "app" }] } } });
    let mut simulation = with(&[rule("a.example.com", None)], &[]);
    simulation.object("guest").spec = serde_json::from_value(json!({
        "group": { "name": "all", "namespace": "shop" },
        "listeners": listeners(&[forward]),
        "backends": [{ "name": "app", "port": 80 }],
    }))
    .unwrap();
    simulation.settle(None);
    let groups = simulation.aws.assets.groups.clone();
    assert_eq!((evaluated(&simulation), groups.len()), (vec!["home a".to_owned(), "guest shop".to_owned()], 1));
    // The operator starts again, and is denied the namespace of the guest.
    simulation.objects.remove(0);
    simulation.unlisted = Unlisted::new(&["guests"]);
    simulation.die();
    edit(&mut simulation, "home", &[rule("a.example.com", None), rule("b.example.com", None)]);
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "home b", "guest shop"]);
    assert!(simulation.aws.assets.groups.keys().eq(groups.keys()));
    // They do not give way either, as those that are known do.
    let home = simulation.object("home").clone();
    let mut observed = simulation.observe(&home);
    observed.limits.rules = 2;
    assert_eq!(decide(&home, &observed, simulation.now).actions, []);
    // A group that no longer allows the namespace keeps nothing for it.
    simulation.object("home").spec.group.as_mut().unwrap().allowed_namespaces.clear();
    simulation.settle(None);
    assert_eq!(evaluated(&simulation), ["home a", "home b"]);
    assert!(simulation.aws.assets.groups.is_empty());
}

#[test]
fn a_host_without_certificate_holds_up_only_its_member() {
    let secure = |host: &str| json!({ "port": 443, "rules": [rule(host, None)] });
    let group = json!({ "name": "all", "allowedNamespaces": ["guests"] });
    let both = json!([{ "port": 80, "rules": [rule("a.example.com", None)] }, secure("a.example.com")]);
    let first = born("a", 1, json!({ "group": group, "subnets": ["subnet-a", "subnet-b"], "listeners": both }));
    let second = born("b", 2, json!({ "group": { "name": "all" }, "listeners": [secure("b.example.com")] }));
    let third = guest("c", 3, json!({ "listeners": listeners(&[rule("c.example.com", None)]) }));
    let mut simulation = Simulation::with(vec![first, second, third]);
    simulation.settle(None);
    assert_eq!(["a", "b", "c"].map(|name| reason(&simulation, name)), ["", "", ""]);
    let edited = |simulation: &mut Simulation, name: &str, place: usize, host: &str| {
        let rules = serde_json::from_value(json!([rule(host, None)])).unwrap();
        simulation.object(name).spec.listeners[place].rules = rules;
        simulation.settle(None);
        evaluated(simulation).into_iter().collect::<std::collections::BTreeSet<_>>()
    };
    let as_before = edited(&mut simulation, "b", 0, "b.example.org");
    assert_eq!(["a", "b", "c"].map(|name| reason(&simulation, name)), ["", "CertificateNotFound", ""]);
    assert_eq!(as_before, ["a a", "b b", "c c"].map(str::to_owned).into());
    let after = edited(&mut simulation, "a", 0, "new.example.com");
    assert_eq!(after, ["a a", "a new", "b b", "c c"].map(str::to_owned).into(), "edits of others go on");
    assert_eq!(["a", "b", "c"].map(|name| reason(&simulation, name)), ["", "CertificateNotFound", ""]);
    edited(&mut simulation, "b", 0, "better.example.com");
    assert_eq!(reason(&simulation, "b"), "");
}
