//! Runs a kind's controller: watches its objects, passes them to [`Reconciler`], and reports when the stream ends.

use std::convert::Infallible;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use futures::{Stream, StreamExt};
use kube::runtime::controller::Action;
use kube::runtime::events::Reporter;
use kube::runtime::reflector;
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info, info_span, warn};

use super::Kind;
use super::backoff::Failures;
use super::busy::Busy;
use super::child_watch::Owner;
use super::decoding::Decoded;
use super::events::Publisher;
use super::reconcile::{FIRST_STATUS_TIMEOUT, Reconciler, version};
use super::replacements::Replacements;
use super::slots::Slots;
use super::status::Statuses;
use super::tenant::on_behalf_of;
use super::warm_up::WarmUp;
use super::watch_backoff::{AtOnce, WatchBackoff};
use super::watched::Watched;
use crate::guardrails::Guardrails;
use crate::health::Health;
use crate::leader::Fence;
use crate::metrics::Metrics;

/// The parts of the process that every controller needs.
#[derive(Clone)]
pub struct Environment {
    /// A client of the Kubernetes API.
    pub client: Client,
    /// The metrics, which count its calls and reconciles.
    pub metrics: Metrics,
    /// The health to which the end of a stream is reported.
    pub health: Health,
    /// Namespaces to serve; empty for all.
    pub namespaces: Vec<String>,
    /// The time after which every object is reconciled even if nothing happens.
    pub sweep: Duration,
    /// The number of objects of one kind that are reconciled at the same time; a quarter is reserved for namespaces
    /// that hold no slot.
    pub concurrency: u16,
    /// Name of this process in events.
    pub instance: String,
    /// The guardrails: what policies let objects name.
    pub guardrails: Guardrails,
    /// Opens when this process leads. Until then objects are observed, but nothing is changed.
    pub fence: Fence,
    /// Ends the controllers after the calls in progress.
    pub stop: CancellationToken,
}

/// Runs the controller of a kind until `environment.stop`. Returns early only if its stream ends.
pub async fn run<K: Kind>(kind: Arc<K>, environment: Environment) {
    let scopes: Vec<Option<String>> = match environment.namespaces.as_slice() {
        [] => vec![None],
        some => some.iter().cloned().map(Some).collect(),
    };
    let reporter = Reporter { controller: "causeway".into(), instance: Some(environment.instance.clone()) };
    let reconciler = Arc::new(Reconciler {
        kind,
        client: environment.client.clone(),
        metrics: environment.metrics.clone(),
        publisher: Publisher::new(environment.client.clone(), reporter),
        sweep: environment.sweep,
        failures: Failures::default(),
        replacements: Replacements::default(),
        statuses: Statuses::new(environment.client.clone()),
        turns: Slots::new(environment.concurrency.into()),
        busy: Busy::default(),
        undecodable: Mutex::default(),
        alive: Mutex::default(),
        removed: Mutex::default(),
        warm_up: WarmUp::new(environment.fence.clone()),
        stop: environment.stop.clone(),
    });
    environment.health.controller_started(K::NAME);
    join_all(scopes.iter().map(|scope| run_scope(&reconciler, &environment, scope.as_deref()))).await;
}

async fn run_scope<K: Kind>(reconciler: &Arc<Reconciler<K>>, environment: &Environment, namespace: Option<&str>) {
    let api: Api<Decoded<K::Object>> = match namespace {
        Some(namespace) => Api::namespaced(environment.client.clone(), namespace),
        None => Api::all(environment.client.clone()),
    };
    let (reader, writer) = reflector::store();
    let listed = reader.clone();
    let (health, guardrails) = (environment.health.watch(K::NAME, namespace), environment.guardrails.clone());
    let mut watched = Watched::new(reconciler.clone(), namespace, reader.clone(), health, guardrails);
    let objects = watcher(api, watcher::Config::default())
        .backoff(WatchBackoff::default())
        .filter_map(move |event| ready(watched.take(event)))
        .reflect(writer)
        .applied_objects()
        .predicate_filter(what_matters::<K::Object> as fn(&K::Object) -> Option<u64>, PredicateConfig::default());
    let controller = triggered_by(objects, reader).graceful_shutdown_on(environment.stop.clone().cancelled_owned());
    let controller = reconciler.kind.triggers(controller, namespace).reconcile_all_on(environment.guardrails.changes());
    info!(kind = K::NAME, namespace, "controller started");
    let mut outcomes = controller.run(reconcile, never_fails, reconciler.clone()).boxed();
    let run = async {
        while let Some(outcome) = outcomes.next().await {
            match outcome {
                Ok(_) => {}
                // The object was deleted between its event and its turn.
                Err(kube::runtime::controller::Error::ObjectNotFound(object)) => {
                    debug!(%object, "object was deleted before its reconcile");
                }
                Err(error) => warn!(kind = K::NAME, %error, "watch failed, trying again"),
            }
        }
    };
    // If kube's controller is stopped before its first list arrives, it waits for that list forever. Nothing is in
    // progress then.
    let stopped_early = async {
        tokio::select! {
            _ = listed.wait_until_ready() => std::future::pending().await,
            () = environment.stop.cancelled() => {}
        }
    };
    tokio::select! {
        () = run => {}
        () = stopped_early => {}
    }
    if environment.stop.is_cancelled() {
        info!(kind = K::NAME, namespace, "controller stopped");
    } else {
        error!(kind = K::NAME, namespace, "the controller's stream ended");
        environment.health.controller_stopped(K::NAME);
    }
}

/// A controller that never pauses as a whole: each of its watches pauses by itself after a failure.
fn triggered_by<K: Owner>(
    objects: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
    reader: reflector::Store<K>,
) -> Controller<K> {
    Controller::for_stream(objects, reader).trigger_backoff(AtOnce)
}

pub(super) async fn reconcile<K: Kind>(
    object: Arc<K::Object>,
    reconciler: Arc<Reconciler<K>>,
) -> Result<Action, Infallible> {
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    // Whatever wakes an object that fails: it fails again, and what it does until then costs others.
    if let Some(pause) = reconciler.pause(&object) {
        return Ok(Action::requeue(pause));
    }
    // The controller starts every reconcile that is due. Here they wait for their turn: namespaces take turns, and the
    // objects of one namespace keep their order. In the controller alone, an object might wait as long as others keep
    // coming.
    let namespace = object.namespace().unwrap_or_default();
    tokio::select! {
        warmed_up = reconciler.warmed_up(&object, &namespace) => {
            if !warmed_up {
                reconciler.forget_if_gone(&object.uid().unwrap_or_default());
                return Ok(Action::requeue(Duration::ZERO));
            }
        }
        () = reconciler.stop.cancelled() => return Ok(Action::await_change()),
    }
    let turn = async {
        let _queued = reconciler.metrics.count_queued(K::NAME);
        let mut turn = pin!(reconciler.turns.acquire(&namespace));
        tokio::select! {
            turn = &mut turn => turn,
            // Users wait for a first status of this object.
            () = sleep(FIRST_STATUS_TIMEOUT) => {
                reconciler.tell_waiting(&object).await;
                turn.await
            }
        }
    };
    let permit = tokio::select! {
        permit = turn => permit,
        // The process is about to exit, and the next leader reconciles this object anyway.
        () = reconciler.stop.cancelled() => return Ok(Action::await_change()),
    };
    let span = info_span!(
        "reconcile",
        kind = K::NAME,
        object = %format_args!("{}/{}", object.namespace().unwrap_or_default(), object.name_any()),
        reconcile_id = COUNTER.fetch_add(1, Ordering::Relaxed),
    );
    // On the heap, so that waiting tasks use little memory.
    let next = Box::pin(on_behalf_of(&namespace, reconciler.reconcile(&object).instrument(span))).await;
    drop(permit);
    Ok(Action::requeue(next))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that the controller asks for")]
fn never_fails<K: Kind>(_: Arc<K::Object>, error: &Infallible, _: Arc<Reconciler<K>>) -> Action {
    match *error {}
}

/// Returns a hash of the part of an object whose change causes a reconcile.
#[expect(clippy::unnecessary_wraps, reason = "the signature that the filter asks for")]
fn what_matters<K: Resource<DynamicType = ()>>(object: &K) -> Option<u64> {
    Some(version(object))
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;
    use kube::runtime::reflector::ObjectRef;
    use kube::runtime::watcher::Event;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watches_that_fail_together_hold_up_nothing_else() {
        let metadata =
            ObjectMeta { namespace: Some("shop".into()), name: Some("cache".into()), ..ObjectMeta::default() };
        let object = ConfigMap { metadata, ..ConfigMap::default() };
        let (reader, mut writer) = reflector::store();
        for event in [Event::Init, Event::InitApply(object.clone()), Event::InitDone] {
            writer.apply_watcher_event(&event);
        }
        let mut controller = triggered_by(stream::pending(), reader);
        for _ in 0..9 {
            let fails_once =
                stream::iter([Err::<ConfigMap, _>(watcher::Error::NoResourceVersion)]).chain(stream::pending());
            controller = controller.watches_stream(fails_once, |_: ConfigMap| None::<ObjectRef<ConfigMap>>);
        }
        let woken = stream::once(async move {
            sleep(Duration::from_millis(100)).await;
            ObjectRef::from_obj(&object)
        });
        let outcomes = controller.reconcile_on(woken).run(
            |_, _| ready(Ok::<_, Infallible>(Action::await_change())),
            |_, _, _| Action::await_change(),
            Arc::new(()),
        );
        let mut reconciled = pin!(outcomes.filter(|outcome| ready(outcome.is_ok())));
        let reconciled = timeout(Duration::from_secs(1), reconciled.next()).await;
        assert!(reconciled.is_ok_and(|first| first.is_some()));
    }
}
