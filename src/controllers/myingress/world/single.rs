//! One object by itself.

use proptest::prelude::*;
use serde_json::Value;

use super::shape::{Shape, assert_same, foreign};
use super::{World, drift, specs};
use crate::api::MyIngress;
use crate::controllers::myingress::model::fixtures::born;
use crate::runtime::Health;

fn web(spec: &Value) -> MyIngress {
    born("web", 0, spec.clone())
}

/// What the object leads to in an empty account.
fn reference(spec: &Value) -> World {
    let mut world = World::with(vec![web(spec)]);
    world.settle(None);
    world
}

fn shape(world: &mut World) -> Shape {
    let object = world.objects[0].clone();
    let observed = world.observe(&object);
    Shape::of(&observed.owner, &world.aws.assets, observed.built.model.as_ref())
}

proptest! {
    // An eighth of what is usual: each case is a long story.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn aws_becomes_what_the_object_says_whatever_was_and_wherever_it_crashed(
        steps in specs::changes(specs::alone()),
        (others, drifts) in (specs::foreign(World::owner(&web(&serde_json::json!({ "subnets": [] })))),
            proptest::collection::vec((0..3_usize, drift::any()), 0..4)),
        lingers in 0..3_usize, minutes in 0..3_u64,
    ) {
        let mut world = World::with(vec![web(&steps[0].0)]);
        world.grace = std::time::Duration::from_mins(minutes);
        let owner = World::owner(&world.objects[0]);
        world.aws.assets = others.clone();
        for (step, (spec, crash)) in steps.into_iter().enumerate() {
            world.object("web").spec = serde_json::from_value(spec.clone()).unwrap();
            world.settle(Some(crash));
            for (_, drift) in drifts.iter().filter(|(when, _)| *when == step) {
                drift.happens(&mut world.aws, &owner);
                let before = foreign(std::slice::from_ref(&owner), &world.aws.assets);
                world.settle(Some(crash / 2));
                prop_assert_eq!(foreign(std::slice::from_ref(&owner), &world.aws.assets), before);
            }
            let health = world.health.values().next().cloned();
            prop_assert!(matches!(health, Some(Health::Ready(_))), "{:?}", health);
            let expected = shape(&mut reference(&spec));
            assert_same(&shape(&mut world), &expected);
            let groups: std::collections::BTreeSet<String> = world.aws.assets.of(&owner).groups.into_keys().collect();
            prop_assert_eq!(world.followed(&owner), groups, "targets follow every group");
        }
        prop_assert_eq!(foreign(std::slice::from_ref(&owner), &world.aws.assets).0, others.clone());
        world.delete("web");
        world.aws.lingering = lingers;
        world.settle(Some(lingers));
        prop_assert!(world.objects.is_empty());
        prop_assert_eq!(&world.aws.assets, &others);
    }

    #[test]
    fn a_deletion_before_anything_is_ready_leaves_nothing(spec in specs::alone(), crash in 0..12_usize, deletion in 0..8_usize) {
        let mut world = World::with(vec![web(&spec)]);
        world.life = Some(crash);
        let key = super::key(&world.objects[0]);
        world.reconcile(&key);
        world.die();
        world.delete("web");
        world.settle(Some(deletion));
        prop_assert_eq!(world.aws.assets, crate::controllers::myingress::assets::Assets::default());
    }

    #[test]
    fn a_mistake_changes_nothing_and_its_correction_everything(good in specs::alone(), better in specs::alone()) {
        let mut world = reference(&good);
        let before = world.aws.clone();
        let mut bad = better.clone();
        bad["tags"] = serde_json::json!({ "aws:reserved": "x" });
        world.object("web").spec = serde_json::from_value(bad).unwrap();
        world.settle(None);
        prop_assert_eq!(&world.aws.assets, &before.assets);
        prop_assert!(matches!(world.health.values().next(), Some(Health::Stalled(_))));
        world.object("web").spec = serde_json::from_value(better.clone()).unwrap();
        world.settle(None);
        let expected = shape(&mut reference(&better));
        assert_same(&shape(&mut world), &expected);
    }
}
