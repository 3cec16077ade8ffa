//! Hundreds of `DatabaseBackup`s with no backup due.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;

use super::WAIT_TIMEOUT;
use crate::bench::aws::by_operation;
use crate::bench::databases::is_ready;
use crate::bench::report::{Report, amount};
use crate::bench::scene::Bench;
use crate::progress::Step;

/// How many there are.
pub const OBJECTS: usize = 500;
const API: &str = "/apis/example.com/v1";
const PLURAL: &str = "databasebackups";
/// The default is five minutes.
const SWEEP: Duration = Duration::from_secs(30);
const SWEEPS_PER_HOUR: f64 = 12.0;
const SWEEPS: u32 = 4;

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(2, 0)?;
    let role = format!("arn:aws:iam::{}:role/jobs-{{namespace}}", scene.account.number);
    let more = [("BACKUP_ROLE_ARN", role.as_str()), ("JOB_IMAGE", "causeway:dev")];
    let mut operator = scene.operator_with(&format!("{}s", SWEEP.as_secs()), &more)?;
    operator.ready()?;
    let watch = scene.watch_other(API, PLURAL)?;
    let mut missing: HashSet<String> = (0..OBJECTS).map(|index| format!("nightly-{index}")).collect();
    let begun = Instant::now();
    scene.account.calls()?;
    for name in &missing {
        let source = json!({ "etcd": { "endpoints": ["http://etcd.invalid:2379"] } });
        // Due on a leap day only, which does not occur during the measurement.
        let spec = json!({ "schedule": "0 0 29 2 *", "source": source });
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "DatabaseBackup", "metadata": { "name": name }, "spec": spec,
        });
        scene.apply_other(API, PLURAL, &object)?;
    }
    watch
        .until("all to be ready", WAIT_TIMEOUT, |event| {
            if is_ready(event) {
                missing.remove(event.name());
            }
            missing.is_empty()
        })
        .with_context(|| format!("{} are not", missing.len()))?;
    let calls = scene.account.calls()?;
    report.add(
        "create_500_seconds",
        begun.elapsed().as_secs_f64(),
        "one apply after the other, to the last that is ready",
    );
    report.add_calls("aws_calls_create_500", &calls, None);
    let (memory, how) = operator.settled_memory_kib()?;
    report.add("rss_kib_500_objects", memory, how);

    step.note(format!("doing nothing for {SWEEPS} sweeps"));
    scene.account.calls()?;
    let (cpu, begun) = (operator.cpu_seconds()?, Instant::now());
    let writes = operator.kubernetes_writes()?;
    thread::sleep(SWEEP * SWEEPS);
    let calls = scene.account.calls()?;
    let per_hour = |count: f64| count / f64::from(SWEEPS) * SWEEPS_PER_HOUR;
    let how = format!("{SWEEPS} sweeps made {}; 12 an hour by default", by_operation(&calls));
    report.add("aws_calls_per_hour_500_idle", per_hour(amount(calls.len())), how);
    let writes = operator.kubernetes_writes()? - writes;
    report.add("kubernetes_writes_per_hour_500_idle", per_hour(writes), "without the lease");
    let cpu = (operator.cpu_seconds()? - cpu) / begun.elapsed().as_secs_f64();
    report.add("cpu_ms_per_second_500_idle", cpu * 1000.0, "with ten times as many sweeps as by default");
    // One after the other: deleting the whole collection takes longer than a request may.
    for index in 0..OBJECTS {
        scene.delete_other(API, &format!("{PLURAL}/nightly-{index}"))?;
    }
    let mut left = OBJECTS;
    watch.until("all to be gone", WAIT_TIMEOUT, |event| {
        left -= usize::from(event.deleted);
        left == 0
    })?;
    operator.stop()?;
    scene.end()
}
