//! LocalStack's Python environment, cached by its lock, and our own package, cached by its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::progress::Step;
use crate::{host, python};

/// Where LocalStack looks for its index of AWS's services, below its root; it takes seconds to build, so it is cached.
const INDEX: &str = "usr/lib/localstack";

/// Packages that carry the requests of its load balancers, and that make their addresses local.
const PACKAGES: &[&str] = &["haproxy", "iproute2", "util-linux"];

/// Our own package as it is now: LocalStack finds it by `PYTHONPATH`.
pub struct Package {
    /// The folder it is installed in.
    pub path: PathBuf,
    /// The hash of its sources.
    pub version: String,
}

/// The virtual environment with LocalStack, pytest and all they need, as locked; made if it is not in the cache. What
/// is needed beside it is installed.
pub fn prepare(step: &Step) -> Result<PathBuf> {
    host::install_packages(step, PACKAGES)?;
    let lock = sources()?.join("requirements.lock");
    // Another lock or another way to install it makes another environment.
    let root = host::repo_root()?;
    let recipes = ["xtask/src/localstack/install.rs", "xtask/src/python.rs"].map(|recipe| root.join(recipe));
    let version = host::hash_of(&[&lock, &recipes[0], &recipes[1]])?;
    let home = host::cache_dir()?.join("localstack").join(version);
    let venv = home.join("venv");
    host::made_once(&venv, "LocalStack's environment", step, |new| {
        step.note("installing LocalStack");
        python::environment(new, &lock, &home, step)?;
        step.note("indexing AWS's services");
        fs::create_dir_all(new.join(INDEX)).context("cannot make the index's folder")?;
        let mut index = Command::new(new.join("bin/python"));
        index.args(["-P", "-m", "localstack.aws.spec"]).env("FILESYSTEM_ROOT", new).env("OVERRIDE_IN_DOCKER", "0");
        step.run(&mut index, &home.join("index.log"))
    })?;
    package(&venv, step)?;
    Ok(venv)
}

/// Our own package, installed beside the environment.
pub fn package(venv: &Path, step: &Step) -> Result<Package> {
    let root = sources()?;
    let version = host::hash_of(&modules(&root)?)?;
    let home = venv.parent().context("the environment has no folder")?;
    let path = home.join(format!("package-{version}"));
    host::made_once(&path, "LocalStack's extension", step, |new| {
        step.note("installing LocalStack's extension");
        let mut install = python::pip(venv, ["--no-deps", "--no-build-isolation", "--no-index"]);
        step.run(install.arg("--target").arg(new).arg(&root), &home.join("package.log"))
    })?;
    Ok(Package { path, version })
}

/// Gives a LocalStack with this root the index of the environment.
pub fn copy_index(venv: &Path, root: &Path) -> Result<()> {
    fs::create_dir_all(root.join(INDEX)).with_context(|| format!("cannot make {}", root.display()))?;
    for file in fs::read_dir(venv.join(INDEX)).context("the environment has no index")? {
        let file = file?;
        fs::copy(file.path(), root.join(INDEX).join(file.file_name())).context("cannot copy the index")?;
    }
    Ok(())
}

/// The files that identify a version of ours, the lock included, without the compiled modules between them.
fn modules(root: &Path) -> Result<Vec<PathBuf>> {
    let is_code = |path: &Path| path.extension().is_some_and(|extension| extension == "py" || extension == "json");
    let mut found = host::files_below(&root.join("causeway_localstack"), |path| path.is_dir() || is_code(path))?;
    found.extend([root.join("pyproject.toml"), root.join("requirements.lock")]);
    found.sort();
    Ok(found)
}

fn sources() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("localstack"))
}
