//! The backup that new nodes begin with.

use super::World;
use super::story::Mishap;
use crate::api::databaserestore::{BackupChoice, RestoreOutcome, RestorePhase};
use crate::controllers::redis::action::Action;
use crate::controllers::redis::fixtures::redis;
use crate::controllers::restore_from::fixtures::live_in;
use crate::controllers::restore_from::{Seen, Step};
use crate::runtime::Health;

fn asking(replicas: i32) -> World {
    let mut object = redis(replicas);
    object.spec.restore_from =
        Some(BackupChoice { backup: "nightly".into(), source: None, id: "latest".into(), identity_secret_name: None });
    let mut world = World::new(object);
    world.kubernetes.restore = Seen::Absent;
    world
}

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

fn made(world: &World) -> usize {
    world.journal.iter().filter(|action| matches!(action, Action::Restore(Step::Make { .. }))).count()
}

fn outcome(world: &World) -> Option<RestoreOutcome> {
    Some(world.object.status.as_ref()?.restored.as_ref()?.outcome)
}

fn phase(world: &World) -> Option<&str> {
    world.object.status.as_ref()?.phase.as_deref()
}

#[test]
fn nodes_are_restored_once_a_master_takes_writes_and_ready_only_then() {
    for replicas in [0, 3] {
        let mut world = asking(replicas);
        until(&mut world, "made", |world| matches!(world.kubernetes.restore, Seen::Present(_)));
        assert!(world.kubernetes.serves(&world.object), "{:#?}", world.kubernetes.pods);
        until(&mut world, "noted", |world| {
            outcome(world) == Some(RestoreOutcome::Running) && phase(world) == Some("Restoring")
        });
        assert!(matches!(world.health, Some(Health::Progressing(_))), "{:?}", world.health);

        world.kubernetes.restore = live_in("restore-1", RestorePhase::Succeeded, "it is in: 7 keys");
        world.settle();
        world.assert_settled();
        assert_eq!((phase(&world), outcome(&world)), (Some("Running"), Some(RestoreOutcome::Succeeded)));
        world.kubernetes.restore = Seen::Absent;
        world.settle();
        world.assert_settled();
        assert_eq!(made(&world), 1);
    }
}

#[test]
fn another_master_is_made_while_a_restore_runs() {
    let mut world = asking(3);
    until(&mut world, "noted", |world| outcome(world) == Some(RestoreOutcome::Running));
    let before = world.object.status.as_ref().and_then(|status| status.master.clone());
    let master = world.kubernetes.pods.values_mut().find(|pod| pod.is_master()).expect("a master");
    master.process.as_mut().expect("its process").hangs = Some(0);
    until(&mut world, "succeeded", |world| {
        world.object.status.as_ref().is_some_and(|status| status.master != before && status.failover.is_none())
    });
    assert_eq!((outcome(&world), made(&world)), (Some(RestoreOutcome::Running), 1));
}

#[test]
fn a_restore_that_failed_leaves_nodes_running_and_says_what_to_do() {
    let mut world = asking(0);
    until(&mut world, "noted", |world| outcome(world) == Some(RestoreOutcome::Running));
    world.kubernetes.restore = live_in("restore-1", RestorePhase::Failed, "TargetNotEmpty: Redis cache holds 5 keys");
    world.settle();
    let Some(Health::Stalled(cause)) = &world.health else { panic!("{:?}", world.health) };
    assert!(cause.reason == "RestoreFailed" && cause.message.contains("TargetNotEmpty"), "{cause:?}");
    assert_eq!(phase(&world), Some("Stalled"));
    world.object.spec.restore_from = None;
    world.settle();
    world.assert_settled();
}
