//! Hundreds of idle databases. Each has a single real server, because one machine has no room for more.

use std::collections::HashSet;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Database, is_ready};
use crate::bench::kubernetes::Watch;
use crate::bench::report::{Report, amount};
use crate::bench::scene::{Bench, Scene};
use crate::progress::Step;

/// How many there are in the end.
pub const OBJECTS: usize = 200;
/// How many are created at the same time.
const BATCH: usize = 20;
const DATABASE_TIMEOUT: Duration = Duration::from_mins(10);
/// The operator reconciles each object about once a minute.
const IDLE: Duration = Duration::from_mins(3);

/// How the servers are measured.
pub struct Asked<'a> {
    /// The prefix of figures about calls, such as `etcd_calls`.
    pub calls: &'a str,
    /// How many calls the servers at these addresses have answered so far, of all clients.
    pub served: fn(&[String]) -> Result<f64>,
    /// How many of these calls the measurement of one server itself makes.
    pub asking: f64,
    /// Adds further figures of idle servers.
    pub others: fn(&[String], &mut Report) -> Result<()>,
}

/// Takes the figures of [`OBJECTS`] objects of that spec.
pub fn measure(
    bench: &Bench,
    report: &mut Report,
    step: &Step,
    (database, spec): (&Database, &Value),
    asked: &Asked,
) -> Result<()> {
    let scene = bench.scene(30, 0)?;
    let mut operator = scene.operator("5m")?;
    operator.ready()?;
    report.add("rss_kib_0_objects", operator.memory_kib("VmRSS")?, "before the first");
    let watch = database.watch(&scene)?;
    let begun = Instant::now();
    let writes = operator.kubernetes_writes()?;
    for begin in (0..OBJECTS).step_by(BATCH) {
        step.note(format!("{begin} are there"));
        create(&scene, &watch, (database, spec), begin..OBJECTS.min(begin + BATCH))?;
    }
    let how = format!("{BATCH} at a time, to the last that is ready; containers start on the same cores");
    report.add("create_200_seconds", begun.elapsed().as_secs_f64(), how);
    let writes = (operator.kubernetes_writes()? - writes) / amount(OBJECTS);
    report.add("kubernetes_writes_create_per_object", writes, "children, status, events");
    report.add("rss_peak_kib_200_objects", operator.memory_kib("VmHWM")?, "while they were created");
    step.note("waiting for the memory to settle");
    let (memory, how) = operator.settled_memory_kib()?;
    report.add("rss_kib_200_objects", memory, how);

    step.note(format!("doing nothing for {} s", IDLE.as_secs()));
    let servers = database.addresses(&scene)?;
    let kubernetes = || operator.metric("causeway_kubernetes_calls_total");
    let served = || (asked.served)(&servers);
    let (before, calls, cpu, begun) = (served()?, kubernetes()?, operator.cpu_seconds()?, Instant::now());
    thread::sleep(IDLE);
    let hours = begun.elapsed().as_secs_f64() / 3600.0;
    let cpu = (operator.cpu_seconds()? - cpu) / hours;
    let per_object = |calls: f64| calls / hours / amount(OBJECTS);
    report.add("cpu_seconds_per_hour_200_idle", cpu, format!("ticks of {} s", IDLE.as_secs()));
    let how = "the operator's own counter, watches included, the lease not";
    report.add("kubernetes_calls_per_idle_object_hour", per_object(kubernetes()? - calls), how);
    let name = format!("{}_per_idle_object_hour", asked.calls);
    let calls = served()? - before - asked.asking * amount(servers.len());
    report.add(&name, per_object(calls), "what the servers say they served");
    (asked.others)(&servers, report)?;

    operator.stop()?;
    // The volumes are deleted with their owners.
    scene.delete_other(&database.path(), database.plural)?;
    scene.end()
}

fn create(scene: &Scene, watch: &Watch, (database, spec): (&Database, &Value), range: Range<usize>) -> Result<()> {
    let mut missing: HashSet<String> = range.map(|index| format!("db-{index}")).collect();
    missing.iter().try_for_each(|name| database.apply(scene, name, spec.clone()))?;
    let all = watch.until("objects to be ready", DATABASE_TIMEOUT, |event| {
        if is_ready(event) {
            missing.remove(event.name());
        }
        missing.is_empty()
    });
    all.map(drop).with_context(|| format!("{} are not", missing.len()))
}
