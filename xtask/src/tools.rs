//! Programs that make and check charts, manifests, workflows and pages. Those in Go are built from their
//! modules in `tools/`, those in Rust from crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::progress::Step;
use crate::{golang, host};

/// Packages charts, renders and installs them: <https://helm.sh>
pub const HELM: &str = "helm";
/// Checks GitHub workflows: <https://github.com/rhysd/actionlint>
pub const ACTIONLINT: &str = "actionlint";
/// Checks manifests: <https://github.com/zegl/kube-score>
pub const KUBE_SCORE: &str = "kube-score";

/// The modules of all tools. Each has the name of its program.
pub fn modules() -> Result<Vec<PathBuf>> {
    golang::modules(&host::repo_root()?.join("tools"))
}

/// A tool's program; compiled unless the cache has this version.
pub fn program(name: &str, step: &Step) -> Result<PathBuf> {
    let module = host::repo_root()?.join("tools").join(name);
    let built = host::cache_dir()?.join("tools").join(name).join(host::hash_of(&golang::sources(&module)?)?);
    host::made_once(&built, name, step, |new| {
        step.note(format!("making {name}"));
        golang::compile(&module, &["tool"], "", new, step)
    })?;
    Ok(built.join(name))
}

/// The program of a crate in that version; compiled with these options unless it is in the cache.
pub fn of_crate(name: &str, version: &str, options: &[&str], log: &Path, step: &Step) -> Result<PathBuf> {
    let home = host::cache_dir()?.join(format!("tools/{name}-{version}"));
    let program = home.join("bin").join(name);
    if !program.exists() {
        step.note(format!("installing {name}"));
        let mut install = Command::new("cargo");
        install.args(["install", name, "--locked", "--version", version]).args(options).arg("--root").arg(&home);
        step.run(&mut install, log)?;
    }
    Ok(program)
}

/// Runs a command and returns its output. If it fails, the error contains what it printed.
pub fn output_of(command: &mut Command) -> Result<String> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("{program}: {}\n{}", complained.trim(), said.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}
