//! Ready means that nothing is left to do: every child is as the object asks for, and every pod was made from it and
//! serves. `kubectl wait` believes that.

use causeway_api::Redis;
use causeway_databases::ChildAction;
use causeway_databases::simulation::{assert_helpful, is_as_wanted};
use causeway_runtime::Health;

use super::Simulation;
use super::kubernetes::OWN_IMAGE;
use super::story::{Edit, Mishap};
use crate::action::Action;
use crate::facts::Observed;
use crate::fixtures::redis;
use crate::resources;
use crate::settings::file;

/// Asserts that what is called ready is so, and that whatever stalls says what to do.
pub fn assert_true(object: &Redis, observed: &Observed, health: &Health, actions: &[Action]) {
    assert_helpful(health);
    if !matches!(health, Health::Ready(_)) {
        return;
    }
    assert!(
        actions.iter().all(|action| matches!(action, Action::Child(ChildAction::Restore(_)))),
        "ready before {actions:?}"
    );
    let count = object.spec.replicas + 1;
    let mut children = resources::around(object, &observed.set.rules);
    children.push(resources::pods(object, count, OWN_IMAGE, file(object)));
    children.push(resources::disruption_budget(object, 1));
    for child in children {
        let live = observed.set.child(child.kind(), child.name());
        assert!(live.is_some_and(|live| is_as_wanted(&child, live)), "ready without {child:?}");
    }
    assert!(observed.set.pods.keys().copied().eq(0..count), "ready with {:?}", observed.set.pods.keys());
    let revision = resources::revision(object);
    for pod in observed.set.pods.values() {
        assert!(pod.ready && !pod.terminating && pod.revision == revision, "ready with {pod:#?}");
        assert_eq!(pod.own.conf, Some(file(object)), "ready with {pod:#?}");
    }
}

/// The only pod still answers after it was deleted, until its process ends.
#[test]
fn a_single_node_is_ready_after_its_rollout() {
    for image in ["registry.example.com/nothing", "registry.example.com/redis"] {
        let mut simulation = Simulation::settled(redis(0));
        Edit::Image(Some(image)).happens(&mut simulation);
        simulation.reconcile(&Mishap::default());
        assert!(simulation.kubernetes.set.pods[&0].terminating, "it is being replaced");
        assert!(matches!(simulation.health, Some(Health::Progressing(_))), "{image}: {:?}", simulation.health);
    }
}

/// A kubelet that does not answer, or an exporter that fails, keeps no client from the master, but is reported.
#[test]
fn an_unready_master_serves_and_is_reported() {
    for size in [0, 2] {
        let mut simulation = Simulation::settled(redis(size));
        let master = simulation.object.status.clone().unwrap().master.unwrap();
        simulation.kubernetes.set.pods.values_mut().find(|pod| pod.name == master).unwrap().unready = true;
        simulation.reconcile(&Mishap::default());
        assert!(simulation.kubernetes.serves(&simulation.object), "{:#?}", simulation.kubernetes.slices);
        let Some(Health::Progressing(cause)) = &simulation.health else { panic!("{size}: {:?}", simulation.health) };
        assert_eq!(cause.reason, "MasterNotReady");
        assert!(cause.message.contains(&master) && cause.message.contains("Service cache"), "{}", cause.message);
    }
}

/// Pods that are not wanted any more may still serve.
#[test]
fn surplus_pods_keep_a_set_unready() {
    let mut simulation = Simulation::settled(redis(3));
    Edit::Replicas(1).happens(&mut simulation);
    simulation.reconcile(&Mishap::default());
    assert_eq!(simulation.kubernetes.set.pods.len(), 4);
    assert!(matches!(simulation.health, Some(Health::Progressing(_))), "{:?}", simulation.health);
}
