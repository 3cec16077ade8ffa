//! Members are defragmented one by one, the leader last, and none twice.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use causeway_api::EtcdCluster;
use causeway_api::etcdcluster::{Defrag, DefragStatus};
use causeway_databases::etcd::Endpoint;
use causeway_runtime::{Class, Health};

use super::Simulation;
use super::faults::{Edit, Event, Mishap, story};
use super::kubernetes::Container;
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures;
use crate::names;

/// Enough to be worth it.
const MUCH: i64 = 100 << 20;

impl Simulation {
    /// A member is defragmented; it does not answer meanwhile.
    pub fn defragment(&mut self, name: &str, via: &Endpoint) -> Result<(), Class> {
        let id = self.member_at(via).ok_or(Class::Transient)?;
        if !self.gate.admits(via) {
            return Err(Class::Conflict);
        }
        let ordinal = self.ordinal(name);
        assert_eq!(self.kubernetes.set.pods[&ordinal].member(), Some(id));
        assert!(self.away.is_empty(), "{name} is disturbed while {:?} is away by our own hand", self.away);
        let (voters, healthy) = (self.raft.voters().count(), self.raft.healthy().len());
        assert!(self.disturbed || healthy == voters, "{name} is disturbed while only {healthy} of {voters} are well");
        assert!(self.disturbed || voters == 1 || self.raft.leader != Some(id), "{name} is disturbed while it leads");
        self.raft.sizes.insert(id, 0);
        Ok(())
    }

    /// Gives all databases much unused space.
    pub fn bloat(&mut self) {
        self.raft.sizes = self.raft.members.keys().map(|id| (*id, MUCH)).collect();
    }

    fn record(&self) -> DefragStatus {
        self.object.status.clone().unwrap().defrag.unwrap()
    }

    /// Names of the members that gave back space, in order, with the moments at which leadership was moved.
    fn describe(&self) -> Vec<String> {
        let description = |action: &Action| match action {
            Action::Defragment { name, .. } => Some(name.clone()),
            Action::MoveLeader { from, .. } => Some(format!("{from} hands over")),
            _ => None,
        };
        self.journal.iter().filter_map(description).collect()
    }
}

fn cluster(replicas: i32) -> EtcdCluster {
    let mut object = fixtures::cluster(replicas);
    object.spec.defrag = Some(Defrag { schedule: "0 3 * * *".into(), threshold_percent: 20 });
    object
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A cluster at rest at half past two, with much to give back.
fn bloated(replicas: i32) -> Simulation {
    let mut simulation = Simulation::new(cluster(replicas));
    simulation.now = time("2026-11-21T02:30:00Z");
    simulation.settle();
    simulation.bloat();
    simulation.journal.clear();
    simulation
}

#[test]
fn a_scheduled_defragmentation_ends_with_the_leader() {
    let mut simulation = bloated(3);
    let first = simulation.raft.voters().collect::<Vec<_>>()[0];
    simulation.raft.leader = Some(first);
    let ordinal = names::ordinal_at(&simulation.object, &simulation.raft.members[&first].peer_urls).unwrap();
    let leader = names::pod(&simulation.object, ordinal);
    simulation.settle();
    assert_eq!(simulation.describe(), [""; 0], "it is not three yet");
    simulation.now = time("2026-11-21T03:00:10Z");
    simulation.settle();
    let description = simulation.describe();
    assert_eq!(description.len(), 4, "{description:?}");
    assert_eq!(description[2..], [format!("{leader} hands over"), leader]);
    assert!(matches!(simulation.health, Some(Health::Ready(_))));
    let record = simulation.record();
    assert_eq!((record.done_until.0, record.members.len()), (simulation.now, 0));
    assert_eq!(record.last_defragmented.map(|time| time.0), Some(simulation.now));

    // Until the next scheduled time, no member is disturbed, however much there is to give back.
    simulation.bloat();
    simulation.now = time("2026-11-21T03:10:00Z");
    simulation.settle();
    assert_eq!(simulation.describe().len(), 4);
    simulation.now = time("2026-11-22T03:00:00Z");
    simulation.settle();
    assert_eq!(simulation.describe().len(), 8);
}

#[test]
fn a_time_before_the_schedule_was_set_does_not_count() {
    let mut simulation = Simulation::new(fixtures::cluster(3));
    simulation.now = time("2026-11-21T02:30:00Z");
    simulation.settle();
    simulation.bloat();
    simulation.now = time("2026-11-21T03:30:00Z");
    simulation.object.spec = cluster(3).spec;
    simulation.settle();
    assert_eq!(simulation.describe(), [""; 0]);
    // Neither does a time of another schedule that passed before that was set.
    simulation.now = time("2026-11-21T05:00:00Z");
    simulation.object.spec.defrag = Some(Defrag { schedule: "30 4 * * *".into(), threshold_percent: 20 });
    simulation.settle();
    assert_eq!(simulation.describe(), [""; 0]);
    simulation.object.spec.defrag = None;
    simulation.settle();
    assert_eq!(simulation.object.status.unwrap().defrag, None);
}

#[test]
fn a_missed_defragmentation_waits_for_the_next_time() {
    let mut simulation = bloated(3);
    simulation.now = time("2026-11-21T04:00:01Z");
    simulation.settle();
    assert_eq!(simulation.describe(), [""; 0]);
    assert_eq!(simulation.record().done_until.0, simulation.now);
}

#[test]
fn a_recorded_turn_that_could_not_begin_comes_again() {
    let mut simulation = bloated(3);
    simulation.now = time("2026-11-21T03:00:10Z");
    let mut object = simulation.object.clone();
    let record = object.status.as_mut().unwrap().defrag.as_mut().unwrap();
    record.members = (0..3).map(|ordinal| names::pod(&simulation.object, ordinal)).collect();
    let mut observed = simulation.observe(&object, false);
    assert_eq!(decide(&object, &observed, simulation.now).actions, [], "all had their turn");
    let leader = simulation.raft.leader;
    let follower = observed.statuses.iter().find(|(_, status)| leader != Some(status.member_id)).unwrap().0;
    let name = names::pod(&object, *follower);
    observed.deferred = [name.clone()].into();
    let actions = decide(&object, &observed, simulation.now).actions;
    assert!(matches!(&actions[..], [Action::Defragment { name: its, .. }] if *its == name), "{actions:?}");
}

#[test]
fn a_member_that_is_not_well_is_waited_for() {
    let mut simulation = bloated(3);
    simulation.kubernetes.stop(1, Container::Waiting(None), &mut simulation.raft);
    simulation.kubernetes.set.pods.get_mut(&1).unwrap().lost = true;
    simulation.now = time("2026-11-21T03:00:00Z");
    for _ in 0..10 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(simulation.describe(), [""; 0]);
    simulation.nodes_return();
    simulation.settle();
    assert_eq!(simulation.describe().iter().filter(|description| !description.contains("hands over")).count(), 3);
}

#[test]
fn an_operator_crash_gives_no_member_another_turn() {
    let mut simulation = bloated(3);
    simulation.now = time("2026-11-21T03:00:00Z");
    simulation.reconcile(&Mishap { dies_after: Some(1), ..Mishap::default() });
    assert_eq!(simulation.describe().len(), 1);
    simulation.bloat();
    simulation.settle();
    let mut turns: Vec<String> =
        simulation.describe().into_iter().filter(|description| !description.contains("hands over")).collect();
    turns.sort_unstable();
    assert_eq!(turns, ["prod-etcd-0", "prod-etcd-1", "prod-etcd-2"]);
}

#[test]
fn little_is_not_worth_a_disturbance() {
    for (size, percent, worth) in [(15, 20, false), (16, 20, true), (100, 99, true)] {
        let mut simulation = bloated(1);
        simulation.object.spec.defrag.as_mut().unwrap().threshold_percent = percent;
        for bytes in simulation.raft.sizes.values_mut() {
            *bytes = size << 20;
        }
        simulation.now = time("2026-11-21T03:00:00Z");
        simulation.settle();
        assert_eq!(!simulation.describe().is_empty(), worth, "{size} MiB, {percent} %");
    }
}

#[test]
fn an_invalid_schedule_is_reported_and_changes_nothing() {
    let mut simulation = bloated(3);
    let kept = format!("{:?}", simulation.kubernetes.set.pods);
    simulation.object.spec.defrag.as_mut().unwrap().schedule = "61 * * * *".into();
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "ScheduleInvalid");
    assert!(cause.message.contains("spec.defrag.schedule"), "{}", cause.message);
    assert_eq!(format!("{:?}", simulation.kubernetes.set.pods), kept);
    simulation.object.spec.defrag = None;
    simulation.object.spec.backup_schedule = Some("0 25 * * *".into());
    simulation.settle();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.message.contains("spec.backupSchedule"), "{}", cause.message);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn each_member_is_defragmented_at_most_once_alone(size in 0..3_i32, story in story(40)) {
        let mut simulation = bloated(2 * size + 1);
        simulation.now = time("2026-11-21T03:00:00Z");
        for event in &story {
            // Members that come and go meanwhile have turns of their own.
            if !matches!(event, Event::Edit(Edit::Replicas(_))) {
                event.happens(&mut simulation);
            }
            // There is always something to give back: only the record keeps members from another turn.
            simulation.bloat();
            simulation.now += SignedDuration::from_secs(10);
        }
        let mut turns: Vec<String> = simulation.describe().into_iter().filter(|description| !description.contains("hands over")).collect();
        let count = turns.len();
        turns.sort_unstable();
        turns.dedup();
        prop_assert_eq!(count, turns.len());
    }
}
