//! How soon a change of endpoints is in AWS: from the write of an `EndpointSlice` to `RegisterTargets`, one after the
//! other.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use serde_json::{Value, json};

use super::aws::Call;
use super::kubernetes::Event;
use super::report::Report;
use super::scene::{Bench, Scene, is_ready};
use crate::progress::{Progress, Step};

/// How many changes are measured.
const CHANGES: usize = 60;
/// How many endpoints the slice has. Each change swaps one of them, so the target group is never empty.
const ENDPOINTS: usize = 3;
/// The goal: at most this many milliseconds more than the plain call.
const GOAL_MS: f64 = 10.0;
const PAUSE: Duration = Duration::from_millis(500);
const NO_SWEEP: &str = "1h";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Takes all figures.
pub fn measure(bench: &Bench) -> Result<Report> {
    let mut steps = Progress::new(1);
    let mut report = Report::default();
    steps.step(format!("{CHANGES} changes of endpoints and as many bare calls in turns"), |step| {
        let scene = bench.scene(1, 50)?;
        let bare = bench.account(2, 50)?;
        let group = bare.create_target_group("bare")?;
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
            "spec": { "ports": [{ "port": 80, "targetPort": 8080 }] },
        });
        scene.apply_other("/api/v1", "services", &service)?;
        slice(&scene, 0)?;
        let mut operator = scene.operator(NO_SWEEP)?;
        operator.ready()?;
        let watch = scene.watch()?;
        scene.apply_spec("web", &spec())?;
        let good =
            |event: &Event| is_ready(event) && event.object["status"]["targets"] == format!("{ENDPOINTS}/{ENDPOINTS}");
        watch.until("the targets to be healthy", WAIT_TIMEOUT, good)?;

        let slices = scene.watch_other("/apis/discovery.k8s.io/v1", "endpointslices")?;
        slices.until("the slice", WAIT_TIMEOUT, |_| true)?;
        let (mut shown, mut arrived, mut ended, mut raw) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // The first call of each kind opens connections, so it is not counted.
        for change in 1..=CHANGES + 1 {
            raw.push(bare.register_target(&group, &address(change))?);
            // The operator batches changes in quick succession; with a pause each comes alone.
            thread::sleep(PAUSE);
            scene.account.calls()?;
            let (begun, clock) = (Instant::now(), SystemTime::now());
            slice(&scene, change)?;
            shown.push(slices.until("the change", WAIT_TIMEOUT, |_| true)?.duration_since(begun));
            let (from, to) = registered(&scene, step)?;
            arrived.push(from.duration_since(clock).unwrap_or_default());
            ended.push(to.duration_since(clock).unwrap_or_default());
        }
        for durations in [&mut shown, &mut arrived, &mut ended, &mut raw] {
            durations.remove(0);
        }
        report.add_median("slice_to_event_ms_p50", &mut shown, "until a watch shows the change: Kubernetes alone");
        report.add_median("slice_to_call_ms_p50", &mut arrived, "until RegisterTargets arrives");
        let ours = report.add_median("slice_to_registered_ms_p50", &mut ended, "until RegisterTargets has ended");
        let raw = report.add_median("raw_register_targets_ms_p50", &mut raw, "one HTTP request, between the changes");
        report.add_with_goal(
            "slice_to_registered_above_raw_ms",
            ours - raw,
            GOAL_MS,
            "what Kubernetes and the operator add",
        );
        scene.delete_all()?;
        watch.until("the object to be gone", WAIT_TIMEOUT, |event| event.deleted)?;
        operator.stop()?;
        scene.end()
    })?;
    Ok(report)
}

fn spec() -> Value {
    json!({
        "subnets": ["subnet-abc", "subnet-def"],
        "scheme": "internet-facing",
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "web" }] } } }],
        "backends": [{ "name": "web", "port": 80 }],
    })
}

/// A different address for each change.
fn address(number: usize) -> String {
    format!("198.18.7.{}", number + 1)
}

/// Writes the slice after `change` changes.
fn slice(scene: &Scene, change: usize) -> Result<()> {
    let endpoints: Vec<Value> = (change..change + ENDPOINTS)
        .map(|number| json!({ "addresses": [address(number)], "conditions": { "ready": true } }))
        .collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": "web", "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4",
        "ports": [{ "name": "", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints,
    });
    scene.apply_other("/apis/discovery.k8s.io/v1", "endpointslices", &slice)
}

/// When the registration arrived and ended, according to the journal, so that polling does not affect the result.
fn registered(scene: &Scene, step: &Step) -> Result<(SystemTime, SystemTime)> {
    step.wait_for("RegisterTargets", WAIT_TIMEOUT, || {
        let calls = scene.account.calls_so_far()?;
        Ok(calls.iter().find(|call| call.operation == "RegisterTargets").and_then(Call::times))
    })
}
