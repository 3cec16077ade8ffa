//! What a kind has to say about itself.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::NamespaceResourceScope;
use kube::runtime::Controller;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ExtraCondition, Failure, Health};
use crate::api::Conditioned;

/// A kind of custom resource and how the world is kept equal to it.
pub trait Kind: Send + Sync + Sized + 'static {
    /// The custom resource.
    type Object: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// Its status.
    type Status: Conditioned + Clone + Debug + Default + PartialEq + Serialize + Send + Sync + 'static;
    /// The world as far as it matters to one object.
    type Observed: Send + Sync;
    /// One change of the world.
    type Action: Debug + Send + Sync;
    /// Why observing or acting failed.
    type Error: Failure;

    /// The kind's name, as manifests, metrics and logs have it.
    const NAME: &'static str;

    /// The finalizer, for a kind that has something to clean up outside the cluster.
    const FINALIZER: Option<&'static str> = None;

    /// Whether what an object had is removed also where it vanished without its finalizer, because somebody took that
    /// away: what is outside of the cluster would be nobody's.
    const REMOVES_LATE: bool = false;

    /// Reasons of an object that is on its way to be ready which do not pass by themselves, or for which clients fail: their
    /// events are warnings.
    const TROUBLE: &'static [&'static str] = &[];

    /// The object's status as the cluster has it.
    fn status(object: &Self::Object) -> Option<&Self::Status>;

    /// Puts a newer status into an object, for kinds whose decisions depend on what was recorded: the watch may not have
    /// delivered yet what we wrote.
    fn refresh(_object: &mut Self::Object, _status: Self::Status) {}

    /// Whether the object asks to be left as it is.
    fn suspended(object: &Self::Object) -> bool;

    /// What all volumes of the object together ask for, in thousandths of a byte, as [`super::manifest::amount`] has it.
    fn storage(_object: &Self::Object) -> i128 {
        0
    }

    /// Drops what is remembered of the object with that UID, which is gone.
    fn forget(&self, _uid: &str) {}

    /// Reads the world. The only place that reads.
    fn observe(&self, object: &Self::Object) -> impl Future<Output = Result<Self::Observed, Self::Error>> + Send;

    /// Looks at an object before this process leads, so that less is left to find out then. Changes nothing.
    fn warm_up(&self, _object: &Self::Object) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Decides what to do. Pure: no I/O, no clock, no randomness.
    fn decide(object: &Self::Object, observed: &Self::Observed, now: Timestamp) -> Plan<Self::Action, Self::Status>;

    /// Learns what was decided, before it is carried out; returns what there is to tell because of it.
    fn decided(
        &self,
        _object: &Self::Object,
        _observed: &Self::Observed,
        _plan: &Plan<Self::Action, Self::Status>,
    ) -> Vec<ActionEvent> {
        Vec::new()
    }

    /// Decides how to clean up after a deleted object. Pure, and never blocked by an invalid spec.
    /// Called only for kinds with a [`Kind::FINALIZER`]: of others, Kubernetes deletes the children with their owner.
    fn decide_removal(_object: &Self::Object, _observed: &Self::Observed) -> Removal<Self::Action> {
        Removal { actions: Vec::new(), final_event: None }
    }

    /// Carries out one action. Idempotent: after a crash the same action may come again.
    fn apply(
        &self,
        object: &Self::Object,
        action: &Self::Action,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Sets a failed action aside, where the others of its plan do not depend on it: [`Kind::observe`] tells of it from then
    /// on, so that [`Kind::decide`] leaves it out and says so. False where the reconcile must end here.
    fn set_aside(&self, _object: &Self::Object, _action: &Self::Action, _error: &Self::Error) -> bool {
        false
    }

    /// The event that tells of an action that was carried out; `None` where it is not worth one.
    fn event(action: &Self::Action) -> Option<ActionEvent>;

    /// Adds what else wakes the controller: watches of children, drift seen outside the cluster.
    /// `namespace` is the one this controller serves, or `None` for all.
    fn triggers(&self, controller: Controller<Self::Object>, namespace: Option<&str>) -> Controller<Self::Object>;
}

/// What to do about an object, and what is true of it now.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<Action, Status> {
    /// Steps to carry out in order; then the world is observed again. Empty when the world is as it should be
    /// or nothing can be done now.
    pub actions: Vec<Action>,
    /// The status, without conditions and observed generation.
    pub status: Status,
    /// How the object is, for the conditions.
    pub health: Health,
    /// How parts of the object are, each a condition of its own. One that is not told of stays as it was.
    pub parts: Vec<ExtraCondition>,
    /// Writes the status before the actions: for intentions that must outlive a crash.
    pub write_status_first: bool,
    /// Look again after this long even if nothing happens.
    pub requeue: Option<Duration>,
}

impl<Action, Status> Plan<Action, Status> {
    /// The same where what was seen may be otherwise in a moment: nothing is reported, the status stays as it was `before`,
    /// and it is looked at again soon.
    #[must_use]
    pub fn unchanged(self, before: Status, soon: Duration) -> Self {
        Self {
            status: before,
            health: Health::Unchanged(Box::new(self.health)),
            parts: Vec::new(),
            requeue: self.requeue.map(|again| again.min(soon)),
            ..self
        }
    }
}

/// How to clean up after an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal<Action> {
    /// Steps to carry out in order; then the world is observed again. When empty, the object goes.
    pub actions: Vec<Action>,
    /// What to tell when the object goes.
    pub final_event: Option<ActionEvent>,
}

/// An event about something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionEvent {
    /// Somebody should look at it.
    pub warning: bool,
    /// Stable `CamelCase` word.
    pub reason: &'static str,
    /// A sentence.
    pub note: String,
}

impl ActionEvent {
    /// Tells of something that is as it should be.
    pub fn normal(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: false, reason, note: note.into() }
    }

    /// Tells of something that somebody should look at.
    pub fn warning(reason: &'static str, note: impl Into<String>) -> Self {
        Self { warning: true, ..Self::normal(reason, note) }
    }
}
