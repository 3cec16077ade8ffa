//! The operator's rights are what operators need: the witness is what the API servers of a run wrote down.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::directory;
use super::report::{Outcome, Tests};
use crate::rights::{Log, Verdict};

/// What the step is called.
pub const STEP: &str = "Rights of the operator";

/// Where the log of the cluster is kept in which the operator was installed: the cluster ends before the others' do.
pub fn of_installed() -> Result<PathBuf> {
    Ok(directory()?.join("audit-installed.log"))
}

/// Nothing is asked for that is not granted and, where `all` tests that ask for something ran to their ends, nothing is granted that
/// none of them asked for. Where some were left to other commits, a right may be theirs: then it is named and is no failure. `tests` is
/// what was written down beside the integration tests.
pub fn check(tests: &Log, all: bool, thorough: bool) -> Result<Outcome> {
    let mut verdict = Verdict::new()?;
    verdict.take(tests, true)?;
    if all {
        verdict.take(&Log::whole(&of_installed()?), false)?;
    }
    let mut wrong = verdict.missing();
    let unused = if all { verdict.unused() } else { Vec::new() };
    if thorough {
        wrong.extend(unused.clone());
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    if !all {
        return Ok(Outcome::Partly("what nobody needs is not known: tests failed".to_owned()));
    }
    if !unused.is_empty() {
        return Ok(Outcome::Partly(format!("`--thorough` judges: {}", unused.join("; "))));
    }
    Ok(Outcome::Tests(Tests { figures: vec![format!("» {}", verdict.figure())], ..Tests::default() }))
}
