//! `cargo xtask e2e`: goes through what users do with Causeway, from the first balancer to the last deletion. It runs
//! on a real cluster and account, or, with the same code, in the local environment.

mod aws;
mod consent;
mod cost;
mod objects;
mod operator;
mod options;
pub mod place;
mod report;
mod scene;
mod stages;
mod sweep;

use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};

use crate::cluster::{self, Cluster};
use crate::demo::{self, install, kubectl::Kubectl};
use crate::images::Which;
use crate::localstack::{self, LocalStack};
use crate::progress::{Progress, Step};
use crate::{host, images, tools};
use options::{RunId, Where, Wishes};
use place::Place;
use scene::Scene;
use stages::{Choice, STAGES};

/// The local cluster's name, also for `cargo xtask cluster` and `cargo xtask kubectl`.
const NAME: &str = "e2e";

/// The number of steps of a local run before its stages, without those of the cluster.
const PREPARATION: usize = 4;

/// Options of `cargo xtask e2e`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    place: Where,
    /// Install or upgrade the operator by its chart with these values first; without it, it must be installed
    #[arg(long, value_name = "FILE", requires = "real")]
    values: Option<PathBuf>,
    /// The operator's program for the local environment, instead of compiling it
    #[arg(long, value_name = "FILE", conflicts_with = "real")]
    binary: Option<PathBuf>,
    /// The account's id, instead of a question
    #[arg(long, value_name = "ACCOUNT_ID", requires = "real")]
    yes: Option<String>,
    /// A name for the run; the time, unless it is given
    #[arg(long, value_name = "RUNID")]
    run: Option<RunId>,
    /// Leave everything that the run made
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    wishes: Wishes,
}

/// Subcommands other than a run.
#[derive(Subcommand)]
enum Action {
    /// List what runs left, and remove it
    Sweep(sweep::Options),
}

/// Runs the suite, or sweeps.
pub fn run(options: &Options) -> Result<()> {
    match &options.action {
        Some(Action::Sweep(sweep)) => swept(sweep),
        None => match options.place.target()? {
            Some(target) => {
                let mut steps = Progress::new(STAGES.len());
                tried(&Place::Real(target), options, &mut steps)
            }
            None => locally(options),
        },
    }
}

fn swept(options: &sweep::Options) -> Result<()> {
    if let Some(target) = options.target()? {
        return sweep::run(options, &Place::Real(target));
    }
    host::require_root()?;
    let cluster = Cluster::find(NAME)?.context("there is nothing to sweep: no local run is up (cargo xtask e2e)")?;
    let localstack = Progress::new(1).step("Find LocalStack", |step| localstack::start(&cluster, step))?;
    sweep::run(options, &Place::local(&cluster, &localstack)?)
}

/// Runs the suite in the local environment, which it creates first.
fn locally(options: &Options) -> Result<()> {
    host::require_tools()?;
    let mut steps = Progress::new(PREPARATION + cluster::STEPS + STAGES.len());
    let binary =
        steps.step("Build the operator, and what it runs on", |step| build(options.binary.as_deref(), step))?;
    let cluster = Cluster::up(NAME, &mut steps)?;
    let localstack = steps.step("Start LocalStack", |step| localstack::start(&cluster, step))?;
    steps.step("Push images", |step| images::push(Which::OfExamples, &cluster, step))?;
    steps.step("Install the operator by its chart", |step| {
        place::install_locally(&cluster, &localstack, &binary, step)
    })?;
    let place = Place::local(&cluster, &localstack)?;
    let tried = tried(&place, options, &mut steps);
    println!(
        "The local environment goes on: cargo xtask kubectl --name {NAME} get pods -A; cargo xtask cluster down --name {NAME} ends it."
    );
    tried
}

fn build(given: Option<&Path>, step: &Step) -> Result<PathBuf> {
    host::install_build_tools(step)?;
    host::install_packages(step, demo::PACKAGES)?;
    host::install_packages(step, place::PACKAGES)?;
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            localstack::prepare(step)?;
            images::prepare(Which::OfExamples, step)?;
            tools::program(tools::HELM, step)?;
            cluster::build(step).map(drop)
        });
        let operator = match given {
            Some(given) => given.canonicalize().with_context(|| format!("there is no {}", given.display())),
            None => images::operator::build(step),
        };
        others.join().map_err(|_| anyhow!("the build of the cluster or the images panicked"))??;
        operator
    })
}

/// Runs the stages at a place, and writes the report.
fn tried(place: &Place<'_>, options: &Options, steps: &mut Progress) -> Result<()> {
    let run = options.run.clone().unwrap_or_else(RunId::now);
    let choice = Choice { keep: options.keep, yes: options.yes.clone(), sweep: options.place.sweep(&run) };
    println!("Run {run} in {}. If you interrupt it, remove what it made:\n  {}", place.name(), choice.sweep);
    let scene = Scene::new(place, run, options.wishes.clone(), options.values.clone());
    judged(&scene, &choice, steps)
}

fn judged(scene: &Scene<'_>, choice: &Choice, steps: &mut Progress) -> Result<()> {
    let report = stages::run(scene, choice, steps)?;
    let folder = report.write()?;
    println!("\n{}\nReport: {}", report.table(), folder.join("report.md").display());
    if let Some(advice) = report.advice() {
        println!("{advice}");
    }
    if report.failed() {
        bail!("run {} failed; the report has what the cluster says", scene.run);
    }
    Ok(())
}

/// Runs the suite with that program in a local cluster of the tests. It stops the operator in the end, because that
/// serves all namespaces.
pub fn in_tests(cluster: &Cluster, localstack: &LocalStack, binary: &Path, step: &Step) -> Result<()> {
    place::install_locally(cluster, localstack, binary, step)?;
    let place = Place::local(cluster, localstack)?;
    let wishes = Wishes { inbound_cidr: "0.0.0.0/0".to_owned(), ..Wishes::default() };
    let scene = Scene::new(&place, RunId::now(), wishes, None);
    let choice = Choice { keep: false, yes: None, sweep: "cargo xtask cluster down --name test".to_owned() };
    let result = judged(&scene, &choice, &mut Progress::new(STAGES.len()));
    install::stop(&Kubectl::local(cluster))?;
    result
}
