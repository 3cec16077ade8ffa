//! Measures the cost of the operator itself and of `MyIngress`. docs/benchmarks.md describes how each figure is taken.

mod calls;
mod fleet;

use std::time::Duration;

use anyhow::Result;

use super::http::Http;
use super::report::Report;
use super::scene::Bench;
use crate::cluster::NODE_ADDRESS;
use crate::progress::Progress;

/// Two subnets in two zones.
const SUBNETS: [&str; 2] = ["subnet-abc", "subnet-def"];

/// A sweep interval so long that only a process's first sweep falls into the measurement.
const NO_SWEEP: &str = "1h";

/// The longest wait of a benchmark.
const WAIT_TIMEOUT: Duration = Duration::from_mins(3);

/// Takes all figures.
pub fn measure(bench: &Bench) -> Result<Report> {
    let mut steps = Progress::new(4);
    let mut report = Report::default();
    steps.step("Sizes", |_| sizes(bench, &mut report))?;
    steps.step("Memory without objects", |_| memory(bench, &mut report))?;
    steps.step("AWS calls for one object", |_| calls::measure(bench, &mut report))?;
    steps.step("Hundreds of objects", |step| fleet::measure(bench, &mut report, step))?;
    Ok(report)
}

#[expect(clippy::cast_precision_loss, reason = "no binary has 2⁵² bytes")]
fn sizes(bench: &Bench, report: &mut Report) -> Result<()> {
    report.add_with_goal("binary_bytes", bench.binary.metadata()?.len() as f64, 40_000_000.0, "stripped");
    report.add("image_bytes", image_bytes()?, "compressed, as a node pulls it");
    Ok(())
}

fn memory(bench: &Bench, report: &mut Report) -> Result<()> {
    let scene = bench.scene(1, 50)?;
    let mut operator = scene.operator(NO_SWEEP)?;
    operator.ready()?;
    let (memory, how) = operator.settled_memory_kib()?;
    report.add_with_goal("rss_kib_0_objects", memory, 25.0 * 1024.0, how);
    operator.stop()?;
    scene.end()
}

fn image_bytes() -> Result<f64> {
    let registry = Http::new(&format!("http://{NODE_ADDRESS}:5000"));
    let manifest = registry.get_json("/v2/library/causeway/manifests/dev")?;
    let layers = manifest["layers"].as_array().into_iter().flatten();
    Ok(layers.chain([&manifest["config"]]).filter_map(|part| part["size"].as_f64()).sum())
}
