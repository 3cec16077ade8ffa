//! Reports of drift, and differences that are none.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use causeway_aws::elbv2::{FixedResponse, RuleAction};

use super::{Simulation, drift, specs};
use crate::drift::alters;
use crate::model::fixtures::{born, joining, standing};

proptest! {
    // An eighth of the usual number of cases, for each case takes long.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn all_that_others_changed_is_told_and_nothing_else(
        steps in vec((specs::alone(), option::of(drift::any())), 1..5), minutes in 0..2_u64, restarts in any::<bool>(),
    ) {
        let mut simulation = Simulation::with(vec![born("web", 0, steps[0].0.clone())]);
        simulation.grace = std::time::Duration::from_mins(minutes);
        let owner = Simulation::owner(&simulation.objects[0]);
        for (spec, drift) in steps {
            simulation.object("web").spec = serde_json::from_value(spec).unwrap();
            simulation.settle(None);
            prop_assert_eq!(&simulation.repaired, &Vec::new(), "a creation or an edit");
            let Some(drift) = drift else { continue };
            simulation.journal.clear();
            drift.happens(&mut simulation.aws, &owner);
            if restarts {
                simulation.die();
            }
            simulation.settle(None);
            let repairs = simulation.journal.iter().any(alters);
            // A change of what the spec leaves open is reported too, and is no repair.
            let mut repaired = std::mem::take(&mut simulation.repaired);
            repaired.retain(|drift| !drift.repaired.is_empty());
            prop_assert_eq!(repaired.len(), usize::from(repairs && !restarts), "{:#?}\n{:#?}", drift, simulation.journal);
        }
    }
}

#[test]
fn other_members_of_a_group_and_secrets_make_no_drift() {
    let login = json!({ "listeners": [{ "port": 80, "rules": [
        { "hosts": ["a.example.com"], "action": { "redirect": { "host": "example.org" } } },
    ] }] });
    let mut simulation = Simulation::with(vec![standing("a", json!({ "group": { "name": "all" } }))]);
    simulation.settle(None);
    simulation.objects.push(joining("b", login));
    simulation.settle(None);
    simulation.object("b").spec.suspend = true;
    simulation.settle(None);
    simulation.object("b").spec.suspend = false;
    simulation.settle(None);
    simulation.delete("b");
    simulation.settle(None);
    assert_eq!(simulation.repaired, []);
}

#[test]
fn what_was_different_is_named_with_both_values() {
    let mut simulation = Simulation::with(vec![standing("web", json!({ "tags": { "team": "shop" } }))]);
    simulation.settle(None);
    for member in simulation.aws.assets.balancers.values_mut() {
        member.tags.insert("team".into(), "pirates".into());
    }
    simulation.settle(None);
    let repaired = simulation.repaired.pop().unwrap();
    let differences: Vec<(&str, &str)> = repaired.repaired.iter().map(|it| (it.part, it.message.as_str())).collect();
    assert_eq!(differences, [("tag", "load balancer web-alb: tags.team was pirates, not shop")]);
    assert!(repaired.note.unwrap().contains("tags.team was pirates"));
}

/// A page that others put before a backend answers requests, and is no answer of the spec.
#[test]
fn others_changes_are_put_back_while_no_target_is_healthy() {
    let action = json!({ "forward": { "backends": [{ "name": "app" }] } });
    let spec =
        json!({ "listeners": [{ "port": 80, "defaultAction": action }], "backends": [{ "name": "app", "port": 80 }] });
    let mut simulation = Simulation::with(vec![standing("web", spec)]);
    simulation.settle(None);
    simulation.aws.sick = simulation.aws.assets.groups.keys().cloned().collect();
    simulation.settle(None);
    let before = simulation.aws.assets.clone();
    let page = RuleAction::FixedResponse(FixedResponse { status: 503, content_type: None, body: None });
    let balancers = simulation.aws.assets.balancers.values_mut();
    for member in balancers.flat_map(|it| it.listeners.iter_mut().flat_map(|listeners| listeners.values_mut())) {
        member.listener.settings.default_actions = vec![page.clone()];
    }
    assert_ne!(simulation.aws.assets, before);
    simulation.settle(None);
    assert_eq!(simulation.aws.assets, before);
    assert_eq!(simulation.repaired.len(), 1);
}

/// While a balancer is missing, its subnets are looked up to find the VPC of its security groups. That lookup is no
/// change that a user asked for.
#[test]
fn a_deleted_balancer_is_reported_despite_further_lookups() {
    let spec = json!({ "subnets": ["subnet-1", "subnet-3"], "securityGroups": ["edge"] });
    let mut simulation = Simulation::with(vec![born("web", 0, spec)]);
    simulation.settle(None);
    let owner = Simulation::owner(&simulation.objects[0]);
    drift::Drift::DeleteBalancer.happens(&mut simulation.aws, &owner);
    simulation.settle(None);
    let repaired = simulation.repaired.pop().expect("it is reported");
    assert_eq!(repaired.repaired[0].message, "load balancer web-alb was missing");
}
