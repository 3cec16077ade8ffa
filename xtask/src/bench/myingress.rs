//! What a `MyIngress` with all its parts costs, and what a thousand do. docs/benchmarks.md says how each figure is taken.

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

/// Objects at once.
const FLEET: usize = 1000;

/// So rarely that no sweep falls into what is measured, except for the first one of a process.
const NO_SWEEP: &str = "1h";

/// How long a thousand objects may take until the benchmark gives up.
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
