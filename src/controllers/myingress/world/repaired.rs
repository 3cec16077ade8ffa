//! What is told of as drift, and what is not.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

use super::{World, drift, specs};
use crate::controllers::myingress::drift::alters;
use crate::controllers::myingress::model::fixtures::{born, joining, standing};

proptest! {
    // An eighth of what is usual: each case is a long story.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn all_that_others_changed_is_told_and_nothing_else(
        steps in vec((specs::alone(), option::of(drift::any())), 1..5), minutes in 0..2_u64, restarts in any::<bool>(),
    ) {
        let mut world = World::with(vec![born("web", 0, steps[0].0.clone())]);
        world.grace = std::time::Duration::from_mins(minutes);
        let owner = World::owner(&world.objects[0]);
        for (spec, drift) in steps {
            world.object("web").spec = serde_json::from_value(spec).unwrap();
            world.settle(None);
            prop_assert_eq!(&world.repaired, &Vec::new(), "a creation or an edit");
            let Some(drift) = drift else { continue };
            world.journal.clear();
            drift.happens(&mut world.aws, &owner);
            if restarts {
                world.die();
            }
            world.settle(None);
            let repairs = world.journal.iter().any(alters);
            let told = std::mem::take(&mut world.repaired);
            prop_assert_eq!(told.len(), usize::from(repairs && !restarts), "{:#?}\n{:#?}", drift, world.journal);
            prop_assert!(told.iter().all(|repaired| !repaired.differences.is_empty()));
        }
    }
}

#[test]
fn other_members_of_a_group_and_secrets_make_no_drift() {
    let login = json!({ "listeners": [{ "port": 80, "rules": [
        { "hosts": ["a.example.com"], "action": { "redirect": { "host": "example.org" } } },
    ] }] });
    let mut world = World::with(vec![standing("a", json!({ "group": { "name": "all" } }))]);
    world.settle(None);
    world.objects.push(joining("b", login));
    world.settle(None);
    world.object("b").spec.suspend = true;
    world.settle(None);
    world.object("b").spec.suspend = false;
    world.settle(None);
    world.delete("b");
    world.settle(None);
    assert_eq!(world.repaired, []);
}

#[test]
fn what_was_different_is_named_with_both_values() {
    let mut world = World::with(vec![standing("web", json!({ "tags": { "team": "shop" } }))]);
    world.settle(None);
    for member in world.aws.assets.balancers.values_mut() {
        member.tags.insert("team".into(), "pirates".into());
    }
    world.settle(None);
    let told = world.repaired.pop().unwrap();
    let differences: Vec<(&str, &str)> = told.differences.iter().map(|it| (it.part, it.told.as_str())).collect();
    assert_eq!(differences, [("tag", "load balancer web-alb: tags.team was pirates, not shop")]);
    assert!(told.note.unwrap().contains("tags.team was pirates"));
}
