//! Requests move to other target groups.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use causeway_aws::elbv2::RuleAction;
use causeway_runtime::Health;

use super::Simulation;
use super::refused::{listener, plan, settled};
use crate::action::predicted::forwards_to;
use crate::action::{Action, ListenerAction};
use crate::model::fixtures::{oidc, standing};

/// An HTTPS listener with a rule and a default action that both do this.
fn doing(action: &Value) -> Value {
    let rules = json!([{ "hosts": ["a.example.com"], "action": action }]);
    let certificates = ["arn:aws:acm:eu-west-1:000000000000:certificate/wild"];
    json!({
        "listeners": [{ "port": 443, "certificateArns": certificates, "rules": rules, "defaultAction": action }],
        "backends": [{ "name": "private", "port": 80 }, { "name": "public", "port": 80 }],
    })
}

fn forward(backend: &str) -> Value {
    json!({ "forward": { "backends": [{ "name": backend }] } })
}

/// Creates the target groups that are planned, and lets their targets fail their checks.
fn create_sick_groups(simulation: &mut Simulation) {
    let before: BTreeSet<String> = simulation.aws.assets.groups.keys().cloned().collect();
    let (owner, planned) = (Simulation::owner(&simulation.objects[0]), plan(simulation).actions);
    for action in planned.iter().filter(|action| matches!(action, Action::Group(_))) {
        assert!(simulation.aws.act(&owner, action).is_ok());
    }
    simulation.aws.sick = simulation.aws.assets.groups.keys().filter(|arn| !before.contains(*arn)).cloned().collect();
    assert!(!simulation.aws.sick.is_empty(), "there are new groups");
}

/// The actions on requests that a change brings.
fn request_actions(action: &Action) -> &[RuleAction] {
    match action {
        Action::Listener(ListenerAction::CreateRule { settings, .. } | ListenerAction::ModifyRule { settings, .. }) => {
            &settings.actions
        }
        Action::Listener(ListenerAction::Modify { settings, .. }) => &settings.default_actions,
        _ => &[],
    }
}

#[test]
fn a_log_in_protects_until_its_successor_is_healthy() {
    let mut private = forward("private");
    private["authenticateOidc"] = oidc();
    let mut simulation = settled(doing(&private));
    let protected: BTreeSet<String> = simulation.aws.assets.groups.keys().cloned().collect();
    simulation.objects[0].spec = standing("web", doing(&forward("public"))).spec;
    create_sick_groups(&mut simulation);
    simulation.settle(None);
    let opens = |action: &&Action| {
        let logs_in = request_actions(action).iter().any(|it| matches!(it, RuleAction::AuthenticateOidc(_)));
        !logs_in && request_actions(action).iter().flat_map(RuleAction::forwarded_to).any(|arn| protected.contains(arn))
    };
    assert_eq!(simulation.journal.iter().find(opens), None);
    let listener = listener(&simulation);
    assert!(forwards_to(&listener).all(|arn| simulation.aws.sick.contains(arn)), "{listener:#?}");
}

#[test]
fn a_group_without_requests_drains_before_it_is_deleted() {
    let mut simulation = settled(doing(&forward("private")));
    let drained: BTreeSet<String> = simulation.aws.assets.groups.keys().cloned().collect();
    for (delay, expected) in [("300", 120), ("20", 120), ("600", 600)] {
        let mut simulation = simulation.clone();
        simulation.grace = Duration::from_mins(2);
        for member in simulation.aws.assets.groups.values_mut() {
            let attribute = ("deregistration_delay.timeout_seconds".to_owned(), delay.to_owned());
            member.attributes.get_or_insert_default().extend([attribute]);
        }
        simulation.objects[0].spec = standing("web", doing(&forward("public"))).spec;
        let which = super::key(&simulation.objects[0]);
        while !simulation.reconcile(&which) {}
        assert!(forwards_to(&listener(&simulation)).all(|arn| !drained.contains(arn)), "requests go to the other one");
        assert!(matches!(simulation.health[&which], Health::Ready(_)), "{:?}", simulation.health);
        let waiting = plan(&mut simulation);
        assert_eq!((waiting.actions, waiting.requeue), (Vec::new(), Some(Duration::from_secs(expected))), "{delay}");

        let begun = simulation.now;
        simulation.die();
        simulation.settle(None);
        assert_eq!(simulation.now.duration_since(begun).as_secs(), i64::try_from(expected).unwrap(), "over a restart");
        assert!(simulation.aws.assets.groups.keys().all(|arn| !drained.contains(arn)), "it is gone");
    }
    // A spec that wants it again before it is drained finds it as it was.
    simulation.grace = Duration::from_mins(2);
    for backend in ["public", "private"] {
        simulation.objects[0].spec = standing("web", doing(&forward(backend))).spec;
        let which = super::key(&simulation.objects[0]);
        while !simulation.reconcile(&which) {}
    }
    assert!(forwards_to(&listener(&simulation)).all(|arn| drained.contains(arn)), "the same group serves");
}
