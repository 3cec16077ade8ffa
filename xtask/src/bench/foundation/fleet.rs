//! Hundreds of objects: made at once, held, found again by a new process, removed.

use std::collections::HashSet;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::calls::amount;
use super::{NO_SWEEP, PATIENCE, SUBNETS};
use crate::bench::aws::{Account, Call, by_operation};
use crate::bench::kubernetes::Watch;
use crate::bench::operator_process::Operator;
use crate::bench::report::Report;
use crate::bench::scene::{Bench, Scene, is_ready, shows_dns};
use crate::progress::Step;

const BURST: usize = 200;
const FLEET: usize = 500;

/// Appliers at the same time, so that applying is not what takes the time.
const APPLIERS: usize = 8;

const IDLE: Duration = Duration::from_mins(1);

/// A short interval shows several sweeps in little time; the default is 12 an hour.
const SWEEP: &str = "10s";
const SWEEPS: usize = 4;
const SWEEPS_PER_HOUR: f64 = 12.0;

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(5, FLEET)?;
    let watch = scene.watch()?;
    let mut operator = scene.operator(NO_SWEEP)?;
    operator.ready()?;
    burst(&scene, &watch, &operator, report, step)?;

    step.note(format!("{FLEET} objects"));
    create(&scene, &watch, BURST..FLEET)?;
    report.add("rss_peak_kib_500_objects", operator.memory_kib("VmHWM")?, "while 500 were created");
    step.note("waiting for the memory to settle");
    let (memory, how) = operator.settled_memory_kib()?;
    report.add_with_goal("rss_kib_500_objects", memory, 40.0 * 1024.0, format!("{how}; the process created them"));
    let base = idle(&operator, step)?;
    operator.stop()?;

    let operator = restart(&scene, report, step)?;
    operator.stop()?;
    sweeps(&scene, base, report, step)?;
    let operator = scene.operator(NO_SWEEP)?;
    remove(&scene, &watch, report, step)?;
    operator.stop()?;
    scene.end()
}

fn burst(scene: &Scene, watch: &Watch, operator: &Operator, report: &mut Report, step: &Step) -> Result<()> {
    step.note(format!("{BURST} objects at once"));
    scene.account.calls()?;
    let cpu = operator.cpu_seconds()?;
    let (applied, took) = create(scene, watch, 0..BURST)?;
    let calls = scene.account.calls()?;
    let note = format!("first apply to last DNS name; the applies alone took {:.1} s", applied.as_secs_f64());
    report.add("burst_200_seconds", took.as_secs_f64(), note);
    report.add("burst_200_aws_calls", amount(calls.len()), by_operation(&calls));
    report.add("burst_200_cpu_seconds", operator.cpu_seconds()? - cpu, "of the operator, until all are ready");
    Ok(())
}

/// Applies many at once and waits until all are ready. Returns when the last was applied and when the last DNS name
/// was shown.
fn create(scene: &Scene, watch: &Watch, range: Range<usize>) -> Result<(Duration, Duration)> {
    let begun = Instant::now();
    let applied = apply_in_parallel(scene, range.clone())?;
    let (mut named, mut ready) = (HashSet::new(), HashSet::new());
    let mut last_named = begun;
    watch.until(&format!("{} objects to be ready", range.len()), PATIENCE, |event| {
        if shows_dns(event) && named.insert(event.name().to_owned()) {
            last_named = event.at;
        }
        if is_ready(event) {
            ready.insert(event.name().to_owned());
        }
        ready.len() == range.len()
    })?;
    Ok((applied.duration_since(begun), last_named.duration_since(begun)))
}

fn apply_in_parallel(scene: &Scene, range: Range<usize>) -> Result<Instant> {
    let names: Vec<String> = range.map(|index| format!("object-{index}")).collect();
    thread::scope(|scope| {
        let appliers: Vec<_> = names
            .chunks(names.len().div_ceil(APPLIERS))
            .map(|names| scope.spawn(move || names.iter().try_for_each(|name| scene.apply(name, SUBNETS))))
            .collect();
        appliers.into_iter().try_for_each(|applier| applier.join().map_err(|_| anyhow!("an applier panicked"))?)
    })?;
    Ok(Instant::now())
}

/// CPU seconds a second while nothing happens and no sweep is due.
fn idle(operator: &Operator, step: &Step) -> Result<f64> {
    step.note(format!("doing nothing for {} s", IDLE.as_secs()));
    let (cpu, begun) = (operator.cpu_seconds()?, Instant::now());
    thread::sleep(IDLE);
    Ok((operator.cpu_seconds()? - cpu) / begun.elapsed().as_secs_f64())
}

fn restart(scene: &Scene, report: &mut Report, step: &Step) -> Result<Operator> {
    step.note("a new process");
    scene.account.calls()?;
    let mut operator = scene.operator(NO_SWEEP)?;
    let took = operator.reconciled(FLEET)?;
    let calls = scene.account.calls()?;
    // Two pages of balancers, and the tags of 20 a call.
    report.add_with_goal("aws_calls_restart_500", amount(calls.len()), 27.0, by_operation(&calls));
    report.add("restart_500_seconds", took.as_secs_f64(), "process start to 500 reconciled");
    step.note("waiting for the memory to settle");
    report.add("rss_peak_kib_500_objects_restarted", operator.memory_kib("VmHWM")?, "while it started");
    let (memory, how) = operator.settled_memory_kib()?;
    report.add_with_goal(
        "rss_kib_500_objects_restarted",
        memory,
        40.0 * 1024.0,
        format!("{how}; the process found them"),
    );
    Ok(operator)
}

/// What a sweep costs, times those of an hour.
fn sweeps(scene: &Scene, idle_cpu: f64, report: &mut Report, step: &Step) -> Result<()> {
    step.note(format!("{SWEEPS} sweeps"));
    let mut operator = scene.operator(SWEEP)?;
    operator.reconciled(FLEET)?;
    next_sweep(&scene.account, step)?;
    let (cpu, begun) = (operator.cpu_seconds()?, Instant::now());
    let mut calls = Vec::new();
    for _ in 0..SWEEPS {
        calls.extend(next_sweep(&scene.account, step)?);
    }
    let cpu = operator.cpu_seconds()? - cpu - idle_cpu * begun.elapsed().as_secs_f64();
    operator.stop()?;
    let (sweeps, per_sweep) = (amount(SWEEPS), amount(calls.len()) / amount(SWEEPS));
    let how =
        format!("{per_sweep} a sweep, 12 sweeps an hour by default; {SWEEPS} sweeps made {}", by_operation(&calls));
    report.add("aws_calls_per_hour_500_idle", per_sweep * SWEEPS_PER_HOUR, how);
    let cpu_per_sweep = (cpu / sweeps).max(0.0);
    let how = format!("{:.2} ms a second between sweeps, {:.0} ms a sweep", idle_cpu * 1000.0, cpu_per_sweep * 1000.0);
    report.add("cpu_seconds_per_hour_500_idle", idle_cpu * 3600.0 + cpu_per_sweep * SWEEPS_PER_HOUR, how);
    Ok(())
}

/// The calls of the next sweep: those that come until there are no more for three seconds.
fn next_sweep(account: &Account, step: &Step) -> Result<Vec<Call>> {
    let quiet = Duration::from_secs(3);
    let mut calls: Vec<Call> = Vec::new();
    let mut last = Instant::now();
    step.wait_for("a sweep and its end", Duration::from_mins(1), || {
        let more = account.calls()?;
        if !more.is_empty() {
            last = Instant::now();
            calls.extend(more);
        }
        Ok((!calls.is_empty() && last.elapsed() > quiet).then_some(()))
    })?;
    Ok(calls)
}

fn remove(scene: &Scene, watch: &Watch, report: &mut Report, step: &Step) -> Result<()> {
    step.note("removing all");
    scene.account.calls()?;
    let begun = Instant::now();
    scene.delete_all()?;
    let mut left = FLEET;
    let end = watch.until("all to be gone", PATIENCE, |event| {
        left -= usize::from(event.deleted);
        left == 0
    });
    let took = end.with_context(|| format!("{left} are left"))?.duration_since(begun);
    let calls = scene.account.calls()?;
    report.add("delete_500_seconds", took.as_secs_f64(), "all at once");
    let how = format!("{}; 27 of them are the first read of a new process", by_operation(&calls));
    report.add("delete_500_aws_calls", amount(calls.len()), how);
    Ok(())
}
