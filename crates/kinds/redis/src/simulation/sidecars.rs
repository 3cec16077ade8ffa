//! Containers beside the nodes that fail: they say nothing about the nodes.

use causeway_databases::ChildAction;

use super::Simulation;
use super::kubernetes::{Cut, PodState};
use super::story::{Edit, Mishap};
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures::redis;

/// A set whose exporters crash, and whose spec the user has just corrected.
fn corrected(replicas: i32) -> Simulation {
    let mut simulation = Simulation::settled(redis(replicas));
    Edit::Image(Some("registry.example.com/redis")).happens(&mut simulation);
    simulation
}

fn count_deleted(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. }))).count()
}

/// Nodes that the operator does not hear may serve: it would delete the master and its replicas within a second.
#[test]
fn unheard_nodes_are_not_replaced_for_a_sidecar() {
    let mut simulation = corrected(2);
    simulation.kubernetes.set.pods.values_mut().for_each(|pod| pod.cut = Some(Cut::Dropped(0)));
    for _ in 0..3 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    let count = |runs: bool| {
        let mut observed = simulation.observe();
        for pod in observed.set.pods.values_mut() {
            pod.trouble = Some("CrashLoopBackOff".into());
            pod.evidence.container = Some("exporter".into());
            pod.runs = runs;
        }
        count_deleted(&decide(&simulation.object, &observed, simulation.now).actions)
    };
    assert_eq!(count(true), 0);
    assert_eq!(count(false), 1, "nothing is lost with a pod whose node does not start");
}

/// None of them gets ready before its pod is made from the corrected spec.
#[test]
fn unready_pods_are_replaced_one_by_one() {
    let mut simulation = corrected(2);
    simulation.kubernetes.set.pods.values_mut().for_each(|pod| pod.unready = true);
    for _ in 0..60 {
        simulation.reconcile(&Mishap::default());
        let serves = |pod: &&PodState| !pod.terminating && pod.process.as_ref().is_some_and(|it| !it.writes.is_empty());
        let serve = simulation.kubernetes.set.pods.values().filter(serves).count();
        assert!(serve >= 2, "{:#?}", simulation.kubernetes.set.pods);
        simulation.time_passes();
    }
    simulation.settle();
    simulation.assert_settled();
    assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)));
}

#[test]
fn unready_pods_stay_while_two_replicas_lack_data() {
    let mut simulation = corrected(3);
    simulation.kubernetes.set.pods.values_mut().for_each(|pod| pod.unready = true);
    for ordinal in [2, 3] {
        simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().process.as_mut().unwrap().hangs = Some(0);
    }
    for _ in 0..6 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(count_deleted(&simulation.journal), 0, "cache-1 is the only one that could take over");
    simulation.resume();
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(count_deleted(&simulation.journal), 4);
}

/// The corrected spec may be wrong again: then one pod shows it.
#[test]
fn a_successor_that_is_not_ready_either_stops_the_rollout() {
    let mut simulation = corrected(2);
    for _ in 0..60 {
        simulation.kubernetes.set.pods.values_mut().for_each(|pod| pod.unready = true);
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(count_deleted(&simulation.journal), 1, "{:#?}", simulation.journal);
}
