//! A thousand idle objects with all their parts, except security groups of their own.

use anyhow::Result;

use super::full::{Example, is_complete};
use super::{FLEET, NO_SWEEP, WAIT_TIMEOUT};
use crate::bench::aws::{Call, by_operation};
use crate::bench::many::{self, SWEEPS_PER_HOUR, next_sweep};
use crate::bench::operator_process::Operator;
use crate::bench::report::{Report, amount};
use crate::bench::scene::{Bench, Scene};
use crate::progress::Step;

/// With a short interval, several sweeps take little time.
const SWEEP: &str = "30s";
const SWEEPS: usize = 3;

/// How many are created at the same time: the journal must hold all calls for them.
const BATCH: usize = 250;

/// A fiftieth of the calls of a controller that reads each object in each sweep: 12 calls per object.
const GOAL_PER_SWEEP: f64 = 12.0 / 50.0;

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(3, FLEET)?;
    let spec = Example::staged(&scene)?.behind_a_given_group();
    let mut operator = scene.operator(NO_SWEEP)?;
    operator.ready()?;
    let watch = scene.watch()?;
    scene.account.calls()?;

    let writes = operator.kubernetes_writes()?;
    let (mut seconds, mut calls) = (0.0, Vec::new());
    for begin in (0..FLEET).step_by(BATCH) {
        step.note(format!("{begin} full ones are there"));
        let batch = begin..FLEET.min(begin + BATCH);
        let took = many::create(&scene, &watch, batch, &spec, WAIT_TIMEOUT, is_complete)?;
        seconds += took.good.as_secs_f64();
        calls.extend(scene.account.calls()?);
    }
    report.add("full_1000_seconds", seconds, format!("without limits, {BATCH} at once"));
    report.add_calls("full_1000_aws_calls", &calls, None);
    let writes = (operator.kubernetes_writes()? - writes) / amount(FLEET);
    report.add("full_1000_kubernetes_writes_per_object", writes, "finalizer, status, events");
    report.add("rss_peak_kib_full_1000", operator.memory_kib("VmHWM")?, "while they were created");
    operator.stop()?;

    let operator = count_sweeps(&scene, "full", report, step)?;
    step.note("waiting for the memory to settle");
    let (memory, how) = operator.settled_memory_kib()?;
    report.add("rss_kib_full_1000", memory, format!("{how}; the process found them"));
    operator.stop()?;

    step.note("removing all");
    let operator = scene.operator(NO_SWEEP)?;
    let took = many::remove(&scene, &watch, FLEET, WAIT_TIMEOUT)?;
    report.add("delete_full_1000_seconds", took.as_secs_f64(), "all at once, by a process that finds them first");
    operator.stop()?;
    scene.end()
}

/// Counts the calls of some sweeps of a new process, and scales them to an hour. Returns the process.
pub fn count_sweeps(scene: &Scene, which: &str, report: &mut Report, step: &Step) -> Result<Operator> {
    step.note("a new process");
    scene.account.calls()?;
    let mut operator = scene.operator(SWEEP)?;
    operator.reconciled(FLEET)?;
    // These are the calls to find the objects, and those of a sweep that may have begun meanwhile.
    let found = next_sweep(&scene.account, step)?;
    report.add_calls(&format!("aws_calls_restart_1000_{which}"), &found, None);
    let mut calls: Vec<Call> = Vec::new();
    for _ in 0..SWEEPS {
        calls.extend(next_sweep(&scene.account, step)?);
    }
    let per_sweep = amount(calls.len()) / amount(SWEEPS);
    let how = format!("{per_sweep:.1} a sweep, 12 sweeps an hour by default; {SWEEPS} made {}", by_operation(&calls));
    let goal = GOAL_PER_SWEEP * amount(FLEET) * SWEEPS_PER_HOUR;
    report.add_with_goal(&format!("aws_calls_per_hour_1000_{which}_idle"), per_sweep * SWEEPS_PER_HOUR, goal, how);
    Ok(operator)
}
