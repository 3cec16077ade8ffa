//! The checks that need no cluster: style, lints, dependencies, generated files.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::report::Outcome;
use super::unchanged::{self, Inputs};
use super::{directory, log, nice, nice_cargo};
use crate::progress::Step;
use crate::{host, judge, tools};

/// The version of cargo-deny for which deny.toml is written.
const CARGO_DENY: &str = "0.20.2";

/// The source of cargo-deny's advisories.
const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// All Rust code must be formatted.
pub fn formatting(step: &Step) -> Result<Outcome> {
    let mut command = Command::new("cargo");
    command.args(["fmt", "--all", "--check", "--", "--color=never"]).current_dir(host::repo_root()?);
    step.run(&mut command, &log("formatting")?).context("`cargo fmt --all` puts it right")?;
    Ok(Outcome::Passed)
}

/// The inputs of lints. Code includes some documents and examples.
const LINTED: Inputs = Inputs {
    paths: &[
        ".cargo",
        "Cargo.lock",
        "Cargo.toml",
        "clippy.toml",
        "crates",
        "docs",
        "examples",
        "rust-toolchain.toml",
        "src",
        "tests",
        "xtask",
    ],
    versions: &[&["cargo", "clippy", "--version"], &["rustc", "--version", "--verbose"]],
};

/// No lint may warn. Beside tests, clippy has a low priority, and runs one compiler to save memory. Code of which no lint
/// warned before is not looked at again, unless `always` is set.
pub fn lints(step: &Step, beside_tests: bool, always: bool) -> Result<Outcome> {
    let jobs: &[&str] = if beside_tests { &["--jobs", "1"] } else { &[] };
    unchanged::unless_passed("lints", &LINTED, always, || {
        step.run(&mut clippy(jobs)?, &log("lints")?)?;
        Ok(Outcome::Passed)
    })
}

/// Clippy for the whole workspace with the lowest priority. `options` are further options of Cargo.
fn clippy(options: &[&str]) -> Result<Command> {
    let mut command = nice_cargo(15, ["clippy", "--workspace", "--all-targets", "--keep-going"])?;
    command.args(options).args(["--", "--deny", "warnings"]);
    Ok(command)
}

/// Checks licences, sources and banned crates, and also known vulnerabilities if their database can be fetched.
pub fn dependencies(step: &Step) -> Result<Outcome> {
    let deny = tools::of_crate("cargo-deny", CARGO_DENY, &["--no-default-features"], &log("cargo-deny")?, step)?;
    let check = |what: &[&str], name: &str| {
        let mut command = Command::new(&deny);
        command.args(["--workspace", "--locked", "check", "--hide-inclusion-graph"]).args(what);
        step.run(command.current_dir(host::repo_root()?), &log(name)?)
    };
    step.note("licences, bans and sources");
    check(&["licenses", "bans", "sources"], "dependencies")?;
    step.note("looking whether the advisories can be fetched");
    if !advisories_can_be_fetched() {
        return Ok(Outcome::Partly(format!("advisories not checked: {ADVISORIES} does not answer")));
    }
    check(&["advisories"], "advisories")?;
    Ok(Outcome::Passed)
}

/// In a closed network, the request may be refused or get no answer. Neither may block the run.
fn advisories_can_be_fetched() -> bool {
    let mut ask = Command::new("timeout");
    ask.args(["10", "git", "ls-remote", "--quiet", ADVISORIES, "HEAD"]).env("GIT_TERMINAL_PROMPT", "0");
    ask.output().is_ok_and(|output| output.status.success())
}

/// `crds/` must match the Rust types.
pub fn crds(step: &Step) -> Result<Outcome> {
    crate::crds::check(&directory()?, step).map(|()| Outcome::Passed)
}

/// The Go code of the cluster and of the judge must be formatted and vetted, and pass its tests.
pub fn go(step: &Step) -> Result<Outcome> {
    for (name, module) in [("cluster", host::repo_root()?.join("tests/cluster")), ("judge", judge::module()?)] {
        go_module(name, &module, step)?;
    }
    Ok(Outcome::Passed)
}

fn go_module(name: &str, module: &Path, step: &Step) -> Result<()> {
    // The same settings as the cluster's build, so that its compiled packages are used here too.
    let go = |task: &str| {
        let mut command = nice(15, "go");
        command.args([task, "-trimpath"]).env("CGO_ENABLED", "0").current_dir(module);
        command
    };
    let gofmt = Command::new("gofmt").args(["-l", "."]).current_dir(module).output().context("cannot start gofmt")?;
    let unformatted = String::from_utf8_lossy(&gofmt.stdout);
    if !gofmt.status.success() || !unformatted.is_empty() {
        bail!("`gofmt -w` puts it right: {}{}", unformatted.trim(), String::from_utf8_lossy(&gofmt.stderr));
    }
    step.note(format!("go vet of the {name}"));
    // The analyses printf and lostcancel are off: they read all packages of Kubernetes for facts about our code, which
    // takes minutes.
    let mut vet = go("vet");
    step.run(vet.args(["-printf=false", "-lostcancel=false", "./..."]), &log(&format!("go-vet-{name}"))?)?;

    // Name the packages with tests one by one: for `./...` Go would link the whole cluster.
    let mut list = go("list");
    list.args(["-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./..."]);
    let listing = list.output().context("cannot start go")?;
    let tested = String::from_utf8_lossy(&listing.stdout);
    if !tested.trim().is_empty() {
        step.note(format!("go test of the {name}"));
        step.run(go("test").arg("-vet=off").args(tested.split_whitespace()), &log(&format!("go-test-{name}"))?)?;
    }
    Ok(())
}
