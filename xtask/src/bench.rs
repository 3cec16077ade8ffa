//! `cargo xtask bench`: what the operator costs, measured on the release binary against a real cluster and LocalStack.
//! No figure fails a run: a machine's speed is no property of the program.

mod aws;
mod foundation;
mod http;
mod kubernetes;
mod operator_process;
mod report;
mod scene;

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::cluster::{self, Cluster};
use crate::progress::{Progress, Step};
use crate::{host, images, localstack};
use scene::Bench;

/// The benchmarks' own cluster: nothing else runs in it.
const CLUSTER: &str = "bench";

/// What to measure.
#[derive(Subcommand)]
pub enum Action {
    /// The process itself and `MyIngress`: AWS calls, latency, memory, start, sizes
    Foundation(Options),
}

/// Options of every benchmark.
#[derive(Args)]
pub struct Options {
    /// Leave the cluster running afterwards: the next run starts sooner
    #[arg(long)]
    keep: bool,
    /// Measure now: this process is in the cluster's network, and AWS is at this URL
    #[arg(long, hide = true, value_name = "URL")]
    measure: Option<String>,
}

impl Action {
    /// Its name on the command line, in `target/bench/` and in the table's title.
    fn name(&self) -> &'static str {
        match self {
            Self::Foundation(_) => "foundation",
        }
    }

    fn options(&self) -> &Options {
        match self {
            Self::Foundation(options) => options,
        }
    }

    fn measure(&self, bench: &Bench) -> Result<report::Report> {
        match self {
            Self::Foundation(_) => foundation::measure(bench),
        }
    }
}

/// Runs a benchmark.
pub fn run(action: &Action) -> Result<()> {
    let options = action.options();
    let Some(endpoint) = &options.measure else {
        return prepare(action.name(), options.keep);
    };
    let cluster = Cluster::find(CLUSTER)?.context("the benchmarks' cluster is not running")?;
    let bench = Bench::new(&cluster, endpoint, images::operator::target_directory()?.join("release/causeway"))?;
    let report = action.measure(&bench)?;
    let file = directory()?.join(format!("{}.json", action.name()));
    fs::write(&file, report.json()?).with_context(|| format!("cannot write {}", file.display()))?;
    println!("\n{}\n{}", report.table(), file.display());
    Ok(())
}

/// Makes the world to measure in and measures there, in a process of its own: only that one is in the cluster's network.
fn prepare(benchmark: &str, keep: bool) -> Result<()> {
    host::require_tools()?;
    let mut steps = Progress::new(cluster::STEPS + 3);
    let binary = steps
        .step("Build the operator for release", |step| images::operator::build(images::operator::RELEASE, step))?;
    let cluster = Cluster::up(CLUSTER, &mut steps)?;
    let localstack = steps.step("Start LocalStack", |step| localstack::start(&cluster, step))?;
    steps.step("Push the operator's image, install the definitions", |step| {
        images::operator::image(&binary)?.push(&cluster, step)?;
        install_definitions(&cluster, step)
    })?;
    println!();
    let measured = cluster
        .in_network(env::current_exe()?)
        .args(["bench", benchmark, "--measure", &localstack.endpoint])
        .status()
        .context("cannot start the measuring process")?;
    if keep {
        println!("The cluster stays: cargo xtask cluster down --name {CLUSTER}");
    } else {
        Cluster::down(CLUSTER)?;
    }
    if !measured.success() {
        bail!("the benchmark {benchmark} did not come to its end: {measured}");
    }
    Ok(())
}

fn install_definitions(cluster: &Cluster, step: &Step) -> Result<()> {
    let log = directory()?.join("definitions.log");
    let crds = host::repo_root()?.join("crds");
    let mut apply = cluster.kubectl();
    apply.args(["apply", "--server-side", "--force-conflicts", "-k"]).arg(crds);
    step.run(&mut apply, &log)?;
    let mut wait = cluster.kubectl();
    wait.args(["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]);
    step.run(&mut wait, &log)
}

/// Where results and logs go.
fn directory() -> Result<PathBuf> {
    let directory = images::operator::target_directory()?.join("bench");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}
