//! `cargo xtask bench`: what the operator costs, measured on its binary with a real cluster and LocalStack. No figure
//! makes a run fail, because the speed of a machine is not a property of the program.

mod aws;
mod failover;
mod foundation;
pub mod from_tests;
mod http;
mod kubernetes;
mod many;
mod myingress;
mod operator_process;
mod page;
mod record;
mod report;
mod scene;

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::cluster::{self, Cluster};
use crate::progress::{Progress, Step};
use crate::{host, images, localstack, rights};
pub use failover::build as build_tests;
use record::Record;
use scene::Bench;

/// The benchmarks' own cluster: nothing else runs in it.
const CLUSTER: &str = "bench";

/// The subcommands.
#[derive(Subcommand)]
pub enum Task {
    #[command(flatten)]
    Measure(Action),
    /// Write the tables of docs/benchmarks.md from docs/bench/
    Page,
}

/// The measurements.
#[derive(Subcommand)]
pub enum Action {
    /// `Redis` and Redis Sentinel: how long no client can write when the master fails or moves, and what is lost
    Failover {
        /// How often each failure happens
        #[arg(long, default_value_t = 5)]
        turns: usize,
        #[command(flatten)]
        options: Options,
    },
    /// AWS calls of a bare `MyIngress`, and 500 of them: time, calls, memory, sizes
    Foundation(Options),
    /// AWS calls of a `MyIngress` with all its parts
    Myingress(Options),
}

/// Options of every benchmark.
#[derive(Args)]
pub struct Options {
    /// Leave the cluster running afterwards: the next run starts sooner
    #[arg(long)]
    keep: bool,
    /// Measure this program instead of a release build of what is here
    #[arg(long, value_name = "PATH")]
    operator: Option<PathBuf>,
    /// Measure now: this process is in the cluster's network, and AWS is at this URL
    #[arg(long, hide = true, value_name = "URL")]
    measure: Option<String>,
    /// A description of the measured build
    #[arg(long, hide = true, default_value = "")]
    build: String,
}

impl Action {
    /// Its name on the command line and in `docs/bench/`.
    fn name(&self) -> &'static str {
        match self {
            Self::Failover { .. } => "failover",
            Self::Foundation(_) => "foundation",
            Self::Myingress(_) => "myingress",
        }
    }

    fn options(&self) -> &Options {
        match self {
            Self::Failover { options, .. } | Self::Foundation(options) | Self::Myingress(options) => options,
        }
    }

    /// Arguments of the measuring process, beside those of all benchmarks.
    fn arguments(&self) -> Vec<String> {
        match self {
            Self::Failover { turns, .. } => vec!["--turns".into(), turns.to_string()],
            Self::Foundation(_) | Self::Myingress(_) => Vec::new(),
        }
    }

    fn measure(&self, bench: &Bench) -> Result<report::Report> {
        match self {
            Self::Failover { turns, .. } => failover::measure(bench, *turns),
            Self::Foundation(_) => foundation::measure(bench),
            Self::Myingress(_) => myingress::measure(bench),
        }
    }
}

/// Runs a benchmark, or writes the page.
pub fn run(task: &Task) -> Result<()> {
    let Task::Measure(action) = task else { return page::write() };
    let options = action.options();
    let Some(endpoint) = &options.measure else {
        return prepare(action);
    };
    let cluster = Cluster::find(CLUSTER)?.context("the benchmarks' cluster is not running")?;
    let binary = options.operator.clone().context("--measure needs --operator")?;
    let bench = Bench::new(&cluster, endpoint, binary)?;
    keep(action.name(), options.build.clone(), action.measure(&bench)?)
}

/// Prints the figures, stores them as the latest ones of that benchmark, and updates the page.
pub fn keep(benchmark: &str, build: String, report: report::Report) -> Result<()> {
    println!("\n{}", report.table());
    let file = Record::now(build, report.figures)?.write(benchmark)?;
    println!("{}", file.display());
    page::write()
}

/// Prepares the cluster, and measures in a separate process, because only that one runs in the cluster's network.
fn prepare(action: &Action) -> Result<()> {
    let (benchmark, options) = (action.name(), action.options());
    host::require_tools()?;
    let mut steps = Progress::new(cluster::STEPS + 4);
    let (build, binary) = match &options.operator {
        // The operator runs in the tests' own process.
        _ if matches!(action, Action::Failover { .. }) => {
            ("Debug build".to_owned(), steps.step("Build the tests", failover::build)?)
        }
        Some(user_provided) => {
            let name = user_provided.display();
            (format!("`{name}`"), steps.step(format!("Take {name}"), |_| Ok(user_provided.canonicalize()?))?)
        }
        None => {
            let binary = steps.step("Build the operator for release", images::operator::build_release)?;
            ("Release build".to_owned(), binary)
        }
    };
    let cluster = Cluster::up(CLUSTER, &mut steps)?;
    let localstack = steps.step("Start LocalStack", |step| localstack::start(&cluster, step))?;
    steps.step("Push images, install the definitions", |step| {
        images::push(images::Which::All, &cluster, step)?;
        images::operator::image(&binary)?.push(&cluster, step)?;
        install_definitions(&cluster, step)
    })?;
    if matches!(action, Action::Failover { .. }) {
        steps.step("Add nodes", |step| (2..=3).try_for_each(|number| cluster.add_node(number, None, step)))?;
    }
    println!();
    let measured = cluster
        .in_network(env::current_exe()?)
        .args(["bench", benchmark, "--measure", &localstack.endpoint, "--operator"])
        .arg(&binary)
        .args(["--build", &build])
        .args(action.arguments())
        .status()
        .context("cannot start the measuring process")?;
    if options.keep {
        println!("The cluster stays: cargo xtask cluster down --name {CLUSTER}");
    } else {
        Cluster::down(CLUSTER)?;
    }
    if !measured.success() {
        bail!("the benchmark {benchmark} did not come to its end: {measured}");
    }
    Ok(())
}

/// Installs the definitions of all kinds.
pub fn install_definitions(cluster: &Cluster, step: &Step) -> Result<()> {
    let log = directory()?.join("definitions.log");
    let crds = host::repo_root()?.join("crds");
    let mut apply = cluster.kubectl();
    apply.args(["apply", "--server-side", "--force-conflicts", "-k"]).arg(crds);
    step.run(&mut apply, &log)?;
    let mut wait = cluster.kubectl();
    wait.args(["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]);
    step.run(&mut wait, &log)?;
    rights::give(cluster, &directory()?.join("rights.log"), step)
}

/// The directory of the logs.
pub fn directory() -> Result<PathBuf> {
    let directory = images::operator::target_directory()?.join("bench");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}
