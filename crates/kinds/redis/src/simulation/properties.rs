//! Whatever happens, no promise is broken; and when it stops, all becomes as the object says.

use proptest::prelude::*;

use causeway_databases::ChildAction;

use super::Simulation;
use super::story::{Edit, Event, Fault, Mishap, edit, story};
use crate::action::Action;
use crate::fixtures::redis;

/// Lets the whole story happen, then heals everything, and asserts that the set comes to rest.
fn tell(simulation: &mut Simulation, story: &[Event]) {
    for event in story {
        event.happens(simulation);
    }
    simulation.resume();
    simulation.object.spec.image = None;
    let last = simulation.object.spec.replicas;
    let wanted = simulation.object.spec.switchover.as_ref().map(|wanted| wanted.master.clone());
    if wanted.is_some_and(|wanted| (last + 1..10).any(|ordinal| wanted == format!("cache-{ordinal}"))) {
        simulation.object.spec.switchover = None;
    }
    simulation.settle();
    simulation.assert_settled();
}

/// Each case is a long story; `PROPTEST_CASES` asks for more of them.
fn cases() -> ProptestConfig {
    ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_happens_at_the_beginning_there_is_one_master(size in 0..4_i32, story in story(40, true)) {
        tell(&mut Simulation::new(redis(size)), &story);
    }

    #[test]
    fn whatever_happens_all_gets_well(size in 0..4_i32, story in story(60, true)) {
        tell(&mut Simulation::settled(redis(size)), &story);
    }

    #[test]
    fn without_faults_nothing_acknowledged_is_lost(size in 0..4_i32, story in story(60, false)) {
        let mut simulation = Simulation::settled(redis(size));
        tell(&mut simulation, &story);
        let data = simulation.data();
        let lost: Vec<_> = simulation.acknowledged.iter().filter(|write| !data.contains(write)).collect();
        prop_assert!(lost.is_empty(), "{:?} of {:?}", lost, data);
    }

    #[test]
    fn one_fault_costs_no_more_than_what_no_replica_had(size in 1..4_i32, place: prop::sample::Index, kind in 0..4, dies in 0..12_usize) {
        let mut simulation = Simulation::settled(redis(size));
        let kept = simulation.acknowledged.clone();
        simulation.write();
        match kind {
            0 => Fault::Kill(place),
            1 => Fault::Hang(place),
            2 => Fault::Empty(place),
            _ => Fault::DeletePod(place),
        }.happens(&mut simulation);
        for _ in 0..4 {
            simulation.reconcile(&Mishap { dies_after: Some(dies), reply_lost: None });
            simulation.time_passes();
        }
        simulation.settle();
        simulation.resume();
        simulation.settle();
        simulation.assert_settled();
        let data = simulation.data();
        prop_assert!(kept.iter().all(|write| data.contains(write)), "{:?} of {:?}", kept, data);
    }

    #[test]
    fn an_operator_may_die_at_any_point_of_an_edit(size in 0..4_i32, edit in edit(), dies in 0..20_usize) {
        let mut simulation = Simulation::settled(redis(size));
        edit.happens(&mut simulation);
        for _ in 0..6 {
            simulation.reconcile(&Mishap { dies_after: Some(dies), reply_lost: None });
            simulation.time_passes();
        }
        tell(&mut simulation, &[]);
        let data = simulation.data();
        prop_assert!(simulation.acknowledged.iter().all(|write| data.contains(write)));
    }

    #[test]
    fn a_rollout_moves_the_master_once(size in 1..4_i32) {
        let mut simulation = Simulation::settled(redis(size));
        simulation.journal.clear();
        Edit::Version("7.2.5").happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
        let count = |is: fn(&Action) -> bool| simulation.journal.iter().filter(|action| is(action)).count();
        prop_assert_eq!(count(|action| matches!(action, Action::HandOver { .. })), 1);
        prop_assert_eq!(count(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. }))), usize::try_from(size).unwrap() + 1);
        prop_assert_eq!(count(|action| matches!(action, Action::Promote { .. })), 0);
    }
}

/// A master that comes back empty within moments must not be one again.
#[test]
fn an_empty_returning_master_follows_its_successor() {
    let mut simulation = Simulation::settled(redis(3));
    let before = simulation.data();
    simulation.kubernetes.kill(0);
    simulation.kubernetes.set.claims.get_mut(&0).unwrap().volume.writes.clear();
    simulation.time_passes();
    simulation.settle();
    simulation.assert_settled();
    assert!(before.iter().all(|write| simulation.data().contains(write)));
    assert_ne!(simulation.object.status.as_ref().unwrap().master.as_deref(), Some("cache-0"));
}

/// The first writes of the new master reached no replica. A queue is empty most of the time, so an empty replica has to
/// take over at once there, too.
#[test]
fn a_hung_new_master_is_succeeded_in_time() {
    let mut simulation = Simulation::new(redis(3));
    for seconds in [1, 2, 0] {
        simulation.reconcile(&Mishap::default());
        (0..seconds).for_each(|_| simulation.time_passes());
    }
    assert_eq!(simulation.acknowledged, [1, 2], "by the master alone");
    simulation.kubernetes.set.pods.get_mut(&0).unwrap().process.as_mut().unwrap().hangs = Some(0);
    for _ in 0..3 {
        simulation.time_passes();
        simulation.reconcile(&Mishap::default());
    }
    let status = simulation.object.status.clone().unwrap();
    assert_eq!(status.master.as_deref(), Some("cache-1"), "{status:#?}");
    simulation.resume();
    simulation.settle();
    simulation.assert_settled();
}

/// A process that is killed while the disk is busy may come back without writes that its replicas have.
#[test]
fn pausing_replicas_are_preferred_to_a_restarted_master() {
    for wakes in [true, false] {
        let mut simulation = Simulation::settled(redis(2));
        for ordinal in [1, 2] {
            simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().process.as_mut().unwrap().hangs = Some(0);
        }
        simulation.kubernetes.kill(0);
        simulation.time_passes();
        simulation.reconcile(&Mishap::default());
        assert!(simulation.kubernetes.set.pods[&0].process.is_some(), "it is back");
        assert!(simulation.object.status.as_ref().unwrap().failover.is_none(), "no node is chosen yet");
        if wakes {
            simulation.resume();
        }
        simulation.settle();
        simulation.resume();
        simulation.settle();
        simulation.assert_settled();
        let last = simulation.object.status.as_ref().unwrap().last_failover.clone().unwrap();
        assert_eq!((last.reason.as_str(), last.to != "cache-0"), ("MasterRestarted", wakes), "{last:?}");
    }
}

/// No empty node serves while nodes that may have data are waited for.
#[test]
fn all_killed_at_once_the_data_on_the_volumes_win() {
    for emptied in [None, Some(0), Some(2)] {
        let mut simulation = Simulation::settled(redis(3));
        let before = simulation.data();
        for ordinal in 0..=3 {
            simulation.kubernetes.kill(ordinal);
        }
        if let Some(emptied) = emptied {
            simulation.kubernetes.set.claims.get_mut(&emptied).unwrap().volume.writes.clear();
        }
        simulation.settle();
        simulation.assert_settled();
        assert!(before.iter().all(|write| simulation.data().contains(write)), "{emptied:?}");
    }
}

/// Neither a silent loss nor an endless wait.
#[test]
fn data_that_are_gone_everywhere_are_reported() {
    let mut simulation = Simulation::settled(redis(2));
    for ordinal in 0..=2 {
        simulation.kubernetes.kill(ordinal);
        simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.writes.clear();
    }
    let begun = simulation.now;
    simulation.settle();
    simulation.assert_settled();
    let last = simulation.object.status.as_ref().unwrap().last_failover.clone().unwrap();
    assert_eq!(last.reason, "DataGone");
    assert!(last.at.0.duration_since(begun).as_secs() >= 60);
}

/// For a moment there is not even a pod: that there were data is remembered all the same.
#[test]
fn data_that_are_gone_with_their_pods_are_reported() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.kubernetes.set.pods.clear();
    simulation.kubernetes.set.claims.clear();
    simulation.reconcile(&Mishap::default());
    simulation.settle();
    simulation.assert_settled();
    let last = simulation.object.status.as_ref().unwrap().last_failover.clone().unwrap();
    assert_eq!(last.reason, "DataGone");
}

/// Whatever gets in between: clients write to the node that started empty, and that does not answer for a moment.
#[test]
fn lost_data_are_reported_despite_a_pause() {
    for dies_after in 1..8 {
        let mut simulation = Simulation::settled(redis(1));
        for ordinal in 0..=1 {
            simulation.kubernetes.kill(ordinal);
            simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.writes.clear();
        }
        let epoch = |simulation: &Simulation| {
            let status = simulation.object.status.as_ref().unwrap();
            status.failover.as_ref().map_or(status.epoch, |failover| failover.epoch)
        };
        let before = epoch(&simulation);
        // The failover begins when the data have been waited for.
        while epoch(&simulation) == before {
            simulation.time_passes();
            simulation.reconcile(&Mishap { dies_after: Some(dies_after), reply_lost: None });
        }
        simulation.write();
        simulation.time_passes();
        for ordinal in [0, 1] {
            let process = |simulation: &mut Simulation, hangs| {
                let pod = simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap();
                pod.process.as_mut().unwrap().hangs = hangs;
            };
            process(&mut simulation, Some(0));
            simulation.time_passes();
            simulation.reconcile(&Mishap::default());
            process(&mut simulation, None);
            simulation.reconcile(&Mishap::default());
        }
        simulation.settle();
        simulation.assert_settled();
        let last = simulation.object.status.as_ref().unwrap().last_failover.clone().unwrap();
        assert_eq!(last.reason, "DataGone", "died after {dies_after}");
    }
}
