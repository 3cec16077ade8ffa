//! The operator's rights must be those that operators need, according to the audit logs of a run.

use std::path::PathBuf;

use anyhow::{Result, bail};

use super::directory;
use super::report::{Outcome, Tests};
use crate::rights::{Log, Verdict};

/// The name of the step.
pub const STEP: &str = "Rights of the operator";

/// The audit log of the cluster in which the operator was installed. It is copied, because that cluster ends before the
/// others do.
pub fn of_installed() -> Result<PathBuf> {
    Ok(directory()?.join("audit-installed.log"))
}

/// Fails if a request had no grant, and, with `thorough`, if a grant was used by no request. The latter is known only
/// if `all` tests with requests ran to the end. Without `thorough`, some tests are left to other commits and may need
/// the grant, so an unused grant is only reported. `tests` is the log of the integration tests.
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
        return Ok(Outcome::Partly("superfluous rights are not known: tests failed".to_owned()));
    }
    if !unused.is_empty() {
        return Ok(Outcome::Partly(format!("`--thorough` judges: {}", unused.join("; "))));
    }
    Ok(Outcome::Tests(Tests { figures: vec![format!("» {}", verdict.figure())], ..Tests::default() }))
}
