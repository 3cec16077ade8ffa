//! Two real processes of the operator, of which one leads: what happens when it is killed, gets SIGTERM, or is frozen.

mod options;
pub mod process;

use std::cell::Cell;
use std::time::Instant;

use causeway_api::{MyApp, MyIngress};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use serde_json::{Value, json};

use crate::support::emulator::Call;
use crate::support::scene::is_ready;
use crate::support::{Scene, wait_for};
use process::{AT_ONCE, Process};

/// The lease of all kinds but databases.
pub const COMMON: &str = "causeway";
/// The lease of databases.
pub const DATABASES: &str = "causeway-databases";

async fn lease_of(scene: &Scene, name: &str) -> LeaseSpec {
    let lease = scene.api::<Lease>().get_opt(name).await.expect("an answer");
    lease.and_then(|lease| lease.spec).unwrap_or_default()
}

fn holder(lease: &LeaseSpec) -> &str {
    // An identity is the pod's name and something unique.
    lease.holder_identity.as_deref().and_then(|identity| identity.split('_').next()).unwrap_or_default()
}

/// Waits until the process of that name leads.
async fn leads(scene: &Scene, name: &str) -> LeaseSpec {
    leads_by(scene, COMMON, name).await
}

/// Waits until the process of that name leads by that lease.
pub async fn leads_by(scene: &Scene, lease: &str, name: &str) -> LeaseSpec {
    let what = format!("{name} to lead by {lease}");
    wait_for(&what, || lease_of(scene, lease), |lease| holder(lease) == name).await
}

/// The metric that a process has while it leads by that lease, or does not.
pub fn leader_metric(lease: &str, leads: bool) -> String {
    format!("causeway_leader{{lease=\"{lease}\"}} {}\n", u8::from(leads))
}

/// A leader called `first` and a standby called `second`, which knows that.
async fn two(scene: &Scene) -> (Process, Process) {
    two_with(scene, &[]).await
}

/// The same with further variables.
async fn two_with(scene: &Scene, variables: &[(&str, &str)]) -> (Process, Process) {
    let first = Process::start_with(scene, "first", variables).await;
    leads(scene, "first").await;
    leads_by(scene, DATABASES, "first").await;
    let second = Process::start_with(scene, "second", variables).await;
    for lease in [COMMON, DATABASES] {
        second.sees_leader(lease, "first").await;
    }
    (first, second)
}

fn spec() -> Value {
    json!({ "subnets": ["subnet-abc", "subnet-def"] })
}

async fn ready(scene: &Scene, name: &str) {
    scene.ingress(name, &format!("{name} to be ready"), is_ready).await;
}

#[tokio::test]
async fn a_killed_leader_is_replaced() {
    let scene = Scene::new("leadership").await;
    let (first, _second) = two(&scene).await;
    scene.create::<MyIngress>("before", spec()).await;
    ready(&scene, "before").await;
    first.signal("KILL");
    let killed = Instant::now();
    scene.create::<MyIngress>("after", spec()).await;
    leads(&scene, "second").await;
    let led = killed.elapsed();
    ready(&scene, "after").await;
    let took = killed.elapsed();
    println!(
        "» a killed leader: the other leads after {} ms, the next object is ready after {} ms",
        led.as_millis(),
        took.as_millis()
    );
    assert_eq!(scene.balancers().await.len(), 2);
}

#[tokio::test]
async fn a_leader_that_gets_sigterm_hands_over_at_once() {
    let scene = Scene::new("leadership").await;
    let (mut first, second) = two(&scene).await;
    first.signal("TERM");
    let begun = Instant::now();
    scene.create::<MyIngress>("after", spec()).await;
    leads(&scene, "second").await;
    let led = begun.elapsed();
    ready(&scene, "after").await;
    let took = begun.elapsed();
    assert!(first.ended().await.success());
    println!(
        "» a leader that got SIGTERM: the other leads after {} ms, the next object is ready after {} ms",
        led.as_millis(),
        took.as_millis()
    );
    // A standby that waits until a lease expires sees it pass from one to the other.
    second.sees_leader(COMMON, "no process").await;
    leads_by(&scene, DATABASES, "second").await;

    second.signal("TERM");
    for name in [COMMON, DATABASES] {
        let what = format!("the lease {name} to be released");
        wait_for(&what, || lease_of(&scene, name), |lease| holder(lease).is_empty()).await;
    }
}

/// When a call came.
fn begin_of(call: &Call) -> Timestamp {
    call.time.parse().expect("a time")
}

#[tokio::test]
async fn a_frozen_leader_changes_nothing_once_it_is_replaced() {
    const COUNT: usize = 30;
    let scene = Scene::new("leadership").await;
    let (first, second) = two(&scene).await;
    // Answers are slow: the leader is frozen with as many calls under way as it makes at once, and with more to do.
    scene.emulator.fault(json!({ "kind": "delay", "delay_ms": 8000, "operation": "CreateLoadBalancer" })).await;
    for number in 0..COUNT {
        scene.create::<MyIngress>(&format!("app-{number}"), spec()).await;
    }
    let begun =
        || async { scene.emulator.elb_operations().await.iter().filter(|it| *it == "CreateLoadBalancer").count() };
    // No call begins any more: a process that is frozen between its look at the lease and the call would make that call
    // later.
    let before = Cell::new(0);
    let is_full = |count: &usize| before.replace(*count) == *count && *count >= AT_ONCE;
    wait_for("the leader to have its hands full", begun, is_full).await;
    first.signal("STOP");
    let taken = leads(&scene, "second").await.acquire_time.expect("a time").0;
    // Every change that the first process asks for from here on would be that of a second leader.
    first.signal("CONT");
    let stands_by = |(_, metrics): &(u16, String)| metrics.contains(&leader_metric(COMMON, false));
    wait_for("the first to stand by", || first.get("/metrics"), stands_by).await;
    first.logs("leading no more").await;
    scene.emulator.no_faults().await;

    for number in 0..COUNT {
        ready(&scene, &format!("app-{number}")).await;
    }
    assert_eq!(scene.balancers().await.len(), COUNT);
    let calls = scene.emulator.journal().await.into_iter();
    let of_first: Vec<_> = calls.filter(|call| call.principal.ends_with("/first")).collect();
    assert!(!of_first.is_empty());
    for call in of_first {
        let reads = call.operation.starts_with("Describe");
        assert!(reads || begin_of(&call) < taken, "{call:?} came after {taken}");
    }

    // The same process leads again when it is its turn.
    second.signal("TERM");
    leads(&scene, "first").await;
    scene.create::<MyIngress>("again", spec()).await;
    ready(&scene, "again").await;
    assert_eq!(first.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn a_standby_changes_nothing_and_reports_that_it_stands_by() {
    let scene = Scene::new("leadership").await;
    // On a busy machine, a lease of 5 s may move.
    let (first, second) = two_with(&scene, &[("DATABASE_LEASE_DURATION", "1m")]).await;
    scene.create::<MyIngress>("app", spec()).await;
    ready(&scene, "app").await;
    let calls = scene.emulator.journal().await.into_iter();
    assert_eq!(calls.filter(|call| call.principal.ends_with("/second")).count(), 0);
    for (process, leading) in [(&first, true), (&second, false)] {
        let (status, metrics) = process.get("/metrics").await;
        assert_eq!(status, 200);
        for lease in [COMMON, DATABASES] {
            assert!(metrics.contains(&leader_metric(lease, leading)), "{metrics}");
        }
    }
}

#[tokio::test]
async fn the_process_tells_of_itself() {
    let scene = Scene::new("leadership").await;
    let process = Process::start(&scene, "first").await;
    scene.create::<MyIngress>("app", spec()).await;
    ready(&scene, "app").await;
    assert_eq!(process.get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(process.get("/readyz").await, (200, "ok\n".to_owned()));
    // The object is ready before its reconcile ends.
    let counted = |(_, metrics): &(u16, String)| metrics.contains("causeway_reconcile_duration_seconds_count{");
    let (_, metrics) = wait_for("a reconcile to be counted", || process.get("/metrics"), counted).await;
    for name in [
        "causeway_reconciles_total",
        "causeway_reconcile_duration_seconds",
        "causeway_aws_calls_total",
        "causeway_leader{lease=\"causeway\"} 1",
    ] {
        assert!(metrics.contains(name), "{name} is not in {metrics}");
    }
    assert!(!metrics.contains(&scene.namespace), "labels must be bounded: {metrics}");

    let object = format!("{}/app", scene.namespace);
    process.logs(&object).await;
    let log = process.log();
    let lines: Vec<Value> =
        log.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"))).collect();
    let ours: Vec<_> = lines.iter().filter(|line| line["object"] == object.as_str()).collect();
    assert!(!ours.is_empty(), "{log:#?}");
    for line in ours {
        assert!(
            line["reconcile_id"].is_u64() && line["kind"] == "MyIngress" && line["timestamp"].is_string(),
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_process_serves_the_kinds_that_it_is_told_to() {
    let scene = Scene::new("leadership").await;
    scene.create::<MyApp>("other", json!({ "image": "busybox" })).await;
    let process = Process::start_with(&scene, "first", &[("KINDS", "myingress")]).await;
    scene.create::<MyIngress>("app", spec()).await;
    ready(&scene, "app").await;
    process.logs("controller started").await;
    let lines: Vec<Value> = process.log().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let started = lines.iter().filter(|line| line["message"] == "controller started").map(|line| &line["kind"]);
    assert_eq!(started.collect::<Vec<_>>(), ["MyIngress"]);
    let other = scene.api::<MyApp>().get("other").await.expect("the object");
    assert!(other.status.is_none(), "{:?}", other.status);
}
