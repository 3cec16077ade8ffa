//! Candidates in a world with one lease, lost replies, stalls, crashes, meddlers and wrong clocks.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use proptest::prelude::*;

use super::step::{Action, Candidate, Lost, Observation, Timing, View, holder, release, step};

const TIMING: Timing = Timing::DEFAULT;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// The lease in the cluster: what it says, and how often it was written (its resourceVersion).
#[derive(Clone, Default)]
struct Cluster {
    record: Option<LeaseSpec>,
    version: u64,
}

impl Cluster {
    fn write(&mut self, record: LeaseSpec, on_top_of: u64) -> bool {
        let fits = on_top_of == self.version;
        if fits {
            self.put(Some(record));
        }
        fits
    }

    fn put(&mut self, record: Option<LeaseSpec>) {
        self.record = record;
        self.version += 1;
    }
}

struct Request {
    record: LeaseSpec,
    on_top_of: u64,
    sent: Instant,
    /// Whether it was accepted; `None` while it is under way.
    accepted: Option<bool>,
}

struct Process {
    candidate: Candidate,
    view: View,
    /// How far this machine's wall clock is off.
    clock_error: SignedDuration,
    seen_version: u64,
    request: Option<Request>,
    decision: Action,
}

impl Process {
    fn new(identity: &str, clock_error: i64, now: Instant) -> Self {
        Self {
            candidate: Candidate { identity: identity.to_owned(), timing: TIMING },
            view: View::new(now),
            clock_error: SignedDuration::from_secs(clock_error),
            seen_version: 0,
            request: None,
            decision: Action::Wait(Duration::ZERO),
        }
    }

    fn step(&mut self, observation: Observation, now: Instant, wall: Timestamp) {
        let wall = wall + self.clock_error;
        (self.decision, self.view) = step(&self.candidate, self.view.clone(), observation, now, wall);
    }

    fn look(&mut self, cluster: &Cluster, now: Instant, wall: Timestamp) {
        self.seen_version = cluster.version;
        self.step(Observation::Lease(cluster.record.clone()), now, wall);
    }

    /// Sends the write that was decided, if one was.
    fn send(&mut self, now: Instant) {
        if let (Action::Write(record), None) = (&self.decision, &self.request) {
            let record = record.clone();
            self.view.note_sent(&record, now);
            self.request = Some(Request { record, on_top_of: self.seen_version, sent: now, accepted: None });
        }
    }

    /// The request reaches the server.
    fn arrive(&mut self, cluster: &mut Cluster) {
        if let Some(request) = self.request.as_mut().filter(|request| request.accepted.is_none()) {
            request.accepted = Some(cluster.write(request.record.clone(), request.on_top_of));
        }
    }

    /// The reply reaches the process, or its time is up.
    fn receive(&mut self, delivered: bool, now: Instant, wall: Timestamp) {
        let Some(Request { record, on_top_of, sent, accepted }) = self.request.take() else {
            return;
        };
        if delivered && accepted == Some(true) {
            self.seen_version = on_top_of + 1;
            self.step(Observation::Written { record, sent }, now, wall);
        } else {
            self.step(Observation::Nothing, now, wall);
        }
    }

    /// Looks, writes and hears of it within this instant.
    fn turn(&mut self, cluster: &mut Cluster, now: Instant, wall: Timestamp) {
        if self.leads(now) {
            self.step(Observation::Nothing, now, wall);
        } else {
            self.look(cluster, now, wall);
        }
        self.send(now);
        self.arrive(cluster);
        self.receive(true, now, wall);
    }

    /// What the fence says.
    fn leads(&self, now: Instant) -> bool {
        self.view.leads_until(&self.candidate.timing).is_some_and(|end| now < end)
    }
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Look(usize),
    Wake(usize),
    Send(usize),
    Arrive(usize),
    Receive(usize, bool),
    Turn(usize),
    Crash(usize),
    /// Somebody edits the lease by hand: clears the holder, or names another.
    Meddle(bool),
}

const PROCESSES: usize = 3;

fn event() -> impl Strategy<Value = Event> {
    let who = 0..PROCESSES;
    prop_oneof![
        4 => (0..4_000_u64).prop_map(Event::Pass),
        1 => (4_000..30_000_u64).prop_map(Event::Pass),
        3 => who.clone().prop_map(Event::Look),
        2 => who.clone().prop_map(Event::Wake),
        4 => who.clone().prop_map(Event::Send),
        4 => who.clone().prop_map(Event::Arrive),
        4 => (who.clone(), prop::bool::weighted(0.8)).prop_map(|(who, delivered)| Event::Receive(who, delivered)),
        4 => who.clone().prop_map(Event::Turn),
        1 => who.prop_map(Event::Crash),
        1 => any::<bool>().prop_map(Event::Meddle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, two fences are never open at the same time.
    #[test]
    fn two_never_lead(
        events in prop::collection::vec(event(), 1..150),
        clock_errors in prop::array::uniform3(-100_000..100_000_i64),
    ) {
        let mut now = Instant::now();
        let mut wall = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let mut cluster = Cluster::default();
        let mut born = 0;
        let mut processes: Vec<Process> = clock_errors
            .iter()
            .map(|error| {
                born += 1;
                Process::new(&format!("process-{born}"), *error, now)
            })
            .collect();
        for event in events {
            match event {
                Event::Pass(millis) => {
                    now += Duration::from_millis(millis);
                    wall += SignedDuration::from_millis(i64::try_from(millis).unwrap());
                }
                Event::Look(who) => processes[who].look(&cluster, now, wall),
                Event::Wake(who) => processes[who].step(Observation::Nothing, now, wall),
                Event::Send(who) => processes[who].send(now),
                Event::Arrive(who) => processes[who].arrive(&mut cluster),
                Event::Receive(who, delivered) => processes[who].receive(delivered, now, wall),
                Event::Turn(who) => processes[who].turn(&mut cluster, now, wall),
                Event::Crash(who) => {
                    born += 1;
                    let clock_error = clock_errors[who];
                    processes[who] = Process::new(&format!("process-{born}"), clock_error, now);
                }
                Event::Meddle(clear) => {
                    if let Some(mut record) = cluster.record.clone() {
                        record.holder_identity = if clear { None } else { Some("somebody".to_owned()) };
                        cluster.put(Some(record));
                    }
                }
            }
            let leaders: Vec<_> = processes.iter().filter(|process| process.leads(now)).collect();
            prop_assert!(
                leaders.len() <= 1,
                "{:?} lead",
                leaders.iter().map(|leader| &leader.candidate.identity).collect::<Vec<_>>()
            );
        }
    }
}

/// A leader that renews and a rival that looks as often, in a world that advances in steps of 100 ms.
struct Pair {
    now: Instant,
    wall: Timestamp,
    cluster: Cluster,
    leader: Process,
    rival: Process,
}

impl Pair {
    fn new(leader_clock_error: i64, rival_clock_error: i64) -> Self {
        let now = Instant::now();
        let wall = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let mut cluster = Cluster::default();
        let mut leader = Process::new("leader", leader_clock_error, now);
        leader.turn(&mut cluster, now, wall);
        assert!(leader.leads(now), "the first one to come leads at once");
        let mut rival = Process::new("rival", rival_clock_error, now);
        rival.turn(&mut cluster, now, wall);
        Self { now, wall, cluster, leader, rival }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.wall += SignedDuration::try_from(time).unwrap();
    }

    fn run(&mut self, time: Duration, leader_lives: bool) {
        let end = self.now + time;
        while self.now < end && !self.rival.leads(self.now) {
            self.pass(seconds(0.1));
            if leader_lives {
                self.leader.turn(&mut self.cluster, self.now, self.wall);
            }
            self.rival.turn(&mut self.cluster, self.now, self.wall);
            assert!(!(self.leader.leads(self.now) && self.rival.leads(self.now)));
        }
    }
}

#[test]
fn a_living_leader_stays_however_wrong_the_clocks_are() {
    for (ours, theirs) in [(0, 0), (-86_400, 86_400), (86_400, -86_400)] {
        let mut pair = Pair::new(ours, theirs);
        pair.run(seconds(300.0), true);
        assert!(pair.leader.leads(pair.now));
        let record = pair.cluster.record.unwrap();
        assert_eq!(holder(Some(&record)), Some("leader"));
        assert_eq!(record.lease_transitions, Some(0));
        assert_eq!(record.lease_duration_seconds, Some(15));
        assert!(record.renew_time > record.acquire_time);
        assert!(pair.cluster.version <= 155, "one write every two seconds, not {} in 300", pair.cluster.version);
    }
}

#[test]
fn a_dead_leader_is_replaced_after_the_lease_duration() {
    for phase in 0..20 {
        let mut pair = Pair::new(3_600, -3_600);
        pair.run(seconds(60.0) + seconds(0.1) * phase, true);
        let died = pair.now;
        pair.run(seconds(60.0), false);
        let gap = pair.now - died;
        assert!(pair.rival.leads(pair.now));
        assert!(gap >= seconds(13.0) && gap <= seconds(15.2), "{gap:?}");
        assert_eq!(pair.cluster.record.unwrap().lease_transitions, Some(1));
    }
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut pair = Pair::new(0, 0);
    pair.run(seconds(30.0), true);
    let released = release(pair.cluster.record.as_ref().unwrap(), pair.wall);
    assert_eq!(holder(Some(&released)), None);
    pair.cluster.put(Some(released));
    pair.leader.view = View::new(pair.now);
    pair.rival.turn(&mut pair.cluster, pair.now, pair.wall);
    assert!(pair.rival.leads(pair.now));
    assert_eq!(pair.cluster.record.unwrap().lease_transitions, Some(1));
}

#[test]
fn a_cleared_holder_or_a_deleted_lease_frees_nothing_while_the_leader_may_act() {
    for deleted in [false, true] {
        let mut pair = Pair::new(0, 0);
        pair.run(seconds(30.0), true);
        let cleared = LeaseSpec { holder_identity: Some(String::new()), ..pair.cluster.record.clone().unwrap() };
        pair.cluster.put(Some(cleared).filter(|_| !deleted));
        pair.run(seconds(60.0), false);
        assert!(pair.rival.leads(pair.now));
    }
}

#[test]
fn a_leader_writes_a_deleted_lease_again() {
    let mut pair = Pair::new(0, 0);
    pair.cluster.put(None);
    pair.rival.turn(&mut pair.cluster, pair.now, pair.wall);
    pair.pass(seconds(1.0));
    pair.leader.look(&pair.cluster, pair.now, pair.wall);
    pair.leader.send(pair.now);
    pair.leader.arrive(&mut pair.cluster);
    pair.leader.receive(true, pair.now, pair.wall);
    pair.run(seconds(60.0), true);
    assert!(pair.leader.leads(pair.now));
}

#[test]
fn a_leader_that_cannot_renew_stops_before_the_rival_starts() {
    let mut pair = Pair::new(0, 0);
    pair.pass(seconds(9.9));
    pair.leader.step(Observation::Nothing, pair.now, pair.wall);
    assert!(matches!(pair.leader.decision, Action::Write(_)), "it tries until the end");
    assert!(pair.leader.leads(pair.now));
    pair.pass(seconds(0.1));
    assert!(!pair.leader.leads(pair.now), "the fence closes by itself");
    pair.leader.step(Observation::Nothing, pair.now, pair.wall);
    assert_eq!(pair.leader.decision, Action::Stop(Lost::Late));
}

#[test]
fn a_leader_that_finds_another_holder_stops() {
    let mut pair = Pair::new(0, 0);
    let other = LeaseSpec { holder_identity: Some("other".to_owned()), ..LeaseSpec::default() };
    pair.cluster.put(Some(other));
    pair.leader.look(&pair.cluster, pair.now, pair.wall);
    assert_eq!(pair.leader.decision, Action::Stop(Lost::Taken("other".to_owned())));
    assert!(!pair.leader.leads(pair.now));
}

#[test]
fn a_write_whose_answer_was_lost_is_found_again() {
    let mut pair = Pair::new(0, 0);
    let (now, wall) = (pair.now, pair.wall);
    let mut cluster = Cluster::default();
    let process = &mut pair.rival;
    process.view = View::new(now);
    process.look(&cluster, now, wall);
    process.send(now);
    process.arrive(&mut cluster);
    process.receive(false, now, wall);
    assert!(!process.leads(now));
    process.turn(&mut cluster, now, wall);
    assert!(process.leads(now));
    assert_eq!(cluster.record.unwrap().lease_transitions, Some(0));
}

#[test]
fn a_leader_that_never_gets_an_answer_in_time_but_is_heard_stays() {
    let mut pair = Pair::new(0, 0);
    for _ in 0..100 {
        pair.pass(seconds(2.5));
        let (now, wall) = (pair.now, pair.wall);
        pair.leader.step(Observation::Nothing, now, wall);
        pair.leader.send(now);
        pair.pass(seconds(1.0));
        pair.leader.arrive(&mut pair.cluster);
        let (now, wall) = (pair.now, pair.wall);
        pair.leader.receive(false, now, wall);
        // Its next attempt rests on a version that is gone, so it reads.
        pair.leader.look(&pair.cluster, now, wall);
        pair.rival.turn(&mut pair.cluster, now, wall);
        assert!(pair.leader.leads(now) && !pair.rival.leads(now));
    }
}

#[test]
fn a_write_that_was_accepted_long_ago_gives_no_time_to_lead() {
    let mut pair = Pair::new(0, 0);
    pair.pass(seconds(2.0));
    let (now, wall) = (pair.now, pair.wall);
    pair.leader.step(Observation::Nothing, now, wall);
    pair.leader.send(now);
    pair.leader.arrive(&mut pair.cluster);
    pair.pass(seconds(10.0));
    let (now, wall) = (pair.now, pair.wall);
    pair.leader.receive(false, now, wall);
    assert_eq!(pair.leader.decision, Action::Stop(Lost::Late));
    pair.leader.look(&pair.cluster, now, wall);
    assert!(!pair.leader.leads(now));
    assert!(matches!(pair.leader.decision, Action::Write(_)), "it claims the lease anew, and does not stop once more");
}

#[test]
fn a_clock_that_stands_still_changes_the_record_all_the_same() {
    let mut pair = Pair::new(0, 0);
    for _ in 0..100 {
        let before = pair.cluster.record.clone().unwrap().renew_time;
        pair.now += seconds(2.0);
        pair.leader.turn(&mut pair.cluster, pair.now, pair.wall);
        pair.wall -= SignedDuration::from_secs(1);
        assert!(pair.cluster.record.clone().unwrap().renew_time > before);
    }
}

#[test]
fn nonsense_in_the_lease_is_survived() {
    let nonsense = [
        LeaseSpec::default(),
        LeaseSpec { lease_duration_seconds: Some(-5), holder_identity: Some("x".to_owned()), ..LeaseSpec::default() },
        LeaseSpec { lease_transitions: Some(i32::MAX), ..LeaseSpec::default() },
        LeaseSpec {
            renew_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(Timestamp::MAX)),
            ..LeaseSpec::default()
        },
    ];
    for record in nonsense {
        let mut pair = Pair::new(0, 0);
        pair.cluster.put(Some(record));
        pair.run(seconds(60.0), false);
        assert!(pair.rival.leads(pair.now));
    }
}
