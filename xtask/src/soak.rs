//! `cargo xtask soak`: all kinds of databases on three nodes, with clients that write to each, under seeded faults.

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::bench::from_tests;
use crate::cluster::{self, Cluster};
use crate::progress::Progress;
use crate::{bench, host, images, judge, localstack, rights};

/// The cluster's name. Nothing else runs in it.
const CLUSTER: &str = "soak";

/// Options of `cargo xtask soak`.
#[derive(Args)]
pub struct Options {
    /// How long things go wrong, by each seed
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Decides what goes wrong, and in which order; several, such as 1,2,3, come one after the other
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seed: Vec<u64>,
}

/// Creates the cluster, injects faults, prints the result, and stores it in docs/bench and docs/benchmarks.md.
pub fn run(options: &Options) -> Result<()> {
    host::require_root()?;
    host::require_tools()?;
    let mut steps = Progress::new(cluster::STEPS + 5);
    let binary = steps.step("Build the tests", bench::build_tests)?;
    let judge = steps.step("Build the judge", judge::build)?;
    let cluster = Cluster::up_in_memory(CLUSTER, &mut steps)?;
    let localstack = steps.step("Start LocalStack", |step| localstack::start(&cluster, step))?;
    steps.step("Push images, install the definitions", |step| {
        images::push(images::Which::All, &cluster, step)?;
        images::operator::image(&binary)?.push(&cluster, step)?;
        bench::install_definitions(&cluster, step)
    })?;
    steps.step("Add nodes", |step| (2..=3).try_for_each(|number| cluster.add_node(number, None, step)))?;
    println!();
    let seeds = options.seed.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let figures = bench::directory()?.join("soak-figures.json");
    let ended = cluster
        .in_network("cargo")
        .args([
            "test",
            "--workspace",
            "--locked",
            "--offline",
            "--test",
            "integration",
            "soak::all",
            "--",
            "--nocapture",
        ])
        .current_dir(host::repo_root()?)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env(rights::VARIABLE, cluster.operators_kubeconfig())
        .env("CAUSEWAY_TEST_NODE", cluster.root())
        .env("AWS_ENDPOINT_URL", &localstack.endpoint)
        .env("AWS_REGION", "us-east-1")
        .env(judge::VARIABLE, judge)
        .env(from_tests::VARIABLE, &figures)
        .env("CAUSEWAY_SOAK_SECONDS", (options.minutes * 60).to_string())
        .env("CAUSEWAY_SOAK_SEEDS", &seeds)
        .status()
        .context("cannot start the soak")?;
    Cluster::down(CLUSTER)?;
    if !ended.success() {
        bail!("the soak did not come to a good end: {ended}");
    }
    let build = format!("Debug build, {} minutes by each seed of {seeds}", options.minutes);
    bench::keep("soak", build, from_tests::read(&figures)?)
}
