//! A kind whose pod never is as it wants it.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::Replacement;

/// A kind that replaces its pod in each round, as under a webhook that changes what is created.
#[derive(Default)]
struct Replacing {
    replaced: AtomicUsize,
}

impl Kind for Replacing {
    type Object = MyApp;
    type Status = MyAppStatus;
    type Observed = ();
    type Action = ();
    type Error = Conflict;
    const NAME: &'static str = "MyApp";

    fn status(object: &MyApp) -> Option<&MyAppStatus> {
        object.status.as_ref()
    }
    fn is_suspended(_: &MyApp) -> bool {
        false
    }
    async fn observe(&self, _: &MyApp) -> Result<(), Conflict> {
        Ok(())
    }
    fn decide(_: &MyApp, (): &(), _: Timestamp) -> Plan<(), MyAppStatus> {
        Plan {
            actions: vec![()],
            status: MyAppStatus::default(),
            health: Health::progressing("RollingOut", "replacing one pod at a time"),
            parts: Vec::new(),
            write_status_first: false,
            requeue: None,
        }
    }
    fn replaces((): &()) -> Option<Replacement<'_>> {
        Some(Replacement { kind: "Pod", name: "app-pod", why: "its image is mirror/busybox" })
    }
    async fn apply(&self, _: &MyApp, (): &()) -> Result<(), Conflict> {
        self.replaced.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn event((): &()) -> Option<ActionEvent> {
        None
    }
    fn triggers(&self, controller: Controller<MyApp>, _: Option<&str>) -> Controller<MyApp> {
        controller
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_never_as_wanted_is_reported() {
    let sent = Arc::default();
    let reconciler = reconciler_with::<Replacing>(&apiserver(Arc::clone(&sent)), Fence::always_open());
    let object = object(&json!([]));
    reconciler.alive.lock().insert("uid-1".into());
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(24) {
        let pause = reconciler.reconcile(&object).await;
        tokio::time::sleep(pause).await;
    }
    let replaced = reconciler.kind.replaced.load(Ordering::Relaxed);
    assert!(replaced <= 3, "{replaced} pods in 24 s");
    let ready = sent.lock().iter().rev().find_map(|body| {
        let conditions = body["status"]["conditions"].as_array()?;
        conditions.iter().find(|condition| condition["type"] == "Ready").cloned()
    });
    let ready = ready.expect("a condition");
    let message = ready["message"].as_str().unwrap();
    assert!(ready["reason"] == "ReplacedTooOften" && message.contains("its image is mirror/busybox"), "{ready}");
    assert_eq!(ready["status"], "False");
}
