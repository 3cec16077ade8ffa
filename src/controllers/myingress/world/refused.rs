//! What AWS refuses is left as it is; everything else goes on.

use std::time::Duration;

use serde_json::json;

use super::World;
use crate::controllers::myingress::action::Action;
use crate::controllers::myingress::decide::decide;
use crate::controllers::myingress::model::fixtures::standing;
use crate::controllers::myingress::refusals::Refusal;
use crate::runtime::{Health, Plan};

fn plan(world: &mut World) -> Plan<Action, crate::api::MyIngressStatus> {
    let object = world.objects[0].clone();
    decide(&object, &world.observe(&object), world.now)
}

#[test]
fn a_rule_that_aws_refuses_stays_as_it_is_and_the_others_change() {
    let rule =
        |host: &str, status: u16| json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": status } } });
    let listeners = |a: u16, b: u16| json!([{ "port": 80, "rules": [rule("a.example", a), rule("b.example", b)] }]);
    let mut world = World::with(vec![standing("web", json!({ "listeners": listeners(200, 200) }))]);
    world.settle(None);
    world.objects[0].spec.listeners = serde_json::from_value(listeners(201, 202)).unwrap();
    let wanted = plan(&mut world).actions;
    let of = |code: &str| {
        let found = wanted.iter().find(|action| format!("{action:?}").contains(&format!("status: {code}")));
        found.unwrap_or_else(|| panic!("nothing sets {code}: {wanted:#?}")).clone()
    };
    let (refused, fine) = (of("201"), of("202"));
    world.refusals = vec![Refusal {
        action: refused.clone(),
        reason: "RuleInvalid",
        message: "AWS refuses the rule".into(),
        blamed: Some(super::key(&world.objects[0])),
        retry_in: Duration::from_secs(30),
    }];
    let before = plan(&mut world);
    assert_eq!(before.actions, [fine], "the refused rule is neither changed nor deleted");
    world.carry_out(&World::owner(&world.objects[0].clone()), &before.actions);
    let after = plan(&mut world);
    assert_eq!(after.actions, []);
    assert!(matches!(&after.health, Health::Stalled(cause) if cause.reason == "RuleInvalid"), "{:?}", after.health);
    assert_eq!(after.requeue, Some(Duration::from_secs(30)));
    // Tried again, it comes by itself.
    world.refusals.clear();
    assert_eq!(plan(&mut world).actions, [refused]);
}
