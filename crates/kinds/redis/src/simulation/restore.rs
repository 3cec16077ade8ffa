//! The backup that new nodes begin with.

use causeway_api::databaserestore::{RestoreOutcome, RestorePhase};
use causeway_databases::ChildAction;
use causeway_databases::restore_from::fixtures::{live_in, nightly};
use causeway_databases::restore_from::{Seen, Step};
use causeway_runtime::Health;

use super::Simulation;
use super::story::Mishap;
use crate::action::Action;
use crate::fixtures::redis;

fn asking(replicas: i32) -> Simulation {
    let mut object = redis(replicas);
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

fn phase(simulation: &Simulation) -> Option<&str> {
    simulation.object.status.as_ref()?.phase.as_deref()
}

#[test]
fn nodes_are_ready_only_after_their_restore() {
    for replicas in [0, 3] {
        let mut simulation = asking(replicas);
        run_until(&mut simulation, "made", |simulation| matches!(simulation.kubernetes.set.restore, Seen::Present(_)));
        assert!(simulation.kubernetes.serves(&simulation.object), "{:#?}", simulation.kubernetes.set.pods);
        run_until(&mut simulation, "noted", |simulation| {
            outcome(simulation) == Some(RestoreOutcome::Running) && phase(simulation) == Some("Restoring")
        });
        assert!(matches!(simulation.health, Some(Health::Progressing(_))), "{:?}", simulation.health);

        simulation.kubernetes.set.restore = live_in("restore-1", RestorePhase::Succeeded, "it is in: 7 keys");
        simulation.settle();
        simulation.assert_settled();
        assert_eq!((phase(&simulation), outcome(&simulation)), (Some("Running"), Some(RestoreOutcome::Succeeded)));
        simulation.kubernetes.set.restore = Seen::Absent;
        simulation.settle();
        simulation.assert_settled();
        assert_eq!(restores_made(&simulation), 1);
    }
}

#[test]
fn another_master_is_made_while_a_restore_runs() {
    let mut simulation = asking(3);
    run_until(&mut simulation, "noted", |simulation| outcome(simulation) == Some(RestoreOutcome::Running));
    let before = simulation.object.status.as_ref().and_then(|status| status.master.clone());
    let master = simulation.kubernetes.set.pods.values_mut().find(|pod| pod.is_master()).expect("a master");
    master.process.as_mut().expect("its process").hangs = Some(0);
    run_until(&mut simulation, "succeeded", |simulation| {
        simulation.object.status.as_ref().is_some_and(|status| status.master != before && status.failover.is_none())
    });
    assert_eq!((outcome(&simulation), restores_made(&simulation)), (Some(RestoreOutcome::Running), 1));
}

#[test]
fn a_failed_restore_is_reported_with_the_remedy() {
    let mut simulation = asking(0);
    run_until(&mut simulation, "noted", |simulation| outcome(simulation) == Some(RestoreOutcome::Running));
    simulation.kubernetes.set.restore =
        live_in("restore-1", RestorePhase::Failed, "TargetNotEmpty: Redis cache holds 5 keys");
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.reason == "RestoreFailed" && cause.message.contains("TargetNotEmpty"), "{cause:?}");
    assert_eq!(phase(&simulation), Some("Stalled"));
    simulation.object.spec.restore_from = None;
    simulation.settle();
    simulation.assert_settled();
}
