//! The figures of the last run of each benchmark, as docs/bench keeps them: what docs/benchmarks.md shows, and what tests
//! hold counts against.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::{host, image, tools};

/// A run.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Where it ran.
    pub machine: String,
    /// What was measured.
    pub build: String,
    /// The commit that was checked out.
    pub commit: String,
    /// In the order in which they were taken.
    pub figures: Vec<Figure>,
}

/// A figure.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// With its unit.
    pub name: String,
    /// To two decimals.
    pub value: f64,
    /// The goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Where these are calls to AWS: how many of each operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, usize>,
    /// What to know of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Where figures stand in a table of several columns: the words of its row and of its column.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub row: String,
    /// See `row`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub column: String,
}

impl Record {
    /// Figures of what is checked out, taken here and now.
    pub fn now(build: String, figures: Vec<Figure>) -> Result<Self> {
        let mut commit = image::facts(Architecture::native()?, 9)?.revision;
        let changes =
            tools::output_of(Command::new("git").arg("-C").arg(host::repo_root()?).args(["status", "--short"]));
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
