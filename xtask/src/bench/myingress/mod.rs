//! The calls to AWS that a `MyIngress` with all its parts costs. docs/benchmarks.md describes how each figure is taken.

mod calls;
mod full;

use anyhow::Result;

use super::report::Report;
use super::scene::Bench;
use crate::progress::Progress;

/// Two subnets in two zones.
const SUBNETS: [&str; 2] = ["subnet-abc", "subnet-def"];

/// A sweep interval so long that only a process's first sweep falls into the measurement.
const NO_SWEEP: &str = "1h";

/// Takes all figures.
pub fn measure(bench: &Bench) -> Result<Report> {
    let mut report = Report::default();
    Progress::new(1).step("AWS calls for the full example", |step| calls::measure(bench, &mut report, step))?;
    Ok(report)
}
