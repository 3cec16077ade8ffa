//! Environments of Python, each made of what a lock file names.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::progress::Step;

/// Makes an environment in `new` with what `lock` names; `home` gets the logs.
pub fn environment(new: &Path, lock: &Path, home: &Path, step: &Step) -> Result<()> {
    step.run(Command::new("python3.11").args(["-m", "venv"]).arg(new), &home.join("venv.log"))?;
    // Everything is in the lock and comes as a wheel: nothing is resolved, built or run while installing.
    let mut install = pip(new, ["--no-deps", "--require-hashes", "--only-binary=:all:"]);
    step.run(install.arg("--requirement").arg(lock), &home.join("install.log"))
}

/// `pip install` of an environment.
pub fn pip<const N: usize>(venv: &Path, options: [&str; N]) -> Command {
    let mut command = Command::new(venv.join("bin/python"));
    command
        .args(["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", "--no-input"])
        .args(options);
    command
}
