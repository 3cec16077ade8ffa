//! Processes the events of a kind's watch before they reach the store. It marks objects that cannot be decoded, and
//! handles deletions, including those that the watch missed before a new list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use tracing::{info, warn};

use super::decoding::{Decoded, undecodable};
use super::kind::Kind;
use super::reconcile::Reconciler;
use super::room::{Kept, ROOM};
use crate::guardrails::Guardrails;
use crate::health::{WatchFailure, WatchHealth};

/// The watch of one kind in one scope.
pub struct Watched<K: Kind> {
    reconciler: Arc<Reconciler<K>>,
    /// The namespace, or `None` for all.
    scope: Option<String>,
    /// The objects as they were before the current event.
    store: Store<K::Object>,
    health: WatchHealth,
    guardrails: Guardrails,
    /// True while the operator may not list or watch the scope.
    denied: bool,
    /// True while the API server does not serve the kind.
    missing: bool,
    /// True once a list has completed.
    was_listed: bool,
    /// The uids in the list that is being received.
    listed: BTreeSet<String>,
    /// The room that the objects in the store take.
    kept: Kept,
    /// Objects of which nothing can be decoded, by uid. Some were never in the store.
    lost: BTreeMap<String, ObjectMeta>,
}

impl<K: Kind> Watched<K> {
    /// Processes the watch of a namespace, or of all, whose objects go into this store.
    pub fn new(
        reconciler: Arc<Reconciler<K>>,
        scope: Option<&str>,
        store: Store<K::Object>,
        health: WatchHealth,
        guardrails: Guardrails,
    ) -> Self {
        let scope = scope.map(str::to_owned);
        Self {
            reconciler,
            scope,
            store,
            health,
            guardrails,
            denied: false,
            missing: false,
            was_listed: false,
            listed: BTreeSet::new(),
            kept: Kept::of_ours(),
            lost: BTreeMap::new(),
        }
    }

    /// Processes an event, and returns what goes into the store.
    pub fn take(
        &mut self,
        event: Result<Event<Decoded<K::Object>>, watcher::Error>,
    ) -> Option<Result<Event<K::Object>, watcher::Error>> {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                let why = failure(&error);
                self.health.record_failure(why);
                match why {
                    WatchFailure::Denied => self.note_denied(true),
                    // The watch itself tries again. A kind that is missing needs no warning at every attempt.
                    WatchFailure::Missing => {
                        self.note_missing();
                        return None;
                    }
                    WatchFailure::Other => {}
                }
                return Some(Err(error));
            }
        };
        // A watcher sends `Init` before the list that may fail.
        if !matches!(event, Event::Init) {
            self.health.record_answer();
            self.note_denied(false);
            if std::mem::take(&mut self.missing) {
                info!(
                    kind = K::NAME,
                    namespace = self.scope.as_deref(),
                    "the kind is installed, and is served from now on"
                );
            }
        }
        let event = match event {
            Event::Apply(object) => Event::Apply(self.record_decoded(object)?),
            Event::InitApply(object) => {
                self.listed.extend(object.uid());
                // A list replaces the whole store: without the object as it was, a living object would seem deleted.
                let known = self.find_stored(object.meta());
                let meta = object.meta().clone();
                Event::InitApply(self.record_decoded(object).or_else(|| {
                    self.kept.stays(&meta);
                    known
                })?)
            }
            Event::Delete(object) => {
                // If the deleted object cannot be decoded, use the version in the store.
                let known = self.find_stored(object.meta());
                self.gone_if_lost(&object.uid().unwrap_or_default());
                self.kept.remove(&object);
                self.guardrails.remove_object(K::NAME, &object);
                let object = object.object().or(known)?;
                self.reconciler.handle_deletion(&object);
                Event::Delete(object)
            }
            Event::Init => {
                self.listed.clear();
                self.kept.list_begins();
                Event::Init
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.kept.list_ends();
                let vanished = self
                    .store
                    .state()
                    .into_iter()
                    .filter(|object| object.uid().is_none_or(|uid| !listed.contains(&uid)));
                vanished.for_each(|object| {
                    self.guardrails.remove_object(K::NAME, &*object);
                    self.reconciler.handle_deletion(&object);
                });
                let lost: Vec<_> = self.lost.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in lost {
                    self.gone_if_lost(&uid);
                }
                if !std::mem::replace(&mut self.was_listed, true) {
                    self.guardrails.record_list(K::NAME, self.scope.as_deref());
                }
                Event::InitDone
            }
        };
        Some(Ok(event))
    }

    /// Reports that the operator may not list or watch the scope, or that it may again.
    fn note_denied(&mut self, denied: bool) {
        if std::mem::replace(&mut self.denied, denied) == denied {
            return;
        }
        let scope = self.scope.as_deref();
        self.reconciler.metrics.set_namespace_denied(K::NAME, scope.unwrap_or_default(), denied);
        if denied {
            warn!(
                kind = K::NAME,
                namespace = scope,
                "the operator may not list or watch these objects, and changes nothing of them until it may: is its \
                 RoleBinding missing?"
            );
        } else {
            info!(kind = K::NAME, namespace = scope, "the operator may list and watch these objects again");
        }
    }

    /// Reports that the API server does not serve the kind. Then there are no objects of it.
    fn note_missing(&mut self) {
        self.note_denied(false);
        if std::mem::replace(&mut self.missing, true) {
            return;
        }
        warn!(
            kind = K::NAME,
            namespace = self.scope.as_deref(),
            "the definition of this kind is missing: no object of it is served until it is installed (crds/)"
        );
        // Limits of other kinds need not wait for a count of these.
        if !self.was_listed {
            self.guardrails.record_list(K::NAME, self.scope.as_deref());
        }
    }

    /// Returns the object as the store has it. One of the same name that was made since is another object.
    fn find_stored(&self, meta: &ObjectMeta) -> Option<K::Object> {
        let name = meta.name.as_deref().unwrap_or_default();
        let known = self.store.get(&ObjectRef::new(name).within(meta.namespace.as_deref().unwrap_or_default()))?;
        (known.uid() == meta.uid).then(|| (*known).clone())
    }

    /// Handles the deletion of the object with that uid. If nothing of it could be decoded, the store may never have
    /// had it.
    fn gone_if_lost(&mut self, uid: &str) {
        if let Some(metadata) = self.lost.remove(uid) {
            let object: PartialObjectMeta<K::Object> = metadata.into_response_partial();
            self.guardrails.remove_object(K::NAME, &object);
            self.reconciler.kind.note_lost(object.meta(), false);
            self.reconciler.note_undecodable(uid, false);
        }
    }

    /// Records whether the object could be decoded as a whole, and returns it. If nothing of it could be decoded, the
    /// store keeps the one before.
    fn record_decoded(&mut self, object: Decoded<K::Object>) -> Option<K::Object> {
        let object = match object {
            Decoded::Object(object) if !self.kept.has_room(&object) => Decoded::Lost {
                metadata: Box::new(object.meta().clone()),
                problem: format!(
                    "spec: with it the objects of the namespace that Causeway reconciles would take more than {} MiB of its memory",
                    ROOM >> 20
                ),
            },
            object => object,
        };
        let problem = match &object {
            Decoded::Object(object) => undecodable(object.meta()),
            Decoded::Lost { problem, .. } => Some(problem.as_str()),
        };
        let storage = match &object {
            Decoded::Object(object) if problem.is_none() => Some(K::storage(object)),
            _ => None,
        };
        self.guardrails.record_object(K::NAME, &object, storage);
        let meta = object.meta();
        let uid = meta.uid.clone().unwrap_or_default();
        if let Some(problem) = problem {
            let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
            warn!(kind = K::NAME, namespace, name, problem, "an object cannot be decoded and is not reconciled");
        }
        let is_new = self.reconciler.note_undecodable(&uid, problem.is_some());
        match object {
            Decoded::Object(object) => {
                if let Some(metadata) = self.lost.remove(&uid) {
                    self.reconciler.kind.note_lost(&metadata, false);
                }
                self.reconciler.alive.lock().insert(uid);
                Some(object)
            }
            Decoded::Lost { metadata, problem } => {
                // If the store has an earlier version of the object, that one is used.
                if self.find_stored(&metadata).is_none() {
                    self.reconciler.kind.note_lost(&metadata, true);
                }
                self.lost.insert(uid, (*metadata).clone());
                if is_new {
                    let reconciler = self.reconciler.clone();
                    tokio::spawn(async move { reconciler.tell_lost(*metadata, &problem).await });
                }
                None
            }
        }
    }
}

/// Returns the meaning of an error of a watch. A list of a kind that is installed is never answered with 404, whether
/// or not its namespace exists.
fn failure(error: &watcher::Error) -> WatchFailure {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))
    | watcher::Error::WatchError(status)) = error
    else {
        return WatchFailure::Other;
    };
    match status.code {
        403 => WatchFailure::Denied,
        404 => WatchFailure::Missing,
        _ => WatchFailure::Other,
    }
}
