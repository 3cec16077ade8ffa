//! The metrics that Prometheus reads. Labels are names from this program's source (kinds, error classes, operations),
//! not from objects, which bounds their number; the types enforce that. Only the times of the last successful backups
//! need an object's name, and a denied namespace is named by one of the operator's options.

mod access;
mod backups;
mod by_reason;
#[cfg(any(test, feature = "testing"))]
pub mod filled;
mod labels;
mod process;
pub mod serving;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use backups::BackupTimes;
use backups::Backups;
use by_reason::ByReason;
pub use by_reason::Unready;
use labels::{
    AwsCall, DatabaseCall, Event, Kind, KindClass, KindNamespace, KindOutcome, KubernetesCall, Lease, Operation,
    Outcome, Part, Quota,
};
use process::Process;

/// The metrics of this process; clones share the same ones.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

/// An object that waits for its reconcile.
#[derive(Debug)]
pub struct Queued(Gauge);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Debug)]
struct Inner {
    registry: Registry,
    reconciles: Family<KindOutcome, Counter>,
    reconcile_errors: Family<KindClass, Counter>,
    reconcile_duration: Family<Kind, Histogram, fn() -> Histogram>,
    queue_depth: Family<Kind, Gauge>,
    failing: Family<Kind, Gauge>,
    stalled: ByReason<usize>,
    unready: ByReason<Unready>,
    undecodable: Family<Kind, Gauge>,
    denied_namespaces: Family<KindNamespace, Gauge>,
    /// The series of `denied_namespaces`.
    denied: Mutex<BTreeSet<KindNamespace>>,
    orphans: Gauge,
    quota_used: Family<Quota, Gauge>,
    quota_limit: Family<Quota, Gauge>,
    cluster_name_rivals: Gauge,
    drift_repaired: Family<Part, Counter>,
    aws_calls: Family<AwsCall, Counter>,
    aws_call_duration: Family<Operation, Histogram, fn() -> Histogram>,
    aws_call_wait: Family<Operation, Counter<f64, AtomicU64>>,
    kubernetes_calls: Family<KubernetesCall, Counter>,
    database_calls: Family<DatabaseCall, Counter>,
    events: Family<Event, Counter>,
    target_registration_duration: Histogram,
    backup_runs: Family<Outcome, Counter>,
    verifications: Family<Outcome, Counter>,
    backups: Backups,
    leader: Family<Lease, Gauge>,
}

/// The outcome label of a success. A failure has the class of its error instead.
const OK: &str = "ok";

impl Metrics {
    /// The content type of [`Metrics::encode`]'s text.
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Metrics that all start at zero.
    pub fn new() -> Self {
        let reconcile_duration = Family::new_with_constructor((|| histogram(RECONCILE_BUCKETS)) as fn() -> Histogram);
        let aws_call_duration = Family::new_with_constructor((|| histogram(CALL_BUCKETS)) as fn() -> Histogram);
        let mut inner = Inner {
            registry: Registry::default(),
            reconciles: Family::default(),
            reconcile_errors: Family::default(),
            reconcile_duration,
            queue_depth: Family::default(),
            failing: Family::default(),
            stalled: ByReason::default(),
            unready: ByReason::default(),
            undecodable: Family::default(),
            denied_namespaces: Family::default(),
            denied: Mutex::default(),
            orphans: Gauge::default(),
            quota_used: Family::default(),
            quota_limit: Family::default(),
            cluster_name_rivals: Gauge::default(),
            drift_repaired: Family::default(),
            aws_calls: Family::default(),
            aws_call_duration,
            aws_call_wait: Family::default(),
            kubernetes_calls: Family::default(),
            database_calls: Family::default(),
            events: Family::default(),
            target_registration_duration: histogram(CALL_BUCKETS),
            backup_runs: Family::default(),
            verifications: Family::default(),
            backups: Backups::default(),
            leader: Family::default(),
        };
        inner.register();
        Self(Arc::new(inner))
    }

    /// Counts a reconcile that ended, in success or with an error of `class`.
    pub fn count_reconcile(&self, kind: &'static str, result: Result<(), &'static str>, took: Duration) {
        let outcome = if result.is_ok() { OK } else { "error" };
        self.0.reconciles.get_or_create(&KindOutcome { kind, outcome }).inc();
        self.0.reconcile_duration.get_or_create(&Kind { kind }).observe(took.as_secs_f64());
        if let Err(class) = result {
            self.reconcile_error(kind, class);
        }
    }

    /// Counts a part of a reconcile that failed with an error of `class`, while the rest of it went on.
    pub fn reconcile_error(&self, kind: &'static str, class: &'static str) {
        self.0.reconcile_errors.get_or_create(&KindClass { kind, class }).inc();
    }

    /// Reports how many objects that are not in the cluster still have resources in AWS.
    pub fn set_orphans(&self, count: usize) {
        self.0.orphans.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Reports how many of a resource the account has in the region, and how many AWS allows.
    pub fn set_quota(&self, quota: &'static str, used: usize, limit: usize) {
        let quota = Quota { quota };
        self.0.quota_used.get_or_create(&quota).set(i64::try_from(used).unwrap_or(i64::MAX));
        self.0.quota_limit.get_or_create(&quota).set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    /// Reports how many other clusters use our cluster's name in AWS.
    pub fn set_cluster_name_rivals(&self, count: usize) {
        self.0.cluster_name_rivals.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts a repair of a resource in AWS that another client had changed.
    pub fn drift_repaired(&self, part: &'static str) {
        self.0.drift_repaired.get_or_create(&Part { part }).inc();
    }

    /// Reports how many objects cannot be decoded and are therefore left as they are.
    pub fn set_undecodable(&self, kind: &'static str, count: usize) {
        self.0.undecodable.get_or_create(&Kind { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Reports whether the operator is denied the objects of that kind in a namespace that it is to serve; an empty
    /// name stands for all namespaces.
    pub fn set_namespace_denied(&self, kind: &'static str, namespace: &str, denied: bool) {
        let key = KindNamespace { kind, namespace: namespace.to_owned() };
        let mut all = self.0.denied.lock();
        if denied {
            self.0.denied_namespaces.get_or_create(&key).set(1);
            all.insert(key);
        } else {
            self.0.denied_namespaces.remove(&key);
            all.remove(&key);
        }
    }

    /// Counts one more object of that kind that waits for its reconcile, until the returned value is dropped.
    pub fn count_queued(&self, kind: &'static str) -> Queued {
        let depth = self.0.queue_depth.get_or_create_owned(&Kind { kind });
        depth.inc();
        Queued(depth)
    }

    /// Reports how many objects there are whose last reconcile failed.
    pub fn set_failing_objects(&self, kind: &'static str, count: usize) {
        self.0.failing.get_or_create(&Kind { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Reports how many objects wait for a user or an administrator, by reason; a reason that `count` leaves out has
    /// none.
    pub fn set_stalled_objects(&self, kind: &'static str, count: impl FnOnce() -> BTreeMap<&'static str, usize>) {
        self.0.stalled.set(kind, count);
    }

    /// Reports which objects are not ready, by reason; a reason that `count` leaves out has none.
    pub fn set_unready_objects(&self, kind: &'static str, count: impl FnOnce() -> BTreeMap<&'static str, Unready>) {
        self.0.unready.set(kind, count);
    }

    /// Counts a call to AWS (one attempt) that ended, in success or with an error of a class.
    pub fn aws_call(
        &self,
        service: &'static str,
        operation: &'static str,
        result: Result<(), &'static str>,
        took: Duration,
    ) {
        let outcome = result.err().unwrap_or(OK);
        self.0.aws_calls.get_or_create(&AwsCall { service, operation, outcome }).inc();
        self.0.aws_call_duration.get_or_create(&Operation { operation }).observe(took.as_secs_f64());
    }

    /// Counts a call to AWS that waited because of the rate limit.
    pub fn aws_call_waited(&self, operation: &'static str, waited: Duration) {
        self.0.aws_call_wait.get_or_create(&Operation { operation }).inc_by(waited.as_secs_f64());
    }

    /// Counts a call to the Kubernetes API that ended, in success or with an error of a class.
    pub fn kubernetes_call(&self, verb: &'static str, result: Result<(), &'static str>) {
        let outcome = result.err().unwrap_or(OK);
        self.0.kubernetes_calls.get_or_create(&KubernetesCall { verb, outcome }).inc();
    }

    /// Counts a call to an etcd member or a Redis node that ended, in success or with an error of a class.
    pub fn database_call(&self, database: &'static str, operation: &'static str, result: Result<(), &'static str>) {
        let outcome = result.err().unwrap_or(OK);
        self.0.database_calls.get_or_create(&DatabaseCall { database, operation, outcome }).inc();
    }

    /// Counts an event about an object that was published.
    pub fn event(&self, kind: &'static str, warning: bool, reason: &str) {
        let r#type = if warning { "Warning" } else { "Normal" };
        self.0.events.get_or_create(&Event { kind, r#type, reason: reason.into() }).inc();
    }

    /// Records that endpoints of a load balancer's backend were registered, this long after the cluster reported them.
    pub fn targets_registered(&self, took: Duration) {
        self.0.target_registration_duration.observe(took.as_secs_f64());
    }

    /// Counts a Job of a backup that ended.
    pub fn backup_ended(&self, success: bool) {
        let outcome = if success { OK } else { "error" };
        self.0.backup_runs.get_or_create(&Outcome { outcome }).inc();
    }

    /// Counts a verification of a backup that ended.
    pub fn verification_ended(&self, success: bool) {
        let outcome = if success { OK } else { "error" };
        self.0.verifications.get_or_create(&Outcome { outcome }).inc();
    }

    /// Sets the function that supplies the state of the backups of each object from now on.
    pub fn tell_of_backups(&self, read: impl Fn() -> Vec<BackupTimes> + Send + Sync + 'static) {
        self.0.backups.read_by(read);
    }

    /// Reports whether this process leads by that lease.
    pub fn set_leader(&self, lease: &str, leads: bool) {
        self.0.leader.get_or_create(&Lease { lease: lease.into() }).set(i64::from(leads));
    }

    /// Records that this process no longer leads by that lease. The new leader reports the state of its kinds.
    pub fn stopped_leading(&self, lease: &str, kinds: &[&'static str]) {
        let all = &self.0;
        self.set_leader(lease, false);
        for kind in kinds {
            for family in [&all.queue_depth, &all.failing, &all.undecodable] {
                family.remove(&Kind { kind });
            }
            all.stalled.forget(kind);
            all.unready.forget(kind);
        }
        let mut denied = all.denied.lock();
        denied.retain(|key| !kinds.contains(&key.kind) || !all.denied_namespaces.remove(key));
        drop(denied);
        if kinds.contains(&"MyIngress") {
            all.orphans.set(0);
            all.cluster_name_rivals.set(0);
            all.quota_used.clear();
            all.quota_limit.clear();
        }
        if kinds.contains(&"DatabaseBackup") {
            all.backups.read_by(Vec::new);
        }
    }

    /// Returns all metrics in the OpenMetrics text format.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn register(&mut self) {
        let ours = self.registry.sub_registry_with_prefix("causeway");
        ours.register("reconciles", "Reconciles by outcome", self.reconciles.clone());
        ours.register("reconcile_errors", "Failed reconciles by the error's class", self.reconcile_errors.clone());
        let help = "How long reconciles took";
        ours.register_with_unit("reconcile_duration", help, Unit::Seconds, self.reconcile_duration.clone());
        ours.register("queue_depth", "Objects that wait for their reconcile", self.queue_depth.clone());
        ours.register(
            "failing_objects",
            "Objects whose last reconcile failed, or that wait for a change outside (Stalled)",
            self.failing.clone(),
        );
        let help = "Objects that cannot be decoded and are therefore not reconciled";
        ours.register("undecodable_objects", help, self.undecodable.clone());
        let help = "1 for each served namespace in which the operator may not list or watch the kind";
        ours.register("denied_namespaces", help, self.denied_namespaces.clone());
        let help = "Objects that are not in the cluster but still have resources in AWS";
        ours.register("orphans", help, self.orphans.clone());
        let help = "Usage of a quota of Elastic Load Balancing by the whole account in the region";
        ours.register("aws_quota_used", help, self.quota_used.clone());
        let help = "Limit of a quota of Elastic Load Balancing";
        ours.register("aws_quota_limit", help, self.quota_limit.clone());
        let help = "Other clusters with the same CLUSTER_NAME that have resources in this AWS account and region";
        ours.register("cluster_name_rivals", help, self.cluster_name_rivals.clone());
        let help = "Changes by others in AWS that were repaired, by kind of resource";
        ours.register("drift_repaired", help, self.drift_repaired.clone());
        ours.register("aws_calls", "Calls to AWS by outcome, every attempt counted", self.aws_calls.clone());
        let help = "How long calls to AWS took";
        ours.register_with_unit("aws_call_duration", help, Unit::Seconds, self.aws_call_duration.clone());
        let help = "How long calls to AWS waited to stay within the rate limits";
        ours.register_with_unit("aws_call_wait", help, Unit::Seconds, self.aws_call_wait.clone());
        ours.register("kubernetes_calls", "Calls to the Kubernetes API by outcome", self.kubernetes_calls.clone());
        let help = "Calls to etcd members and Redis nodes, by outcome";
        ours.register("database_calls", help, self.database_calls.clone());
        ours.register("events", "Events of objects by reason, published or not", self.events.clone());
        let help = "From an endpoint's readiness to its registration as a target";
        let took = self.target_registration_duration.clone();
        ours.register_with_unit("target_registration_duration", help, Unit::Seconds, took);
        ours.register("backup_runs", "Backup Jobs that ended, by outcome", self.backup_runs.clone());
        let help = "Backup verifications that ended, by outcome";
        ours.register("backup_verifications", help, self.verifications.clone());
        ours.register("leader", "1 in the process that holds that leader lease, else 0", self.leader.clone());
        ours.register("build", "What runs here", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        self.registry.register_collector(Box::new(self.backups.clone()));
        self.registry.register_collector(Box::new(self.stalled.clone()));
        self.registry.register_collector(Box::new(self.unready.clone()));
        self.registry.register_collector(Box::new(Process::this()));
    }
}

/// The shortest is a no-op on cached objects, the longest a reconcile that creates everything, near its deadline.
const RECONCILE_BUCKETS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// The shortest is a call within a region, the longest one that is throttled until its deadline.
const CALL_BUCKETS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

fn histogram(buckets: &[f64]) -> Histogram {
    Histogram::new(buckets.iter().copied())
}
