//! What a `MyIngress` with all its parts costs, and what a thousand of them cost. docs/benchmarks.md describes how each
//! figure is taken.

mod calls;
mod full;
mod idle;
mod limits;

use std::time::Duration;

use anyhow::Result;

use super::report::Report;
use super::scene::Bench;
use crate::progress::Progress;

/// Two subnets in two zones.
const SUBNETS: [&str; 2] = ["subnet-abc", "subnet-def"];

/// How many objects there are at the same time.
const FLEET: usize = 1000;

/// A sweep interval so long that only a process's first sweep falls into the measurement.
const NO_SWEEP: &str = "1h";

/// The longest wait for a thousand objects.
const WAIT_TIMEOUT: Duration = Duration::from_mins(30);

/// Takes all figures.
pub fn measure(bench: &Bench) -> Result<Report> {
    let mut steps = Progress::new(3);
    let mut report = Report::default();
    steps.step("AWS calls for the full example", |step| calls::measure(bench, &mut report, step))?;
    steps.step(format!("{FLEET} at once, at AWS's rates"), |step| limits::measure(bench, &mut report, step))?;
    steps.step(format!("{FLEET} full ones"), |step| idle::measure(bench, &mut report, step))?;
    Ok(report)
}
