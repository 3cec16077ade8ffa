//! The time from the first byte of an apply to the event with the DNS name, for one object after the other.

use std::time::Instant;

use anyhow::Result;

use super::{NO_SWEEP, SUBNETS, WAIT_TIMEOUT};
use crate::bench::report::Report;
use crate::bench::scene::{Bench, is_ready, shows_dns};
use crate::progress::Step;

const OBJECTS: usize = 30;

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(3, 100)?;
    // The plain calls use an account that grows at the same rate, because LocalStack gets slower with each object.
    let bare = bench.account(4, 100)?;
    let watch = scene.watch()?;
    let mut operator = scene.operator(NO_SWEEP)?;
    operator.ready()?;
    let (mut visible, mut shown, mut raw) = (Vec::new(), Vec::new(), Vec::new());
    step.note(format!("{OBJECTS} objects and as many bare calls in turns"));
    // The first call of each kind opens connections, so it is not counted.
    for index in 0..=OBJECTS {
        let name = format!("object-{index}");
        raw.push(bare.create_load_balancer(&name)?);
        let begun = Instant::now();
        scene.apply(&name, SUBNETS)?;
        let mut first = None;
        let at = watch.until("a DNS name", WAIT_TIMEOUT, |event| {
            first.get_or_insert(event.at);
            event.name() == name && shows_dns(event)
        })?;
        visible.push(first.unwrap_or(at).duration_since(begun));
        shown.push(at.duration_since(begun));
        watch.until("it to be ready", WAIT_TIMEOUT, |event| event.name() == name && is_ready(event))?;
    }
    for durations in [&mut visible, &mut shown, &mut raw] {
        durations.remove(0);
    }
    let to_dns = report.add_median("apply_to_dns_ms_p50", &mut shown, "server-side apply to status.alb.dns in a watch");
    report.add_median("apply_to_event_ms_p50", &mut visible, "of which: until the watch shows the object at all");
    let raw = report.add_median("raw_create_load_balancer_ms_p50", &mut raw, "one HTTP request, between the applies");
    report.add("apply_to_dns_by_raw_ratio", to_dns / raw, "");

    scene.delete_all()?;
    let mut left = OBJECTS + 1;
    watch.until("all to be gone", WAIT_TIMEOUT, |event| {
        left -= usize::from(event.deleted);
        left == 0
    })?;
    operator.stop()?;
    scene.end()
}
