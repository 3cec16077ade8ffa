//! Target stickiness, which AWS refuses while clients wander among the groups of a rule.
//! <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/2734>

use serde_json::{Value, json};

use causeway_api::MyIngress;
use causeway_aws::elbv2::RuleAction;
use causeway_runtime::Health;

use super::Simulation;
use crate::action::{Action, GroupAction, ListenerAction};
use crate::model::fixtures::standing;

/// An object whose listener and rule both forward to backends of these names. With `sticky`, clients stay with their
/// group, and those of `a` with their target.
fn shared(names: &[&str], sticky: bool) -> MyIngress {
    let backends: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    let mut forward = json!({ "backends": backends });
    let mut specs: Vec<Value> = names.iter().map(|name| json!({ "name": name, "port": 80 })).collect();
    if sticky {
        forward["stickinessDuration"] = json!("1h");
        specs[0]["stickiness"] = json!({});
    }
    let action = json!({ "forward": forward });
    let rules = json!([{ "hosts": ["a.example.com"], "action": action }]);
    let listeners = json!([{ "port": 80, "rules": rules, "defaultAction": action }]);
    standing("web", json!({ "listeners": listeners, "backends": specs }))
}

/// How long clients stay with their group, in the default action and in the rule.
fn group_stickiness(simulation: &Simulation) -> Vec<Option<u32>> {
    let listeners = simulation.aws.assets.balancers.values().flat_map(|it| &it.listeners).flat_map(|it| it.values());
    let actions = listeners.flat_map(|it| {
        let rules = it.rules.values().flat_map(|rule| &rule.rule.settings.actions);
        it.listener.settings.default_actions.iter().chain(rules)
    });
    let of = |action: &RuleAction| match action {
        RuleAction::Forward { stickiness, .. } => *stickiness,
        _ => None,
    };
    actions.map(of).collect()
}

/// Reports whether targets of some group are sticky.
fn is_sticky(simulation: &Simulation) -> bool {
    let mut attributes = simulation.aws.assets.groups.values().filter_map(|member| member.attributes.as_ref());
    attributes.any(|it| it["stickiness.enabled"] == "true")
}

fn is_ready(simulation: &Simulation) -> bool {
    matches!(simulation.health.values().next(), Some(Health::Ready(_)))
}

/// The account refuses what AWS refuses.
#[test]
fn stickiness_and_one_more_backend_come_with_one_edit() {
    for crash in 0..12 {
        let mut simulation = Simulation::with(vec![shared(&["a", "c"], false)]);
        simulation.settle(None);
        simulation.objects[0].spec = shared(&["a", "c", "d"], true).spec;
        simulation.settle(Some(crash));
        assert_eq!(group_stickiness(&simulation), [Some(3600), Some(3600)]);
        assert!(is_sticky(&simulation) && is_ready(&simulation), "{:?}", simulation.health);
    }
}

#[test]
fn targets_become_sticky_only_after_the_rules() {
    let mut simulation = Simulation::with(vec![shared(&["a", "c"], false)]);
    simulation.settle(None);
    simulation.objects[0].spec = shared(&["a", "c"], true).spec;
    simulation.journal.clear();
    simulation.settle(None);
    let kinds: Vec<&str> = simulation
        .journal
        .iter()
        .map(|action| match action {
            Action::Listener(ListenerAction::ModifyRule { .. }) => "rule",
            Action::Listener(ListenerAction::Modify { .. }) => "default action",
            Action::Group(GroupAction::SetAttributes { .. }) => "targets",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["rule", "default action", "targets"]);
}

#[test]
fn clients_stay_with_their_group_before_the_first_check() {
    let mut simulation = Simulation::with(vec![shared(&["a", "c"], false)]);
    simulation.settle(None);
    let before: Vec<String> = simulation.aws.assets.groups.keys().cloned().collect();
    simulation.objects[0].spec = shared(&["a", "c", "d"], true).spec;
    let (object, owner) = (simulation.objects[0].clone(), Simulation::owner(&simulation.objects[0]));
    let plan = super::decide(&object, &simulation.observe(&object), simulation.now);
    assert!(simulation.carry_out(&owner, &plan.actions));
    simulation.aws.sick = simulation.aws.assets.groups.keys().filter(|arn| !before.contains(arn)).cloned().collect();
    assert_eq!(simulation.aws.sick.len(), 1);
    simulation.settle(None);
    assert_eq!(group_stickiness(&simulation), [Some(3600), Some(3600)]);
    assert!(!is_ready(&simulation), "{:?}", simulation.health);

    simulation.aws.sick.clear();
    simulation.settle(None);
    assert_eq!(group_stickiness(&simulation), [Some(3600), Some(3600)]);
    assert!(is_sticky(&simulation) && is_ready(&simulation), "{:?}", simulation.health);
}

#[test]
fn stickiness_goes_with_one_edit() {
    let mut simulation = Simulation::with(vec![shared(&["a", "c"], true)]);
    simulation.settle(None);
    assert!(is_sticky(&simulation));
    simulation.objects[0].spec = shared(&["a", "c", "d"], false).spec;
    simulation.settle(None);
    assert_eq!(group_stickiness(&simulation), [None, None]);
    assert!(!is_sticky(&simulation) && is_ready(&simulation), "{:?}", simulation.health);
}
