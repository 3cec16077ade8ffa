//! Metrics with a sample of everything, for tests of what reads them.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "support of tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use super::{BackupTimes, Metrics, Unready};

/// Metrics of a process in which everything happened that is counted.
pub fn filled_metrics() -> Metrics {
    let metrics = Metrics::new();
    metrics.count_reconcile("MyApp", Ok(()), Duration::from_millis(3));
    metrics.count_reconcile("MyApp", Err("throttled"), Duration::from_secs(2));
    // These stay queued for ever.
    std::mem::forget([metrics.count_queued("MyApp"), metrics.count_queued("MyApp")]);
    drop(metrics.count_queued("MyApp"));
    metrics.set_failing_objects("MyApp", 3);
    metrics.set_stalled_objects("EtcdCluster", || BTreeMap::from([("QuorumLost", 2)]));
    let since = jiff::Timestamp::from_second(8).unwrap();
    metrics.set_unready_objects("Redis", || BTreeMap::from([("MasterSilent", Unready { objects: 2, since })]));
    metrics.set_undecodable("MyApp", 1);
    metrics.set_namespace_denied("MyApp", "shop", true);
    metrics.set_quota("target-groups", 7, 3000);
    metrics.set_cluster_name_rivals(1);
    metrics.drift_repaired("rule");
    metrics.aws_call("elbv2", "CreateLoadBalancer", Ok(()), Duration::from_millis(40));
    metrics.aws_call("elbv2", "CreateLoadBalancer", Err("denied"), Duration::from_millis(40));
    metrics.aws_call_waited("CreateLoadBalancer", Duration::from_millis(1500));
    metrics.kubernetes_call("patch", Err("conflict"));
    metrics.database_call("redis", "ROLE", Err("not_found"));
    metrics.event("Redis", true, "FailedOver");
    metrics.targets_registered(Duration::from_millis(60));
    metrics.backup_ended(false);
    metrics.verification_ended(true);
    let at = |second| Some(jiff::Timestamp::from_second(second).unwrap());
    let (namespace, name) = ("shop".to_owned(), "nightly".to_owned());
    let (log_kept, log_room) = (Some(5), Some(6));
    let (success, verified) = (at(9), at(7));
    let (log_unmeasured, overdue, bad) = (true, true, true);
    let times = BackupTimes { namespace, name, success, verified, log_kept, log_room, log_unmeasured, overdue, bad };
    metrics.tell_of_backups(move || vec![times.clone(), BackupTimes::default()]);
    metrics.clone().set_leader("causeway", true);
    metrics
}
