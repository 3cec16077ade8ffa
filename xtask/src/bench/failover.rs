//! Measures the cost of a failed or moved master for clients of Causeway and of Redis Sentinel. It runs the integration test that
//! compares them, with each failure several times. docs/benchmarks.md describes how each figure is taken.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::report::Report;
use super::scene::Bench;
use super::{directory, from_tests};
use crate::progress::{Progress, Step};
use crate::{host, images, rights};

/// The prefix of the test.
const TEST: &str = "redis::compared";

/// Compiles the tests. Returns the operator's program that is compiled with them.
pub fn build(step: &Step) -> Result<PathBuf> {
    host::install_build_tools(step)?;
    step.run(&mut cargo("build", &["--all-targets"])?, &directory()?.join("failover-build.log"))?;
    Ok(images::operator::target_directory()?.join("debug/causeway"))
}

/// Takes all figures from `turns` failures of each kind.
pub fn measure(bench: &Bench, turns: usize) -> Result<Report> {
    let mut steps = Progress::new(1);
    let file = directory()?.join("failover-figures.json");
    let log = directory()?.join("failover.log");
    steps.step(format!("{turns} failures of each kind, by each"), |step| {
        // Nothing can be compiled here, because the cluster's network reaches no registry.
        let mut test = cargo("test", &["--offline", "--test", "integration", TEST, "--", "--nocapture"])?;
        test.env("KUBECONFIG", bench.kubeconfig())
            .env(rights::VARIABLE, bench.operators_kubeconfig())
            .env("AWS_ENDPOINT_URL", bench.endpoint())
            .env("AWS_REGION", "us-east-1")
            .env("CAUSEWAY_TURNS", turns.to_string())
            .env(from_tests::VARIABLE, &file);
        step.run(&mut test, &log)
    })?;
    from_tests::read(&file)
}

/// Cargo for the tests of this checkout.
fn cargo(command: &str, arguments: &[&str]) -> Result<Command> {
    let mut cargo = Command::new("cargo");
    cargo.args([command, "--workspace", "--locked"]).args(arguments).current_dir(host::repo_root()?);
    cargo.env("CARGO_TERM_COLOR", "never");
    Ok(cargo)
}
