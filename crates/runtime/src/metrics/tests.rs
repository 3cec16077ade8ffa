//! Tests that metrics are reported, and that they stay bounded.

use super::*;

use super::filled::filled_metrics;

#[test]
fn everything_that_happened_is_reported() {
    let text = filled_metrics().encode().unwrap();
    for line in [
        r#"causeway_reconciles_total{kind="MyApp",outcome="ok"} 1"#,
        r#"causeway_reconciles_total{kind="MyApp",outcome="error"} 1"#,
        r#"causeway_reconcile_errors_total{kind="MyApp",class="throttled"} 1"#,
        r#"causeway_reconcile_duration_seconds_bucket{le="0.005",kind="MyApp"} 1"#,
        r#"causeway_reconcile_duration_seconds_count{kind="MyApp"} 2"#,
        r#"causeway_queue_depth{kind="MyApp"} 2"#,
        r#"causeway_failing_objects{kind="MyApp"} 3"#,
        r#"causeway_stalled_objects{kind="EtcdCluster",reason="QuorumLost"} 2"#,
        r#"causeway_unready_objects{kind="Redis",reason="MasterSilent"} 2"#,
        r#"causeway_unready_since_timestamp_seconds{kind="Redis",reason="MasterSilent"} 8"#,
        r#"causeway_undecodable_objects{kind="MyApp"} 1"#,
        r#"causeway_denied_namespaces{kind="MyApp",namespace="shop"} 1"#,
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
        "causeway_backup_overdue_objects 1",
        "causeway_backup_verification_failed_objects 1",
        "causeway_backup_log_unmeasured_objects 1",
        r#"causeway_backup_verifications_total{outcome="ok"} 1"#,
        r#"causeway_backup_last_success_timestamp_seconds{namespace="shop",name="nightly"} 9"#,
        r#"causeway_backup_last_verified_timestamp_seconds{namespace="shop",name="nightly"} 7"#,
        r#"causeway_backup_log_kept_bytes{namespace="shop",name="nightly"} 5"#,
        r#"causeway_backup_log_until_lost_bytes{namespace="shop",name="nightly"} 6"#,
        r#"causeway_leader{lease="causeway"} 1"#,
        concat!(r#"causeway_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""} 1"#),
        "# TYPE process_resident_memory_bytes gauge",
        "# TYPE process_cpu_seconds counter",
        "# TYPE process_start_time_seconds gauge",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

/// An object of that name without a backup that was due.
fn overdue(name: &str) -> BackupTimes {
    BackupTimes { name: name.to_owned(), overdue: true, ..BackupTimes::default() }
}

#[test]
fn a_process_that_stopped_leading_reports_no_more_states() {
    let metrics = Metrics::new();
    let [databases, others] = ["causeway-databases", "causeway"];
    metrics.set_leader(databases, true);
    metrics.set_leader(others, true);
    metrics.tell_of_backups(|| vec![overdue("nightly"), overdue("weekly")]);
    metrics.set_undecodable("MyApp", 1);
    metrics.set_undecodable("Redis", 1);
    let says = |line: &str| metrics.encode().unwrap().lines().any(|it| it == line);
    let undecodable = |kind| says(&format!(r#"causeway_undecodable_objects{{kind="{kind}"}} 1"#));
    metrics.stopped_leading(databases, &["EtcdCluster", "Redis"]);
    assert!(says(r#"causeway_leader{lease="causeway-databases"} 0"#) && !undecodable("Redis"));
    assert!(says(r#"causeway_leader{lease="causeway"} 1"#) && undecodable("MyApp"));
    assert!(says("causeway_backup_overdue_objects 2"));
    metrics.stopped_leading(others, &["MyApp", "DatabaseBackup"]);
    assert!(says(r#"causeway_leader{lease="causeway"} 0"#) && !undecodable("MyApp"));
    assert!(says("causeway_backup_overdue_objects 0"));
}

#[test]
fn a_reason_of_stalled_objects_is_reported_while_it_lasts() {
    let metrics = Metrics::new();
    let reported = |reason: &str| metrics.encode().unwrap().contains(&format!(r#"reason="{reason}""#));
    metrics.set_stalled_objects("EtcdCluster", || BTreeMap::from([("QuorumLost", 1), ("PodRefused", 1)]));
    metrics.set_stalled_objects("DatabaseBackup", || BTreeMap::from([("BackupsLost", 1)]));
    assert!(reported("QuorumLost") && reported("PodRefused") && reported("BackupsLost"));
    metrics.set_stalled_objects("EtcdCluster", || BTreeMap::from([("QuorumLost", 1)]));
    assert!(reported("QuorumLost") && !reported("PodRefused"));
    metrics.set_unready_objects("Redis", || BTreeMap::from([("MasterSilent", Unready::default())]));
    assert!(reported("MasterSilent"));
    metrics.stopped_leading("causeway-databases", &["EtcdCluster", "Redis"]);
    assert!(!reported("QuorumLost") && !reported("MasterSilent") && reported("BackupsLost"));
}

#[test]
fn a_denied_namespace_is_reported_until_served_or_another_leads() {
    let metrics = Metrics::new();
    let denied =
        || metrics.encode().unwrap().lines().filter(|it| it.starts_with("causeway_denied_namespaces{")).count();
    for kind in ["MyApp", "Redis"] {
        metrics.set_namespace_denied(kind, "shop", true);
        metrics.set_namespace_denied(kind, "blog", true);
    }
    metrics.set_namespace_denied("MyApp", "shop", false);
    assert_eq!(denied(), 3);
    metrics.stopped_leading("causeway-databases", &["Redis"]);
    assert_eq!(denied(), 1);
}

#[test]
fn a_deleted_object_is_no_longer_reported() {
    let metrics = Metrics::new();
    let all = Arc::new(parking_lot::Mutex::new(vec![BackupTimes {
        success: Some(jiff::Timestamp::UNIX_EPOCH),
        ..BackupTimes::default()
    }]));
    let read = all.clone();
    metrics.tell_of_backups(move || read.lock().clone());
    let reported = || metrics.encode().unwrap().contains("causeway_backup_last_success_timestamp_seconds{");
    assert!(reported());
    all.lock().clear();
    assert!(!reported());
}

#[test]
fn a_deleted_object_is_no_longer_overdue() {
    let metrics = Metrics::new();
    let says = |line: &str| metrics.encode().unwrap().lines().any(|it| it == line);
    assert!(says("causeway_backup_overdue_objects 0"), "no process leads yet");
    let all = Arc::new(parking_lot::Mutex::new(vec![overdue("nightly"), BackupTimes::default()]));
    let read = all.clone();
    metrics.tell_of_backups(move || read.lock().clone());
    assert!(says("causeway_backup_overdue_objects 1"));
    all.lock().clear();
    assert!(says("causeway_backup_overdue_objects 0"), "{}", metrics.encode().unwrap());
}

#[test]
fn alerts_ask_for_metrics_that_there_are() {
    let metrics = Metrics::new();
    metrics.set_leader("causeway", true);
    metrics.set_failing_objects("MyApp", 1);
    metrics.set_undecodable("MyApp", 1);
    metrics.set_quota("target-groups", 7, 3000);
    metrics.aws_call("elbv2", "CreateLoadBalancer", Err("denied"), Duration::ZERO);
    metrics.count_reconcile("MyApp", Ok(()), Duration::ZERO);
    metrics.drift_repaired("rule");
    metrics.event("Redis", true, "FailedOver");
    metrics.verification_ended(false);
    let _queued = metrics.count_queued("MyApp");
    let text = metrics.encode().unwrap();
    // A line is `# TYPE name kind`; samples of counters end with `_total`.
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let alerts = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/helm/causeway/files/alerts.yaml"));
    let words = alerts.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let asked: Vec<&str> = words.filter(|word| word.starts_with("causeway_")).collect();
    assert!(asked.len() > 15, "{asked:?}");
    for name in asked {
        assert!(names.contains(&name.trim_end_matches("_total")), "there is no {name}");
    }
}

#[test]
fn repetition_adds_no_series() {
    let metrics = Metrics::new();
    let series = || metrics.encode().unwrap().lines().filter(|line| !line.starts_with('#')).count();
    metrics.count_reconcile("MyApp", Err("transient"), Duration::from_secs(1));
    let before = series();
    for _ in 0..1000 {
        metrics.count_reconcile("MyApp", Err("transient"), Duration::from_secs(1));
    }
    assert_eq!(series(), before);
}

#[test]
fn a_namespace_with_very_many_backups_has_few_series() {
    let metrics = Metrics::new();
    let times = |namespace: &str, name: String| BackupTimes {
        namespace: namespace.into(),
        name,
        success: Some(jiff::Timestamp::UNIX_EPOCH),
        overdue: true,
        ..BackupTimes::default()
    };
    let mut all: Vec<_> = (0..5_000).map(|number| times("shop", format!("b{number:04}"))).collect();
    all.push(times("web", "nightly".into()));
    metrics.tell_of_backups(move || all.clone());
    let text = metrics.encode().unwrap();
    let series =
        |namespace| text.matches(&format!("last_success_timestamp_seconds{{namespace=\"{namespace}\"")).count();
    assert_eq!((series("shop"), series("web")), (200, 1));
    assert!(text.contains("causeway_backup_overdue_objects 5001"));
}
