//! Actions that depend on one that is refused in the same pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use kube::runtime::Controller;
use parking_lot::Mutex;
use serde_json::json;

use causeway_api::{MyApp, MyAppStatus};

use super::{Health, Reconciler, apiserver, object, reconciler_with};
use crate::leader::Fence;
use crate::{ActionEvent, Class, Failure, Kind, Plan};

/// Replaces what lets clients in. The new part is always refused.
#[derive(Default)]
struct Replacing {
    refused: AtomicBool,
    applied: Mutex<Vec<&'static str>>,
}

#[derive(Debug, thiserror::Error)]
#[error("RulesPerSecurityGroupLimitExceeded: the maximum number of rules is reached")]
struct Refused;

impl Failure for Refused {
    fn class(&self) -> Class {
        Class::Denied
    }
    fn reason(&self) -> &'static str {
        "QuotaReached"
    }
}

impl Kind for Replacing {
    type Object = MyApp;
    type Status = MyAppStatus;
    type Observed = bool;
    type Action = &'static str;
    type Error = Refused;
    const NAME: &'static str = "MyApp";

    fn status(object: &MyApp) -> Option<&MyAppStatus> {
        object.status.as_ref()
    }
    fn is_suspended(_: &MyApp) -> bool {
        false
    }
    async fn observe(&self, _: &MyApp) -> Result<bool, Refused> {
        Ok(self.refused.load(Ordering::Relaxed))
    }
    fn decide(_: &MyApp, refused: &bool, _: Timestamp) -> Plan<&'static str, MyAppStatus> {
        let all = ["allow new", "revoke old", "allow more in its place", "tag"];
        Plan {
            actions: if *refused { Vec::new() } else { all.into() },
            status: MyAppStatus::default(),
            health: Health::ready("Running", "all is well"),
            parts: Vec::new(),
            write_status_first: false,
            requeue: None,
        }
    }
    async fn apply(&self, _: &MyApp, action: &&'static str) -> Result<(), Refused> {
        if *action == "allow new" {
            return Err(Refused);
        }
        self.applied.lock().push(*action);
        Ok(())
    }
    fn set_aside(&self, _: &MyApp, _: &&'static str, _: &Refused) -> bool {
        self.refused.store(true, Ordering::Relaxed);
        true
    }
    fn depends(refused: &&'static str, later: &&'static str) -> bool {
        [("allow new", "revoke old"), ("revoke old", "allow more in its place")].contains(&(*refused, *later))
    }
    fn event(_: &&'static str) -> Option<ActionEvent> {
        None
    }
    fn triggers(&self, controller: Controller<MyApp>, _: Option<&str>) -> Controller<MyApp> {
        controller
    }
}

#[tokio::test]
async fn only_actions_that_depend_on_a_refused_one_are_skipped() {
    let reconciler: Arc<Reconciler<Replacing>> = reconciler_with(&apiserver(Arc::default()), Fence::always_open());
    reconciler.reconcile(&object(&json!([]))).await;
    assert_eq!(*reconciler.kind.applied.lock(), ["tag"]);
}
