//! Builds the cluster's program, once for each state of its sources.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::host;
use crate::progress::Step;

const PROGRAM: &str = "causeway-cluster";

/// The cluster's program; built if there is none of these sources in the cache. With an empty build cache of Go it
/// takes several minutes.
pub fn build(step: &Step) -> Result<PathBuf> {
    let sources = host::repo_root()?.join("tests/cluster");
    let built = host::cache_dir()?.join("cluster-bin").join(host::hash_of(&files(&sources)?)?);
    if built.exists() {
        return Ok(built.join(PROGRAM));
    }
    let home = built.parent().context("a cached path has a directory")?;
    fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
    let lock = File::create(home.join("lock"))?;
    if lock.try_lock().is_err() {
        step.note("waiting for another run that is building the cluster");
        lock.lock()?;
    }
    if !built.exists() {
        let new = built.with_extension("new");
        compile(&sources, &new, step)?;
        fs::rename(&new, &built).with_context(|| format!("cannot rename {}", new.display()))?;
    }
    Ok(built.join(PROGRAM))
}

fn compile(sources: &Path, into: &Path, step: &Step) -> Result<()> {
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    let log = into.join("build.log");
    step.note("finding the packages Kubernetes is made of");
    let mut list = go(sources, "list");
    step.run(list.args(["-deps", ".", "./pause"]), &log)?;
    let total = count_packages(&log);
    step.note(format!("compiling {total} packages"));
    // Without a version, every part would call itself v0.0.0.
    let flags = format!("-s -w -X k8s.io/component-base/version.gitVersion={}", kubernetes_version(sources)?);
    let mut build = go(sources, "build");
    build.args(["-v", "-trimpath", "-buildvcs=false", "-ldflags", &flags, "-o"]).arg(into).args([".", "./pause"]);
    step.run_telling(&mut build, &log, |log| match count_packages(log) {
        0 => String::new(),
        done => format!("compiled {done} of {total} packages"),
    })
}

fn go(sources: &Path, subcommand: &str) -> Command {
    let mut command = Command::new("go");
    command.arg("-C").arg(sources).arg(subcommand).env("CGO_ENABLED", "0");
    command
}

/// Packages among the lines of Go's output; lines about downloads have spaces.
fn count_packages(log: &Path) -> usize {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty() && !line.contains(' ')).count()
}

fn kubernetes_version(sources: &Path) -> Result<String> {
    let module = fs::read_to_string(sources.join("go.mod")).context("cannot read go.mod")?;
    let version = module.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes "));
    version.map(str::to_owned).context("go.mod does not require k8s.io/kubernetes")
}

/// All that has a part in the program.
fn files(sources: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![sources.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                directories.push(path);
            } else if !name.ends_with("_test.go") && !name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
