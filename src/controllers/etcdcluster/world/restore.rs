//! The backup that a new cluster begins with.

use super::World;
use super::faults::Mishap;
use crate::api::databaserestore::{BackupChoice, RestoreOutcome, RestorePhase};
use crate::controllers::etcdcluster::action::Action;
use crate::controllers::etcdcluster::fixtures::cluster;
use crate::controllers::restore_from::fixtures::live_in;
use crate::controllers::restore_from::{Seen, Step};
use crate::runtime::Health;

/// A new cluster that is to begin with a backup, before anything was done.
fn asking() -> World {
    let mut object = cluster(3);
    let from = BackupChoice { backup: "nightly".into(), source: None, id: "latest".into(), identity_secret_name: None };
    object.spec.restore_from = Some(from);
    let mut world = World::new(object);
    world.kubernetes.restore = Seen::Absent;
    world
}

/// Passes until `done`.
fn until(world: &mut World, what: &str, done: impl Fn(&World) -> bool) {
    for _ in 0..100 {
        if done(world) {
            return;
        }
        world.reconcile(&Mishap::default());
        world.time_passes();
    }
    panic!("never {what}: {:?} {:?}", world.health, world.kubernetes.restore);
}

fn is_made(world: &World) -> bool {
    matches!(world.kubernetes.restore, Seen::Present(_))
}

fn made(world: &World) -> usize {
    world.journal.iter().filter(|action| matches!(action, Action::Restore(Step::Make { .. }))).count()
}

fn outcome(world: &World) -> Option<RestoreOutcome> {
    Some(world.object.status.as_ref()?.restored.as_ref()?.outcome)
}

fn ends(world: &mut World, phase: RestorePhase, message: &str) {
    world.kubernetes.restore = live_in("restore-1", phase, message);
}

#[test]
fn a_cluster_is_restored_once_a_majority_answers_and_ready_only_then() {
    let mut world = asking();
    until(&mut world, "made", is_made);
    assert!(world.raft.healthy().len() >= 2, "{:#?}", world.raft);
    assert!(matches!(world.health, Some(Health::Progressing(_))), "{:?}", world.health);
    until(&mut world, "noted", |world| outcome(world) == Some(RestoreOutcome::Running));

    // Members are helped meanwhile.
    world.kubernetes.delete_pod(1, &mut world.raft);
    until(&mut world, "whole again", |world| world.raft.healthy().len() == 3);
    assert!(!matches!(world.health, Some(Health::Ready(_))), "{:?}", world.health);

    ends(&mut world, RestorePhase::Succeeded, "it is in: 7 keys");
    world.settle();
    world.assert_settled();
    assert_eq!((outcome(&world), made(&world)), (Some(RestoreOutcome::Succeeded), 1));
    let told = world.journal.iter().filter_map(Action::event).filter(|event| event.reason == "Restored");
    assert_eq!(told.count(), 1);

    // Somebody tidies up.
    world.kubernetes.restore = Seen::Absent;
    world.settle();
    world.assert_settled();
    assert_eq!(made(&world), 1);
}

#[test]
fn a_restore_that_failed_is_told_and_tried_again_when_it_is_deleted() {
    let mut world = asking();
    until(&mut world, "noted", |world| outcome(world) == Some(RestoreOutcome::Running));
    ends(&mut world, RestorePhase::Failed, "ChecksumMismatch: the backup is damaged");
    world.settle();
    let Some(Health::Stalled(cause)) = &world.health else { panic!("{:?}", world.health) };
    assert_eq!(cause.reason, "RestoreFailed");
    assert!(cause.message.contains("ChecksumMismatch: the backup is damaged"), "{}", cause.message);
    assert!(cause.message.contains("remove spec.restoreFrom"), "{}", cause.message);

    world.kubernetes.restore = Seen::Absent;
    until(&mut world, "made again", |world| made(world) == 2);

    // Or the user goes on without.
    ends(&mut world, RestorePhase::Failed, "once more");
    world.settle();
    world.object.spec.restore_from = None;
    world.settle();
    world.assert_settled();
    assert_eq!((made(&world), outcome(&world)), (2, None));
}

#[test]
fn a_cluster_on_volumes_that_it_found_keeps_their_data() {
    let mut world = World::settled(cluster(3));
    let mut again = asking();
    again.object.metadata.uid = Some("another".into());
    again.kubernetes.claims.clone_from(&world.kubernetes.claims);
    for claim in again.kubernetes.claims.values_mut() {
        claim.facts.ours = false;
        claim.facts.member = None;
    }
    for ordinal in 0..3 {
        world.kubernetes.delete_pod(ordinal, &mut world.raft);
    }
    again.raft = world.raft;
    until(&mut again, "noted", |world| outcome(world) == Some(RestoreOutcome::Running));
    ends(&mut again, RestorePhase::Failed, "TargetNotEmpty: EtcdCluster prod-etcd holds 5 keys");
    again.settle();
    assert!(matches!(again.health, Some(Health::Ready(_))), "{:?}", again.health);
    assert_eq!((made(&again), outcome(&again)), (1, Some(RestoreOutcome::Skipped)));
}

#[test]
fn an_operator_that_dies_anywhere_makes_one_restore() {
    for dies_after in 0..6 {
        let mut world = asking();
        for _ in 0..100 {
            world.reconcile(&Mishap { dies_after: Some(dies_after), ..Mishap::default() });
            world.time_passes();
            world.reconcile(&Mishap { reply_lost: Some(1), ..Mishap::default() });
            world.time_passes();
        }
        until(&mut world, "noted", |world| outcome(world) == Some(RestoreOutcome::Running));
        assert_eq!(made(&world), 1, "dies after {dies_after}");
    }
}
