//! The election's decisions: no I/O, no clock, no randomness.
//!
//! Safety rests on two rules. A leader acts for `renew_deadline` after it *sent* its last accepted write. A rival takes
//! the lease only `lease_duration` after it *saw* the lease change. A change is seen after it is written, and written
//! after it is sent, and each process measures with its own monotonic clock. So a rival begins only after the leader
//! has stopped, however wrong their wall clocks are. The times inside the lease are for people; none is ever compared
//! with a clock.
//!
//! A candidate waits less after a process of its own pod: that process had ended before the candidate began. Its last
//! requests may still be under way, for which `lease_duration - renew_deadline` is allowed after every leader. Here
//! this time counts from when the candidate began, because on a busy machine seconds pass until it sees the lease.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// The durations of an election. They must satisfy `retry_period` < `renew_deadline` < `lease_duration`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The time that a lease that is not renewed stays with its holder.
    pub lease_duration: Duration,
    /// The time that a leader may act after it sent its last accepted renewal.
    pub renew_deadline: Duration,
    /// The time between two renewals.
    pub retry_period: Duration,
}

impl Timing {
    /// The values of Kubernetes' own controllers: 15, 10 and 2 seconds.
    pub const DEFAULT: Self = Self {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// A lease of this duration, with five renewals within it. Its holder stops two fifths of the duration before a
    /// rival may begin.
    #[must_use]
    pub fn of_duration(lease_duration: Duration) -> Self {
        Self { lease_duration, renew_deadline: lease_duration * 3 / 5, retry_period: lease_duration / 5 }
    }

    /// A standby may soon lead if at most this time is left: the holder let two renewals pass.
    fn near_margin(&self) -> Duration {
        self.lease_duration.saturating_sub(self.retry_period * 2)
    }

    /// The time that a request may still be under way that a leader sent just before it had to stop.
    pub fn margin(&self) -> Duration {
        self.lease_duration.saturating_sub(self.renew_deadline)
    }

    /// `leaseDurationSeconds` for rivals. It is rounded up, because they must not take over earlier.
    fn lease_seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX).max(1)
    }
}

/// `leaseDurationSeconds` of a lease that its holder released.
const RELEASED_SECONDS: u32 = 1;

/// A participant in the election, and its timing.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Unique to this process: two processes with one identity would both believe that they lead. Its form is
    /// `POD_UID_RANDOM`, where the uid is that of the pod, or empty outside a pod.
    pub identity: String,
    /// The durations of the election.
    pub timing: Timing,
}

impl Candidate {
    /// Returns true if that holder was an earlier process of our pod. The kubelet starts a container only after its
    /// predecessor has ended. Also, a process joins the election only once it listens on the pod's port, which only one
    /// process can do at a time.
    fn succeeds(&self, holder: &str) -> bool {
        let ours = pod_uid(&self.identity);
        holder != self.identity && ours.is_some_and(|uid| !uid.is_empty()) && ours == pod_uid(holder)
    }
}

/// Returns the uid of the pod in an identity; `None` if the identity has another form.
fn pod_uid(identity: &str) -> Option<&str> {
    let mut parts = identity.rsplitn(3, '_');
    let (_random, uid, _pod) = (parts.next()?, parts.next()?, parts.next()?);
    Some(uid)
}

/// The memory of a candidate between steps.
#[derive(Clone, Debug)]
pub struct View {
    /// The time at which the candidate joined the election.
    began: Instant,
    record: Option<LeaseSpec>,
    /// The time at which the lease may be taken if it does not change.
    free_at: Instant,
    /// The time at which the last accepted write was sent, while this process leads.
    renewed_at: Option<Instant>,
    /// Writes whose answer has not come, by their renew time. Any of them may have been accepted.
    unanswered: Vec<(MicroTime, Instant)>,
}

/// An event since the last step.
#[derive(Clone, Debug)]
pub enum Observation {
    /// Only time passed, or a request failed.
    Nothing,
    /// The lease was read or watched; `None` if it does not exist.
    Lease(Option<LeaseSpec>),
    /// Our write of `record` was accepted.
    Written {
        /// The record that was written.
        record: LeaseSpec,
        /// The time at which the request was sent (not answered).
        sent: Instant,
    },
}

/// The next step of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Write this record, only on top of the version of the lease that was seen.
    Write(LeaseSpec),
    /// Do nothing for this duration, or until the lease changes.
    Wait(Duration),
    /// Stop leading at once.
    Stop(Lost),
}

/// The reason for which a leader stopped leading.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// Another process holds the lease.
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

    /// The time until which this candidate may act as the leader; `None` while it does not lead.
    pub fn leads_until(&self, timing: &Timing) -> Option<Instant> {
        self.renewed_at.map(|renewed| renewed + timing.renew_deadline)
    }

    /// Reports whether this candidate leads or may soon lead.
    pub fn is_near(&self, timing: &Timing, now: Instant) -> bool {
        self.renewed_at.is_some() || (self.record.is_some() && now + timing.near_margin() >= self.free_at)
    }

    /// The holder of the lease, as far as we know.
    pub fn holder(&self) -> Option<&str> {
        holder(self.record.as_ref())
    }

    /// Records a write that is about to be sent, since its answer may never come.
    pub fn note_sent(&mut self, record: &LeaseSpec, sent: Instant) {
        self.unanswered.extend(record.renew_time.clone().map(|time| (time, sent)));
    }

    /// The time at which our write of this record was sent. If several have the same time, this is the first of them,
    /// which is the safe choice.
    fn sent_at(&self, seen: &LeaseSpec, candidate: &Candidate) -> Option<Instant> {
        let ours = holder(Some(seen)) == Some(&candidate.identity);
        let alike = self.unanswered.iter().filter(|(time, _)| ours && seen.renew_time.as_ref() == Some(time));
        alike.map(|(_, sent)| *sent).min()
    }

    fn see(&mut self, seen: Option<LeaseSpec>, candidate: &Candidate, now: Instant) {
        // If the record is ours, that write was accepted although its answer was lost. A write too old to lead by is
        // ignored.
        let sent = seen.as_ref().and_then(|seen| self.sent_at(seen, candidate));
        if let Some(sent) = sent.filter(|sent| now < *sent + candidate.timing.renew_deadline) {
            self.renewed_at = self.renewed_at.max(Some(sent));
        }
        if self.record == seen {
            return;
        }
        // A deleted lease still belongs to its holder, which will write it again or stop in time.
        let held = seen.as_ref().or(self.record.as_ref());
        // A holder that renews is alive, whatever its name says. So only the first look counts from when we began.
        let since = if self.record.is_none() { self.began } else { now };
        self.free_at = match held {
            Some(record) if is_of_our_pod(record, candidate) => now.max(since + candidate.timing.margin()),
            Some(record) => now + silence_before_taking(record, candidate),
            None => now,
        };
        self.record = seen;
    }
}

/// Takes one step of the election.
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
    // The lease has our name but we do not lead: a write of ours was accepted, and its answer was lost.
    if view.holder() == Some(&candidate.identity) || now >= view.free_at {
        return Action::Write(claim(candidate, view.record.as_ref(), wall));
    }
    // Wake first when the turn becomes near, so that a warm-up can begin; then wait until the lease is free.
    let left = view.free_at - now;
    Action::Wait(left.checked_sub(candidate.timing.near_margin()).filter(|far| !far.is_zero()).unwrap_or(left))
}

/// The record that releases the lease, so that the next leader does not have to wait.
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

/// The holder that a record names; `None` if the name is empty.
pub fn holder(record: Option<&LeaseSpec>) -> Option<&str> {
    record?.holder_identity.as_deref().filter(|name| !name.is_empty())
}

/// The record that makes `candidate` the holder, or keeps it the holder.
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

/// Reports whether an earlier process of the candidate's pod holds the lease.
fn is_of_our_pod(record: &LeaseSpec, candidate: &Candidate) -> bool {
    holder(Some(record)).is_some_and(|holder| candidate.succeeds(holder))
}

/// The time that a record must stay unchanged before another process may take the lease. A holder that released it left
/// a short duration in it. A record without a holder but with another duration was edited by hand, and frees nothing.
fn silence_before_taking(record: &LeaseSpec, candidate: &Candidate) -> Duration {
    let timing = &candidate.timing;
    match record.lease_duration_seconds.and_then(|seconds| u32::try_from(seconds).ok()).filter(|&seconds| seconds > 0) {
        Some(RELEASED_SECONDS) if holder(Some(record)).is_none() => Duration::ZERO,
        Some(seconds) => Duration::from_secs(seconds.into()),
        None => timing.lease_duration,
    }
}

/// The renew time to write, always later than `before`. Rivals recognize a living holder by changes of the record, so
/// the record must change even if the wall clock stands still or steps back.
fn later_than(before: Option<&MicroTime>, wall: Timestamp) -> MicroTime {
    let wall = Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall);
    let next = before.and_then(|before| before.0.checked_add(SignedDuration::from_micros(1)).ok());
    MicroTime(next.map_or(wall, |next| next.max(wall)))
}
