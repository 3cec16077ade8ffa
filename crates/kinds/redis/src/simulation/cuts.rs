//! An operator that cannot reach nodes which others reach, and masters that no node and no client reaches.

use std::time::Duration;

use causeway_databases::ChildAction;
use causeway_databases::redis::Role;
use causeway_runtime::Health;

use super::Simulation;
use super::kubernetes::Cut;
use super::looks::says;
use super::story::Mishap;
use crate::action::Action;
use crate::decide::decide;
use crate::facts::NodeState;
use crate::fixtures::redis;

fn pass(simulation: &mut Simulation, seconds: u32) {
    for _ in 0..seconds {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
}

fn cut(simulation: &mut Simulation, ordinal: i32, cut: Cut) {
    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().cut = Some(cut);
}

fn hang(simulation: &mut Simulation, ordinal: i32) {
    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().process.as_mut().unwrap().hangs = Some(0);
}

fn message(simulation: &Simulation) -> String {
    match &simulation.health {
        Some(Health::Progressing(cause) | Health::Stalled(cause)) => cause.message.clone(),
        other => panic!("{other:?}"),
    }
}

fn master(simulation: &Simulation) -> String {
    simulation.object.status.clone().unwrap().master.unwrap()
}

fn count_deleted(simulation: &Simulation) -> usize {
    let deletes = |action: &&Action| matches!(action, Action::Child(ChildAction::DeletePod { .. }));
    simulation.journal.iter().filter(deletes).count()
}

/// A firewall that rejects packets looks to the operator as a process that is gone.
#[test]
fn a_master_heard_by_replicas_stays() {
    for way in [Cut::Rejected, Cut::Dropped(0)] {
        let mut simulation = Simulation::settled(redis(2));
        cut(&mut simulation, 0, way);
        for _ in 0..90 {
            let before = simulation.acknowledged.len();
            pass(&mut simulation, 1);
            simulation.write();
            assert!(simulation.acknowledged.len() > before, "{way:?}: clients reach it");
        }
        assert!(
            !simulation
                .journal
                .iter()
                .any(|action| matches!(action, Action::Promote { node, .. } if node.name != "cache-0"))
        );
        assert_eq!(master(&simulation), "cache-0", "{way:?}");
        let text = message(&simulation);
        assert!(text.contains("it still sends data to cache-1, cache-2"), "{text}");
        assert!(text.contains("NetworkPolicy") && text.contains("kubectl -n shop"), "{text}");
        let lost = simulation.acknowledged.clone();
        simulation.resume();
        simulation.settle();
        simulation.assert_settled();
        assert!(lost.iter().all(|write| simulation.data().contains(write)));
    }
}

/// The death of a process breaks the links of its replicas.
#[test]
fn an_unheard_master_that_refuses_connections_is_succeeded() {
    for way in [None, Some(Cut::Rejected)] {
        let mut simulation = Simulation::settled(redis(2));
        simulation.kubernetes.set.pods.get_mut(&0).unwrap().cut = way;
        simulation.reconcile(&Mishap::default());
        assert_eq!(master(&simulation), "cache-0");
        simulation.kubernetes.kill(0);
        simulation.reconcile(&Mishap::default());
        assert_ne!(master(&simulation), "cache-0", "{way:?}");
    }
}

#[test]
fn the_kubelets_report_of_an_end_outweighs_a_link() {
    let simulation = Simulation::settled(redis(2));
    let mut observed = simulation.observe();
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Gone;
    let look = |observed: &_| decide(&simulation.object, observed, simulation.now);
    let waiting = look(&observed);
    assert!(waiting.actions.is_empty() && waiting.status.failover.is_none(), "{:?}", waiting.actions);
    assert!(waiting.requeue.is_some_and(|again| again <= Duration::from_millis(100)), "{:?}", waiting.requeue);
    let mut ended = observed.clone();
    ended.set.pods.get_mut(&0).unwrap().exit_code = Some(137);
    assert!(look(&ended).status.failover.is_some());
    observed.set.pods.get_mut(&0).unwrap().address = None;
    assert!(look(&observed).status.failover.is_some());
}

/// Only the operator could lead a new process to the master, and it could not reach that one either.
#[test]
fn replicas_heard_by_the_master_are_left_alone() {
    for way in [Cut::Rejected, Cut::Dropped(0)] {
        let mut simulation = Simulation::settled(redis(3));
        (1..=3).for_each(|ordinal| cut(&mut simulation, ordinal, way));
        for _ in 0..60 {
            pass(&mut simulation, 1);
            let before = simulation.acknowledged.len();
            simulation.write();
            assert!(simulation.acknowledged.len() > before, "{way:?}: the master takes writes");
        }
        assert_eq!(count_deleted(&simulation), 0, "{way:?}");
        let text = message(&simulation);
        assert!(
            text.contains("cache-1") && text.contains("Causeway cannot reach") && text.contains("NetworkPolicy"),
            "{text}"
        );
    }
}

#[test]
fn replicas_that_hang_are_replaced_one_after_the_other() {
    let mut simulation = Simulation::settled(redis(3));
    (1..=3).for_each(|ordinal| hang(&mut simulation, ordinal));
    for _ in 0..60 {
        pass(&mut simulation, 1);
        let answer = simulation.kubernetes.set.pods.values().filter(|pod| pod.answers()).count();
        assert!(answer + 3 - count_deleted(&simulation).min(3) >= 3, "another is replaced before the last one answers");
    }
    assert_eq!(count_deleted(&simulation), 3);
    simulation.settle();
    simulation.assert_settled();
}

/// The cut that keeps the operator from them keeps it from their successors, too.
#[test]
fn one_unanswering_replica_stops_further_replacements() {
    let mut simulation = Simulation::settled(redis(3));
    (1..=3).for_each(|ordinal| hang(&mut simulation, ordinal));
    for (second, most) in (0..700).map(|second| (second, second / 300 + 1)) {
        for ordinal in 1..=3 {
            let pod = simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap();
            pod.cut = pod.cut.or(Some(Cut::Dropped(0)));
        }
        pass(&mut simulation, 1);
        assert!(count_deleted(&simulation) <= most, "after {second} s");
    }
    assert_eq!(count_deleted(&simulation), 3, "it goes on, slowly");
    assert_eq!(master(&simulation), "cache-0");
}

/// A new process is a replica without a master, and knows nothing about the master.
#[test]
fn a_hung_master_without_replica_is_succeeded_after_the_timeout() {
    let mut simulation = Simulation::settled(redis(1));
    let kept = simulation.acknowledged.clone();
    simulation.kubernetes.kill(1);
    simulation.time_passes();
    hang(&mut simulation, 0);
    let hung = simulation.now;
    pass(&mut simulation, 4);
    let text = message(&simulation);
    assert!(!text.contains("stays the master") && text.contains("spec.failover.dataLossTimeout"), "{text}");
    pass(&mut simulation, 100);
    assert_eq!(master(&simulation), "cache-1");
    let last = simulation.object.status.as_ref().unwrap().last_failover.clone().unwrap();
    assert_eq!(last.reason, "MasterLost");
    assert!(last.at.0.duration_since(hung).as_secs() >= 60);
    simulation.settle();
    simulation.resume();
    simulation.settle();
    simulation.assert_settled();
    assert!(kept.iter().all(|write| simulation.data().contains(write)));
}

/// It connects, and says that the master serves.
#[test]
fn a_restarted_replica_follows_an_unreached_master() {
    for way in [Cut::Rejected, Cut::Dropped(0)] {
        let mut simulation = Simulation::settled(redis(1));
        cut(&mut simulation, 0, way);
        pass(&mut simulation, 100);
        // It is known again how long the master has been missed.
        for _ in 0..3 {
            simulation.kubernetes.kill(1);
            simulation.write();
            pass(&mut simulation, 50);
            assert_eq!(master(&simulation), "cache-0", "{way:?}");
        }
        let host = simulation.kubernetes.set.pods[&0].address.clone();
        let follows = simulation.kubernetes.set.pods[&1].process.clone().unwrap().follows.unwrap();
        assert!(follows.up && follows.host == host, "{way:?}: {follows:?}");
        simulation.resume();
        simulation.settle();
        simulation.assert_settled();
        assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)));
    }
}

/// An empty process gives nothing to those that follow it, and data win.
#[test]
fn an_unseen_empty_master_empties_no_replica() {
    let mut simulation = Simulation::settled(redis(1));
    let kept = simulation.acknowledged.clone();
    cut(&mut simulation, 0, Cut::Dropped(0));
    for ordinal in [0, 1] {
        simulation.kubernetes.kill(ordinal);
    }
    simulation.kubernetes.set.claims.get_mut(&0).unwrap().volume.writes.clear();
    pass(&mut simulation, 100);
    simulation.resume();
    simulation.settle();
    simulation.assert_settled();
    assert!(kept.iter().all(|write| simulation.data().contains(write)));
}

/// A full copy takes minutes, and Redis calls the connection down meanwhile.
#[test]
fn a_copying_replica_hears_its_master() {
    let simulation = Simulation::settled(redis(1));
    let mut observed = simulation.observe();
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Silent(Duration::from_secs(30));
    let link = |observed: &mut _, syncing: bool, quiet: Option<u64>, loading: bool| {
        says(observed, 1, |info| {
            (info.quiet_seconds, info.lost_seconds, info.loading) = (quiet, None, loading);
            if let Role::Replica(link) = &mut info.role {
                (link.up, link.syncing) = (false, syncing);
            }
        });
    };
    for (syncing, quiet, loading, unchanged, expected) in [
        (true, Some(1), false, 60, false),
        (true, Some(2), false, 60, true),
        // It reads nothing while it loads the copy.
        (true, Some(60), true, 60, false),
        (false, None, false, 9, false),
        (false, None, false, 10, true),
    ] {
        link(&mut observed, syncing, quiet, loading);
        observed.set.pods.get_mut(&1).unwrap().own.unchanged = Duration::from_secs(unchanged);
        let status = decide(&simulation.object, &observed, simulation.now).status;
        assert_eq!(
            status.masterless_since.is_some() || status.failover.is_some(),
            expected,
            "{syncing} {quiet:?} {loading} {unchanged}"
        );
    }
}
