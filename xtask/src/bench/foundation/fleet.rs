//! Hundreds of objects: created at once, left idle, found by a new process, and deleted.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{NO_SWEEP, SUBNETS, WAIT_TIMEOUT};
use crate::bench::aws::by_operation;
use crate::bench::kubernetes::Watch;
use crate::bench::many::{self, SWEEPS_PER_HOUR, create, next_sweep};
use crate::bench::operator_process::Operator;
use crate::bench::report::{Report, amount};
use crate::bench::scene::{Bench, Scene, bare, is_ready};
use crate::progress::Step;

const BURST: usize = 200;
const FLEET: usize = 500;

const IDLE: Duration = Duration::from_mins(1);

/// With a short interval, several sweeps take little time. The default is 12 sweeps per hour.
const SWEEP: &str = "10s";
const SWEEPS: usize = 4;

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(5, FLEET)?;
    let watch = scene.watch()?;
    let mut operator = scene.operator(NO_SWEEP)?;
    operator.ready()?;
    burst(&scene, &watch, &operator, report, step)?;

    step.note(format!("{FLEET} objects"));
    create(&scene, &watch, BURST..FLEET, &bare(SUBNETS), WAIT_TIMEOUT, is_ready)?;
    report.add("rss_peak_kib_500_objects", operator.memory_kib("VmHWM")?, "while 500 were created");
    step.note("waiting for the memory to settle");
    let (memory, how) = operator.settled_memory_kib()?;
    report.add_with_goal("rss_kib_500_objects", memory, 35.0 * 1024.0, format!("{how}; the process created them"));
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
    let took = create(scene, watch, 0..BURST, &bare(SUBNETS), WAIT_TIMEOUT, is_ready)?;
    let calls = scene.account.calls()?;
    let note = format!("first apply to last DNS name; the applies alone took {:.1} s", took.applied.as_secs_f64());
    report.add("burst_200_seconds", took.named.as_secs_f64(), note);
    report.add_calls("burst_200_aws_calls", &calls, None);
    report.add("burst_200_cpu_seconds", operator.cpu_seconds()? - cpu, "of the operator, until all are ready");
    Ok(())
}

/// CPU seconds per second while nothing happens and no sweep is due.
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
    // Two pages of balancers, one of target groups, tags of 20 resources per call, and the account's quotas.
    report.add_calls("aws_calls_restart_500", &calls, Some(29.0));
    report.add("restart_500_seconds", took.as_secs_f64(), "process start to 500 reconciled");
    step.note("waiting for the memory to settle");
    report.add("rss_peak_kib_500_objects_restarted", operator.memory_kib("VmHWM")?, "while it started");
    let (memory, how) = operator.settled_memory_kib()?;
    report.add_with_goal(
        "rss_kib_500_objects_restarted",
        memory,
        35.0 * 1024.0,
        format!("{how}; the process found them"),
    );
    Ok(operator)
}

/// The cost of a sweep, scaled to an hour.
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

fn remove(scene: &Scene, watch: &Watch, report: &mut Report, step: &Step) -> Result<()> {
    step.note("removing all");
    scene.account.calls()?;
    let took = many::remove(scene, watch, FLEET, WAIT_TIMEOUT)?;
    let calls = scene.account.calls()?;
    report.add("delete_500_seconds", took.as_secs_f64(), "all at once");
    let how = format!("{}; 28 of them are the first read of a new process", by_operation(&calls));
    report.add("delete_500_aws_calls", amount(calls.len()), how);
    Ok(())
}
