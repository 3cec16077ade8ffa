//! Partial cuts: packets are lost between two nodes, or between one node and the clients or the operator, in any order with
//! deaths and looks.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::Index;

use causeway_api::Duration;
use causeway_runtime::{ConditionStatus, Health};

use super::Simulation;
use super::kubernetes::Cut;
use super::looks::{dies, says};
use super::nodes::Write;
use super::story::Mishap;
use crate::decide::decide;
use crate::facts::Observed;
use crate::fixtures::redis;

/// A write that a master has kept for so many seconds, while the operator heard it, is promised: docs/redis.md, "What can be
/// lost". In the simulation the operator asks each second, and not twice.
const PROMISED_AFTER: u32 = 2;
/// `spec.failover.dataLossTimeout` in seconds. No single fault of a story lasts that long, but all nodes may be away for
/// longer.
const DATA_LOSS_TIMEOUT: u32 = 300;
/// All nodes are away for this long, in seconds.
const ALL_AWAY: u16 = 330;

#[derive(Clone, Debug)]
enum Event {
    Look,
    Seconds(u8),
    /// The network drops packets between two nodes.
    Sever(Index, Index),
    /// The network drops packets between the master and all of its replicas.
    Isolate,
    /// The network drops packets between a node and the operator.
    Unheard(Index),
    /// The network drops packets between a node and clients.
    Unreached(Index),
    /// All that is cut is connected again.
    Heal,
    Kill(Index),
    KillMaster,
    DeleteMaster,
    /// The process of a node is gone, and comes back after so many seconds.
    Away(Index, u8),
    /// All machines are switched off, and boot again, some later than others.
    AllAway(Vec<u8>),
    Hang(Index),
    Resume,
}

fn event() -> impl Strategy<Value = Event> {
    let place = any::<Index>;
    prop_oneof![
        6 => Just(Event::Look),
        6 => (1..8_u8).prop_map(Event::Seconds),
        2 => (place(), place()).prop_map(|(one, other)| Event::Sever(one, other)),
        3 => Just(Event::Isolate),
        1 => place().prop_map(Event::Unheard),
        1 => place().prop_map(Event::Unreached),
        2 => Just(Event::Heal),
        1 => place().prop_map(Event::Kill),
        2 => Just(Event::KillMaster),
        2 => Just(Event::DeleteMaster),
        1 => (place(), 1..15_u8).prop_map(|(one, seconds)| Event::Away(one, seconds)),
        1 => proptest::collection::vec(0..20_u8, 4).prop_map(Event::AllAway),
        1 => place().prop_map(Event::Hang),
        1 => Just(Event::Resume),
    ]
}

/// Writes that clients got an acknowledgement for, and which of them must not be lost.
#[derive(Default)]
struct Promises {
    noted: usize,
    /// Each with the process that acknowledged it, and for how long that was heard since.
    pending: Vec<(Write, u32, u32)>,
    kept: Vec<Write>,
}

impl Promises {
    fn note(&mut self, simulation: &Simulation) {
        for write in &simulation.acknowledged[self.noted..] {
            let pods = simulation.kubernetes.set.pods.values().filter(|pod| pod.is_master());
            let processes = pods.filter_map(|pod| pod.process.as_ref());
            let by = processes.into_iter().find(|process| process.writes.contains(write));
            self.pending.extend(by.map(|process| (*write, process.run, 0)));
        }
        self.noted = simulation.acknowledged.len();
    }

    /// A second has passed.
    fn grow(&mut self, simulation: &Simulation) {
        let pods = simulation.kubernetes.set.pods.values();
        let heard = pods.filter(|pod| pod.is_master() && pod.answers() && pod.cut.is_none());
        let heard: BTreeSet<u32> = heard.map(|pod| pod.process.as_ref().unwrap().run).collect();
        self.pending.retain_mut(|(_, run, seconds)| {
            *seconds += 1;
            heard.contains(run)
        });
        let (kept, pending) =
            std::mem::take(&mut self.pending).into_iter().partition(|(_, _, seconds)| *seconds >= PROMISED_AFTER);
        self.pending = pending;
        let kept: Vec<(Write, u32, u32)> = kept;
        self.kept.extend(kept.into_iter().map(|(write, ..)| write));
    }
}

fn pass(simulation: &mut Simulation, promises: &mut Promises, seconds: u16) {
    for _ in 0..seconds {
        simulation.write();
        promises.note(simulation);
        simulation.time_passes();
        promises.grow(simulation);
    }
}

fn look(simulation: &mut Simulation, promises: &mut Promises) {
    simulation.reconcile(&Mishap::default());
    promises.note(simulation);
}

fn master(simulation: &Simulation) -> Option<i32> {
    simulation.kubernetes.set.pods.iter().find(|(_, pod)| pod.is_master()).map(|(ordinal, _)| *ordinal)
}

fn isolate(simulation: &mut Simulation) {
    let Some(master) = master(simulation) else { return };
    for other in simulation.kubernetes.set.pods.keys().copied().collect::<Vec<_>>() {
        if other != master {
            simulation.kubernetes.sever(master, other);
        }
    }
}

impl Event {
    fn happens(&self, simulation: &mut Simulation, promises: &mut Promises) {
        let at = |simulation: &Simulation, place: &Index| simulation.any_pod(*place);
        match self {
            Self::Look => look(simulation, promises),
            Self::Seconds(seconds) => pass(simulation, promises, u16::from(*seconds)),
            Self::Sever(one, other) => {
                let ends = at(simulation, one).zip(at(simulation, other));
                if let Some((one, other)) = ends.filter(|(one, other)| one != other) {
                    simulation.kubernetes.sever(one, other);
                }
            }
            Self::Isolate => isolate(simulation),
            Self::Unheard(place) => {
                if let Some(ordinal) = at(simulation, place) {
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().cut = Some(Cut::Dropped(0));
                }
            }
            Self::Unreached(place) => {
                if let Some(ordinal) = at(simulation, place) {
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().unreached = true;
                }
            }
            Self::Heal => {
                simulation.kubernetes.severed.clear();
                for pod in simulation.kubernetes.set.pods.values_mut() {
                    (pod.cut, pod.unreached) = (None, false);
                }
            }
            Self::Kill(place) => {
                if let Some(ordinal) = at(simulation, place) {
                    simulation.kubernetes.kill(ordinal);
                }
            }
            Self::KillMaster => {
                if let Some(ordinal) = master(simulation) {
                    simulation.kubernetes.kill(ordinal);
                }
            }
            Self::DeleteMaster => {
                if let Some(ordinal) = master(simulation) {
                    simulation.kubernetes.kill(ordinal);
                    simulation.kubernetes.set.pods.remove(&ordinal);
                }
            }
            Self::Away(place, seconds) => {
                if let Some(ordinal) = at(simulation, place) {
                    simulation.kubernetes.kill(ordinal);
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().away = u16::from(*seconds);
                }
            }
            Self::AllAway(later) => {
                let ordinals: Vec<i32> = simulation.kubernetes.set.pods.keys().copied().collect();
                simulation.kubernetes.dark = ALL_AWAY;
                for (ordinal, later) in ordinals.into_iter().zip(later) {
                    simulation.kubernetes.kill(ordinal);
                    simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().away = ALL_AWAY + u16::from(*later);
                }
                for seconds in std::iter::repeat_n(15, 22).chain(std::iter::repeat_n(1, 21)) {
                    pass(simulation, promises, seconds);
                    look(simulation, promises);
                }
            }
            Self::Hang(place) => {
                let pod = at(simulation, place).and_then(|at| simulation.kubernetes.set.pods.get_mut(&at));
                if let Some(process) = pod.and_then(|pod| pod.process.as_mut()) {
                    process.hangs.get_or_insert(0);
                }
            }
            Self::Resume => {
                for process in simulation.kubernetes.set.pods.values_mut().filter_map(|pod| pod.process.as_mut()) {
                    process.hangs = None;
                }
            }
        }
    }
}

/// A set that waits for its master for longer than any single fault lasts.
fn patient(replicas: i32) -> Simulation {
    let mut object = redis(replicas);
    object.spec.failover.data_loss_timeout = Duration::from_seconds(DATA_LOSS_TIMEOUT);
    Simulation::settled(object)
}

/// Each case is a long story; `PROPTEST_CASES` asks for more of them.
fn cases() -> ProptestConfig {
    ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_promised_write_is_lost_by_cuts_or_deaths(replicas in 1..4_i32, story in proptest::collection::vec(event(), 0..24)) {
        let mut simulation = patient(replicas);
        let mut promises = Promises::default();
        for event in &story {
            event.happens(&mut simulation, &mut promises);
        }
        simulation.resume();
        simulation.settle();
        simulation.assert_settled();
        let data = simulation.data();
        let lost: Vec<_> = promises.kept.iter().filter(|write| !data.contains(write)).collect();
        prop_assert!(lost.is_empty(), "{lost:?} of {:?}", simulation.object.status);
    }
}

/// How a master goes.
#[derive(Clone, Copy, Debug)]
enum Death {
    Killed,
    /// Its process is back before the first look.
    Restarted,
    PodDeleted,
    PodMadeAgain,
    Hangs,
}

const DEATHS: [Death; 5] = [Death::Killed, Death::Restarted, Death::PodDeleted, Death::PodMadeAgain, Death::Hangs];

fn dies_so(simulation: &mut Simulation, promises: &mut Promises, death: Death) {
    match death {
        Death::Killed => simulation.kubernetes.kill(0),
        Death::Hangs => {
            simulation.kubernetes.set.pods.get_mut(&0).unwrap().process.as_mut().unwrap().hangs = Some(0);
        }
        Death::Restarted | Death::PodDeleted | Death::PodMadeAgain => {
            simulation.kubernetes.kill(0);
            if !matches!(death, Death::Restarted) {
                simulation.kubernetes.set.pods.remove(&0);
            }
            if !matches!(death, Death::PodDeleted) {
                pass(simulation, promises, 1);
            }
        }
    }
}

fn recorded_master(simulation: &Simulation) -> Option<String> {
    let status = simulation.object.status.clone().unwrap();
    status.failover.map(|failover| failover.target).or(status.master)
}

/// No periodic look falls into the cut: only the answers to ROLE tell what the master had.
#[test]
fn a_severed_replica_does_not_take_over() {
    for (death, replicas, seconds) in
        DEATHS.into_iter().flat_map(|death| [(death, 2, 22), (death, 3, 8), (death, 1, 3)])
    {
        let mut simulation = patient(replicas);
        let mut promises = Promises::default();
        isolate(&mut simulation);
        pass(&mut simulation, &mut promises, seconds);
        assert!(!promises.kept.is_empty(), "{death:?}: clients write");
        dies_so(&mut simulation, &mut promises, death);
        for _ in 0..40 {
            look(&mut simulation, &mut promises);
            assert_eq!(recorded_master(&simulation).as_deref(), Some("cache-0"), "{death:?} of {replicas}");
            pass(&mut simulation, &mut promises, 1);
        }
        simulation.resume();
        simulation.settle();
        simulation.assert_settled();
        let data = simulation.data();
        assert!(promises.kept.iter().all(|write| data.contains(write)), "{death:?} of {replicas}");
    }
}

#[test]
fn a_full_replica_takes_over_at_once() {
    for death in DEATHS {
        let mut simulation = patient(2);
        let mut promises = Promises::default();
        pass(&mut simulation, &mut promises, 5);
        dies_so(&mut simulation, &mut promises, death);
        if matches!(death, Death::Hangs) {
            pass(&mut simulation, &mut promises, 2);
        }
        look(&mut simulation, &mut promises);
        assert_ne!(recorded_master(&simulation).as_deref(), Some("cache-0"), "{death:?}");
    }
}

/// One of them receives everything, and takes over.
#[test]
fn a_severed_replica_leaves_the_role_to_another() {
    for death in DEATHS {
        let mut simulation = patient(2);
        let mut promises = Promises::default();
        simulation.kubernetes.sever(0, 1);
        pass(&mut simulation, &mut promises, 22);
        dies_so(&mut simulation, &mut promises, death);
        if matches!(death, Death::Hangs) {
            pass(&mut simulation, &mut promises, 2);
        }
        look(&mut simulation, &mut promises);
        assert_eq!(recorded_master(&simulation).as_deref(), Some("cache-2"), "{death:?}");
    }
}

/// An operator that began to listen after the death knows only what replicas say themselves.
#[test]
fn a_link_without_a_master_proves_a_cut() {
    let simulation = Simulation::settled(redis(1));
    for (quiet, up, expected) in [(1, false, true), (2, true, true), (3, true, false)] {
        let mut observed = simulation.observe();
        observed.words.clear();
        dies(&mut observed, 0);
        let address = observed.set.pods[&0].address.clone().unwrap();
        says(&mut observed, 1, |info| {
            info.quiet_seconds = Some(quiet);
            if let causeway_databases::redis::Role::Replica(link) = &mut info.role {
                (link.up, link.host) = (up, address.clone());
            }
        });
        let status = decide(&simulation.object, &observed, simulation.now).status;
        assert_eq!(status.failover.is_some(), expected, "{quiet} s, link up: {up}");
    }
}

/// The master answers for a moment after a pause, before its replicas have received anything.
#[test]
fn a_full_replica_takes_over_despite_the_status() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.object.status.as_mut().unwrap().nodes[1].in_sync = false;
    let mut observed = simulation.observe();
    dies(&mut observed, 0);
    let begins = |observed: &Observed| decide(&simulation.object, observed, simulation.now).status.failover.is_some();
    assert!(begins(&observed));
    observed.words.get_mut("cache-0").unwrap().offset += 1_000;
    assert!(!begins(&observed), "it lacks what the master had");
    observed.words.clear();
    assert!(!begins(&observed), "what the master had is not known");
}

/// `Ready`, `Replicated`, the disruption budget and the list of nodes say the same.
#[test]
fn replicas_that_receive_nothing_are_reported_within_three_seconds() {
    let mut simulation = Simulation::settled(redis(2));
    let mut promises = Promises::default();
    let reported = |simulation: &Simulation| {
        let plan = decide(&simulation.object, &simulation.observe(), simulation.now);
        let replicated = plan.parts.iter().find(|part| part.type_ == "Replicated").unwrap();
        let budget = &simulation.kubernetes.set.children[&("PodDisruptionBudget".to_owned(), "cache".to_owned())];
        let status = simulation.object.status.clone().unwrap();
        let in_sync = status.nodes.iter().filter(|node| node.in_sync).count();
        let is_ready = matches!(plan.health, Health::Ready(_));
        (
            is_ready,
            matches!(replicated.status, ConditionStatus::True),
            budget.value["spec"]["maxUnavailable"] == 1,
            in_sync,
            status.ready_replicas,
        )
    };
    assert_eq!(reported(&simulation), (true, true, true, 3, 2));
    isolate(&mut simulation);
    for _ in 0..3 {
        look(&mut simulation, &mut promises);
        pass(&mut simulation, &mut promises, 1);
    }
    look(&mut simulation, &mut promises);
    assert_eq!(reported(&simulation), (false, false, false, 1, 0));
    let Some(Health::Progressing(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.message.contains("does not receive what the master sends"), "{}", cause.message);
    simulation.resume();
    simulation.settle();
    assert_eq!(reported(&simulation), (true, true, true, 3, 2));
}

/// A replica that the master hears is in sync, whatever a single look shows.
#[test]
fn one_severed_replica_does_not_discredit_another() {
    let mut simulation = Simulation::settled(redis(2));
    let mut promises = Promises::default();
    simulation.kubernetes.sever(0, 1);
    for _ in 0..4 {
        pass(&mut simulation, &mut promises, 1);
        look(&mut simulation, &mut promises);
    }
    let nodes = simulation.object.status.clone().unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.in_sync).collect::<Vec<_>>(), [true, false, true]);
}

/// Everything is switched off, and the node that has all data boots last.
#[test]
fn returning_nodes_wait_for_the_full_one() {
    let mut simulation = Simulation::settled(redis(2));
    let mut promises = Promises::default();
    isolate(&mut simulation);
    for _ in 0..10 {
        pass(&mut simulation, &mut promises, 1);
        look(&mut simulation, &mut promises);
    }
    for (ordinal, away) in [(0, 140), (1, 100), (2, 130)] {
        simulation.kubernetes.kill(ordinal);
        simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().away = away;
    }
    simulation.kubernetes.severed.clear();
    for _ in 0..150 {
        pass(&mut simulation, &mut promises, 1);
        look(&mut simulation, &mut promises);
    }
    simulation.settle();
    simulation.assert_settled();
    let data = simulation.data();
    assert!(promises.kept.len() > 5 && promises.kept.iter().all(|write| data.contains(write)));
    let reason = simulation.object.status.clone().unwrap().last_failover.unwrap().reason;
    assert_eq!(reason, "MasterRestarted");
}

/// The time counts from when another node can be asked, and beyond it the master is waited for while it reads its data.
#[test]
fn a_loading_master_outlasts_the_data_loss_timeout() {
    for loading in [true, false] {
        let mut simulation = Simulation::settled(redis(1));
        simulation.object.status.as_mut().unwrap().nodes[1].in_sync = false;
        let mut observed = simulation.observe();
        says(&mut observed, 0, |info| {
            (info.loading, info.history) = (true, "another".into());
            info.role = causeway_databases::redis::Role::Replica(causeway_databases::redis::Link::default());
        });
        observed.words.insert("cache-0".into(), crate::facts::LastWord { offset: 1 << 30, ..Default::default() });
        for second in 0..120 {
            let mut now = observed.clone();
            if !loading {
                dies(&mut now, 0);
            }
            let status = decide(&simulation.object, &now, simulation.now).status;
            assert_eq!(status.failover.is_some(), !loading && second >= 60, "after {second} s, it loads: {loading}");
            if status.failover.is_some() {
                break;
            }
            simulation.object.status = Some(status);
            simulation.now = simulation.now.checked_add(jiff::SignedDuration::from_secs(1)).unwrap();
        }
    }
}

/// A new pod of the master has a minute to start in.
#[test]
fn a_new_masters_pod_outlasts_the_data_loss_timeout() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.object.status.as_mut().unwrap().nodes[1].in_sync = false;
    let since = simulation.now.checked_sub(jiff::SignedDuration::from_secs(600)).unwrap();
    let since = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since));
    let status = simulation.object.status.as_mut().unwrap();
    (status.masterless_since, status.candidate_since) = (since.clone(), since);
    for (age, trouble, lost, expected) in [
        (59, None, None, false),
        (60, None, None, true),
        (5, Some("ImagePullBackOff"), None, true),
        (5, None, Some("node-2"), true),
    ] {
        let mut observed = simulation.observe();
        observed.words.insert("cache-0".into(), crate::facts::LastWord { offset: 1 << 30, ..Default::default() });
        dies(&mut observed, 0);
        let pod = observed.set.pods.get_mut(&0).unwrap();
        pod.made = simulation.now.checked_sub(jiff::SignedDuration::from_secs(age)).ok();
        (pod.trouble, pod.lost_node) = (trouble.map(str::to_owned), lost.map(str::to_owned));
        let status = decide(&simulation.object, &observed, simulation.now).status;
        assert_eq!(status.failover.is_some(), expected, "{age} s, {trouble:?}, {lost:?}");
    }
}

/// The same without keys: all were deleted, or expired.
#[test]
fn a_master_emptied_on_purpose_returns_at_once() {
    for (replicas, has_writes) in [(0, true), (0, false), (2, true), (2, false)] {
        let simulation = Simulation::settled(redis(replicas));
        let mut observed = simulation.observe();
        for ordinal in 0..=replicas {
            says(&mut observed, ordinal, |info| {
                (info.keys, info.history, info.log_has_writes) = (0, format!("new-{ordinal}"), has_writes);
                info.run_id = format!("run-{ordinal}");
                info.role = causeway_databases::redis::Role::Replica(causeway_databases::redis::Link::default());
            });
        }
        let failover = decide(&simulation.object, &observed, simulation.now).status.failover;
        let begun = failover.map(|failover| (failover.target, failover.reason));
        let expected = has_writes.then(|| ("cache-0".to_owned(), "MasterRestarted".to_owned()));
        assert_eq!(begun, expected, "{replicas} replicas, the file has writes: {has_writes}");
    }
}

/// Its file may have been rewritten after that, and says nothing then; the master's own word does.
#[test]
fn a_master_that_said_it_was_empty_lost_nothing() {
    for (replicas, empty) in [(0, true), (0, false), (2, true), (2, false)] {
        let simulation = Simulation::settled(redis(replicas));
        let mut observed = simulation.observe();
        for ordinal in 0..=replicas {
            says(&mut observed, ordinal, |info| {
                (info.keys, info.history) = (0, format!("new-{ordinal}"));
                info.run_id = format!("run-{ordinal}");
                info.role = causeway_databases::redis::Role::Replica(causeway_databases::redis::Link::default());
            });
        }
        observed.words.get_mut("cache-0").expect("its last word").empty = empty;
        let failover = decide(&simulation.object, &observed, simulation.now).status.failover;
        let begun = failover.map(|failover| (failover.target, failover.reason));
        let expected = empty.then(|| ("cache-0".to_owned(), "MasterRestarted".to_owned()));
        assert_eq!(begun, expected, "{replicas} replicas, it said that it was empty: {empty}");
    }
}

/// A replica that missed the deletion must not bring deleted keys back.
#[test]
fn deleted_keys_do_not_return_with_a_stale_replica() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.object.status.as_mut().unwrap().nodes[1].in_sync = false;
    let mut observed = simulation.observe();
    observed.words.clear();
    let empty = |observed: &mut Observed, has_writes| {
        says(observed, 0, |info| {
            (info.keys, info.history, info.log_has_writes) = (0, "new".into(), has_writes);
            info.run_id = "another".into();
            info.role = causeway_databases::redis::Role::Replica(causeway_databases::redis::Link::default());
        });
    };
    for (has_writes, expected) in [(true, ("cache-0", "MasterRestarted")), (false, ("cache-1", "MasterEmptied"))] {
        empty(&mut observed, has_writes);
        let failover = decide(&simulation.object, &observed, simulation.now).status.failover.unwrap();
        assert_eq!((failover.target.as_str(), failover.reason.as_str()), expected);
    }
}

fn with_databases(simulation: &mut Simulation, count: &str) {
    simulation.object.spec.config.insert("databases".into(), count.into());
}

/// A node with fewer databases executes writes to the others in database 0.
#[test]
fn fewer_databases_are_refused_and_change_nothing() {
    let mut simulation = Simulation::settled(redis(2));
    simulation.journal.clear();
    with_databases(&mut simulation, "8");
    for _ in 0..10 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(simulation.journal, []);
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.message.contains("cannot be lowered from 16 to 8"), "{}", cause.message);
    simulation.object.spec.config.clear();
    simulation.settle();
    simulation.assert_settled();
    // More are rolled out, the master last, and may not be taken back then.
    with_databases(&mut simulation, "32");
    simulation.settle();
    simulation.assert_settled();
    simulation.object.spec.config.clear();
    simulation.reconcile(&Mishap::default());
    assert!(matches!(simulation.health, Some(Health::Stalled(_))), "{:?}", simulation.health);
}

#[test]
fn a_replica_with_fewer_databases_does_not_take_over() {
    for (own, masters, expected) in [(8, 16, false), (16, 16, true), (16, 8, true)] {
        let mut simulation = Simulation::settled(redis(1));
        let mut observed = simulation.observe();
        for (ordinal, count) in [(0, masters), (1, own)] {
            observed.set.pods.get_mut(&ordinal).unwrap().own.databases = Some(count);
        }
        let status = decide(&simulation.object, &observed, simulation.now).status;
        assert_eq!((status.nodes[1].in_sync, status.ready_replicas == 1), (expected, expected), "{own} of {masters}");
        simulation.object.status = Some(status);
        dies(&mut observed, 0);
        let begins = decide(&simulation.object, &observed, simulation.now).status.failover.is_some();
        assert_eq!(begins, expected, "{own} of {masters}");
    }
}
