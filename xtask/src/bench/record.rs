//! The figures of the last run of each benchmark, as stored in docs/bench. docs/benchmarks.md shows them, and tests
//! compare their counts with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{host, tools};

/// The record of a run.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The machine that it ran on.
    pub machine: String,
    /// The program that was measured.
    pub build: String,
    /// The commit that was checked out.
    pub commit: String,
    /// The figures, in the order in which they were taken.
    pub figures: Vec<Figure>,
}
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The name, with the unit.
    pub name: String,
    /// The value, rounded to two decimals.
    pub value: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// For calls to AWS: how many there are of each operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, usize>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The row in a table with several columns.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub row: String,
    /// The column in that table.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub column: String,
}

impl Record {
    /// A record of figures that are taken now from the checked-out sources.
    pub fn now(build: String, figures: Vec<Figure>) -> Result<Self> {
        let root = host::repo_root()?;
        let git = |arguments: &[&str]| tools::output_of(Command::new("git").arg("-C").arg(&root).args(arguments));
        let mut commit = git(&["rev-parse", "HEAD"]).unwrap_or_default().trim().to_owned();
        let changes = git(&["status", "--short"]);
        if changes.is_ok_and(|changes| !changes.is_empty()) {
            commit += ", changed";
        }
        Ok(Self { machine: machine()?, build, commit, figures })
    }

    /// The last run of a benchmark.
    pub fn read(benchmark: &str) -> Result<Self> {
        let path = path(benchmark)?;
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no record of a benchmark", path.display()))
    }

    /// Keeps it as the last run; returns where.
    pub fn write(&self, benchmark: &str) -> Result<PathBuf> {
        let path = path(benchmark)?;
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

fn path(benchmark: &str) -> Result<PathBuf> {
    Ok(host::repo_root()?.join(format!("docs/bench/{benchmark}.json")))
}

/// Processors, memory and system of this machine.
fn machine() -> Result<String> {
    let line = |path: &str, name: &str| -> Result<String> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        Ok(text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned())
    };
    let kibibytes: f64 = line("/proc/meminfo", "MemTotal:")?.trim_end_matches(" kB").parse()?;
    let kernel = line("/proc/sys/kernel/osrelease", "")?;
    let system = line("/etc/os-release", "PRETTY_NAME=")?;
    Ok(format!(
        "{} cores, {:.0} GiB, Linux {kernel}, {}",
        available_parallelism()?,
        kibibytes / 1024.0 / 1024.0,
        system.trim_matches('"')
    ))
}
