//! Environments of Python, each made of what a lock file names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::host;
use crate::progress::Step;

/// Makes an environment in `new` with what `lock` names; `home` gets the logs.
pub fn environment(new: &Path, lock: &Path, home: &Path, step: &Step) -> Result<()> {
    step.run(Command::new("python3.11").args(["-m", "venv"]).arg(new), &home.join("venv.log"))?;
    // Everything is in the lock and comes as a wheel: nothing is resolved, built or run while installing.
    let mut install = pip(new, ["--no-deps", "--require-hashes", "--only-binary=:all:"]);
    step.run(install.arg("--requirement").arg(lock), &home.join("install.log"))
}

/// An environment with `what` as `lock` names it, made if it is not in that folder of the cache.
pub fn cached(folder: &str, lock: &Path, what: &str, step: &Step) -> Result<PathBuf> {
    let recipe = host::repo_root()?.join("xtask/src/python.rs");
    let home = host::cache_dir()?.join(folder).join(host::hash_of(&[lock, &recipe])?);
    let venv = home.join("venv");
    host::made_once(&venv, what, step, |new| {
        step.note(format!("installing {what}"));
        environment(new, lock, &home, step)
    })?;
    Ok(venv)
}

/// `pip install` of an environment.
pub fn pip<const N: usize>(venv: &Path, options: [&str; N]) -> Command {
    let mut command = Command::new(venv.join("bin/python"));
    command
        .args(["-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", "--no-input"])
        .args(options);
    command
}
