//! Leader election: one of several processes acts, and another takes over when it dies, hangs or is stopped.
//!
//! kube has no leader election, and the crates that have one lack the fence, which stops the calls of a process whose
//! lease has run out before another may lead.
//!
//! The decisions are in `step`, the requests in `lease`; this file joins them.
//! `operator::lead` shows how a program uses it.

mod fence;
mod lease;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod slow;
mod step;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub use self::fence::{Fence, NotLeading};
pub use self::lease::client;
use self::lease::{Failure, LeaseObject};
use self::step::{Action, Candidate, Observation, View};
pub use self::step::{Lost, Timing};

/// The number of attempts that fit into the renew deadline, if the API answers as fast as it should.
const ATTEMPTS: u32 = 4;
/// The time that releasing the lease may take: the process is about to exit.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// The current time of tokio's clock, which tests can pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A name that no other process has, not even an earlier one of the same pod. The pod's uid in it shows that both are
/// of one pod.
pub fn unique_identity(pod: &str, uid: Option<&str>) -> String {
    format!("{pod}_{}_{:016x}", uid.unwrap_or_default(), RandomState::new().build_hasher().finish())
}

/// A candidate for the lease `namespace/name`.
pub struct Election {
    candidate: Candidate,
    view: View,
    lease: LeaseObject,
    fence: Fence,
    /// True while this process leads or may soon lead.
    near: watch::Sender<bool>,
    complaint: Complaint,
    /// The time to wait for an answer: longer while answers are slow.
    answer_timeout: Duration,
}

/// This process holds the lease, for as long as [`Leadership::hold`] is polled and does not return.
pub struct Leadership(Election);

impl Election {
    /// A candidate named `identity` (see [`unique_identity`]) that talks through `client` (see [`client`]).
    pub fn new(client: Client, namespace: &str, name: &str, identity: String, timing: Timing) -> Self {
        Self {
            candidate: Candidate { identity, timing },
            view: View::new(now()),
            lease: LeaseObject::new(client, namespace, name),
            fence: Fence::closed_until_lease(),
            near: watch::Sender::new(false),
            complaint: Complaint::default(),
            answer_timeout: timing.renew_deadline / ATTEMPTS,
        }
    }

    /// The permission to change the outside world. The fence opens when this process leads.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Reports whether this process leads or may soon lead: the leader let two renewals pass.
    pub fn watch_near(&self) -> watch::Receiver<bool> {
        self.near.subscribe()
    }

    /// Waits until this process leads. Failures are logged and tried again.
    pub async fn acquire(mut self) -> Leadership {
        tracing::info!(lease = self.lease.name(), identity = self.candidate.identity, "waiting for the leader lease");
        let mut observation = Observation::Nothing;
        while matches!(observation, Observation::Nothing) {
            observation = self.read().await;
        }
        loop {
            let action = self.step(observation);
            if self.fence.check().is_ok() {
                tracing::info!(lease = self.lease.name(), identity = self.candidate.identity, "leading");
                return Leadership(self);
            }
            observation = match action {
                Action::Write(record) => self.write(record).await,
                Action::Wait(limit) => self.watch(limit).await,
                // The answer to our write came after the renew deadline, so it gave no time to lead.
                Action::Stop(_) => self.read().await,
            };
        }
    }

    fn step(&mut self, observation: Observation) -> Action {
        let before = self.view.holder().map(str::to_owned);
        let (action, view) = step::step(&self.candidate, self.view.clone(), observation, now(), Timestamp::now());
        self.fence.open_until(view.leads_until(&self.candidate.timing));
        self.view = view;
        let is_near = self.view.is_near(&self.candidate.timing, now());
        self.near.send_if_modified(|near| std::mem::replace(near, is_near) != is_near);
        if self.view.holder() != before.as_deref() {
            let holder = self.view.holder().unwrap_or("no process");
            tracing::info!(lease = self.lease.name(), holder, "the leader lease changed hands");
        }
        action
    }

    async fn read(&mut self) -> Observation {
        let begun = now();
        let outcome = self.lease.read(self.call_limit()).await;
        self.learn(begun, outcome.as_ref().err());
        match outcome {
            Ok(record) => Observation::Lease(record),
            Err(failure) => self.complain_and_pause("read", &failure).await,
        }
    }

    async fn write(&mut self, record: LeaseSpec) -> Observation {
        let sent = now();
        self.view.note_sent(&record, sent);
        let outcome = self.lease.write(record, self.call_limit()).await;
        self.learn(sent, outcome.as_ref().err());
        match outcome {
            // The record as the server returned it: it may differ in fields that we do not know.
            Ok(()) => Observation::Written { record: self.lease.record().cloned().unwrap_or_default(), sent },
            Err(Failure::Stale) => self.read().await,
            // The write may have been accepted all the same. If so, the next write is stale, and a read then shows it.
            Err(failure) => self.complain_and_pause("write", &failure).await,
        }
    }

    /// Adapts the time limit of a request to how long answers take. With a fixed limit, the leader would lose the lease
    /// whenever the API is slow for a while, and all its work would be cut off.
    fn learn(&mut self, begun: Instant, failure: Option<&Failure>) {
        let Timing { renew_deadline, .. } = self.candidate.timing;
        let took = if matches!(failure, Some(Failure::Silent(_))) { self.answer_timeout } else { now() - begun };
        self.answer_timeout = (took * 2).clamp(renew_deadline / ATTEMPTS, renew_deadline);
    }

    async fn watch(&mut self, limit: Duration) -> Observation {
        match timeout(limit, self.lease.next_change()).await {
            Ok(Ok(record)) => Observation::Lease(record),
            Ok(Err(failure)) => {
                self.complain_and_pause("watch", &failure).await;
                self.read().await
            }
            Err(_) => Observation::Nothing,
        }
    }

    fn call_limit(&self) -> Duration {
        self.answer_timeout.min(self.time_left())
    }

    /// The time until the fence closes; without limit if this process does not lead.
    fn time_left(&self) -> Duration {
        let end = self.view.leads_until(&self.candidate.timing);
        end.map_or(Duration::MAX, |end| end.saturating_duration_since(now()))
    }

    async fn complain_and_pause(&mut self, verb: &str, failure: &Failure) -> Observation {
        self.complaint.say(format!("cannot {verb} the leader lease {}: {failure}", self.lease.name()));
        let retry = self.candidate.timing.retry_period;
        let leads = self.view.leads_until(&self.candidate.timing).is_some();
        sleep(if leads { (retry / 4).min(self.time_left()) } else { retry }).await;
        Observation::Nothing
    }
}

impl Leadership {
    /// The permission to change the outside world.
    pub fn fence(&self) -> Fence {
        self.0.fence.clone()
    }

    /// Renews the lease; returns only when it is lost. All work under it must then end at once. The future may be
    /// dropped and this called again, but not after a long pause, since nothing renews the lease meanwhile.
    pub async fn hold(&mut self) -> Lost {
        let election = &mut self.0;
        let mut observation = Observation::Nothing;
        loop {
            observation = match election.step(observation) {
                Action::Write(record) => election.write(record).await,
                Action::Wait(limit) => {
                    sleep(limit).await;
                    Observation::Nothing
                }
                Action::Stop(lost) => return lost,
            };
        }
    }

    /// Becomes a candidate again after the lease was lost and all work under it has ended. The old fence stays closed.
    #[must_use]
    pub fn stand_by(self) -> Election {
        let mut election = self.0;
        election.fence.open_until(None);
        election.fence = Fence::closed_until_lease();
        election.near.send_replace(false);
        election
    }

    /// Closes the fence at once, and releases the lease after the time that requests may still be under way. Call it if
    /// calls were cut off: it is not known which of them still reach their servers.
    pub async fn release_later(self) {
        self.0.fence.open_until(None);
        sleep(self.0.candidate.timing.margin()).await;
        self.release().await;
    }

    /// Releases the lease, so that another process takes over at once and not only after the lease's duration. Call it
    /// after everything that asks the fence has stopped. If the API does not answer in time, the lease is left to
    /// expire.
    pub async fn release(self) {
        let mut election = self.0;
        election.fence.open_until(None);
        let limit = election.candidate.timing.renew_deadline.min(RELEASE_TIMEOUT);
        if timeout(limit, election.give_up()).await.is_ok() {
            tracing::info!(lease = election.lease.name(), "released the leader lease");
        } else {
            let lease = election.lease.name();
            tracing::warn!(lease, ?limit, "could not release the leader lease in time; it will expire");
        }
    }
}

impl Election {
    /// Clears our name from the lease, unless the lease has another holder or was deleted.
    async fn give_up(&mut self) {
        while let Some(record) =
            self.lease.record().filter(|it| step::holder(Some(it)) == Some(&self.candidate.identity))
        {
            let released = step::release(record, Timestamp::now());
            let limit = self.call_limit();
            match self.lease.write(released, limit).await {
                Ok(()) => return,
                // A renewal whose answer never came may have been accepted: read the lease, then write on top of that.
                Err(failure) => {
                    if !matches!(failure, Failure::Stale) {
                        self.complaint.say(format!("cannot release the leader lease: {failure}"));
                        sleep(self.candidate.timing.retry_period / 10).await;
                    }
                    if let Err(failure) = self.lease.read(limit).await {
                        self.complaint.say(format!("cannot read the leader lease: {failure}"));
                    }
                }
            }
        }
    }
}

/// Logs the same message at most once a minute, because a failing election retries every other second.
#[derive(Default)]
struct Complaint(Option<(String, Instant)>);

impl Complaint {
    const COMPLAINT_INTERVAL: Duration = Duration::from_mins(1);

    fn say(&mut self, text: String) {
        let is_repeated =
            self.0.as_ref().is_some_and(|(last, at)| *last == text && at.elapsed() < Self::COMPLAINT_INTERVAL);
        if !is_repeated {
            tracing::warn!("{text}");
            self.0 = Some((text, Instant::now()));
        }
    }
}
