//! `cargo xtask test`: every check and every test, with one summary and one exit code.

mod alerts;
mod chart;
mod checks;
mod dashboards;
mod installed;
mod linters;
mod manifests;
mod packages;
mod pages;
mod processors;
mod pytest;
mod queue;
mod release;
mod report;
mod rights;
mod suites;
mod terraform;
mod turns;
mod unchanged;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{OnceLock, mpsc};
use std::thread;

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::cluster::{self, Cluster};
use crate::images::Which;
use crate::localstack::LocalStack;
use crate::progress::Step;
use crate::rights::Log;
use crate::{clients, demo, e2e, host, images, judge, localstack, tools};
use report::{Outcome, Part, Report};
use suites::Suite;

pub use linters::run as lint;

/// The cluster's name, also for `cargo xtask cluster` and `cargo xtask kubectl`.
const NAME: &str = "test";

/// Debian packages of programs that tests compare with, or with which users open backups.
const PACKAGES: &[&str] =
    &["age", alerts::PACKAGE, "awscli", "openssh-client", packages::PACKAGE, "postgresql-client", "zstd"];

/// The filter for the tests of an operator that is installed the way users do it.
const INSTALLED: &str = "installed";

/// The filter for the suite of `cargo xtask e2e`.
const E2E: &str = "e2e";

/// Options of `cargo xtask test`.
#[derive(Args)]
pub struct Options {
    /// Only what needs neither root nor the cluster: formatting, lints, CRDs, unit tests
    #[arg(long)]
    unit: bool,
    /// Leave the clusters running (`test`, and in a run of everything `installed`), for a quicker next run or to look into them
    #[arg(long)]
    keep: bool,
    /// Try all where else a sample is tried: every call at which controllers may die, 200 rounds; takes hours
    #[arg(long)]
    thorough: bool,
    /// Run only the tests whose name contains this, and no other check; `installed` is the chart, a release, and the
    /// operator as users install it, `e2e` what `cargo xtask e2e` does
    filter: Option<String>,
}

impl Options {
    /// Returns true if this run installs the operator as users do.
    fn installs(&self) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter == INSTALLED)
    }

    /// Returns true if this run includes the suite for real accounts, which takes long.
    fn tries_e2e(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter == E2E)
    }
}

/// Runs the checks and tests. A failure does not stop the others.
pub fn run(options: &Options) -> Result<ExitCode> {
    if !options.unit {
        host::require_root()?;
        host::require_tools()?;
    }
    let _alone = lock()?;
    let everything = options.filter.is_none();
    let mut report = Report::new(match (everything, options.unit) {
        (true, true) => 4,
        (true, false) => 7 + cluster::STEPS,
        (false, true) => 2,
        (false, false) => 5 + 2 * usize::from(options.installs()) + usize::from(options.tries_e2e()) + cluster::STEPS,
    });

    if everything {
        report.step("Formatting", checks::formatting);
    }
    let mut tests = None;
    report.step("Build the tests and what they need", |step| {
        tests = Some(build(step, options.unit)?);
        Ok(Outcome::Passed)
    });
    let filter = options.filter.as_deref();
    if everything {
        let mut parts =
            vec![Part::new("Dependencies", checks::dependencies), Part::new("CRDs are current", checks::crds)];
        if options.unit {
            parts.push(Part::new("Lints", |step| checks::lints(step, false, options.thorough)));
        }
        report.side_by_side(parts);
    } else if options.installs() && !options.unit {
        report.side_by_side(of_deployments());
    }
    // These parts use processor time that the integration tests leave.
    let mut meanwhile = Vec::new();
    if everything && !options.unit {
        meanwhile = beside_the_tests(tests.is_some(), options);
        if tests.is_none() {
            report.skip(installed::STEP, "there is nothing to install");
        }
    } else {
        report.step("Unit tests", |step| suites::cargo(&Suite::Unit { behind: false }, filter, step));
    }
    if !options.unit {
        on_the_cluster(&mut report, options, tests.as_deref(), &mut meanwhile);
        // If there is no cluster, they have not run yet.
        report.side_by_side(meanwhile);
        if !options.keep {
            report.step("Stop the cluster", |_| Cluster::down(NAME).map(|()| Outcome::Passed));
        }
    }
    Ok(report.finish())
}

/// The parts that run beside the integration tests. With `install`, one of them installs the operator.
fn beside_the_tests<'a>(install: bool, options: &Options) -> Vec<Part<'a>> {
    let (kept, thorough) = (options.keep, options.thorough);
    // Each channel orders parts: a receiver returns when all parts that hold its sender have ended.
    let (before_lints, lints_turn) = mpsc::channel::<()>();
    let (before_installing, installing_turn) = mpsc::channel::<()>();
    let unit = Part::new("Unit tests", |step| suites::cargo(&Suite::Unit { behind: true }, None, step));
    let mut first = of_deployments();
    first.push(Part::new("Python of LocalStack", move |step| pytest::run(step, thorough)));
    first.push(Part::new("Linters of what is deployed", linters::check));
    first.push(Part::new("Go of the cluster", checks::go));
    first.push(unit.holding(before_lints));
    let mut parts: Vec<Part> = first.into_iter().map(|part| part.holding(before_installing.clone())).collect();
    parts.push(Part::new("Lints", move |step| {
        // Cargo does one thing at a time in a checkout, and test results are more important.
        let _ = lints_turn.recv();
        checks::lints(step, true, thorough)
    }));
    if install {
        parts.push(Part::new(installed::STEP, move |step| {
            // It waits for the others: on a small machine a second cluster at the same time would leave too little time
            // for the tests.
            let _ = installing_turn.recv();
            installed::beside_others(kept, step)
        }));
    }
    parts
}

/// The checks of what users install, and of what they monitor it with.
fn of_deployments<'a>() -> Vec<Part<'a>> {
    vec![
        Part::new("Helm chart", chart::check),
        Part::new("Release", release::check),
        Part::new("Alerts", alerts::check),
        Part::new("OLM, Argo CD and krew", packages::check),
        Part::new("Terraform", terraform::check),
    ]
}

/// The steps that need the cluster. Without a cluster they are skipped, and the cluster's own step says why. The parts
/// in `meanwhile` are taken out and run beside the integration tests.
fn on_the_cluster(report: &mut Report, options: &Options, tests: Option<&Path>, meanwhile: &mut Vec<Part>) {
    const MANIFESTS: &str = "Manifests are valid";
    const INTEGRATION: &str = "Integration tests";
    let (everything, filter) = (options.filter.is_none(), options.filter.as_deref());
    let cluster = report.steps("Start the cluster", |steps| Cluster::up_in_memory(NAME, steps));
    let Some(cluster) = cluster else {
        report.skip(MANIFESTS, "there is no cluster");
        report.skip(INTEGRATION, "there is no cluster");
        return;
    };
    let localstack: OnceLock<LocalStack> = OnceLock::new();
    let mut parts = vec![
        Part::new("Push images", |step| push_images(&cluster, options.thorough, step)),
        Part::new("Start LocalStack", |step| {
            let started = localstack::start(&cluster, step)?;
            let _ = localstack.set(started);
            Ok(Outcome::Passed)
        }),
    ];
    if everything {
        parts.push(Part::new(MANIFESTS, |step| manifests::validate(&cluster, step)));
    }
    report.side_by_side(parts);
    let (Some(localstack), Some(tests)) = (localstack.get(), tests) else {
        report.skip(INTEGRATION, "there is no LocalStack, or there are no tests");
        return;
    };
    let integration = Part::new(INTEGRATION, |step: &Step| {
        manifests::prepare(&cluster, step)?;
        let thorough = options.thorough;
        let suite = Suite::Integration { program: tests, cluster: &cluster, localstack, thorough };
        suites::cargo(&suite, filter, step)
    });
    let audited = Log::from_now(&cluster.audit_log());
    report.side_by_side([integration].into_iter().chain(meanwhile.drain(..)).collect());
    if everything {
        let all = report.is_well(INTEGRATION) && report.is_well(installed::STEP);
        report.step(rights::STEP, |_| rights::check(&audited, all, options.thorough));
    }
    if options.tries_e2e() {
        report.step("What users do, from the first balancer to the last deletion", |step| {
            let binary = images::operator::target_directory()?.join("debug/causeway");
            e2e::in_tests(&cluster, localstack, &binary, step).map(|()| Outcome::Passed)
        });
    }
    if options.installs() && !everything {
        report.step(installed::STEP, |step| installed::alone(&cluster, localstack, step));
    }
}

/// Pushes the images that tests start, and that of backup Jobs.
fn push_images(cluster: &Cluster, thorough: bool, step: &Step) -> Result<Outcome> {
    images::push(Which::All, cluster, step)?;
    if thorough {
        images::push_thorough(cluster, step)?;
    }
    let binary = images::operator::target_directory()?.join("debug/causeway");
    images::operator::image(&binary)?.push(cluster, step).map(|_| Outcome::Passed)
}

/// Builds everything that takes long; downloads run during compilation. Returns the program with the integration tests.
fn build(step: &Step, unit: bool) -> Result<PathBuf> {
    host::install_build_tools(step)?;
    thread::scope(|scope| {
        let others = scope.spawn(|| {
            if unit {
                return Ok(());
            }
            localstack::prepare(step)?;
            host::install_packages(step, demo::PACKAGES)?;
            host::install_packages(step, PACKAGES)?;
            images::prepare(Which::All, step)?;
            judge::build(step)?;
            for tool in [tools::HELM, tools::ACTIONLINT, tools::KUBE_SCORE] {
                tools::program(tool, step)?;
            }
            linters::prepare(step)?;
            clients::prepare(step)?;
            cluster::build(step).map(|_| ())
        });
        // The programs, too: tests start them.
        let mut compile = cargo(["build", "--workspace", "--all-targets"])?;
        let tests = crate::cargo::run(&mut compile, "the tests", &log("build")?, step);
        others.join().map_err(|_| anyhow!("the build of the cluster panicked"))??;
        // Ask Cargo now: later, this would have to wait for the compilation of the lints.
        tests.and_then(|()| suites::integration_tests())
    })
}

/// Cargo in this checkout, with the dependencies of the lock file.
fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    nice_cargo(0, arguments)
}

/// Like [`cargo()`], with a lower priority: see [`nice`].
fn nice_cargo<'a>(by: u8, arguments: impl IntoIterator<Item = &'a str>) -> Result<Command> {
    let mut command = if by == 0 { Command::new("cargo") } else { nice(by, "cargo") };
    command.args(arguments).arg("--locked").current_dir(host::repo_root()?).env("CARGO_TERM_COLOR", "never");
    Ok(command)
}

/// A program with a lower priority: the larger `by`, the lower it is. The largest value is 19.
fn nice(by: u8, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", &by.to_string()]).arg(program);
    command
}

/// The log file of a step.
fn log(name: &str) -> Result<PathBuf> {
    Ok(directory()?.join(format!("{name}.log")))
}

/// The directory for logs and rendered manifests of a run.
fn directory() -> Result<PathBuf> {
    let path = host::repo_root()?.join("target/test");
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// Two runs in one checkout would share a cluster, so the second one waits.
fn lock() -> Result<File> {
    let path = directory()?.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        println!("Waiting for another `cargo xtask test` in this checkout to end.");
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}
