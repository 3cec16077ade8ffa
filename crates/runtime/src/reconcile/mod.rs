//! One reconcile: observe, decide and apply until nothing is left to do; then write the status and publish events.

mod carry_out;
mod removal;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use carry_out::Carried;

use causeway_api::Conditioned;
use causeway_api::common::FIELD_MANAGER;

use super::backoff::Failures;
use super::busy::Busy;
use super::conditions::{Cause, ExtraCondition, Health, find, merge_conditions};
use super::decoding::undecodable;
use super::events::{PendingEvents, Publisher};
use super::failure::{Class, Failure, api_message, class_of_kubernetes};
use super::kind::{ActionEvent, Kind, Plan};
use super::replacements::Replacements;
use super::slots::Slots;
use super::status::Statuses;
use super::warm_up::WarmUp;
use crate::metrics::Metrics;

/// A reconcile that takes longer is an error of its object. Single calls have shorter deadlines.
const DEADLINE: Duration = Duration::from_secs(90);
/// The most rounds of observing and acting in one reconcile.
const ROUNDS: u32 = 12;
/// The most tries of one reconcile that meet the same conflict, if the object's last reconcile failed.
const CONFLICTS_AFTER_FAILURE: u32 = 2;
/// The pause after the first conflict, doubled with each further one: reads lag behind writes, and the other writer
/// needs time to finish.
const RACE_PAUSE: Duration = Duration::from_millis(25);
/// The most doublings of that pause, because the object's other problems wait meanwhile.
const RACE_DOUBLED: u32 = 5;
/// The pause before trying again what was too early.
const EARLY_PAUSE: Duration = Duration::from_secs(1);
/// A deletion is retried at least this often, because users wait for it.
const REMOVAL_RETRY: Duration = Duration::from_secs(30);

/// An object without a status gets a first one after this time, even if work is still in progress.
pub const FIRST_STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// The reason of an object that cannot be decoded.
const UNDECODABLE: &str = "Undecodable";

/// The state that a kind's reconciles share.
pub struct Reconciler<K: Kind> {
    pub kind: Arc<K>,
    pub client: Client,
    pub metrics: Metrics,
    pub publisher: Publisher,
    pub sweep: Duration,
    pub failures: Failures,
    pub replacements: Replacements,
    pub statuses: Statuses<K>,
    /// Limits concurrent reconciles. Namespaces take turns, and the objects of each wait in order.
    pub turns: Slots,
    /// Serializes the work for each object.
    pub busy: Busy,
    /// Uids of objects that cannot be decoded as a whole.
    pub undecodable: Mutex<BTreeSet<String>>,
    /// Uids of objects that the watch shows. Nothing is remembered about others.
    pub alive: Mutex<BTreeSet<String>>,
    /// Uids of objects whose removal is complete, but whose deletion the watch has not shown yet.
    pub removed: Mutex<BTreeSet<String>>,
    /// The objects that may be reconciled.
    pub warm_up: WarmUp,
    /// Cancelled when the process is asked to stop.
    pub stop: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
enum Trouble<E: Failure> {
    #[error(transparent)]
    Kind(E),
    #[error("cannot change the object's finalizers: {}", api_message(.0))]
    Finalizer(#[source] kube::Error),
    #[error("cannot write the object's status{}: {}", stays(.0), api_message(.0))]
    Status(#[source] kube::Error),
    #[error("the object is gone")]
    Gone,
    #[error("{}", .0.message)]
    InUse(Cause),
    #[error("still something to do after {} rounds: {}", .0.rounds, .0.last.as_deref().unwrap_or("something else keeps changing it"))]
    Unsettled(Conflicts),
    #[error("{0}")]
    ReplacedTooOften(String),
    #[error("the reconcile did not end within {} s", DEADLINE.as_secs())]
    Deadline,
    #[error("the reconcile panicked; this is a bug in Causeway, the log has the details")]
    Panicked,
}

/// The conflicts of one reconcile.
#[derive(Debug, Default)]
struct Conflicts {
    /// The number of rounds so far.
    rounds: u32,
    /// The words of the last conflict, unless a round without one followed.
    last: Option<String>,
    /// The number of times in a row that these words came.
    same: u32,
    /// The number of pauses so far.
    pauses: u32,
}

impl Conflicts {
    /// Notes a conflict. Returns false if the same one came too often: then the next try is a matter of the object's
    /// backoff. `failed` says whether the object's last reconcile failed.
    fn may_go_on(&mut self, error: &str, failed: bool) -> bool {
        self.same = if self.last.as_deref() == Some(error) { self.same + 1 } else { 1 };
        self.last = Some(error.to_owned());
        !failed || self.same < CONFLICTS_AFTER_FAILURE
    }

    /// Waits before the next round. Each further pause is longer.
    async fn pause(&mut self) {
        sleep(RACE_PAUSE * 2_u32.pow(self.pauses.min(RACE_DOUBLED))).await;
        self.pauses += 1;
    }
}

impl<E: Failure> Failure for Trouble<E> {
    fn class(&self) -> Class {
        match self {
            Self::Kind(error) => error.class(),
            Self::Finalizer(error) | Self::Status(error) => class_of_kubernetes(error),
            Self::Gone => Class::NotFound,
            Self::InUse(_) => Class::Denied,
            Self::Unsettled(_) | Self::ReplacedTooOften(_) | Self::Deadline | Self::Panicked => Class::Transient,
        }
    }
    fn needs_person(&self) -> bool {
        match self {
            Self::Kind(error) => error.needs_person(),
            other => other.class().needs_person(),
        }
    }
    fn longest_delay(&self) -> Option<Duration> {
        match self {
            Self::Kind(error) => error.longest_delay(),
            _ => None,
        }
    }
    fn reason(&self) -> &'static str {
        match self {
            Self::Kind(error) => error.reason(),
            Self::Finalizer(_) => "FinalizerFailed",
            Self::Status(_) => "StatusFailed",
            Self::Gone => "Gone",
            Self::InUse(cause) => cause.reason,
            Self::Unsettled(_) => "Unsettled",
            Self::ReplacedTooOften(_) => "ReplacedTooOften",
            Self::Deadline => "DeadlineExceeded",
            Self::Panicked => "Panicked",
        }
    }
}

/// A failed attempt, with the status and the parts that were decided before it failed and show what was observed.
struct Failed<K: Kind> {
    trouble: Trouble<K::Error>,
    planned: Option<(K::Status, Vec<ExtraCondition>)>,
}

impl<K: Kind> From<Trouble<K::Error>> for Failed<K> {
    fn from(trouble: Trouble<K::Error>) -> Self {
        Self { trouble, planned: None }
    }
}

impl<K: Kind> Reconciler<K> {
    /// Makes the cluster and AWS match the object; returns when to reconcile again.
    pub async fn reconcile(&self, object: &K::Object) -> Duration {
        let begun = Instant::now();
        let uid = object.uid().unwrap_or_default();
        let _alone = self.busy.lock(&uid).await;
        let mut news = PendingEvents::default();
        let attempt = AssertUnwindSafe(self.attempt(object, &mut news)).catch_unwind();
        let outcome = match tokio::time::timeout(DEADLINE, attempt).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Trouble::Panicked.into()),
            Err(_) => Err(Trouble::Deadline.into()),
        };
        let next = match outcome {
            Ok(requeue) => {
                self.failures.record_success(&uid);
                self.metrics.count_reconcile(K::NAME, Ok(()), begun.elapsed());
                debug!("reconciled");
                requeue.unwrap_or(self.sweep)
            }
            // The object is deleted, so there is nothing to report. Its resources are removed once the watch shows the
            // deletion.
            Err(Failed { trouble: Trouble::Gone, .. }) => {
                self.failures.record_success(&uid);
                debug!("gone");
                self.sweep
            }
            Err(failed) => {
                let class = failed.trouble.class();
                self.metrics.count_reconcile(K::NAME, Err(class.as_str()), begun.elapsed());
                let mut delay = self.failures.record_version_failure(&uid, version(object), class, self.sweep);
                if object.meta().deletion_timestamp.is_some() {
                    delay = delay.min(REMOVAL_RETRY);
                }
                if let Some(longest) = failed.trouble.longest_delay() {
                    delay = delay.min(longest);
                }
                self.tell_failure(object, &failed, class, delay, &mut news).await;
                delay
            }
        };
        news.publish::<K>(&self.publisher, &self.metrics, object).await;
        self.forget_if_gone(&uid);
        self.count_failures();
        next
    }

    /// Returns the rest of the pause of an object whose last attempts failed, whatever woke it.
    pub fn pause(&self, object: &K::Object) -> Option<Duration> {
        self.failures.pause(&object.uid().unwrap_or_default(), version(object), K::LONGEST_PAUSE)
    }

    /// If the object was deleted during some work for it, what that work remembered about the object must not stay.
    pub fn forget_if_gone(&self, uid: &str) {
        if !self.alive.lock().contains(uid) {
            self.forget(uid);
        }
    }

    /// Reports how many objects fail, are stalled, or are not ready.
    fn count_failures(&self) {
        self.metrics.set_failing_objects(K::NAME, self.failures.count());
        self.metrics.set_stalled_objects(K::NAME, || self.failures.stalled_by_reason());
        self.metrics.set_unready_objects(K::NAME, || self.failures.unready());
    }

    /// Records an object that should be ready and is not. One that is being deleted need not be, nor a suspended one,
    /// whose condition is `Unknown`.
    fn note_readiness(&self, object: &K::Object, health: &Health, conditions: &[Condition]) {
        let expected = object.meta().deletion_timestamp.is_none();
        let unready = find(conditions, "Ready").filter(|ready| expected && ready.status == "False");
        let cause = unready.map(|ready| (health.reason(), ready.last_transition_time.0));
        self.failures.set_unready(&object.uid().unwrap_or_default(), cause);
    }

    /// Records whether the object with that uid cannot be decoded as a whole. Returns true if that changed.
    pub fn note_undecodable(&self, uid: &str, problem: bool) -> bool {
        let mut undecodable = self.undecodable.lock();
        let changed = if problem { undecodable.insert(uid.to_owned()) } else { undecodable.remove(uid) };
        if changed {
            self.metrics.set_undecodable(K::NAME, undecodable.len());
        }
        changed
    }

    /// Publishes an event about an object of which nothing can be decoded. Its status is not known either, so it cannot
    /// be written.
    pub async fn tell_lost(&self, metadata: ObjectMeta, problem: &str) {
        let reference = ObjectReference {
            api_version: Some(K::Object::api_version(&()).into_owned()),
            kind: Some(K::Object::kind(&()).into_owned()),
            namespace: metadata.namespace,
            name: metadata.name,
            uid: metadata.uid,
            ..ObjectReference::default()
        };
        let mut news = PendingEvents::default();
        let note = format!("{problem}: correct the field; until then nothing of this object is known or changed");
        news.action(ActionEvent::warning(UNDECODABLE, note));
        news.publish_about::<K>(&self.publisher, &self.metrics, &reference).await;
    }

    /// Reports in the status of an object without conditions for its generation that the operator is still waiting.
    pub async fn tell_waiting(&self, object: &K::Object) {
        let current = self.statuses.current(object);
        let generation = object.meta().generation;
        let conditions = current.as_ref().map(Conditioned::conditions).unwrap_or_default();
        let known = find(conditions, "Ready").is_some_and(|ready| ready.observed_generation == generation);
        if known || object.meta().deletion_timestamp.is_some() || K::is_suspended(object) {
            return;
        }
        let waiting = Health::progressing("Waiting", "the operator waits for answers about what is there already");
        let mut news = PendingEvents::default();
        let written = self.write_status(object, current.unwrap_or_default(), &waiting, &[], &mut news);
        if let Err(Failed { trouble, .. }) = written.await {
            debug!(error = %trouble, "cannot write to the status what the object waits for");
        }
    }

    async fn attempt(&self, object: &K::Object, news: &mut PendingEvents) -> Result<Option<Duration>, Failed<K>> {
        let deleting = object.meta().deletion_timestamp.is_some();
        if deleting {
            self.failures.set_unready(&object.uid().unwrap_or_default(), None);
        }
        let holds = |finalizer: &str| object.finalizers().iter().any(|held| held == finalizer);
        match (K::FINALIZER, deleting) {
            (None, true) => Ok(None),
            (Some(finalizer), true) => {
                if !holds(finalizer) {
                    return Ok(None);
                }
                self.remove(object, finalizer, news).await.map(|()| None)
            }
            (_, false) if let Some(problem) = undecodable(object.meta()) => {
                let message = format!("{problem}: correct the field; until then nothing of this object is changed");
                self.stand_still(object, &Health::stalled(UNDECODABLE, message), news).await
            }
            (_, false) if K::is_suspended(object) => {
                self.stand_still(object, &Health::suspended(K::SUSPENDED), news).await
            }
            (finalizer, false) => {
                if let Some(finalizer) = finalizer
                    && !holds(finalizer)
                {
                    let held = object.finalizers().iter().cloned().chain([finalizer.to_owned()]).collect();
                    self.set_finalizers(object, held).await?;
                }
                self.converge(object, news).await
            }
        }
    }

    /// Returns the object with the status that was written last, which the watch may not show yet.
    fn newest(&self, object: &K::Object) -> K::Object {
        let mut object = object.clone();
        if let Some(status) = self.statuses.current(&object) {
            K::refresh(&mut object, status);
        }
        object
    }

    async fn converge(&self, object: &K::Object, news: &mut PendingEvents) -> Result<Option<Duration>, Failed<K>> {
        let (mut planned, mut conflicts) = (None, Conflicts::default());
        let failed = self.failures.has_failed(&object.uid().unwrap_or_default());
        while conflicts.rounds < ROUNDS {
            conflicts.rounds += 1;
            let current = self.newest(object);
            let observed = {
                let mut observing = pin!(self.kind.observe(&current));
                tokio::select! {
                    observed = &mut observing => observed,
                    // Both go on at once: while it is not polled, what observes may hold locks that others wait for.
                    () = sleep(FIRST_STATUS_TIMEOUT) => tokio::join!(observing, self.tell_waiting(object)).0,
                }
            };
            let observed = match observed {
                Ok(observed) => observed,
                Err(error) => return Err(Failed { trouble: Trouble::Kind(error), planned }),
            };
            let plan = K::decide(&current, &observed, Timestamp::now());
            for event in self.kind.review_plan(&current, &observed, &plan) {
                news.action(event);
            }
            let Plan { actions, status, health, parts, write_status_first, requeue } = plan;
            if actions.is_empty() || write_status_first {
                self.write_status(object, status.clone(), &health, &parts, news).await?;
            }
            if actions.is_empty() {
                return Ok(requeue);
            }
            planned = Some((status, parts));
            match self.carry_out(object, &actions, true, news).await {
                Ok(Carried::All) => conflicts.last = None,
                Ok(Carried::Raced(error)) if conflicts.may_go_on(&error, failed) => conflicts.pause().await,
                Ok(Carried::Raced(_)) => break,
                Ok(Carried::NotYet(_)) => {
                    let (status, parts) = planned.unwrap_or_default();
                    self.write_status(object, status, &health, &parts, news).await?;
                    return Ok(Some(EARLY_PAUSE));
                }
                Err(trouble) => return Err(Failed { trouble, planned }),
            }
        }
        Err(Failed { trouble: Trouble::Unsettled(conflicts), planned })
    }

    async fn tell_failure(
        &self,
        object: &K::Object,
        failed: &Failed<K>,
        class: Class,
        delay: Duration,
        news: &mut PendingEvents,
    ) {
        let Failed { trouble, planned } = failed;
        let retry_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        warn!(error = %trouble, class = class.as_str(), retry_ms, "reconcile failed");
        let health = match class {
            _ if trouble.needs_person() => Health::stalled(trouble.reason(), trouble.to_string()),
            // A child is not as it should be, whatever was true before.
            _ if matches!(trouble, Trouble::ReplacedTooOften(_)) => {
                Health::progressing(trouble.reason(), trouble.to_string())
            }
            // Conflicts are normal; they are reported only if they do not end.
            Class::Conflict | Class::NotFound if delay < Duration::from_millis(100) => return,
            _ => Health::retrying(trouble.reason(), trouble.to_string()),
        };
        let recorded = || (self.statuses.current(object).unwrap_or_default(), Vec::new());
        let (status, parts) = planned.clone().unwrap_or_else(recorded);
        if let Err(unwritten) = self.write_status(object, status, &health, &parts, news).await {
            debug!(error = %unwritten.trouble, "cannot write the failure to the status");
            // A status that the API server refuses, such as for a value in the spec, stays refused: events are all that people
            // see.
            if unwritten.trouble.needs_person() {
                news.action(ActionEvent::warning(trouble.reason(), trouble.to_string()));
                if !matches!(trouble, Trouble::Status(_)) {
                    news.action(ActionEvent::warning(unwritten.trouble.reason(), unwritten.trouble.to_string()));
                }
            }
        }
    }

    async fn write_status(
        &self,
        object: &K::Object,
        mut status: K::Status,
        health: &Health,
        parts: &[ExtraCondition],
        news: &mut PendingEvents,
    ) -> Result<(), Failed<K>> {
        debug_assert!(
            parts.iter().all(|part| K::Status::owns(part.type_)),
            "a condition of a type unknown to be ours: {parts:?}"
        );
        let stalled = |reason| self.failures.set_stalled(&object.uid().unwrap_or_default(), reason);
        match health {
            Health::Stalled(cause) => stalled(Some(cause.reason)),
            // Nothing was observed: the earlier state stays.
            Health::Unchanged(_) | Health::Retrying(_) => {}
            _ => stalled(None),
        }
        let before = self.statuses.current(object).unwrap_or_default();
        let generation = object.meta().generation;
        *status.conditions_mut() = merge_conditions(before.conditions(), health, parts, generation, Timestamp::now());
        *status.observed_generation_mut() = generation;
        let after = status.conditions().to_vec();
        self.note_readiness(object, health, &after);
        match self.statuses.write(object, status).await {
            Ok(true) => news.transition(before.conditions(), &after, K::TROUBLE),
            Ok(false) => {}
            // The object is deleted, so the rest of the reconcile would create orphans.
            Err(kube::Error::Api(error)) if error.code == 404 => return Err(Trouble::Gone.into()),
            Err(error) => return Err(Trouble::Status(error).into()),
        }
        Ok(())
    }

    /// Sets the finalizers on exactly the version of the object that we saw. If another client adds a finalizer
    /// meanwhile, it is not lost: the conflict makes us observe again.
    async fn set_finalizers(&self, object: &K::Object, finalizers: Vec<String>) -> Result<(), Failed<K>> {
        let api: Api<K::Object> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let patch = json!({ "metadata": {
            "uid": object.uid(),
            "resourceVersion": object.resource_version(),
            "finalizers": finalizers,
        }});
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
        match api.patch_metadata(&object.name_any(), &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(error)) if error.code == 404 && object.meta().deletion_timestamp.is_some() => Ok(()),
            Err(error) => Err(Trouble::Finalizer(error).into()),
        }
    }
}

/// Describes the effect of a refused status.
fn stays(error: &kube::Error) -> &'static str {
    let refused = class_of_kubernetes(error) == Class::Invalid;
    if refused {
        ", so conditions stay as they were: correct the field that the API server names, or create the object again"
    } else {
        ""
    }
}

/// Returns a hash of the part of an object whose change causes a reconcile. The status is not in it, because we write
/// that ourselves. A deletion counts like a new generation.
pub fn version<K: Resource<DynamicType = ()>>(object: &K) -> u64 {
    let meta = object.meta();
    let mut hasher = DefaultHasher::new();
    (&meta.uid, &meta.generation, &meta.finalizers, meta.deletion_timestamp.is_some()).hash(&mut hasher);
    hasher.finish()
}
