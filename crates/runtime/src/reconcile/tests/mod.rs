//! Tests of the runner, with a kind that blocks while it observes, and an apiserver that records requests.

mod dependent;
mod failing;
mod replacing;
mod watches;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::client::Body;
use kube::runtime::Controller;
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use causeway_api::{Conditioned, MyApp, MyAppStatus};

use super::{Busy, Failures, Health, Reconciler, Replacements, Statuses, WarmUp};
use crate::events::Publisher;
use crate::leader::Fence;
use crate::metrics::Metrics;
use crate::{ActionEvent, Class, Failure, Kind, Plan, Removal, Slots};

/// A kind whose observation blocks until a test releases it, except for objects with the image [`CONTESTED`].
#[derive(Default)]
struct Waiting {
    observing: Notify,
    go_on: Notify,
    stood_by: AtomicUsize,
    applied: AtomicUsize,
}

/// The annotation of an object that could not be decoded as a whole.
const MARK: &str = "causeway.example.com/not decoded";
/// Every change for an object with this image conflicts.
const CONTESTED: &str = "contested";

#[derive(Debug, thiserror::Error)]
#[error("DeleteSecurityGroup: DependencyViolation: resource sg-1 has a dependent object")]
struct Conflict;

impl Failure for Conflict {
    fn class(&self) -> Class {
        Class::Conflict
    }
    fn reason(&self) -> &'static str {
        "Raced"
    }
}

impl Kind for Waiting {
    type Object = MyApp;
    type Status = MyAppStatus;
    type Observed = ();
    type Action = ();
    type Error = Conflict;
    const NAME: &'static str = "MyApp";
    const FINALIZER: Option<&'static str> = None;

    fn status(object: &MyApp) -> Option<&MyAppStatus> {
        object.status.as_ref()
    }
    fn is_suspended(object: &MyApp) -> bool {
        object.spec.suspend
    }
    async fn stand_by(&self, _: &MyApp) -> Result<(), Conflict> {
        self.stood_by.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    async fn observe(&self, object: &MyApp) -> Result<(), Conflict> {
        if object.spec.image == CONTESTED {
            return Ok(());
        }
        self.observing.notify_one();
        self.go_on.notified().await;
        Ok(())
    }
    async fn warm_up(&self, _: &MyApp) {
        self.observing.notify_one();
    }
    fn decide(object: &MyApp, (): &(), _: Timestamp) -> Plan<(), MyAppStatus> {
        Plan {
            actions: if object.spec.image == CONTESTED { vec![()] } else { Vec::new() },
            status: MyAppStatus::default(),
            health: Health::ready("Running", "all is well"),
            parts: Vec::new(),
            write_status_first: false,
            requeue: None,
        }
    }
    fn decide_removal(_: &MyApp, (): &()) -> Removal<()> {
        Removal { actions: Vec::new(), final_event: None }
    }
    async fn apply(&self, _: &MyApp, (): &()) -> Result<(), Conflict> {
        self.applied.fetch_add(1, Ordering::Relaxed);
        Err(Conflict)
    }
    fn event((): &()) -> Option<ActionEvent> {
        None
    }
    fn triggers(&self, controller: Controller<MyApp>, _: Option<&str>) -> Controller<MyApp> {
        controller
    }
}

/// An apiserver that records the body of every request, and answers with it as a newer version.
fn apiserver(sent: Arc<Mutex<Vec<Value>>>) -> Client {
    let answer = move |request: http::Request<Body>| {
        let sent = sent.clone();
        async move {
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            let mut object: Value = serde_json::from_slice(&body).expect("JSON");
            sent.lock().push(object.clone());
            object["metadata"]["resourceVersion"] = json!("2");
            object["spec"] = json!({ "image": "busybox" });
            Ok::<_, Infallible>(http::Response::new(Body::from(object.to_string().into_bytes())))
        }
    };
    Client::new(tower::service_fn(answer), "default")
}

/// An apiserver that takes everything but statuses, which it refuses because of a value.
fn without_status(sent: Arc<Mutex<Vec<Value>>>) -> Client {
    let answer = move |request: http::Request<Body>| {
        let sent = sent.clone();
        async move {
            let refused = request.uri().path().ends_with("/status");
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            let (code, answer) = if refused {
                (422, json!({ "status": "Failure", "code": 422, "message": REFUSED }))
            } else {
                (200, serde_json::from_slice(&body).expect("JSON"))
            };
            sent.lock().push(answer.clone());
            let answer = http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            Ok::<_, Infallible>(answer.expect("an answer"))
        }
    };
    Client::new(tower::service_fn(answer), "default")
}

const REFUSED: &str = "spec.before: Invalid value: \"2026-11-22t12:00:00z\": invalid date";

#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_for_a_value_leaves_events() {
    for (image, reasons) in [("busybox", vec!["StatusFailed"]), (CONTESTED, vec!["Unsettled", "StatusFailed"])] {
        let sent = Arc::default();
        let mut object = object(&json!([]));
        object.spec.image = image.into();
        let reconciler = reconciler(&without_status(Arc::clone(&sent)));
        reconciler.kind.go_on.notify_one();
        reconciler.reconcile(&object).await;
        let events: Vec<Value> = sent.lock().iter().filter(|it| it["note"].is_string()).cloned().collect();
        assert_eq!(events.iter().map(|it| it["reason"].as_str().unwrap()).collect::<Vec<_>>(), reasons);
        let note = events.last().unwrap()["note"].as_str().unwrap();
        assert!(note.contains(REFUSED) && note.contains("create the object again"), "{note}");
    }
}

fn reconciler(client: &Client) -> Arc<Reconciler<Waiting>> {
    reconciler_with(client, Fence::always_open())
}

fn reconciler_with<K: Kind + Default>(client: &Client, fence: Fence) -> Arc<Reconciler<K>> {
    Arc::new(Reconciler {
        kind: Arc::default(),
        client: client.clone(),
        metrics: Metrics::new(),
        publisher: Publisher::new(client.clone(), "causeway".into()),
        sweep: Duration::from_mins(5),
        failures: Failures::default(),
        replacements: Replacements::default(),
        statuses: Statuses::new(client.clone()),
        turns: Slots::new(1),
        busy: Busy::default(),
        undecodable: Mutex::default(),
        alive: Mutex::default(),
        removed: Mutex::default(),
        warm_up: WarmUp::new(fence),
        stop: CancellationToken::new(),
    })
}

fn object(conditions: &Value) -> MyApp {
    serde_json::from_value(json!({
        "apiVersion": "demo.rtfm.co.ua/v1",
        "kind": "MyApp",
        "metadata": { "name": "app", "namespace": "default", "uid": "uid-1", "resourceVersion": "1", "generation": 1 },
        "spec": { "image": "busybox" },
        "status": { "conditions": conditions },
    }))
    .expect("an object")
}

/// Reconciles the object, and calls `meanwhile` while the cluster and AWS are observed.
async fn reconcile(reconciler: &Arc<Reconciler<Waiting>>, object: &MyApp, meanwhile: impl FnOnce()) {
    let (mut reconcile, kind) = (Box::pin(reconciler.reconcile(object)), reconciler.kind.clone());
    tokio::select! {
        _ = &mut reconcile => panic!("ended before it observed"),
        () = kind.observing.notified() => {}
    }
    meanwhile();
    kind.go_on.notify_one();
    reconcile.await;
}

#[tokio::test]
async fn an_object_deleted_during_its_reconcile_is_forgotten() {
    let client = apiserver(Arc::default());
    let (reconciler, object) = (reconciler(&client), object(&json!([])));
    reconciler.alive.lock().insert("uid-1".into());
    reconcile(&reconciler, &object, || reconciler.handle_deletion(&object)).await;
    assert_eq!(reconciler.statuses.count(), 0);
    reconciler.alive.lock().insert("uid-1".into());
    reconcile(&reconciler, &object, || {}).await;
    assert_eq!(reconciler.statuses.count(), 1, "what we wrote and the watch has not shown yet");
}

/// A watch may not show yet what the previous leader wrote in its last moment.
#[tokio::test]
async fn an_object_observed_before_leading_is_read_again() {
    let ready = json!([{ "type": "Ready", "status": "True", "reason": "Running", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let mut live = serde_json::to_value(object(&ready)).expect("JSON");
    live["metadata"]["resourceVersion"] = json!("9");
    let answer = move |_: http::Request<Body>| {
        let answer = http::Response::new(Body::from(live.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(answer) }
    };
    let (fence, stale) = (Fence::closed_until_lease(), object(&json!([])));
    let client = Client::new(tower::service_fn(answer), "default");
    let reconciler: Arc<Reconciler<Waiting>> = reconciler_with(&client, fence.clone());
    {
        let mut warming_up = Box::pin(reconciler.warmed_up(&stale, "default"));
        tokio::select! {
            _ = &mut warming_up => panic!("it does not lead"),
            () = reconciler.kind.observing.notified() => {}
        }
        fence.open_until(Some(std::time::Instant::now() + Duration::from_mins(1)));
        assert!(!warming_up.await, "it has another turn");
    }
    assert!(reconciler.warmed_up(&stale, "default").await);
    let known = reconciler.statuses.current(&stale).expect("a status");
    assert_eq!(known.conditions()[0].reason, "Running");
}

/// The condition `Ready` of the status that was written last.
fn last_ready(sent: &Mutex<Vec<Value>>) -> Value {
    last_condition(sent, "Ready")
}

/// The condition of that type of the status that was written last.
fn last_condition(sent: &Mutex<Vec<Value>>, type_: &str) -> Value {
    let sent = sent.lock();
    let mut written = sent.iter().rev().filter_map(|it| it["status"]["conditions"].as_array());
    let conditions = written.next().expect("a status");
    conditions.iter().find(|it| it["type"] == type_).expect("a condition").clone()
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_does_not_end_is_reported() {
    let sent = Arc::default();
    let mut object = object(&json!([]));
    object.spec.image = CONTESTED.into();
    reconciler(&apiserver(Arc::clone(&sent))).reconcile(&object).await;
    let ready = last_ready(&sent);
    assert_eq!(ready["reason"], "Unsettled");
    assert_eq!(
        ready["message"],
        "still something to do after 12 rounds: DeleteSecurityGroup: DependencyViolation: resource sg-1 has a dependent object"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lasting_conflict_is_tried_at_the_pace_of_the_backoff() {
    let reconciler = reconciler(&apiserver(Arc::default()));
    let mut object = object(&json!([]));
    object.spec.image = CONTESTED.into();
    reconciler.alive.lock().insert("uid-1".into());
    let mut tries = Vec::new();
    for _ in 0..3 {
        reconciler.reconcile(&object).await;
        tries.push(reconciler.kind.applied.swap(0, Ordering::Relaxed));
    }
    assert_eq!(tries, [12, 2, 2]);
}

#[tokio::test]
async fn a_suspended_or_undecodable_object_is_not_observed() {
    for (suspend, problem, reason) in [(true, None, "Suspended"), (false, Some("spec.image: no text"), "Undecodable")] {
        let sent = Arc::default();
        let reconciler = reconciler(&apiserver(Arc::clone(&sent)));
        let mut object = object(&json!([]));
        object.spec.suspend = suspend;
        object.annotations_mut().extend(problem.map(|problem| (MARK.into(), problem.into())));
        reconciler.reconcile(&object).await;
        assert_eq!(last_ready(&sent)["reason"], reason);
        assert_eq!(reconciler.kind.stood_by.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_object_counts_by_reason_until_it_is_gone() {
    let reconciler = reconciler(&apiserver(Arc::default()));
    let line = r#"causeway_stalled_objects{kind="MyApp",reason="Undecodable"} 1"#;
    let counted = || reconciler.metrics.encode().unwrap().contains(line);
    let mut object = object(&json!([]));
    object.annotations_mut().insert(MARK.into(), "spec.image: no text".into());
    reconciler.alive.lock().insert("uid-1".into());
    for _ in 0..2 {
        reconciler.reconcile(&object).await;
        assert!(counted(), "it is stalled, however often it is looked at");
    }
    object.annotations_mut().clear();
    object.spec.image = CONTESTED.into();
    reconciler.reconcile(&object).await;
    assert!(counted(), "an error that may pass says nothing about what it waits for");
    object.spec.image = "busybox".into();
    reconcile(&reconciler, &object, || {}).await;
    assert!(!counted(), "it was corrected");
    object.annotations_mut().insert(MARK.into(), "spec.image: no text".into());
    reconciler.reconcile(&object).await;
    assert!(counted());
    reconciler.handle_deletion(&object);
    assert!(!counted(), "the object was deleted");
}

#[tokio::test(start_paused = true)]
async fn an_unready_object_counts_until_ready_suspended_or_deleted() {
    let reconciler = reconciler(&apiserver(Arc::default()));
    let line = r#"causeway_unready_objects{kind="MyApp",reason="Unsettled"} 1"#;
    let counted = || reconciler.metrics.encode().unwrap().contains(line);
    let mut object = object(&json!([]));
    reconciler.alive.lock().insert("uid-1".into());
    let ends: [fn(&mut MyApp); 2] = [
        |object| object.spec.suspend = true,
        |object| object.metadata.deletion_timestamp = Some(Time(Timestamp::now())),
    ];
    object.spec.image = CONTESTED.into();
    for end in ends {
        reconciler.reconcile(&object).await;
        assert!(counted());
        let mut changed = object.clone();
        end(&mut changed);
        reconciler.reconcile(&changed).await;
        assert!(!counted());
    }
    reconciler.reconcile(&object).await;
    assert!(counted());
    object.spec.image = "busybox".into();
    reconcile(&reconciler, &object, || {}).await;
    assert!(!counted(), "it is ready");
}

#[tokio::test]
async fn conditions_of_others_are_not_sent() {
    let sent = Arc::default();
    let client = apiserver(Arc::clone(&sent));
    let foreign = json!([{ "type": "Audited", "status": "True", "reason": "ByHand", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    reconcile(&reconciler(&client), &object(&foreign), || {}).await;
    let statuses = sent.lock().iter().filter_map(|it| it.get("status").cloned()).collect::<Vec<_>>();
    let types: Vec<_> =
        statuses.iter().flat_map(|it| it["conditions"].as_array().unwrap()).map(|it| &it["type"]).collect();
    assert_eq!(types, ["Ready"]);
}
