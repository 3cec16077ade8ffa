//! The backup that a new cluster begins with.

use causeway_api::databaserestore::{RestoreOutcome, RestorePhase};
use causeway_databases::ChildAction;
use causeway_databases::restore_from::fixtures::{live_in, nightly};
use causeway_databases::restore_from::{Seen, Step};
use causeway_runtime::Health;

use super::Simulation;
use super::faults::Mishap;
use crate::action::Action;
use crate::fixtures::cluster;

/// A new cluster that is to begin with a backup, before anything was done.
fn asking() -> Simulation {
    let mut object = cluster(3);
    object.spec.restore_from = Some(nightly());
    let mut simulation = Simulation::new(object);
    simulation.kubernetes.set.restore = Seen::Absent;
    simulation
}

fn run_until(simulation: &mut Simulation, what: &str, done: impl Fn(&Simulation) -> bool) {
    for _ in 0..100 {
        if done(simulation) {
            return;
        }
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    panic!("never {what}: {:?} {:?}", simulation.health, simulation.kubernetes.set.restore);
}

fn is_made(simulation: &Simulation) -> bool {
    matches!(simulation.kubernetes.set.restore, Seen::Present(_))
}

fn restores_made(simulation: &Simulation) -> usize {
    simulation
        .journal
        .iter()
        .filter(|action| matches!(action, Action::Child(ChildAction::Restore(Step::Make { .. }))))
        .count()
}

fn outcome(simulation: &Simulation) -> Option<RestoreOutcome> {
    Some(simulation.object.status.as_ref()?.restored.as_ref()?.outcome)
}

fn ends(simulation: &mut Simulation, phase: RestorePhase, message: &str) {
    simulation.kubernetes.set.restore = live_in("restore-1", phase, message);
}

#[test]
fn a_cluster_is_ready_only_after_its_restore() {
    let mut simulation = asking();
    run_until(&mut simulation, "made", is_made);
    assert!(simulation.raft.healthy().len() >= 2, "{:#?}", simulation.raft);
    assert!(matches!(simulation.health, Some(Health::Progressing(_))), "{:?}", simulation.health);
    run_until(&mut simulation, "noted", |simulation| outcome(simulation) == Some(RestoreOutcome::Running));

    // Members are helped meanwhile.
    simulation.kubernetes.delete_pod(1, &mut simulation.raft);
    run_until(&mut simulation, "whole again", |simulation| simulation.raft.healthy().len() == 3);
    assert!(!matches!(simulation.health, Some(Health::Ready(_))), "{:?}", simulation.health);

    ends(&mut simulation, RestorePhase::Succeeded, "it is in: 7 keys");
    simulation.settle();
    simulation.assert_settled();
    assert_eq!((outcome(&simulation), restores_made(&simulation)), (Some(RestoreOutcome::Succeeded), 1));
    let text = simulation.journal.iter().filter_map(Action::event).filter(|event| event.reason == "Restored");
    assert_eq!(text.count(), 1);

    // A user tidies up.
    simulation.kubernetes.set.restore = Seen::Absent;
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(restores_made(&simulation), 1);
}

#[test]
fn a_failed_restore_is_retried_once_deleted() {
    let mut simulation = asking();
    run_until(&mut simulation, "noted", |simulation| outcome(simulation) == Some(RestoreOutcome::Running));
    ends(&mut simulation, RestorePhase::Failed, "ChecksumMismatch: the backup is damaged");
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "RestoreFailed");
    assert!(cause.message.contains("ChecksumMismatch: the backup is damaged"), "{}", cause.message);
    assert!(cause.message.contains("remove spec.restoreFrom"), "{}", cause.message);

    simulation.kubernetes.set.restore = Seen::Absent;
    run_until(&mut simulation, "made again", |simulation| restores_made(simulation) == 2);

    // Or the user goes on without.
    ends(&mut simulation, RestorePhase::Failed, "once more");
    simulation.settle();
    simulation.object.spec.restore_from = None;
    simulation.settle();
    simulation.assert_settled();
    assert_eq!((restores_made(&simulation), outcome(&simulation)), (2, None));
}

#[test]
fn a_cluster_on_volumes_that_it_found_keeps_their_data() {
    let mut simulation = Simulation::settled(cluster(3));
    let mut again = asking();
    again.object.metadata.uid = Some("another".into());
    again.kubernetes.set.claims.clone_from(&simulation.kubernetes.set.claims);
    for claim in again.kubernetes.set.claims.values_mut() {
        claim.facts.ours = false;
        claim.facts.member = None;
    }
    for ordinal in 0..3 {
        simulation.kubernetes.delete_pod(ordinal, &mut simulation.raft);
    }
    again.raft = simulation.raft;
    run_until(&mut again, "noted", |simulation| outcome(simulation) == Some(RestoreOutcome::Running));
    ends(&mut again, RestorePhase::Failed, "TargetNotEmpty: EtcdCluster prod-etcd holds 5 keys");
    again.settle();
    assert!(matches!(again.health, Some(Health::Ready(_))), "{:?}", again.health);
    assert_eq!((restores_made(&again), outcome(&again)), (1, Some(RestoreOutcome::Skipped)));
}

#[test]
fn an_operator_that_dies_anywhere_makes_one_restore() {
    for dies_after in 0..6 {
        let mut simulation = asking();
        for _ in 0..100 {
            simulation.reconcile(&Mishap { dies_after: Some(dies_after), ..Mishap::default() });
            simulation.time_passes();
            simulation.reconcile(&Mishap { reply_lost: Some(1), ..Mishap::default() });
            simulation.time_passes();
        }
        run_until(&mut simulation, "noted", |simulation| outcome(simulation) == Some(RestoreOutcome::Running));
        assert_eq!(restores_made(&simulation), 1, "dies after {dies_after}");
    }
}
