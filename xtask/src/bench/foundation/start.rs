//! How soon a process is ready, and what it uses while idle.

use anyhow::Result;

use super::{NO_SWEEP, SUBNETS, WAIT_TIMEOUT};
use crate::bench::report::Report;
use crate::bench::scene::{Bench, is_ready, shows_dns};
use crate::progress::Step;

const STARTS: usize = 5;

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(1, 50)?;
    let mut ready = Vec::new();
    let mut stopped = Vec::new();
    for _ in 0..STARTS {
        let mut operator = scene.operator(NO_SWEEP)?;
        ready.push(operator.ready()?);
        stopped.push(operator.stop()?);
    }
    report.add_median("start_to_ready_ms_p50", &mut ready, "process start to /readyz");
    report.add_median("stop_ms_p50", &mut stopped, "SIGTERM to exit, lease released");

    let mut shown = Vec::new();
    for index in 0..STARTS {
        step.note(format!("an object that waits for the operator, {} of {STARTS}", index + 1));
        let watch = scene.watch()?;
        let name = format!("waiting-{index}");
        scene.apply(&name, SUBNETS)?;
        let operator = scene.operator(NO_SWEEP)?;
        let at = watch.until("a DNS name", WAIT_TIMEOUT, |event| event.name() == name && shows_dns(event))?;
        shown.push(at.duration_since(operator.started));
        watch.until("it to be ready", WAIT_TIMEOUT, |event| event.name() == name && is_ready(event))?;
        scene.delete_all()?;
        watch.until("it to be gone", WAIT_TIMEOUT, |event| event.name() == name && event.deleted)?;
        operator.stop()?;
    }
    report.add_median("start_to_dns_ms_p50", &mut shown, "process start to the DNS name of an object that was there");

    step.note("waiting for the memory to settle");
    let operator = scene.operator(NO_SWEEP)?;
    let (memory, how) = operator.settled_memory_kib()?;
    report.add_with_goal("rss_kib_0_objects", memory, 25.0 * 1024.0, how);
    operator.stop()?;
    scene.end()
}
