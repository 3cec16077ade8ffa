//! The machine that runs the tasks: its requirements, installed packages, and the cache.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::images::etcd;
use crate::progress::Step;
use crate::{clients, golang, judge, tools};

/// Something a task cannot do without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The Linux kernel, for its namespaces
    Linux,
    /// The user root
    Root,
    /// Rust's build tool
    Cargo,
    /// Go, at least as new as the go.mod files of `tests/` ask for
    Go,
    /// Python 3.11
    Python,
}

/// Fails unless the user is root.
pub fn require_root() -> Result<()> {
    require(&[Requirement::Linux, Requirement::Root])
}

/// Fails unless everything is available that the local environment is built with; the error names all that is missing.
pub fn require_tools() -> Result<()> {
    require(&[Requirement::Linux, Requirement::Root, Requirement::Cargo, Requirement::Go, Requirement::Python])
}

/// Fails with one sentence that names every missing one of `requirements`.
pub fn require(requirements: &[Requirement]) -> Result<()> {
    let mut missing = Vec::new();
    for requirement in requirements {
        missing.extend(requirement.missing()?);
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!("this machine lacks what the task needs: {}", missing.join("; "))
}

impl Requirement {
    /// The message if it is not met.
    fn missing(self) -> Result<Option<String>> {
        Ok(match self {
            Self::Linux => (!cfg!(target_os = "linux")).then(|| "Linux".to_owned()),
            Self::Root => {
                (!rustix::process::geteuid().is_root()).then(|| "root (run it with sudo or as root)".to_owned())
            }
            Self::Cargo => (!on_path("cargo")).then(|| "cargo (https://rustup.rs)".to_owned()),
            Self::Python => (!on_path("python3.11")).then(|| "python3.11 (with its venv module)".to_owned()),
            Self::Go => missing_go()?,
        })
    }
}

fn missing_go() -> Result<Option<String>> {
    let mut modules = etcd::versions()?;
    modules.extend([repo_root()?.join("tests/cluster"), judge::module()?]);
    modules.extend(tools::modules()?);
    modules.push(clients::module()?);
    let wanted = modules.iter().map(|module| golang::needed_by(module)).collect::<Result<Vec<_>>>()?;
    let wanted = wanted.iter().max_by_key(|wanted| version(wanted)).context("there is no Go here")?;
    let found = Command::new("go").args(["env", "GOVERSION"]).stderr(Stdio::null()).output();
    let found = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let Some(found) = found.strip_prefix("go") else {
        return Ok(Some(format!("Go {wanted} or newer (https://go.dev/dl)")));
    };
    Ok((version(found) < version(wanted)).then(|| format!("Go {wanted} or newer (this is {found})")))
}

/// The numbers of a version, for comparison.
fn version(text: &str) -> Vec<u32> {
    text.split(|character: char| !character.is_ascii_digit()).map_while(|part| part.parse().ok()).collect()
}

/// Reports whether a program of this name is on the PATH.
pub fn on_path(program: impl AsRef<OsStr>) -> bool {
    let program = program.as_ref();
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// The checkout from which this program was built.
pub fn repo_root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in no workspace")?;
    root.canonicalize().with_context(|| format!("the checkout {} is gone", root.display()))
}

/// The directory for everything worth keeping between runs, shared by all checkouts; created if it does not exist.
pub fn cache_dir() -> Result<PathBuf> {
    let user = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let user = match user {
        Some(path) => path,
        None => PathBuf::from(env::var_os("HOME").context("neither HOME nor XDG_CACHE_HOME is set")?).join(".cache"),
    };
    let path = user.join("causeway");
    fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// Creates `path` by `make`, which gets a temporary name to use. A partly written file is never seen under `path`, and
/// if several runs need it at once, one creates it while the others wait. `what` describes it.
pub fn made_once(path: &Path, what: &str, step: &Step, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let home = path.parent().context("a cached path has a folder")?;
    fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
    let lock = File::create(home.join("lock"))?;
    if lock.try_lock().is_err() {
        step.note(format!("waiting for another run that is making {what}"));
        lock.lock()?;
    }
    if path.exists() {
        return Ok(());
    }
    let new = path.with_extension("new");
    if new.exists() {
        fs::remove_dir_all(&new).with_context(|| format!("cannot remove {}", new.display()))?;
    }
    make(&new)?;
    fs::rename(&new, path).with_context(|| format!("cannot rename {}", new.display()))
}

/// All files below a folder, sorted. `wanted` decides which files count, and which folders are looked into.
pub fn files_below(folder: &Path, wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if wanted(&path) {
                if path.is_dir() { &mut folders } else { &mut found }.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A name for what is built from these files. It changes with their contents and with their paths in the checkout.
pub fn hash_of(paths: &[impl AsRef<Path>]) -> Result<String> {
    let root = repo_root()?;
    let mut hash = Sha256::new();
    for path in paths {
        let path = path.as_ref();
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(&root).unwrap_or(path).to_string_lossy();
        for part in [name.as_bytes(), &content] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
    }
    Ok(hex::encode(&hash.finalize()[..8]))
}

/// A short name for a path on this machine.
pub fn hash_of_path(path: &Path) -> String {
    hex::encode(&Sha256::digest(path.as_os_str().as_encoded_bytes())[..4])
}

/// Installs what the operator's crate needs beside Rust: `protoc`, which generates the etcd client.
pub fn install_build_tools(step: &Step) -> Result<()> {
    let protoc = env::var_os("PROTOC").unwrap_or_else(|| "protoc".into());
    // It also needs the standard protocol definitions, which are in a package of their own in Debian.
    let mut tried = Command::new(protoc);
    tried.args(["--descriptor_set_out=/dev/null", "google/protobuf/descriptor.proto", "google/protobuf/struct.proto"]);
    if tried.output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    install_packages(step, &["protobuf-compiler", "libprotobuf-dev"])
}

/// Installs those of the Debian packages that are missing, and says which.
pub fn install_packages(step: &Step, packages: &[&str]) -> Result<()> {
    let missing = missing_packages(packages);
    if missing.is_empty() {
        return Ok(());
    }
    if !on_path("apt-get") || require_root().is_err() {
        bail!("please install what Debian calls {}: this needs root and apt-get", missing.join(", "));
    }
    let log = cache_dir()?.join("apt-get.log");
    step.note("apt-get update");
    step.run(apt_get().arg("update"), &log)?;
    step.note(format!("installing {}", missing.join(", ")));
    step.run(apt_get().args(["install", "--yes", "--no-install-recommends"]).args(missing), &log)
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--quiet").env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn missing_packages<'a>(packages: &[&'a str]) -> Vec<&'a str> {
    let query = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"])
        .args(packages)
        .stderr(Stdio::null())
        .output();
    let known = query.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let installed = |package: &&str| known.lines().any(|line| line == format!("{package} installed"));
    packages.iter().copied().filter(|package| !installed(package)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(version("1.9.1") < version("1.24.0"));
        assert!(version("1.26.8") > version("1.24.0"));
        assert_eq!(version("1.25rc1"), [1, 25]);
    }

    #[test]
    fn the_name_of_a_path_begins_its_hash() {
        assert_eq!(hash_of_path(Path::new("/")), "8a5edab2");
    }
}
