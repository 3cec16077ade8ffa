//! Single scenes, step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::ToSpan;
use serde_json::{Value, json};

use super::World;
use super::drift::{FOREIGN_TAG, every_part};
use crate::api::DeletionPolicy;
use crate::api::myingress::{AlbStatus, BackendProtocol, Scheme};
use crate::controllers::myingress::action::{Action, BalancerAction, ListenerAction};
use crate::controllers::myingress::decide::{bindings, decide, decide_removal};
use crate::controllers::myingress::model::fixtures::standing;
use crate::controllers::myingress::targets::Binding;
use crate::external::elbv2::{Pairs, RuleAction};
use crate::runtime::{Health, Plan};

fn served() -> Value {
    json!({
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "app" }] } } }],
        "backends": [{ "name": "app", "port": 80 }],
    })
}

fn settled(more: Value) -> World {
    let mut world = World::with(vec![standing("web", more)]);
    world.settle(None);
    world
}

fn plan(world: &mut World) -> Plan<Action, crate::api::MyIngressStatus> {
    let object = world.objects[0].clone();
    decide(&object, &world.observe(&object), world.now)
}

fn alb(world: &World) -> AlbStatus {
    world.objects[0].status.clone().unwrap().alb.unwrap()
}

#[test]
fn what_an_answer_leaves_out_is_no_drift() {
    let mut world = settled(served());
    let object = world.objects[0].clone();
    for member in world.aws.assets.groups.values_mut() {
        member.attributes.as_mut().unwrap().retain(|key, _| key == "stickiness.enabled");
    }
    for member in world.aws.assets.balancers.values_mut() {
        member.attributes.as_mut().unwrap().clear();
        for listener in member.listeners.iter_mut().flat_map(|listeners| listeners.values_mut()) {
            listener.attributes.as_mut().unwrap().clear();
        }
    }
    let observed = world.observe(&object);
    assert_eq!(decide(&object, &observed, world.now).actions, []);
}

#[test]
fn a_new_balancer_is_shown_at_once_and_changed_only_when_its_tags_are_seen() {
    let mut world = World::with(vec![standing("web", served())]);
    let (object, owner) = (world.objects[0].clone(), World::owner(&world.objects[0]));
    let created = plan(&mut world);
    assert!(world.carry_out(&owner, &created.actions));
    let shown = plan(&mut world);
    let made = &world.aws.assets.of(&owner).balancers.into_values().next().unwrap().balancer;
    assert_eq!(shown.status.alb.as_ref().map(|alb| &alb.arn), Some(&made.arn));
    assert!(shown.record_first && matches!(shown.health, Health::Progressing(_)), "{shown:#?}");
    let verify = BalancerAction::Verify { arn: made.arn.clone(), name: made.name.clone() };
    assert_eq!(shown.actions, [Action::Balancer(verify)]);
    assert_eq!(object.status, None);
    world.carry_out(&owner, &shown.actions);
    assert!(plan(&mut world).actions.iter().any(|action| matches!(action, Action::Group(_))));
}

#[test]
fn the_old_balancer_is_shown_and_stays_until_its_replacement_serves() {
    let mut world = settled(served());
    let old = alb(&world);
    world.objects[0].spec.scheme = Scheme::Internal;
    let which = super::key(&world.objects[0]);
    let created = plan(&mut world);
    assert!(matches!(created.actions.as_slice(), [Action::Balancer(BalancerAction::Create(_))]), "{created:#?}");
    let balancers = |world: &World| world.aws.assets.balancers.len();

    world.reconcile(&which);
    assert_eq!((alb(&world), balancers(&world)), (old.clone(), 2), "the new one is being set up");

    let old_groups = world.aws.assets.groups.iter().filter(|(_, it)| it.group.balancers.contains(&old.arn));
    let old_groups: Vec<String> = old_groups.map(|(arn, _)| arn.clone()).collect();
    let new_groups = world.aws.assets.groups.keys().filter(|arn| !old_groups.contains(arn));
    world.aws.sick = new_groups.cloned().collect();
    world.activate();
    world.reconcile(&which);
    assert_eq!((alb(&world), balancers(&world)), (old.clone(), 2), "its targets are not healthy yet");

    world.aws.sick.clear();
    let switch = plan(&mut world);
    assert!(switch.record_first, "the new name is told before the old balancer goes");
    assert_ne!(switch.status.alb.unwrap().arn, old.arn);
    assert!(
        matches!(switch.actions.as_slice(), [Action::Balancer(BalancerAction::Delete { arn, .. })] if *arn == old.arn)
    );
    world.settle(None);
    assert_eq!(balancers(&world), 1);
    assert!(old_groups.iter().all(|arn| !world.aws.assets.groups.contains_key(arn)), "its groups go with it");
}

/// A world in which a balancer was just replaced, and the old one.
fn replaced() -> (World, AlbStatus) {
    let mut world = settled(served());
    world.grace = Duration::from_mins(2);
    let old = alb(&world);
    world.objects[0].spec.scheme = Scheme::Internal;
    let which = super::key(&world.objects[0]);
    world.reconcile(&which);
    world.activate();
    world.reconcile(&which);
    (world, old)
}

#[test]
fn a_replaced_balancer_and_its_targets_go_on_for_the_grace_period_over_a_restart() {
    let (mut world, old) = replaced();
    let which = super::key(&world.objects[0]);
    let switched = world.objects[0].status.clone().unwrap();
    assert_ne!(switched.alb.unwrap().arn, old.arn, "users see the new one");
    assert_eq!(switched.replaced.map(|it| (it.arn, it.dns)), Some((old.arn.clone(), old.dns.clone())));
    assert!(matches!(world.health.values().next(), Some(Health::Ready(_))), "{:?}", world.health);

    world.now += 119.seconds();
    world.die();
    world.reconcile(&which);
    let all: BTreeSet<String> = world.aws.assets.groups.keys().cloned().collect();
    assert_eq!((world.aws.assets.balancers.len(), all.len()), (2, 2));
    let owner = World::owner(&world.objects[0]);
    assert_eq!(world.followed(&owner), all, "both have their targets");
    let waiting = plan(&mut world);
    assert_eq!((waiting.actions, waiting.requeue), (Vec::new(), Some(Duration::from_secs(1))));

    world.now += 1.seconds();
    let last = plan(&mut world).actions;
    assert!(matches!(last.as_slice(), [Action::Balancer(BalancerAction::Delete { arn, .. })] if *arn == old.arn));
    world.settle(None);
    let status = world.objects[0].status.clone().unwrap();
    assert_eq!((world.aws.assets.balancers.len(), world.aws.assets.groups.len(), status.replaced), (1, 1, None));
}

#[test]
fn a_scheme_changed_back_in_the_grace_period_gives_the_other_one_its_own() {
    let (mut world, old) = replaced();
    let newer = alb(&world);
    world.now += 100.seconds();
    world.objects[0].spec.scheme = Scheme::InternetFacing;
    let which = super::key(&world.objects[0]);
    world.reconcile(&which);
    let status = world.objects[0].status.clone().unwrap();
    assert_eq!((status.alb, status.replaced.map(|it| it.arn)), (Some(old), Some(newer.arn)));
    assert_eq!(plan(&mut world).requeue, Some(Duration::from_mins(2)));
}

#[test]
fn one_that_nobody_was_told_of_goes_at_once() {
    let mut world = settled(served());
    world.grace = Duration::from_mins(2);
    world.objects[0].spec.scheme = Scheme::Internal;
    let which = super::key(&world.objects[0]);
    world.reconcile(&which);
    assert_eq!(world.aws.assets.balancers.len(), 2);
    world.objects[0].spec.scheme = Scheme::InternetFacing;
    world.settle(None);
    assert_eq!((world.aws.assets.balancers.len(), world.now), (1, jiff::Timestamp::default()));
}

#[test]
fn a_deletion_in_the_grace_period_takes_both() {
    let (mut world, _) = replaced();
    world.delete("web");
    let object = world.objects[0].clone();
    let removal = decide_removal(&object, &world.observe(&object)).actions.into_iter();
    let gone = removal.filter(|action| matches!(action, Action::Balancer(BalancerAction::Delete { .. })));
    assert_eq!(gone.count(), 2);
    world.settle(None);
    assert_eq!(world.aws.assets, crate::controllers::myingress::assets::Assets::default());
}

#[test]
fn tags_that_the_spec_drops_go_from_every_part_and_foreign_ones_stay() {
    let mut more = served();
    more["tags"] = json!({ "team": "a", "cost": "1" });
    more["inboundCidrs"] = json!(["10.0.0.0/8"]);
    more["listeners"][0]["rules"] = json!([
        { "hosts": ["a.example.com"], "action": { "redirect": { "host": "example.org" } } },
        { "hosts": ["b.example.com"], "action": { "redirect": { "host": "example.org" } } },
    ]);
    let mut world = settled(more);
    let owner = World::owner(&world.objects[0]);
    every_part(&mut world.aws, &owner, |tags| drop(tags.insert(FOREIGN_TAG.into(), "theirs".into())));
    world.journal.clear();
    world.objects[0].spec.tags.remove("team");
    world.settle(None);
    let keys = |world: &World| -> Vec<BTreeSet<String>> {
        let balancers = world.aws.assets.balancers.values();
        let listeners = balancers.clone().flat_map(|it| it.listeners.iter().flat_map(BTreeMap::values));
        let rules = listeners.clone().flat_map(|it| it.rules.values().map(|rule| &rule.tags));
        let all = rules.chain(listeners.map(|it| &it.tags)).chain(balancers.map(|it| &it.tags));
        let all = all.chain(world.aws.assets.groups.values().map(|it| &it.tags));
        let all = all.chain(world.aws.assets.security_groups.values().map(|it| &it.tags));
        all.map(|tags| tags.keys().cloned().collect()).collect()
    };
    let parts = keys(&world);
    assert_eq!(parts.len(), 6, "two rules, a listener, the balancer, a target group and a security group");
    for keys in parts {
        assert!(keys.contains(FOREIGN_TAG) && keys.contains("cost") && !keys.contains("team"), "{keys:?}");
    }
    assert_eq!(world.journal.len(), 4, "one call for the listener and its rules: {:#?}", world.journal);
    let managed = world.objects[0].status.clone().unwrap().managed.unwrap();
    assert_eq!(managed.tags, ["cost"], "what is gone everywhere is forgotten");

    // From now on somebody else has that key.
    every_part(&mut world.aws, &owner, |tags| drop(tags.insert("team".into(), "theirs".into())));
    world.settle(None);
    assert!(keys(&world).iter().all(|keys| keys.contains("team")));
}

#[test]
fn the_fingerprint_of_a_secret_goes_with_the_log_in() {
    let secured = |login: bool| {
        let mut action = json!({ "redirect": { "host": "example.org" } });
        if login {
            action["authenticateOidc"] = json!({
                "issuer": "https://i.example.com",
                "authorizationEndpoint": "https://i.example.com/a",
                "tokenEndpoint": "https://i.example.com/t",
                "userInfoEndpoint": "https://i.example.com/u",
                "clientId": "shop",
                "clientSecret": { "name": "shop-login" },
            });
        }
        let rules = json!([{ "hosts": ["a.example.com"], "action": action }]);
        let certificates = ["arn:aws:acm:eu-west-1:000000000000:certificate/a"];
        json!({ "listeners": [{ "port": 443, "certificateArns": certificates, "defaultAction": action, "rules": rules }] })
    };
    let fingerprints = |world: &World| -> usize {
        let listeners =
            world.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flat_map(BTreeMap::values));
        let tags = listeners.flat_map(|it| it.rules.values().map(|rule| &rule.tags).chain([&it.tags]));
        tags.filter(|tags| tags.contains_key("causeway.example.com/client-secret")).count()
    };
    let mut world = settled(secured(true));
    assert_eq!(fingerprints(&world), 2);
    world.objects[0].spec = standing("web", secured(false)).spec;
    world.settle(None);
    assert_eq!(fingerprints(&world), 0);
}

#[test]
fn a_replaced_target_group_serves_and_is_followed_until_the_new_one_is_healthy() {
    let mut world = settled(served());
    let old: BTreeSet<String> = world.aws.assets.groups.keys().cloned().collect();
    world.objects[0].spec.backends.iter_mut().for_each(|backend| backend.protocol = BackendProtocol::Https);
    let (owner, created) = (World::owner(&world.objects[0]), plan(&mut world).actions);
    for action in created.iter().filter(|action| matches!(action, Action::Group(_))) {
        assert!(world.aws.act(&owner, action).is_ok());
    }
    world.aws.sick = world.aws.assets.groups.keys().filter(|arn| !old.contains(*arn)).cloned().collect();
    assert!(!world.aws.sick.is_empty(), "there are new groups");

    world.settle(None);
    let weights = |world: &World| -> BTreeMap<String, u16> {
        let listeners =
            world.aws.assets.balancers.values().flat_map(|it| it.listeners.iter().flat_map(|it| it.values()));
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
    let between = weights(&world);
    assert!(between.iter().all(|(arn, weight)| (*weight > 0) == old.contains(arn)), "{between:?}");
    let object = world.objects[0].clone();
    let followed = world.observe(&object).bound.into_iter().filter_map(|binding| binding.group_arn);
    assert!(followed.collect::<BTreeSet<String>>().is_superset(&old), "the old ones are followed");

    world.aws.sick.clear();
    world.settle(None);
    assert!(weights(&world).iter().all(|(arn, weight)| *weight > 0 && !old.contains(arn)));
    assert!(old.iter().all(|arn| !world.aws.assets.groups.contains_key(arn)), "the old ones are gone");
}

#[test]
fn a_group_that_is_made_for_a_rule_gets_requests_only_once_it_can_take_them() {
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
    let mut world = settled(spec(before, says("none")));
    let after = json!([rule("/one", forward("blue")), rule("/two", says("two"))]);
    let edited = standing("web", spec(after, forward("green")));
    world.objects[0].spec = edited.spec;
    world.journal.clear();
    world.settle(None);
    let sent: Vec<Vec<u16>> = world
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
    assert!(sent.len() == 2 && sent[0].contains(&0), "{:#?}", world.journal);
}

#[test]
fn what_a_target_group_follows_is_known_after_a_restart_without_a_valid_spec() {
    let more = json!({
        "listeners": served()["listeners"],
        "backends": [{ "name": "app", "service": "web", "port": "http", "targetType": "instance" }],
    });
    for group in [json!({}), json!({ "group": { "name": "all" } })] {
        let mut spec = more.clone();
        spec.as_object_mut().unwrap().extend(group.as_object().unwrap().clone());
        let mut world = settled(spec);
        let object = world.objects[0].clone();
        let observed = world.observe(&object);
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
fn a_balancer_whose_ownership_tags_were_taken_is_left_alone_and_not_doubled() {
    let mut world = settled(json!({}));
    world.aws.assets.balancers.values_mut().for_each(|member| member.tags.clear());
    let plan = plan(&mut world);
    assert_eq!(plan.actions, Vec::new());
    assert!(matches!(plan.health, Health::Stalled(cause) if cause.reason == "OwnershipLost"));
}

#[test]
fn retain_leaves_the_balancer() {
    let mut world = settled(served());
    world.objects[0].spec.deletion_policy = DeletionPolicy::Retain;
    let before = world.aws.assets.clone();
    world.delete("web");
    let object = world.objects[0].clone();
    let removal = decide_removal(&object, &world.observe(&object));
    assert_eq!(removal.farewell.unwrap().reason, "Retained");
    world.settle(None);
    assert_eq!(world.aws.assets, before);
}

#[test]
fn protection_that_the_spec_turned_off_is_turned_off_before_the_deletion() {
    let mut world = settled(json!({ "deletionProtection": false }));
    let protected = Pairs::from([("deletion_protection.enabled".into(), "true".into())]);
    world.aws.assets.balancers.values_mut().for_each(|member| member.attributes = Some(protected.clone()));
    world.delete("web");
    let object = world.objects[0].clone();
    let removal = decide_removal(&object, &world.observe(&object));
    assert!(
        matches!(
            removal.actions.as_slice(),
            [Action::Balancer(BalancerAction::SetAttributes { .. }), Action::Balancer(BalancerAction::Delete { .. })]
        ),
        "{removal:#?}"
    );
}

#[test]
fn a_port_that_somebody_else_listens_on_is_told_and_nothing_changes() {
    let mut world = settled(served());
    for member in
        world.aws.assets.balancers.values_mut().flat_map(|it| it.listeners.iter_mut()).flat_map(|it| it.values_mut())
    {
        member.tags.clear();
    }
    let before = world.aws.assets.clone();
    let plan = plan(&mut world);
    assert!(matches!(&plan.health, Health::Stalled(cause) if cause.reason == "ListenerTaken"), "{plan:#?}");
    assert_eq!((plan.actions, world.aws.assets), (Vec::new(), before));
}

#[test]
fn an_adopted_balancer_becomes_what_the_object_says() {
    let mut world = settled(json!({}));
    let (arn, member) = world.aws.assets.balancers.pop_first().unwrap();
    let mut foreign = member;
    foreign.balancer.name = "theirs".into();
    foreign.tags = Pairs::from([("causeway.example.com/adopt".into(), "prod/shop/web".into())]);
    world.aws.assets.balancers.insert(arn.clone(), foreign);
    world.objects = vec![standing("web", json!({ "adopt": "theirs", "tags": { "team": "a" } }))];
    world.settle(None);
    assert_eq!(alb(&world).arn, arn);
    let adopted = &world.aws.assets.balancers[&arn];
    assert!(World::owner(&world.objects[0]).owns(&adopted.tags) && adopted.tags["team"] == "a");
    assert_eq!(world.aws.assets.balancers.len(), 1);
}

#[test]
fn nothing_is_made_while_a_certificate_is_missing() {
    let gone = json!({ "fixedResponse": { "statusCode": 410 } });
    let listeners = json!([{ "port": 443, "rules": [{ "hosts": ["www.example.org"], "action": gone }] }]);
    let world = settled(json!({ "listeners": listeners, "inboundCidrs": ["10.0.0.0/8"] }));
    assert!(
        matches!(world.health.values().next(), Some(Health::Stalled(cause)) if cause.reason == "CertificateNotFound")
    );
    assert_eq!(world.journal, []);
}
