//! Simulates candidates for one lease, with lost replies, stalls, crashes, edits by hand and wrong clocks.

mod leading;
mod properties;
mod succession;

use std::time::{Duration, Instant};

use super::step::{Action, Candidate, Observation, Timing, View, step};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::LeaseSpec;

const TIMING: Timing = Timing::DEFAULT;

/// The timing of the lease for databases by default.
fn short() -> Timing {
    Timing::of_duration(Duration::from_secs(5))
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// The lease in the cluster: its record, and how often it was written (its resourceVersion).
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
    /// True if the server accepted it; `None` until it arrives.
    accepted: Option<bool>,
}

struct Process {
    candidate: Candidate,
    view: View,
    /// The error of this machine's wall clock.
    clock_error: SignedDuration,
    seen_version: u64,
    request: Option<Request>,
    decision: Action,
}

impl Process {
    fn new(identity: &str, timing: Timing, clock_error: i64, now: Instant) -> Self {
        Self {
            candidate: Candidate { identity: identity.to_owned(), timing },
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

    /// Sends the write that was decided, if any.
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

    /// The reply reaches the process, or the request times out.
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

    /// Reads the lease, writes it and receives the reply, all within this instant.
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

    /// Reports whether the fence is open.
    fn leads(&self, now: Instant) -> bool {
        self.view.leads_until(&self.candidate.timing).is_some_and(|end| now < end)
    }
}

/// A leader that renews and a rival that reads as often, in a world that advances in steps of 100 ms.
struct Pair {
    now: Instant,
    wall: Timestamp,
    cluster: Cluster,
    leader: Process,
    rival: Process,
}

impl Pair {
    fn new(leader_clock_error: i64, rival_clock_error: i64) -> Self {
        Self::with_timing(TIMING, ["leader", "rival"], [leader_clock_error, rival_clock_error])
    }

    fn with_timing(timing: Timing, identities: [&str; 2], clock_errors: [i64; 2]) -> Self {
        let now = Instant::now();
        let wall = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000);
        let mut cluster = Cluster::default();
        let mut leader = Process::new(identities[0], timing, clock_errors[0], now);
        leader.turn(&mut cluster, now, wall);
        assert!(leader.leads(now), "the first one to come leads at once");
        let mut rival = Process::new(identities[1], timing, clock_errors[1], now);
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
