//! Whatever happens, no promise is broken; and when it stops, all becomes as the object says.

use proptest::prelude::*;

use super::World;
use super::story::{Edit, Event, Fault, Mishap, edit, story};
use crate::controllers::redis::action::Action;
use crate::controllers::redis::fixtures::redis;

/// Lets all of it happen, and then nothing more.
fn tell(world: &mut World, story: &[Event]) {
    for event in story {
        event.happens(world);
    }
    world.resume();
    world.object.spec.image = None;
    let last = world.object.spec.replicas;
    let wanted = world.object.spec.switchover.as_ref().map(|wanted| wanted.master.clone());
    if wanted.is_some_and(|wanted| (last + 1..10).any(|ordinal| wanted == format!("cache-{ordinal}"))) {
        world.object.spec.switchover = None;
    }
    world.settle();
    world.assert_settled();
}

/// Each case is a long story; `PROPTEST_CASES` asks for more of them.
fn cases() -> ProptestConfig {
    ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_happens_at_the_beginning_there_is_one_master(size in 0..4_i32, story in story(40, true)) {
        tell(&mut World::new(redis(size)), &story);
    }

    #[test]
    fn whatever_happens_all_gets_well(size in 0..4_i32, story in story(60, true)) {
        tell(&mut World::settled(redis(size)), &story);
    }

    #[test]
    fn without_faults_nothing_acknowledged_is_lost(size in 0..4_i32, story in story(60, false)) {
        let mut world = World::settled(redis(size));
        tell(&mut world, &story);
        let data = world.data();
        let lost: Vec<_> = world.acknowledged.iter().filter(|write| !data.contains(write)).collect();
        prop_assert!(lost.is_empty(), "{:?} of {:?}", lost, data);
    }

    #[test]
    fn one_fault_costs_no_more_than_what_no_replica_had(size in 1..4_i32, place: prop::sample::Index, kind in 0..4, dies in 0..12_usize) {
        let mut world = World::settled(redis(size));
        let kept = world.acknowledged.clone();
        world.write();
        match kind {
            0 => Fault::Kill(place),
            1 => Fault::Hang(place),
            2 => Fault::Empty(place),
            _ => Fault::DeletePod(place),
        }.happens(&mut world);
        for _ in 0..4 {
            world.reconcile(&Mishap { dies_after: Some(dies), reply_lost: None });
            world.time_passes();
        }
        world.settle();
        world.resume();
        world.settle();
        world.assert_settled();
        let data = world.data();
        prop_assert!(kept.iter().all(|write| data.contains(write)), "{:?} of {:?}", kept, data);
    }

    #[test]
    fn an_operator_may_die_at_any_point_of_an_edit(size in 0..4_i32, edit in edit(), dies in 0..20_usize) {
        let mut world = World::settled(redis(size));
        edit.happens(&mut world);
        for _ in 0..6 {
            world.reconcile(&Mishap { dies_after: Some(dies), reply_lost: None });
            world.time_passes();
        }
        tell(&mut world, &[]);
        let data = world.data();
        prop_assert!(world.acknowledged.iter().all(|write| data.contains(write)));
    }

    #[test]
    fn a_rollout_moves_the_master_once(size in 1..4_i32) {
        let mut world = World::settled(redis(size));
        world.journal.clear();
        Edit::Version("7.2.5").happens(&mut world);
        world.settle();
        world.assert_settled();
        let count = |is: fn(&Action) -> bool| world.journal.iter().filter(|action| is(action)).count();
        prop_assert_eq!(count(|action| matches!(action, Action::HandOver { .. })), 1);
        prop_assert_eq!(count(|action| matches!(action, Action::DeletePod { .. })), usize::try_from(size).unwrap() + 1);
        prop_assert_eq!(count(|action| matches!(action, Action::Promote { .. })), 0);
    }
}

/// A master that comes back empty within moments must not be one again.
#[test]
fn a_master_that_comes_back_empty_follows_the_one_that_took_over() {
    let mut world = World::settled(redis(3));
    let before = world.data();
    world.kubernetes.kill(0);
    world.kubernetes.claims.get_mut(&0).unwrap().writes.clear();
    world.time_passes();
    world.settle();
    world.assert_settled();
    assert!(before.iter().all(|write| world.data().contains(write)));
    assert_ne!(world.object.status.as_ref().unwrap().master.as_deref(), Some("cache-0"));
}

/// What is killed while the disk is busy may come back without writes that its replicas have.
#[test]
fn a_master_that_was_restarted_is_not_preferred_to_replicas_that_pause() {
    for wakes in [true, false] {
        let mut world = World::settled(redis(2));
        for ordinal in [1, 2] {
            world.kubernetes.pods.get_mut(&ordinal).unwrap().process.as_mut().unwrap().hangs = Some(0);
        }
        world.kubernetes.kill(0);
        world.time_passes();
        world.reconcile(&Mishap::default());
        assert!(world.kubernetes.pods[&0].process.is_some(), "it is back");
        assert!(world.object.status.as_ref().unwrap().failover.is_none(), "nobody is chosen yet");
        if wakes {
            world.resume();
        }
        world.settle();
        world.resume();
        world.settle();
        world.assert_settled();
        let last = world.object.status.as_ref().unwrap().last_failover.clone().unwrap();
        assert_eq!((last.reason.as_str(), last.to != "cache-0"), ("MasterRestarted", wakes), "{last:?}");
    }
}

/// Nobody is served by an empty node while others that may have data are awaited.
#[test]
fn all_killed_at_once_the_data_on_the_volumes_win() {
    for emptied in [None, Some(0), Some(2)] {
        let mut world = World::settled(redis(3));
        let before = world.data();
        for ordinal in 0..=3 {
            world.kubernetes.kill(ordinal);
        }
        if let Some(emptied) = emptied {
            world.kubernetes.claims.get_mut(&emptied).unwrap().writes.clear();
        }
        world.settle();
        world.assert_settled();
        assert!(before.iter().all(|write| world.data().contains(write)), "{emptied:?}");
    }
}

/// Neither a silent loss nor an endless wait.
#[test]
fn data_that_are_gone_everywhere_are_told_of() {
    let mut world = World::settled(redis(2));
    for ordinal in 0..=2 {
        world.kubernetes.kill(ordinal);
        world.kubernetes.claims.get_mut(&ordinal).unwrap().writes.clear();
    }
    let begun = world.now;
    world.settle();
    world.assert_settled();
    let last = world.object.status.as_ref().unwrap().last_failover.clone().unwrap();
    assert_eq!(last.reason, "DataGone");
    assert!(last.at.0.duration_since(begun).as_secs() >= 60);
}

/// For a moment there is not even a pod: what they had is remembered all the same.
#[test]
fn data_that_are_gone_with_their_pods_are_told_of() {
    let mut world = World::settled(redis(1));
    world.kubernetes.pods.clear();
    world.kubernetes.claims.clear();
    world.reconcile(&Mishap::default());
    world.settle();
    world.assert_settled();
    let last = world.object.status.as_ref().unwrap().last_failover.clone().unwrap();
    assert_eq!(last.reason, "DataGone");
}

/// Whatever gets in between: clients write to the node that began empty, and the operator hears nothing of it for a moment.
#[test]
fn data_that_are_gone_are_told_of_although_the_new_master_pauses() {
    for dies_after in 1..8 {
        let mut world = World::settled(redis(1));
        for ordinal in 0..=1 {
            world.kubernetes.kill(ordinal);
            world.kubernetes.claims.get_mut(&ordinal).unwrap().writes.clear();
        }
        let epoch = |world: &World| {
            let status = world.object.status.as_ref().unwrap();
            status.failover.as_ref().map_or(status.epoch, |failover| failover.epoch)
        };
        let before = epoch(&world);
        // It begins when the data have been waited for.
        while epoch(&world) == before {
            world.time_passes();
            world.reconcile(&Mishap { dies_after: Some(dies_after), reply_lost: None });
        }
        world.write();
        world.time_passes();
        for ordinal in [0, 1] {
            let process = |world: &mut World, hangs| {
                let pod = world.kubernetes.pods.get_mut(&ordinal).unwrap();
                pod.process.as_mut().unwrap().hangs = hangs;
            };
            process(&mut world, Some(0));
            world.time_passes();
            world.reconcile(&Mishap::default());
            process(&mut world, None);
            world.reconcile(&Mishap::default());
        }
        world.settle();
        world.assert_settled();
        let last = world.object.status.as_ref().unwrap().last_failover.clone().unwrap();
        assert_eq!(last.reason, "DataGone", "died after {dies_after}");
    }
}
