//! Single scenes, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::ToSpan;
use serde_json::{Value, json};

use causeway_api::DeletionPolicy;
use causeway_api::myingress::{AlbStatus, BackendProtocol, Scheme};
use causeway_aws::elbv2::{Pairs, RuleAction};
use causeway_runtime::{Health, Plan};

use super::Simulation;
use super::drift::{FOREIGN_TAG, every_part};
use crate::action::{Action, BalancerAction, ListenerAction};
use crate::decide::{bindings, decide, decide_removal};
use crate::model::fixtures::{oidc, standing};
use crate::targets::Binding;

fn served() -> Value {
    json!({
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "app" }] } } }],
        "backends": [{ "name": "app", "port": 80 }],
    })
}

fn settled(more: Value) -> Simulation {
    let mut simulation = Simulation::with(vec![standing("web", more)]);
    simulation.settle(None);
    simulation
}

fn plan(simulation: &mut Simulation) -> Plan<Action, causeway_api::MyIngressStatus> {
    let object = simulation.objects[0].clone();
    decide(&object, &simulation.observe(&object), simulation.now)
}

fn alb(simulation: &Simulation) -> AlbStatus {
    simulation.objects[0].status.clone().unwrap().alb.unwrap()
}

#[test]
fn what_an_answer_leaves_out_is_no_drift() {
    let mut simulation = settled(served());
    let object = simulation.objects[0].clone();
    for member in simulation.aws.assets.groups.values_mut() {
        member.attributes.as_mut().unwrap().retain(|key, _| key == "stickiness.enabled");
    }
    for member in simulation.aws.assets.balancers.values_mut() {
        member.attributes.as_mut().unwrap().clear();
        for listener in member.listeners.iter_mut().flat_map(|listeners| listeners.values_mut()) {
            listener.attributes.as_mut().unwrap().clear();
        }
    }
    let observed = simulation.observe(&object);
    assert_eq!(decide(&object, &observed, simulation.now).actions, []);
}

#[test]
fn a_new_balancer_is_changed_only_with_tags_seen() {
    let mut simulation = Simulation::with(vec![standing("web", served())]);
    let (object, owner) = (simulation.objects[0].clone(), Simulation::owner(&simulation.objects[0]));
    let created = plan(&mut simulation);
    assert!(simulation.carry_out(&owner, &created.actions));
    let shown = plan(&mut simulation);
    let made = &simulation.aws.assets.owned_by(&owner).balancers.into_values().next().unwrap().balancer;
    assert_eq!(shown.status.alb.as_ref().map(|alb| &alb.arn), Some(&made.arn));
    assert!(shown.write_status_first && matches!(shown.health, Health::Progressing(_)), "{shown:#?}");
    let verify = BalancerAction::Verify { arn: made.arn.clone(), name: made.name.clone() };
    assert_eq!(shown.actions, [Action::Balancer(verify)]);
    assert_eq!(object.status, None);
    simulation.carry_out(&owner, &shown.actions);
    assert!(plan(&mut simulation).actions.iter().any(|action| matches!(action, Action::Group(_))));
}

#[test]
fn the_old_balancer_stays_until_its_replacement_serves() {
    let mut simulation = settled(served());
    let old = alb(&simulation);
    simulation.objects[0].spec.scheme = Scheme::Internal;
    let which = super::key(&simulation.objects[0]);
    let created = plan(&mut simulation);
    assert!(matches!(created.actions.as_slice(), [Action::Balancer(BalancerAction::Create(_))]), "{created:#?}");
    let balancers = |simulation: &Simulation| simulation.aws.assets.balancers.len();

    simulation.reconcile(&which);
    assert_eq!((alb(&simulation), balancers(&simulation)), (old.clone(), 2), "the new one is being set up");

    let old_groups = simulation.aws.assets.groups.iter().filter(|(_, it)| it.group.balancers.contains(&old.arn));
    let old_groups: Vec<String> = old_groups.map(|(arn, _)| arn.clone()).collect();
    let new_groups = simulation.aws.assets.groups.keys().filter(|arn| !old_groups.contains(arn));
    simulation.aws.sick = new_groups.cloned().collect();
    simulation.activate();
    simulation.reconcile(&which);
    assert_eq!((alb(&simulation), balancers(&simulation)), (old.clone(), 2), "its targets are not healthy yet");

    simulation.aws.sick.clear();
    let switch = plan(&mut simulation);
    assert!(switch.write_status_first, "the new name is shown before the old balancer goes");
    assert_ne!(switch.status.alb.unwrap().arn, old.arn);
    assert!(
        matches!(switch.actions.as_slice(), [Action::Balancer(BalancerAction::Delete { arn, .. })] if *arn == old.arn)
    );
    simulation.settle(None);
    assert_eq!(balancers(&simulation), 1);
    assert!(old_groups.iter().all(|arn| !simulation.aws.assets.groups.contains_key(arn)), "its groups go with it");
}

/// A simulation in which a balancer was just replaced, and the status of the old one.
fn replaced() -> (Simulation, AlbStatus) {
    let mut simulation = settled(served());
    simulation.grace = Duration::from_mins(2);
    let old = alb(&simulation);
    simulation.objects[0].spec.scheme = Scheme::Internal;
    let which = super::key(&simulation.objects[0]);
    simulation.reconcile(&which);
    simulation.activate();
    simulation.reconcile(&which);
    (simulation, old)
}

#[test]
fn a_replaced_balancer_keeps_its_grace_period_over_a_restart() {
    let (mut simulation, old) = replaced();
    let which = super::key(&simulation.objects[0]);
    let switched = simulation.objects[0].status.clone().unwrap();
    assert_ne!(switched.alb.unwrap().arn, old.arn, "users see the new one");
    assert_eq!(switched.replaced.map(|it| (it.arn, it.dns)), Some((old.arn.clone(), old.dns.clone())));
    assert!(matches!(simulation.health.values().next(), Some(Health::Ready(_))), "{:?}", simulation.health);

    simulation.now += 119.seconds();
    simulation.die();
    simulation.reconcile(&which);
    let all: BTreeSet<String> = simulation.aws.assets.groups.keys().cloned().collect();
    assert_eq!((simulation.aws.assets.balancers.len(), all.len()), (2, 2));
    let owner = Simulation::owner(&simulation.objects[0]);
    assert_eq!(simulation.followed(&owner), all, "both have their targets");
    let waiting = plan(&mut simulation);
    assert_eq!((waiting.actions, waiting.requeue), (Vec::new(), Some(Duration::from_secs(1))));

    simulation.now += 1.seconds();
    let last = plan(&mut simulation).actions;
    assert!(matches!(last.as_slice(), [Action::Balancer(BalancerAction::Delete { arn, .. })] if *arn == old.arn));
    simulation.settle(None);
    let status = simulation.objects[0].status.clone().unwrap();
    assert_eq!(
        (simulation.aws.assets.balancers.len(), simulation.aws.assets.groups.len(), status.replaced),
        (1, 1, None)
    );
}

#[test]
fn a_scheme_changed_back_gives_a_new_grace_period() {
    let (mut simulation, old) = replaced();
    let newer = alb(&simulation);
    simulation.now += 100.seconds();
    simulation.objects[0].spec.scheme = Scheme::InternetFacing;
    let which = super::key(&simulation.objects[0]);
    simulation.reconcile(&which);
    let status = simulation.objects[0].status.clone().unwrap();
    assert_eq!((status.alb, status.replaced.map(|it| it.arn)), (Some(old), Some(newer.arn)));
    assert_eq!(plan(&mut simulation).requeue, Some(Duration::from_mins(2)));
}

#[test]
fn a_balancer_that_was_never_shown_goes_at_once() {
    let mut simulation = settled(served());
    simulation.grace = Duration::from_mins(2);
    simulation.objects[0].spec.scheme = Scheme::Internal;
    let which = super::key(&simulation.objects[0]);
    simulation.reconcile(&which);
    assert_eq!(simulation.aws.assets.balancers.len(), 2);
    simulation.objects[0].spec.scheme = Scheme::InternetFacing;
    while !simulation.reconcile(&which) {}
    assert_eq!(simulation.aws.assets.balancers.len(), 1);
}

#[test]
fn a_deletion_in_the_grace_period_takes_both() {
    let (mut simulation, _) = replaced();
    simulation.delete("web");
    let object = simulation.objects[0].clone();
    let removal = decide_removal(&object, &simulation.observe(&object)).actions.into_iter();
    let gone = removal.filter(|action| matches!(action, Action::Balancer(BalancerAction::Delete { .. })));
    assert_eq!(gone.count(), 2);
    simulation.settle(None);
    assert_eq!(simulation.aws.assets, crate::region::assets::Assets::default());
}

#[test]
fn dropped_tags_go_from_every_part_and_foreign_stay() {
    let mut more = served();
    more["tags"] = json!({ "team": "a", "cost": "1" });
    more["inboundCidrs"] = json!(["10.0.0.0/8"]);
    more["listeners"][0]["rules"] = json!([
        { "hosts": ["a.example.com"], "action": { "redirect": { "host": "example.org" } } },
        { "hosts": ["b.example.com"], "action": { "redirect": { "host": "example.org" } } },
    ]);
    let mut simulation = settled(more);
    let owner = Simulation::owner(&simulation.objects[0]);
    every_part(&mut simulation.aws, &owner, |tags| drop(tags.insert(FOREIGN_TAG.into(), "theirs".into())));
    simulation.journal.clear();
    simulation.objects[0].spec.tags.remove("team");
    simulation.settle(None);
    let keys = |simulation: &Simulation| -> Vec<BTreeSet<String>> {
        let balancers = simulation.aws.assets.balancers.values();
        let listeners = balancers.clone().flat_map(|it| it.listeners.iter().flat_map(BTreeMap::values));
        let rules = listeners.clone().flat_map(|it| it.rules.values().map(|rule| &rule.tags));
        let all = rules.chain(listeners.map(|it| &it.tags)).chain(balancers.map(|it| &it.tags));
        let all = all.chain(simulation.aws.assets.groups.values().map(|it| &it.tags));
        let all = all.chain(simulation.aws.assets.security_groups.values().map(|it| &it.tags));
        all.map(|tags| tags.keys().cloned().collect()).collect()
    };
    let parts = keys(&simulation);
    assert_eq!(parts.len(), 6, "two rules, a listener, the balancer, a target group and a security group");
    for keys in parts {
        assert!(keys.contains(FOREIGN_TAG) && keys.contains("cost") && !keys.contains("team"), "{keys:?}");
    }
    assert_eq!(simulation.journal.len(), 4, "one call for the listener and its rules: {:#?}", simulation.journal);
    let managed = simulation.objects[0].status.clone().unwrap().managed.unwrap();
    assert_eq!(managed.tags, ["cost"], "what is gone everywhere is forgotten");

    // From now on another client uses that key.
    every_part(&mut simulation.aws, &owner, |tags| drop(tags.insert("team".into(), "theirs".into())));
    simulation.settle(None);
    assert!(keys(&simulation).iter().all(|keys| keys.contains("team")));
}

#[test]
fn the_fingerprint_of_a_secret_goes_with_the_log_in() {
    let secured = |login: bool| {
        let mut action = json!({ "redirect": { "host": "example.org" } });
        if login {
            action["authenticateOidc"] = oidc();
        }
        let rules = json!([{ "hosts": ["a.example.com"], "action": action }]);
        let certificates = ["arn:aws:acm:eu-west-1:000000000000:certificate/a"];
        json!({ "listeners": [{ "port": 443, "certificateArns": certificates, "defaultAction": action, "rules": rules }] })
    };
    let fingerprints = |simulation: &Simulation| -> usize {
        let listeners =
            simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flat_map(BTreeMap::values));
        let tags = listeners.flat_map(|it| it.rules.values().map(|rule| &rule.tags).chain([&it.tags]));
        tags.filter(|tags| tags.contains_key("causeway.example.com/client-secret")).count()
    };
    let mut simulation = settled(secured(true));
    assert_eq!(fingerprints(&simulation), 2);
    simulation.objects[0].spec = standing("web", secured(false)).spec;
    simulation.settle(None);
    assert_eq!(fingerprints(&simulation), 0);
}

#[test]
fn a_replaced_target_group_serves_until_its_successor_is_healthy() {
    let mut simulation = settled(served());
    let old: BTreeSet<String> = simulation.aws.assets.groups.keys().cloned().collect();
    simulation.objects[0].spec.backends.iter_mut().for_each(|backend| backend.protocol = BackendProtocol::Https);
    let (owner, created) = (Simulation::owner(&simulation.objects[0]), plan(&mut simulation).actions);
    for action in created.iter().filter(|action| matches!(action, Action::Group(_))) {
        assert!(simulation.aws.act(&owner, action).is_ok());
    }
    simulation.aws.sick = simulation.aws.assets.groups.keys().filter(|arn| !old.contains(*arn)).cloned().collect();
    assert!(!simulation.aws.sick.is_empty(), "there are new groups");

    simulation.settle(None);
    let weights = |simulation: &Simulation| -> BTreeMap<String, u16> {
        let listeners =
            simulation.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flat_map(|it| it.values()));
        let actions = listeners.flat_map(|it| {
            let rules = it.rules.values().flat_map(|rule| rule.rule.settings.actions.clone());
            it.listener.settings.default_actions.clone().into_iter().chain(rules)
        });
        let groups = actions.filter_map(|action| match action {
            RuleAction::Forward { groups, .. } => Some(groups),
            _ => None,
        });
        groups.flatten().collect()
    };
    let between = weights(&simulation);
    assert!(between.iter().all(|(arn, weight)| (*weight > 0) == old.contains(arn)), "{between:?}");
    let object = simulation.objects[0].clone();
    let followed = simulation.observe(&object).bound.into_iter().filter_map(|binding| binding.group_arn);
    assert!(followed.collect::<BTreeSet<String>>().is_superset(&old), "the old ones are followed");

    simulation.aws.sick.clear();
    simulation.settle(None);
    assert!(weights(&simulation).iter().all(|(arn, weight)| *weight > 0 && !old.contains(arn)));
    assert!(old.iter().all(|arn| !simulation.aws.assets.groups.contains_key(arn)), "the old ones are gone");
}

#[test]
fn a_new_group_gets_requests_only_when_healthy() {
    let forward = |name: &str| json!({ "forward": { "backends": [{ "name": name }] } });
    let says = |word: &str| json!({ "fixedResponse": { "statusCode": 200, "body": word } });
    let rule = |path: &str, action: Value| json!({ "paths": [{ "type": "Prefix", "value": path }], "action": action });
    let spec = |rules: Value, default: Value| {
        json!({
            "listeners": [{ "port": 80, "rules": rules, "defaultAction": default }],
            "backends": [{ "name": "blue", "port": 80 }, { "name": "green", "port": 80 }],
        })
    };
    let before = json!([rule("/one/deep", says("deep")), rule("/one", forward("green"))]);
    let mut simulation = settled(spec(before, says("none")));
    let after = json!([rule("/one", forward("blue")), rule("/two", says("two"))]);
    let edited = standing("web", spec(after, forward("green")));
    simulation.objects[0].spec = edited.spec;
    simulation.journal.clear();
    simulation.settle(None);
    let sent: Vec<Vec<u16>> = simulation
        .journal
        .iter()
        .filter_map(|action| match action {
            Action::Listener(ListenerAction::ModifyRule { settings, .. }) => match &settings.actions[..] {
                [RuleAction::Forward { groups, .. }] => Some(groups.values().copied().collect()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert!(sent.len() == 2 && sent[0].contains(&0), "{:#?}", simulation.journal);
}

#[test]
fn followed_backends_are_known_after_a_restart() {
    let more = json!({
        "listeners": served()["listeners"],
        "backends": [{ "name": "app", "service": "web", "port": "http", "targetType": "instance" }],
    });
    for group in [json!({}), json!({ "group": { "name": "all" } })] {
        let mut spec = more.clone();
        spec.as_object_mut().unwrap().extend(group.as_object().unwrap().clone());
        let mut simulation = settled(spec);
        let object = simulation.objects[0].clone();
        let observed = simulation.observe(&object);
        let backends = |bindings: Vec<Binding>| -> Vec<_> {
            bindings.into_iter().map(|binding| (binding.group_arn, binding.backend)).collect()
        };
        let known = backends(observed.bound.clone());
        assert_eq!(known.len(), 1);
        let restarted = bindings(None, &observed.members, &observed.owner, &observed.assets);
        assert_eq!(backends(restarted), known);
    }
}

#[test]
fn a_balancer_without_ownership_tags_is_left_alone() {
    let mut simulation = settled(json!({}));
    simulation.aws.assets.balancers.values_mut().for_each(|member| member.tags.clear());
    let plan = plan(&mut simulation);
    assert_eq!(plan.actions, Vec::new());
    assert!(matches!(plan.health, Health::Stalled(cause) if cause.reason == "OwnershipLost"));
}

#[test]
fn retain_leaves_the_balancer() {
    let mut simulation = settled(served());
    simulation.objects[0].spec.deletion_policy = DeletionPolicy::Retain;
    let before = simulation.aws.assets.clone();
    simulation.delete("web");
    let object = simulation.objects[0].clone();
    let removal = decide_removal(&object, &simulation.observe(&object));
    assert_eq!(removal.final_event.unwrap().reason, "Retained");
    simulation.settle(None);
    assert_eq!(simulation.aws.assets, before);
}

#[test]
fn protection_is_turned_off_before_the_deletion() {
    let mut simulation = settled(json!({ "deletionProtection": false }));
    let protected = Pairs::from([("deletion_protection.enabled".into(), "true".into())]);
    simulation.aws.assets.balancers.values_mut().for_each(|member| member.attributes = Some(protected.clone()));
    simulation.delete("web");
    let object = simulation.objects[0].clone();
    let removal = decide_removal(&object, &simulation.observe(&object));
    assert!(
        matches!(
            removal.actions.as_slice(),
            [Action::Balancer(BalancerAction::SetAttributes { .. }), Action::Balancer(BalancerAction::Delete { .. })]
        ),
        "{removal:#?}"
    );
}

#[test]
fn a_foreign_listener_is_reported_and_nothing_changes() {
    let mut simulation = settled(served());
    for member in simulation
        .aws
        .assets
        .balancers
        .values_mut()
        .flat_map(|it| it.listeners.iter_mut())
        .flat_map(|it| it.values_mut())
    {
        member.tags.clear();
    }
    let before = simulation.aws.assets.clone();
    let plan = plan(&mut simulation);
    assert!(matches!(&plan.health, Health::Stalled(cause) if cause.reason == "ListenerTaken"), "{plan:#?}");
    assert_eq!((plan.actions, simulation.aws.assets), (Vec::new(), before));
}

#[test]
fn an_adopted_balancer_becomes_what_the_object_says() {
    let mut simulation = settled(json!({}));
    let (arn, member) = simulation.aws.assets.balancers.pop_first().unwrap();
    let mut foreign = member;
    foreign.balancer.name = "theirs".into();
    foreign.tags = Pairs::from([("causeway.example.com/adopt".into(), "prod/shop/web".into())]);
    simulation.aws.assets.balancers.insert(arn.clone(), foreign);
    simulation.objects = vec![standing("web", json!({ "adopt": "theirs", "tags": { "team": "a" } }))];
    simulation.settle(None);
    assert_eq!(alb(&simulation).arn, arn);
    let adopted = &simulation.aws.assets.balancers[&arn];
    assert!(Simulation::owner(&simulation.objects[0]).owns(&adopted.tags) && adopted.tags["team"] == "a");
    assert_eq!(simulation.aws.assets.balancers.len(), 1);
}

#[test]
fn nothing_is_made_while_a_certificate_is_missing() {
    let gone = json!({ "fixedResponse": { "statusCode": 410 } });
    let listeners = json!([{ "port": 443, "rules": [{ "hosts": ["www.example.org"], "action": gone }] }]);
    let simulation = settled(json!({ "listeners": listeners, "inboundCidrs": ["10.0.0.0/8"] }));
    assert!(
        matches!(simulation.health.values().next(), Some(Health::Stalled(cause)) if cause.reason == "CertificateNotFound")
    );
    assert_eq!(simulation.journal, []);
}
