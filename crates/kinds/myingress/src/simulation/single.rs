//! One object by itself.

use proptest::prelude::*;
use serde_json::Value;

use causeway_api::MyIngress;
use causeway_runtime::Health;

use super::shape::{Shape, assert_same, foreign};
use super::{Simulation, drift, specs};
use crate::model::fixtures::born;

fn web(spec: &Value) -> MyIngress {
    born("web", 0, spec.clone())
}

/// The state that the object leads to in an empty account.
fn reference(spec: &Value) -> Simulation {
    let mut simulation = Simulation::with(vec![web(spec)]);
    simulation.settle(None);
    simulation
}

fn shape(simulation: &mut Simulation) -> Shape {
    let object = simulation.objects[0].clone();
    let observed = simulation.observe(&object);
    Shape::new(&observed.owner, &simulation.aws.assets, observed.built.model.as_ref())
}

proptest! {
    // An eighth of the usual number of cases, for each case takes long.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn aws_converges_on_the_object_after_any_crash(
        steps in specs::changes(specs::whole()),
        (others, drifts) in (specs::foreign(Simulation::owner(&web(&serde_json::json!({ "subnets": [] })))),
            proptest::collection::vec((0..3_usize, drift::any()), 0..4)),
        lingers in 0..3_usize, minutes in 0..3_u64,
    ) {
        let mut simulation = Simulation::with(vec![web(&steps[0].0)]);
        simulation.grace = std::time::Duration::from_mins(minutes);
        let owner = Simulation::owner(&simulation.objects[0]);
        simulation.aws.assets = others.clone();
        for (step, (spec, crash)) in steps.into_iter().enumerate() {
            simulation.object("web").spec = serde_json::from_value(spec.clone()).unwrap();
            simulation.settle(Some(crash));
            for (_, drift) in drifts.iter().filter(|(when, _)| *when == step) {
                drift.happens(&mut simulation.aws, &owner);
                let before = foreign(std::slice::from_ref(&owner), &simulation.aws.assets);
                simulation.settle(Some(crash / 2));
                prop_assert_eq!(foreign(std::slice::from_ref(&owner), &simulation.aws.assets), before);
            }
            let health = simulation.health.values().next().cloned();
            prop_assert!(matches!(health, Some(Health::Ready(_))), "{:?}", health);
            let expected = shape(&mut reference(&spec));
            assert_same(&shape(&mut simulation), &expected);
            let groups: std::collections::BTreeSet<String> = simulation.aws.assets.owned_by(&owner).groups.into_keys().collect();
            prop_assert_eq!(simulation.followed(&owner), groups, "targets follow every group");
        }
        prop_assert_eq!(foreign(std::slice::from_ref(&owner), &simulation.aws.assets).0, others.clone());
        simulation.delete("web");
        simulation.aws.lingering = lingers;
        simulation.settle(Some(lingers));
        prop_assert!(simulation.objects.is_empty());
        prop_assert_eq!(&simulation.aws.assets, &others);
    }

    #[test]
    fn a_deletion_before_anything_is_ready_leaves_nothing(spec in specs::alone(), crash in 0..12_usize, deletion in 0..8_usize) {
        let mut simulation = Simulation::with(vec![web(&spec)]);
        simulation.life = Some(crash);
        let key = super::key(&simulation.objects[0]);
        simulation.reconcile(&key);
        simulation.die();
        simulation.delete("web");
        simulation.settle(Some(deletion));
        prop_assert_eq!(simulation.aws.assets, crate::region::assets::Assets::default());
    }

    #[test]
    fn a_mistake_changes_nothing_and_its_correction_everything(good in specs::whole(), better in specs::whole()) {
        let mut simulation = reference(&good);
        let before = simulation.aws.clone();
        let mut bad = better.clone();
        bad["tags"] = serde_json::json!({ "aws:reserved": "x" });
        simulation.object("web").spec = serde_json::from_value(bad).unwrap();
        simulation.settle(None);
        prop_assert_eq!(&simulation.aws.assets, &before.assets);
        prop_assert!(matches!(simulation.health.values().next(), Some(Health::Stalled(_))));
        simulation.object("web").spec = serde_json::from_value(better.clone()).unwrap();
        simulation.settle(None);
        let expected = shape(&mut reference(&better));
        assert_same(&shape(&mut simulation), &expected);
    }
}
