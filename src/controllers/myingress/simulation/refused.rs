//! What AWS refuses stays as it is, and everything else goes on.

use std::time::Duration;

use serde_json::json;

use super::Simulation;
use crate::controllers::myingress::action::Action;
use crate::controllers::myingress::decide::decide;
use crate::controllers::myingress::model::fixtures::standing;
use crate::controllers::myingress::refusals::Refusal;
use crate::runtime::{Health, Plan};

fn plan(simulation: &mut Simulation) -> Plan<Action, crate::api::MyIngressStatus> {
    let object = simulation.objects[0].clone();
    decide(&object, &simulation.observe(&object), simulation.now)
}

#[test]
fn a_rule_that_aws_refuses_stays_as_it_is_and_the_others_change() {
    let rule =
        |host: &str, status: u16| json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": status } } });
    let listeners = |a: u16, b: u16| json!([{ "port": 80, "rules": [rule("a.example", a), rule("b.example", b)] }]);
    let mut simulation = Simulation::with(vec![standing("web", json!({ "listeners": listeners(200, 200) }))]);
    simulation.settle(None);
    simulation.objects[0].spec.listeners = serde_json::from_value(listeners(201, 202)).unwrap();
    let wanted = plan(&mut simulation).actions;
    let of = |code: &str| {
        let found = wanted.iter().find(|action| format!("{action:?}").contains(&format!("status: {code}")));
        found.unwrap_or_else(|| panic!("nothing sets {code}: {wanted:#?}")).clone()
    };
    let (refused, fine) = (of("201"), of("202"));
    simulation.refusals = vec![Refusal {
        action: refused.clone(),
        reason: "RuleInvalid",
        message: "AWS refuses the rule".into(),
        blamed: Some(super::key(&simulation.objects[0])),
        retry_in: Duration::from_secs(30),
    }];
    let before = plan(&mut simulation);
    assert_eq!(before.actions, [fine], "the refused rule is neither changed nor deleted");
    simulation.carry_out(&Simulation::owner(&simulation.objects[0].clone()), &before.actions);
    let after = plan(&mut simulation);
    assert_eq!(after.actions, []);
    assert!(matches!(&after.health, Health::Stalled(cause) if cause.reason == "RuleInvalid"), "{:?}", after.health);
    assert_eq!(after.requeue, Some(Duration::from_secs(30)));
    // Without the refusal the action is tried again by itself.
    simulation.refusals.clear();
    assert_eq!(plan(&mut simulation).actions, [refused]);
}
