//! The course of a group where a quota has no room for all of its targets.

use std::ops::Range;

use super::*;

impl Simulation {
    /// The slice lists these pods, and an attempt follows it.
    fn follow(&mut self, pods: Range<usize>) {
        self.happen(Event::SliceIs { slice: 0, pods: pods.map(|pod| (pod, true, false)).collect() });
        self.attempt(&mut std::iter::empty()).unwrap();
    }
}

/// A group whose Service has the first half of these pods, before it gets the other half. All pods exist.
fn before_the_others(pods: Range<usize>, room: usize) -> Simulation {
    let mut simulation = Simulation::new();
    let first = pods.start..pods.start.midpoint(pods.end);
    simulation.accepted = pods.clone().map(target).collect();
    simulation.room = room;
    simulation.happen(Event::ServiceAppears { number: 80 });
    for pod in pods {
        simulation.happen(Event::Pod { pod, able: true });
    }
    simulation.follow(first);
    simulation
}

#[test]
fn without_room_half_of_the_targets_always_stay() {
    for (pods, room) in [(1, 1), (2, 2), (3, 3), (300, 301), (900, 1000)] {
        let mut simulation = before_the_others(0..2 * pods, room);
        simulation.follow(pods..2 * pods);
        let wanted: BTreeSet<Target> = (pods..2 * pods).map(target).collect();
        assert_eq!(simulation.registered(), wanted, "{pods} pods, room for {room}");
        assert!(simulation.fewest >= pods / 2, "{} of {pods} stayed", simulation.fewest);
    }
}

#[test]
fn what_a_quota_has_room_for_is_registered() {
    let mut simulation = before_the_others(0..20, 13);
    simulation.follow(0..20);
    assert_eq!(simulation.registered().len(), 13);
    assert_eq!(simulation.fewest, usize::MAX, "nothing gives way to others of the same Service");
}

#[test]
fn no_target_with_a_pod_gives_way_in_vain() {
    // Another group of the balancer gets the room that the first one makes.
    let mut simulation = before_the_others(4..8, 2);
    simulation.room = 1;
    simulation.follow(6..8);
    assert_eq!(simulation.registered(), BTreeSet::from([target(5)]));
    simulation.now += Duration::from_mins(2);
    for full in [true, false] {
        simulation.full = full;
        simulation.follow(6..8);
        assert_eq!(simulation.registered(), BTreeSet::from([target(5)]), "it may serve, and nothing replaces it");
    }
    simulation.room = 0;
    simulation.happen(Event::PodGoes { pod: 5 });
    simulation.follow(6..8);
    assert_eq!(simulation.registered(), BTreeSet::new());
    simulation.room = 2;
    simulation.settle().unwrap();
    assert_eq!(simulation.registered(), BTreeSet::from([target(6), target(7)]));
}

#[test]
fn one_call_after_each_pause_tries_a_full_quota() {
    let mut simulation = before_the_others(0..400, 200);
    simulation.follow(0..400);
    for _ in 0..3 {
        simulation.now += Duration::from_mins(1);
        (simulation.full, simulation.in_vain) = (false, 0);
        simulation.follow(0..400);
        assert_eq!((simulation.in_vain, simulation.registered().len()), (1, 200));
    }
    for room in [350, 400] {
        simulation.now += Duration::from_mins(1);
        (simulation.full, simulation.room) = (false, room);
        simulation.follow(0..400);
        assert_eq!(simulation.registered().len(), room, "all that it has room for is registered at once");
    }
}
