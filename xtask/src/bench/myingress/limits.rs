//! Creates a thousand objects under AWS's limits on the rate of calls. These limits determine the shortest possible
//! time.
//!
//! By default AWS lets an account create a balancer every five seconds, after a first ten:
//! <https://docs.aws.amazon.com/elasticloadbalancing/latest/userguide/elb-api-throttling.html>. A thousand take 82
//! minutes. Here both sides have a multiple of these limits. The result is compared with the shortest time that the
//! limits allow, not with absolute time.

use anyhow::Result;

use super::idle::count_sweeps;
use super::{FLEET, NO_SWEEP, SUBNETS, WAIT_TIMEOUT};
use crate::bench::many;
use crate::bench::report::{Report, amount};
use crate::bench::scene::{Bench, bare, is_ready};
use crate::progress::Step;

/// The multiple of AWS's default limits for the operator and `LocalStack`. Token buckets grow with the rates: with 100,
/// all thousand would be created from the first bucket.
const SHARE: u32 = 20;

/// How many balancers AWS lets an account create at once, and then per second.
const BURST: f64 = 10.0;
const PER_SECOND: f64 = 0.2;

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    let scene = bench.scene(2, FLEET)?;
    let mut operator = scene.operator_at(NO_SWEEP, SHARE)?;
    operator.ready()?;
    let watch = scene.watch()?;
    scene.account.calls()?;
    scene.account.throttle(SHARE)?;
    let share = f64::from(SHARE);
    let at_least = (amount(FLEET) - BURST * share) / (PER_SECOND * share);
    step.note(format!("{FLEET} bare ones, which {SHARE} times AWS's limits allow in {at_least} s"));
    let writes = operator.kubernetes_writes()?;
    let took = many::create(&scene, &watch, 0..FLEET, &bare(SUBNETS), WAIT_TIMEOUT, is_ready)?.good.as_secs_f64();
    let calls = scene.account.calls()?;
    let throttled = calls.iter().filter(|call| call.was_throttled()).count();
    let how = format!("first apply to last Ready; limits × {SHARE}, by which it takes {at_least} s at least");
    report.add("throttled_1000_seconds", took, how);
    let how = format!("AWS's own limits: {:.0} min at least", (amount(FLEET) - BURST) / PER_SECOND / 60.0);
    report.add_with_goal("throttled_1000_by_limit_ratio", took / at_least, 1.2, how);
    report.add_calls("throttled_1000_aws_calls", &calls, None);
    report.add("throttled_1000_refused", amount(throttled), "answers that were `Throttling`");
    let writes = (operator.kubernetes_writes()? - writes) / amount(FLEET);
    report.add("kubernetes_writes_per_object", writes, "finalizer, status, events");
    report.add_with_goal("rss_peak_kib_throttled_1000", operator.memory_kib("VmHWM")?, 80.0 * 1024.0, "meanwhile");
    operator.stop()?;

    scene.account.throttle(0)?;
    count_sweeps(&scene, "bare", report, step)?.stop()?;
    let operator = scene.operator(NO_SWEEP)?;
    step.note("removing all");
    many::remove(&scene, &watch, FLEET, WAIT_TIMEOUT)?;
    operator.stop()?;
    scene.end()
}
