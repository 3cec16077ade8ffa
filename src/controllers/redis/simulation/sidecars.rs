//! Containers beside the nodes that fail: they say nothing about the nodes.

use super::Simulation;
use super::kubernetes::Cut;
use super::story::{Edit, Mishap};
use crate::controllers::redis::action::Action;
use crate::controllers::redis::decide::decide;
use crate::controllers::redis::fixtures::redis;
use crate::stateful::ChildAction;

/// A set of three whose exporters crash, and whose spec the user has just corrected.
fn corrected() -> Simulation {
    let mut simulation = Simulation::settled(redis(2));
    Edit::Image(Some("registry.example.com/redis")).happens(&mut simulation);
    simulation
}

/// What the operator does not hear may serve: it would delete the master and its replicas within a second.
#[test]
fn nodes_that_run_unheard_are_not_replaced_for_the_trouble_of_another_container() {
    let mut simulation = corrected();
    simulation.kubernetes.set.pods.values_mut().for_each(|pod| pod.cut = Some(Cut::Dropped(0)));
    for _ in 0..3 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    let deleted = |runs: bool| {
        let mut observed = simulation.observe();
        for pod in observed.set.pods.values_mut() {
            pod.trouble = Some("CrashLoopBackOff".into());
            pod.evidence.container = Some("exporter".into());
            pod.runs = runs;
        }
        let actions = decide(&simulation.object, &observed, simulation.now).actions;
        actions.iter().filter(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. }))).count()
    };
    assert_eq!(deleted(true), 0);
    assert_eq!(deleted(false), 1, "nothing is lost with a pod whose node does not start");
}
