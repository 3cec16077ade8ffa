//! An action that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::Controller;
use serde_json::json;

use causeway_api::{Redis, RedisStatus};

use super::{Health, Reconciler, apiserver, last_condition, reconciler_with};
use crate::controller::reconcile;
use crate::leader::Fence;
use crate::{ActionEvent, Class, ConditionStatus, ExtraCondition, Failure, Kind, Plan};

/// A kind whose only action is refused. It counts the attempts.
#[derive(Default)]
struct Refusing(AtomicUsize);

#[derive(Debug, thiserror::Error)]
#[error("exceeded quota: balancers")]
struct Refused;

impl Failure for Refused {
    fn class(&self) -> Class {
        Class::Denied
    }
    fn reason(&self) -> &'static str {
        "ApplyFailed"
    }
}

impl Kind for Refusing {
    type Object = Redis;
    type Status = RedisStatus;
    type Observed = ();
    type Action = ();
    type Error = Refused;
    const NAME: &'static str = "Redis";

    fn status(object: &Redis) -> Option<&RedisStatus> {
        object.status.as_ref()
    }
    fn is_suspended(_: &Redis) -> bool {
        false
    }
    async fn observe(&self, _: &Redis) -> Result<(), Refused> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn decide(_: &Redis, (): &(), _: Timestamp) -> Plan<(), RedisStatus> {
        let part = ExtraCondition {
            type_: "Replicated",
            status: ConditionStatus::False,
            reason: "ReplicasBehind",
            message: "1 of 2 replicas have all data".into(),
        };
        Plan {
            actions: vec![()],
            status: RedisStatus::default(),
            health: Health::progressing("Applying", "bringing the children up to date"),
            parts: vec![part],
            write_status_first: false,
            requeue: None,
        }
    }
    async fn apply(&self, _: &Redis, (): &()) -> Result<(), Refused> {
        Err(Refused)
    }
    fn event((): &()) -> Option<ActionEvent> {
        None
    }
    fn triggers(&self, controller: Controller<Redis>, _: Option<&str>) -> Controller<Redis> {
        controller
    }
}

#[tokio::test]
async fn conditions_show_what_was_observed_before_an_action_failed() {
    let sent = Arc::default();
    let replicated = json!([{ "type": "Replicated", "status": "True", "reason": "AllInSync", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let object = serde_json::from_value(json!({
        "metadata": { "name": "cache", "namespace": "default", "uid": "uid-1", "resourceVersion": "1", "generation": 1 },
        "spec": {},
        "status": { "conditions": replicated },
    }));
    let reconciler: Arc<Reconciler<Refusing>> = reconciler_with(&apiserver(Arc::clone(&sent)), Fence::always_open());
    reconciler.reconcile(&object.expect("an object")).await;
    assert_eq!(last_condition(&sent, "Ready")["reason"], "ApplyFailed");
    let replicated = last_condition(&sent, "Replicated");
    assert_eq!([&replicated["status"], &replicated["reason"]], ["False", "ReplicasBehind"]);
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_the_pause_of_a_failing_object() {
    let object = |generation: i64| -> Arc<Redis> {
        let metadata = json!({ "name": "cache", "namespace": "default", "uid": "uid-1", "resourceVersion": "1", "generation": generation });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata, "spec": {} })).expect("an object"))
    };
    let reconciler: Arc<Reconciler<Refusing>> = reconciler_with(&apiserver(Arc::default()), Fence::always_open());
    reconciler.alive.lock().insert("uid-1".into());
    let attempts = || reconciler.kind.0.load(Ordering::Relaxed);
    for _ in 0..50 {
        reconcile(object(1), reconciler.clone()).await.expect("it never fails");
    }
    assert_eq!(attempts(), 1);
    reconcile(object(2), reconciler.clone()).await.expect("it never fails");
    assert_eq!(attempts(), 2, "an edit is tried at once");
    tokio::time::advance(Duration::from_secs(30)).await;
    reconcile(object(2), reconciler.clone()).await.expect("it never fails");
    assert_eq!(attempts(), 3);
}
