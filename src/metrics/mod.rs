//! What Prometheus reads. Labels are names from this program's text (kinds, error classes, operations), not from
//! objects, so their number is bounded; the types see to that. Only when backups of each object went well last needs the
//! object's name.

mod backups;
mod process;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub use backups::BackupTimes;
use backups::Backups;
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
    undecodable: Family<Kind, Gauge>,
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
    backups_overdue: Gauge,
    verifications: Family<Outcome, Counter>,
    backups: Backups,
    leader: Gauge,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Part {
    part: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindOutcome {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindClass {
    kind: &'static str,
    class: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AwsCall {
    service: &'static str,
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KubernetesCall {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DatabaseCall {
    database: &'static str,
    operation: &'static str,
    outcome: &'static str,
}

/// Its reason is a word of this program, or Kubernetes' word for why a container waits.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Quota {
    quota: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Event {
    kind: &'static str,
    r#type: &'static str,
    reason: String,
}

/// The outcome of what went well; what went wrong is labelled with its error's class.
const OK: &str = "ok";

impl Metrics {
    /// The type of [`Metrics::encode`]'s text.
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Metrics that count from zero.
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
            undecodable: Family::default(),
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
            backups_overdue: Gauge::default(),
            verifications: Family::default(),
            backups: Backups::default(),
            leader: Gauge::default(),
        };
        inner.register();
        Self(Arc::new(inner))
    }

    /// A reconcile ended, well or with an error of `class`.
    pub fn reconciled(&self, kind: &'static str, result: Result<(), &'static str>, took: Duration) {
        let outcome = if result.is_ok() { OK } else { "error" };
        self.0.reconciles.get_or_create(&KindOutcome { kind, outcome }).inc();
        self.0.reconcile_duration.get_or_create(&Kind { kind }).observe(took.as_secs_f64());
        if let Err(class) = result {
            self.reconcile_error(kind, class);
        }
    }

    /// Something of a reconcile failed with an error of `class`, and the rest of it went on.
    pub fn reconcile_error(&self, kind: &'static str, class: &'static str) {
        self.0.reconcile_errors.get_or_create(&KindClass { kind, class }).inc();
    }

    /// For how many objects that are not in the cluster something is in AWS.
    pub fn set_orphans(&self, count: usize) {
        self.0.orphans.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// How many of something the account has in the region, and how many AWS takes.
    pub fn set_quota(&self, quota: &'static str, used: usize, limit: usize) {
        let quota = Quota { quota };
        self.0.quota_used.get_or_create(&quota).set(i64::try_from(used).unwrap_or(i64::MAX));
        self.0.quota_limit.get_or_create(&quota).set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    /// How many other clusters have our cluster's name in AWS.
    pub fn set_cluster_name_rivals(&self, count: usize) {
        self.0.cluster_name_rivals.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Something of that kind in AWS, which somebody else had changed, was put right.
    pub fn drift_repaired(&self, part: &'static str) {
        self.0.drift_repaired.get_or_create(&Part { part }).inc();
    }

    /// How many objects cannot be decoded, and are left as they are.
    pub fn set_undecodable(&self, kind: &'static str, count: usize) {
        self.0.undecodable.get_or_create(&Kind { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// One more object of that kind waits for its reconcile, for as long as the answer is kept.
    pub fn queued(&self, kind: &'static str) -> Queued {
        let depth = self.0.queue_depth.get_or_create_owned(&Kind { kind });
        depth.inc();
        Queued(depth)
    }

    /// How many objects are there whose last reconcile failed.
    pub fn set_failing_objects(&self, kind: &'static str, count: usize) {
        self.0.failing.get_or_create(&Kind { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A call to AWS (one attempt) ended, well or with an error of a class.
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

    /// A call to AWS waited for its share of the rates that AWS allows.
    pub fn aws_call_waited(&self, operation: &'static str, waited: Duration) {
        self.0.aws_call_wait.get_or_create(&Operation { operation }).inc_by(waited.as_secs_f64());
    }

    /// A call to the Kubernetes API ended, well or with an error of a class.
    pub fn kubernetes_call(&self, verb: &'static str, result: Result<(), &'static str>) {
        let outcome = result.err().unwrap_or(OK);
        self.0.kubernetes_calls.get_or_create(&KubernetesCall { verb, outcome }).inc();
    }

    /// A call of a member of etcd or a node of Redis ended, well or with an error of a class.
    pub fn database_call(&self, database: &'static str, operation: &'static str, result: Result<(), &'static str>) {
        let outcome = result.err().unwrap_or(OK);
        self.0.database_calls.get_or_create(&DatabaseCall { database, operation, outcome }).inc();
    }

    /// Something was told of an object.
    pub fn event(&self, kind: &'static str, warning: bool, reason: &str) {
        let r#type = if warning { "Warning" } else { "Normal" };
        self.0.events.get_or_create(&Event { kind, r#type, reason: reason.into() }).inc();
    }

    /// Endpoints of a load balancer's backend were registered, so long after the cluster told of them.
    pub fn targets_registered(&self, took: Duration) {
        self.0.target_registration_duration.observe(took.as_secs_f64());
    }

    /// A Job of a backup ended.
    pub fn backup_ended(&self, success: bool) {
        let outcome = if success { OK } else { "error" };
        self.0.backup_runs.get_or_create(&Outcome { outcome }).inc();
    }

    /// How many objects lack a backup that was due.
    pub fn set_backups_overdue(&self, count: usize) {
        self.0.backups_overdue.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A verification of a backup ended.
    pub fn verification_ended(&self, success: bool) {
        let outcome = if success { OK } else { "error" };
        self.0.verifications.get_or_create(&Outcome { outcome }).inc();
    }

    /// From now on `read` tells when backups of each object went well last.
    pub fn tell_of_backups(&self, read: impl Fn() -> Vec<BackupTimes> + Send + Sync + 'static) {
        self.0.backups.told_by(read);
    }

    /// Whether this process leads.
    pub fn set_leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
    }

    /// This process leads no more: how things are is told by whoever does.
    pub fn stopped_leading(&self) {
        let all = &self.0;
        all.leader.set(0);
        for gauge in [&all.orphans, &all.cluster_name_rivals, &all.backups_overdue] {
            gauge.set(0);
        }
        for family in [&all.queue_depth, &all.failing, &all.undecodable] {
            family.clear();
        }
        for family in [&all.quota_used, &all.quota_limit] {
            family.clear();
        }
        all.backups.told_by(Vec::new);
    }

    /// All metrics in the OpenMetrics text format.
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
        let ours = self.registry.sub_registry_with_prefix(env!("CARGO_PKG_NAME"));
        ours.register("reconciles", "Reconciles by outcome", self.reconciles.clone());
        ours.register("reconcile_errors", "Failed reconciles by the error's class", self.reconcile_errors.clone());
        let help = "How long reconciles took";
        ours.register_with_unit("reconcile_duration", help, Unit::Seconds, self.reconcile_duration.clone());
        ours.register("queue_depth", "Objects that wait for their reconcile", self.queue_depth.clone());
        ours.register("failing_objects", "Objects whose last reconcile failed", self.failing.clone());
        let help = "Objects that cannot be decoded as a whole, and are left as they are";
        ours.register("undecodable_objects", help, self.undecodable.clone());
        let help = "Objects that are not in the cluster and for which something is in AWS";
        ours.register("orphans", help, self.orphans.clone());
        let help = "How many of a quota of Elastic Load Balancing the account uses in the region, others' included";
        ours.register("aws_quota_used", help, self.quota_used.clone());
        let help = "How many AWS takes of a quota of Elastic Load Balancing";
        ours.register("aws_quota_limit", help, self.quota_limit.clone());
        let help = "Other clusters of our CLUSTER_NAME that have something in this AWS account and region";
        ours.register("cluster_name_rivals", help, self.cluster_name_rivals.clone());
        let help = "What somebody else had changed in AWS and was put right, by kind of part";
        ours.register("drift_repaired", help, self.drift_repaired.clone());
        ours.register("aws_calls", "Calls to AWS by outcome, every attempt counted", self.aws_calls.clone());
        let help = "How long calls to AWS took";
        ours.register_with_unit("aws_call_duration", help, Unit::Seconds, self.aws_call_duration.clone());
        let help = "How long calls to AWS waited to stay within its rates";
        ours.register_with_unit("aws_call_wait", help, Unit::Seconds, self.aws_call_wait.clone());
        ours.register("kubernetes_calls", "Calls to the Kubernetes API by outcome", self.kubernetes_calls.clone());
        let help = "Calls of members of etcd and nodes of Redis by outcome";
        ours.register("database_calls", help, self.database_calls.clone());
        ours.register("events", "Events of objects by reason, told or not", self.events.clone());
        let help = "From an endpoint's readiness to its registration as a target";
        let took = self.target_registration_duration.clone();
        ours.register_with_unit("target_registration_duration", help, Unit::Seconds, took);
        ours.register("backup_runs", "Jobs of backups that ended, by outcome", self.backup_runs.clone());
        let help = "DatabaseBackups that lack a backup that was due";
        ours.register("backup_overdue_objects", help, self.backups_overdue.clone());
        let help = "Verifications of backups that ended, by outcome";
        ours.register("backup_verifications", help, self.verifications.clone());
        ours.register("leader", "1 in the process that leads, else 0", self.leader.clone());
        ours.register("build", "What runs here", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        self.registry.register_collector(Box::new(self.backups.clone()));
        self.registry.register_collector(Box::new(Process::this()));
    }
}

/// From a no-op on cached objects to one that creates everything; the longest is near a reconcile's deadline.
const RECONCILE_BUCKETS: &[f64] = &[0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// From a call within a region to one that is throttled until its deadline.
const CALL_BUCKETS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

fn histogram(buckets: &[f64]) -> Histogram {
    Histogram::new(buckets.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_happened() {
        let metrics = Metrics::new();
        metrics.reconciled("MyApp", Ok(()), Duration::from_millis(3));
        metrics.reconciled("MyApp", Err("throttled"), Duration::from_secs(2));
        let _waiting = [metrics.queued("MyApp"), metrics.queued("MyApp")];
        drop(metrics.queued("MyApp"));
        metrics.set_failing_objects("MyApp", 3);
        metrics.set_undecodable("MyApp", 1);
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
        metrics.set_backups_overdue(2);
        metrics.verification_ended(true);
        let at = |second| Some(jiff::Timestamp::from_second(second).unwrap());
        let times = BackupTimes { namespace: "shop".into(), name: "nightly".into(), success: at(9), verified: at(7) };
        metrics.tell_of_backups(move || vec![times.clone(), BackupTimes::default()]);
        metrics.clone().set_leader(true);
        let text = metrics.encode().unwrap();
        for line in [
            r#"causeway_reconciles_total{kind="MyApp",outcome="ok"} 1"#,
            r#"causeway_reconciles_total{kind="MyApp",outcome="error"} 1"#,
            r#"causeway_reconcile_errors_total{kind="MyApp",class="throttled"} 1"#,
            r#"causeway_reconcile_duration_seconds_bucket{le="0.005",kind="MyApp"} 1"#,
            r#"causeway_reconcile_duration_seconds_count{kind="MyApp"} 2"#,
            r#"causeway_queue_depth{kind="MyApp"} 2"#,
            r#"causeway_failing_objects{kind="MyApp"} 3"#,
            r#"causeway_undecodable_objects{kind="MyApp"} 1"#,
            r#"causeway_aws_quota_used{quota="target-groups"} 7"#,
            r#"causeway_aws_quota_limit{quota="target-groups"} 3000"#,
            "causeway_cluster_name_rivals 1",
            r#"causeway_drift_repaired_total{part="rule"} 1"#,
            r#"causeway_aws_calls_total{service="elbv2",operation="CreateLoadBalancer",outcome="ok"} 1"#,
            r#"causeway_aws_calls_total{service="elbv2",operation="CreateLoadBalancer",outcome="denied"} 1"#,
            r#"causeway_aws_call_duration_seconds_count{operation="CreateLoadBalancer"} 2"#,
            r#"causeway_aws_call_wait_seconds_total{operation="CreateLoadBalancer"} 1.5"#,
            r#"causeway_kubernetes_calls_total{verb="patch",outcome="conflict"} 1"#,
            r#"causeway_database_calls_total{database="redis",operation="ROLE",outcome="not_found"} 1"#,
            r#"causeway_events_total{kind="Redis",type="Warning",reason="FailedOver"} 1"#,
            "causeway_target_registration_duration_seconds_count 1",
            r#"causeway_backup_runs_total{outcome="error"} 1"#,
            "causeway_backup_overdue_objects 2",
            r#"causeway_backup_verifications_total{outcome="ok"} 1"#,
            r#"causeway_backup_last_success_timestamp_seconds{namespace="shop",name="nightly"} 9"#,
            r#"causeway_backup_last_verified_timestamp_seconds{namespace="shop",name="nightly"} 7"#,
            "causeway_leader 1",
            concat!(r#"causeway_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
            "# TYPE process_resident_memory_bytes gauge",
            "# TYPE process_cpu_seconds counter",
            "# TYPE process_start_time_seconds gauge",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn who_stopped_leading_tells_no_more_how_things_are() {
        let metrics = Metrics::new();
        metrics.set_leader(true);
        metrics.set_backups_overdue(2);
        metrics.set_undecodable("MyApp", 1);
        metrics.stopped_leading();
        let text = metrics.encode().unwrap();
        assert!(text.contains("causeway_leader 0") && text.contains("causeway_backup_overdue_objects 0"), "{text}");
        assert!(!text.contains("causeway_undecodable_objects{"), "{text}");
    }

    #[test]
    fn an_object_that_is_gone_is_told_of_no_more() {
        let metrics = Metrics::new();
        let all = Arc::new(std::sync::Mutex::new(vec![BackupTimes {
            success: Some(jiff::Timestamp::UNIX_EPOCH),
            ..BackupTimes::default()
        }]));
        let read = all.clone();
        metrics.tell_of_backups(move || read.lock().unwrap().clone());
        let told = || metrics.encode().unwrap().contains("causeway_backup_last_success_timestamp_seconds{");
        assert!(told());
        all.lock().unwrap().clear();
        assert!(!told());
    }

    #[test]
    fn repetition_adds_no_series() {
        let metrics = Metrics::new();
        let series = || metrics.encode().unwrap().lines().filter(|line| !line.starts_with('#')).count();
        metrics.reconciled("MyApp", Err("transient"), Duration::from_secs(1));
        let before = series();
        for _ in 0..1000 {
            metrics.reconciled("MyApp", Err("transient"), Duration::from_secs(1));
        }
        assert_eq!(series(), before);
    }
}
