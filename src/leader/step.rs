//! The election's decisions: no I/O, no clock, no randomness.
//!
//! Safety rests on two rules. A leader acts for `renew_deadline` after it *sent* its last accepted write; a rival
//! takes the lease only `lease_duration` after it *saw* the lease change. Seeing follows writing follows sending, and
//! each process measures with its own monotonic clock, so a rival's turn starts after the leader's has ended, however
//! wrong their wall clocks are. The times inside the lease are for people; none is ever compared with a clock.
//!
//! A candidate waits less after a process of its own pod: that one had ended before the candidate began. What it had sent
//! may still be under way, for which `lease_duration - renew_deadline` is allowed after every leader; here from when the
//! candidate began, for on a busy machine seconds pass until it sees the lease.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The durations of an election. They must grow in the order `retry_period`, `renew_deadline`, `lease_duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a silent lease stays with its holder.
    pub lease_duration: Duration,
    /// How long a leader may act after it sent its last accepted renewal.
    pub renew_deadline: Duration,
    /// The time between two renewals.
    pub retry_period: Duration,
}

impl Timing {
    /// What Kubernetes' own controllers use: 15, 10 and 2 seconds.
    pub const DEFAULT: Self = Self {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// A lease of this duration, renewed five times within it: its holder stops two fifths of it before a rival may begin.
    #[must_use]
    pub fn lasting(lease_duration: Duration) -> Self {
        Self { lease_duration, renew_deadline: lease_duration * 3 / 5, retry_period: lease_duration / 5 }
    }

    /// A standby's turn may be near when it has no longer to wait than this: the holder let two renewals pass.
    fn near(&self) -> Duration {
        self.lease_duration.saturating_sub(self.retry_period * 2)
    }

    /// How long what a leader sent just before it had to stop may be under way.
    pub fn margin(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }

    /// `leaseDurationSeconds` as the lease tells rivals; rounded up, for they must not come earlier.
    fn lease_seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX).max(1)
    }
}

/// `leaseDurationSeconds` of a lease that its holder gave up.
const RELEASED_SECONDS: u32 = 1;

/// Who takes part, and how fast.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Unique to this process: two processes of one identity would both believe to lead. It has the form
    /// `POD_UID_RANDOM`, the uid being that of the pod, or empty where there is none.
    pub identity: String,
    /// How fast.
    pub timing: Timing,
}

impl Candidate {
    /// Whether that holder was an earlier process of our pod. The kubelet starts a container only after its predecessor has
    /// ended, and a process takes part only once it listens on the pod's port, which no two can do.
    fn succeeds(&self, holder: &str) -> bool {
        let ours = pod_uid(&self.identity);
        holder != self.identity && ours.is_some_and(|uid| !uid.is_empty()) && ours == pod_uid(holder)
    }
}

/// The uid of the pod in an identity; nothing of one that an earlier version made, for which one lease guarded everything.
fn pod_uid(identity: &str) -> Option<&str> {
    let mut parts = identity.rsplitn(3, '_');
    let (_random, uid, _pod) = (parts.next()?, parts.next()?, parts.next()?);
    Some(uid)
}

/// What a candidate remembers between steps.
#[derive(Clone, Debug)]
pub struct View {
    /// When the candidate began to take part.
    began: Instant,
    record: Option<LeaseSpec>,
    /// When the lease may be taken if it stays as it is.
    free_at: Instant,
    /// While we lead: when our last accepted write was sent.
    renewed_at: Option<Instant>,
    /// Writes whose answer did not come, by the time that they carry: any of them may have been accepted.
    unanswered: Vec<(MicroTime, Instant)>,
}

/// What happened since the last step.
#[derive(Clone, Debug)]
pub enum Observation {
    /// Only time passed, or a request came to nothing.
    Nothing,
    /// The lease was read or watched; `None` if it does not exist.
    Lease(Option<LeaseSpec>),
    /// Our write of `record` was accepted.
    Written {
        /// What was written.
        record: LeaseSpec,
        /// When the request was sent (not answered).
        sent: Instant,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write this record on top of exactly the lease that was seen.
    Write(LeaseSpec),
    /// Nothing, for so long or until the lease changes.
    Wait(Duration),
    /// Stop leading at once.
    Stop(Lost),
}

/// Why a leader leads no more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Somebody else holds the lease.
    #[error("the lease was taken by {0}")]
    Taken(String),
    /// No renewal was accepted in time.
    #[error("the lease could not be renewed in time")]
    Late,
}

impl View {
    /// A candidate that knows nothing yet.
    pub fn new(now: Instant) -> Self {
        Self { began: now, record: None, free_at: now, renewed_at: None, unanswered: Vec::new() }
    }

    /// Until when this candidate may act as the leader; `None` while it does not lead.
    pub fn leads_until(&self, timing: &Timing) -> Option<Instant> {
        self.renewed_at.map(|renewed| renewed + timing.renew_deadline)
    }

    /// Whether our turn is here or may be near.
    pub fn is_near(&self, timing: &Timing, now: Instant) -> bool {
        self.renewed_at.is_some() || (self.record.is_some() && now + timing.near() >= self.free_at)
    }

    /// Who holds the lease, as far as we know.
    pub fn holder(&self) -> Option<&str> {
        holder(self.record.as_ref())
    }

    /// Whether the holder knows that other leases guard what this one does not.
    pub fn is_shared(&self) -> bool {
        self.holder().is_some_and(|holder| pod_uid(holder).is_some())
    }

    /// The holder, where it is of an earlier version and may still lead.
    pub fn predecessor(&self, now: Instant) -> Option<&str> {
        self.holder().filter(|holder| pod_uid(holder).is_none() && now < self.free_at)
    }

    /// A write goes out, and its answer may never come.
    pub fn note_sent(&mut self, record: &LeaseSpec, sent: Instant) {
        self.unanswered.extend(record.renew_time.clone().map(|time| (time, sent)));
    }

    /// When the write was sent whose record this is; of several with one time the first, which is never too late.
    fn sent_at(&self, seen: &LeaseSpec, candidate: &Candidate) -> Option<Instant> {
        let ours = holder(Some(seen)) == Some(&candidate.identity);
        let alike = self.unanswered.iter().filter(|(time, _)| ours && seen.renew_time.as_ref() == Some(time));
        alike.map(|(_, sent)| *sent).min()
    }

    fn see(&mut self, seen: Option<LeaseSpec>, candidate: &Candidate, now: Instant) {
        // A write of ours whose answer was lost was accepted. One too old to lead by says nothing.
        let sent = seen.as_ref().and_then(|seen| self.sent_at(seen, candidate));
        if let Some(sent) = sent.filter(|sent| now < *sent + candidate.timing.renew_deadline) {
            self.renewed_at = self.renewed_at.max(Some(sent));
        }
        if self.record == seen {
            return;
        }
        // A lease deleted under its holder is still the holder's: it will write it again or find out in time.
        let held = seen.as_ref().or(self.record.as_ref());
        // One that renews is alive, whatever its name says: only the first look goes by when we began.
        let since = if self.record.is_none() { self.began } else { now };
        self.free_at = match held {
            Some(record) if is_of_our_pod(record, candidate) => now.max(since + candidate.timing.margin()),
            Some(record) => now + silence_before_taking(record, candidate),
            None => now,
        };
        self.record = seen;
    }
}

/// One step of the election.
pub fn step(
    candidate: &Candidate,
    mut view: View,
    observation: Observation,
    now: Instant,
    wall: Timestamp,
) -> (Action, View) {
    match observation {
        Observation::Nothing => {}
        Observation::Lease(seen) => view.see(seen, candidate, now),
        Observation::Written { record, sent } => {
            view.record = Some(record);
            view.renewed_at = Some(sent);
            view.unanswered.clear();
        }
    }
    let action = match view.renewed_at {
        Some(renewed_at) => lead(candidate, &view, renewed_at, now, wall),
        None => stand_by(candidate, &view, now, wall),
    };
    if let Action::Stop(_) = action {
        view.renewed_at = None;
    }
    view.unanswered.retain(|(_, sent)| now < *sent + candidate.timing.renew_deadline);
    (action, view)
}

fn lead(candidate: &Candidate, view: &View, renewed_at: Instant, now: Instant, wall: Timestamp) -> Action {
    let timing = &candidate.timing;
    match view.holder() {
        Some(other) if other != candidate.identity => {
            return Action::Stop(Lost::Taken(other.to_owned()));
        }
        _ if now >= renewed_at + timing.renew_deadline => return Action::Stop(Lost::Late),
        Some(_) if now < renewed_at + timing.retry_period => {
            return Action::Wait(renewed_at + timing.retry_period - now);
        }
        _ => {}
    }
    Action::Write(claim(candidate, view.record.as_ref(), wall))
}

fn stand_by(candidate: &Candidate, view: &View, now: Instant, wall: Timestamp) -> Action {
    // Our own name without leading: a write of ours was accepted, but its answer was lost.
    if view.holder() == Some(&candidate.identity) || now >= view.free_at {
        return Action::Write(claim(candidate, view.record.as_ref(), wall));
    }
    // A look on the way, when our turn comes near.
    let left = view.free_at - now;
    Action::Wait(left.checked_sub(candidate.timing.near()).filter(|far| !far.is_zero()).unwrap_or(left))
}

/// The record with which a holder gives the lease up, so that the next one need not wait.
pub fn release(record: &LeaseSpec, wall: Timestamp) -> LeaseSpec {
    let now = Some(later_than(record.renew_time.as_ref(), wall));
    LeaseSpec {
        holder_identity: None,
        lease_duration_seconds: Some(RELEASED_SECONDS.cast_signed()),
        acquire_time: now.clone(),
        renew_time: now,
        ..record.clone()
    }
}

/// The holder a record names; an empty name is none.
pub fn holder(record: Option<&LeaseSpec>) -> Option<&str> {
    record?.holder_identity.as_deref().filter(|name| !name.is_empty())
}

/// The record that makes `candidate` the holder, or keeps it so.
fn claim(candidate: &Candidate, record: Option<&LeaseSpec>, wall: Timestamp) -> LeaseSpec {
    let before = record.cloned().unwrap_or_default();
    let now = later_than(before.renew_time.as_ref(), wall);
    let ours = holder(record) == Some(&candidate.identity);
    let transitions = before.lease_transitions.unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(candidate.identity.clone()),
        lease_duration_seconds: Some(candidate.timing.lease_seconds()),
        acquire_time: before.acquire_time.filter(|_| ours).or_else(|| Some(now.clone())),
        renew_time: Some(now),
        lease_transitions: Some(if ours || record.is_none() { transitions } else { transitions.saturating_add(1) }),
        ..before
    }
}

/// Whether an earlier process of the candidate's pod holds the lease.
fn is_of_our_pod(record: &LeaseSpec, candidate: &Candidate) -> bool {
    holder(Some(record)).is_some_and(|holder| candidate.succeeds(holder))
}

/// How long a record must stay unchanged before another may take the lease. A holder that let go leaves a short
/// duration behind; a holder's name that merely vanished (somebody edited the lease) frees nothing.
fn silence_before_taking(record: &LeaseSpec, candidate: &Candidate) -> Duration {
    let timing = &candidate.timing;
    match record.lease_duration_seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|&seconds| seconds > 0) {
        Some(RELEASED_SECONDS) if holder(Some(record)).is_none() => Duration::ZERO,
        Some(seconds) => Duration::from_secs(seconds.into()),
        None => timing.lease_duration,
    }
}

/// The time to write after `before`. Always a later one: rivals see a living holder by the record's change, so even a
/// wall clock that stands still or steps back must change it.
fn later_than(before: Option<&MicroTime>, wall: Timestamp) -> MicroTime {
    let wall = Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall);
    let next = before.and_then(|before| before.0.checked_add(SignedDuration::from_micros(1)).ok());
    MicroTime(next.map_or(wall, |next| next.max(wall)))
}
