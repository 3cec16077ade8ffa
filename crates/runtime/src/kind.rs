//! The interface that each kind implements.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::Controller;
use serde::Serialize;
use serde::de::DeserializeOwned;

use causeway_api::Conditioned;

use super::conditions::{Cause, SUSPENDED};
use super::{ExtraCondition, Failure, Health, Replacement};

/// A kind of custom resource, and how the cluster and AWS are made to match it.
pub trait Kind: Send + Sync + Sized + 'static {
    /// The type of the custom resource.
    type Object: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// The type of its status.
    type Status: Conditioned + Clone + Debug + Default + PartialEq + Serialize + Send + Sync + 'static;
    /// The part of the cluster and of AWS that matters to one object.
    type Observed: Send + Sync;
    /// One change in the cluster or in AWS.
    type Action: Debug + Send + Sync;
    /// The error of observing or acting.
    type Error: Failure;

    /// The kind's name in manifests, metrics and logs.
    const NAME: &'static str;

    /// The finalizer, for a kind that has something to clean up outside the cluster.
    const FINALIZER: Option<&'static str> = None;

    /// Clean up even after an object that vanished because a user removed its finalizer. Otherwise its resources
    /// outside the cluster would be orphaned.
    const REMOVES_LATE: bool = false;

    /// Reasons of a progressing object that do not pass by themselves, or during which clients fail. Their events are
    /// warnings.
    const TROUBLE: &'static [&'static str] = &[];

    /// The message of the condition of a suspended object.
    const SUSPENDED: &'static str = SUSPENDED;

    /// Types of conditions that hold only while the object is observed. They are unknown while it is not: it is
    /// suspended, or cannot be decoded.
    const OBSERVED_CONDITIONS: &'static [&'static str] = &[];
    /// The longest pause of an event about an object whose reconciles fail: no retry comes later than 30 s by itself.
    /// It is shorter where an event may say that clients are not served.
    const LONGEST_PAUSE: Duration = Duration::from_secs(30);

    /// The object's status in the cluster.
    fn status(object: &Self::Object) -> Option<&Self::Status>;

    /// Puts a newer status into an object, for kinds whose decisions depend on recorded facts. The watch may not have
    /// delivered what we wrote.
    fn refresh(_object: &mut Self::Object, _status: Self::Status) {}

    /// Returns true if the spec asks to leave everything as it is.
    fn is_suspended(object: &Self::Object) -> bool;

    /// The storage of all volumes of the object together, in thousandths of a byte, like [`super::quantity::amount`].
    fn storage(_object: &Self::Object) -> i128 {
        0
    }

    /// Records whether an object is there of which nothing is known but its metadata.
    fn note_lost(&self, _metadata: &ObjectMeta, _lost: bool) {}

    /// Drops what is remembered about the deleted object with that uid.
    fn forget(&self, _uid: &str) {}

    /// Reads the cluster and AWS. Nothing else reads them.
    fn observe(&self, object: &Self::Object) -> impl Future<Output = Result<Self::Observed, Self::Error>> + Send;

    /// Called instead of [`Kind::observe`] while the object is suspended or cannot be decoded. Work that goes on
    /// between reconciles stops here, or begins after a restart.
    fn stand_by(&self, _object: &Self::Object) -> impl Future<Output = Result<(), Self::Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Observes an object before this process leads, so that less is left to observe then. Changes nothing.
    fn warm_up(&self, _object: &Self::Object) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Decides what to do. Pure: no I/O, no clock, no randomness.
    fn decide(object: &Self::Object, observed: &Self::Observed, now: Timestamp) -> Plan<Self::Action, Self::Status>;

    /// Called with each plan before it is carried out; returns events about it.
    fn review_plan(
        &self,
        _object: &Self::Object,
        _observed: &Self::Observed,
        _plan: &Plan<Self::Action, Self::Status>,
    ) -> Vec<ActionEvent> {
        Vec::new()
    }

    /// Decides how to clean up after a deleted object. It is pure, and an invalid spec must not block it. It is called
    /// only for kinds with a [`Kind::FINALIZER`]; for others, Kubernetes deletes the children with their owner.
    fn decide_removal(_object: &Self::Object, _observed: &Self::Observed) -> Removal<Self::Action> {
        Removal { actions: Vec::new(), final_event: None }
    }

    /// Returns the reason to keep the object although [`Kind::decide_removal`] has nothing left to do: a resource that
    /// another owner must release first. Pure.
    fn removal_waits_for(_object: &Self::Object, _observed: &Self::Observed) -> Option<Cause> {
        None
    }

    /// The status and the parts of a deleted object whose removal has not ended; `None` if they stay as they were. Pure.
    fn remains(_object: &Self::Object, _observed: &Self::Observed) -> Option<(Self::Status, Vec<ExtraCondition>)> {
        None
    }

    /// Carries out one action. It must be idempotent, because the same action may be repeated after a crash.
    fn apply(
        &self,
        object: &Self::Object,
        action: &Self::Action,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Returns the child that an action replaces, because the child is not as wanted: another one is created in its
    /// place. Too many in a row end the reconcile. Pure.
    fn replaces(_action: &Self::Action) -> Option<Replacement<'_>> {
        None
    }

    /// Sets a failed action aside, so that the other actions of its plan go on, except those that [`Kind::depends`]
    /// names. From then on [`Kind::observe`] must report it, so that [`Kind::decide`] leaves the action out, with all
    /// that depends on it, and says so. Returns false if the reconcile must end here.
    fn set_aside(&self, _object: &Self::Object, _action: &Self::Action, _error: &Self::Error) -> bool {
        false
    }

    /// Returns true if `later` must not be carried out because `refused`, which comes before it in the same plan, was
    /// not: what is replaced stays until its replacement is there. Pure.
    fn depends(_refused: &Self::Action, _later: &Self::Action) -> bool {
        false
    }

    /// Returns the event about an action that was carried out; `None` if it needs no event.
    fn event(action: &Self::Action) -> Option<ActionEvent>;

    /// Adds the other triggers of the controller: watches of children, and drift seen outside the cluster. `namespace`
    /// is the one that this controller serves, or `None` for all.
    fn triggers(&self, controller: Controller<Self::Object>, namespace: Option<&str>) -> Controller<Self::Object>;
}

/// The next steps for an object, and its state now.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<Action, Status> {
    /// Steps to carry out in order; then the next round observes again. It is empty if all matches the spec or if
    /// nothing can be done now.
    pub actions: Vec<Action>,
    /// The status, without conditions and observed generation.
    pub status: Status,
    /// The state of the object, for the conditions.
    pub health: Health,
    /// The states of parts of the object, each as a condition of its own. A part that is left out keeps its condition.
    pub parts: Vec<ExtraCondition>,
    /// Set to write the status before the actions, for intentions that must survive a crash.
    pub write_status_first: bool,
    /// The time after which to observe again even if nothing happens.
    pub requeue: Option<Duration>,
}

impl<Action, Status> Plan<Action, Status> {
    /// Returns the same plan for a state that may change in a moment. Nothing is reported, the status stays as it was
    /// `before`, and the object is observed again soon.
    #[must_use]
    pub fn leave_unchanged(self, before: Status, soon: Duration) -> Self {
        Self {
            status: before,
            health: Health::Unchanged(Box::new(self.health)),
            parts: Vec::new(),
            requeue: self.requeue.map(|again| again.min(soon)),
            ..self
        }
    }
}

/// The steps to clean up after an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal<Action> {
    /// Steps to carry out in order; then the next round observes again. If it is empty, the finalizer is removed.
    pub actions: Vec<Action>,
    /// The event to publish when the object is deleted.
    pub final_event: Option<ActionEvent>,
}

/// An event about an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionEvent {
    /// True for a warning, which an administrator should look at.
    pub warning: bool,
    /// A stable `CamelCase` word.
    pub reason: &'static str,
    /// A sentence for the user.
    pub note: String,
}

impl ActionEvent {
    /// An event about something expected.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: false, reason, note: note.into() }
    }

    /// An event that an administrator should look at.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: true, ..Self::normal(reason, note) }
    }
}
