//! Shares compiled dependencies between checkouts, so that a fresh clone compiles only the crates of the workspace.
//!
//! Only crates from a registry are kept. Cargo checks each of them as if this checkout had compiled it: by version,
//! features, flags, compiler and times. It compiles again what does not match.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{cargo, checks};
use crate::host;
use crate::images::operator::target_directory;
use crate::progress::Step;

/// For how many states of `Cargo.lock` and the profiles crates are kept.
const KEPT: usize = 3;
/// Cargo's folders of a profile: crates, build scripts with their output, and fingerprints of both.
const FOLDERS: [&str; 3] = ["deps", "build", ".fingerprint"];
/// Files that compilers replace and never modify. They can be hard links in all checkouts.
const REPLACED: [&str; 3] = ["rlib", "rmeta", "so"];

/// Gives the crates that another checkout compiled to a checkout in which no part of the operator is compiled yet.
pub fn fetch(step: &Step) -> Result<()> {
    fetch_into(&target_directory()?, step)
}

/// Like [`fetch`], for a target directory other than Cargo's own.
pub fn fetch_into(target: &Path, step: &Step) -> Result<()> {
    let target = target.join("debug");
    let (home, key) = (home()?, key()?);
    if entries(&target.join(".fingerprint"))?.iter().any(|path| is_ours(path)) {
        return Ok(());
    }
    let lock = lock(&home)?;
    lock.lock_shared().context("cannot lock the kept crates")?;
    let Some(kept) = best(&home, &key)? else { return Ok(()) };
    step.note("taking over compiled crates");
    // Cargo's own lock, which it holds while it compiles.
    fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
    let cargos = File::create(target.join(".cargo-lock")).context("cannot open Cargo's lock")?;
    cargos.lock().context("cannot lock Cargo's folder")?;
    // Cargo may have compiled some of the same crates for this program. Generated code of a build script contains the
    // checkout's path, so crates of two checkouts do not always fit together. Therefore all must come from one
    // checkout.
    for fingerprint in entries(&target.join(".fingerprint"))?.iter().filter(|path| !is_of_workspace(path)) {
        fs::remove_dir_all(fingerprint).with_context(|| format!("cannot remove {}", fingerprint.display()))?;
    }
    for folder in FOLDERS {
        for entry in entries(&kept.join(folder))? {
            place(&entry, &target.join(folder).join(entry.file_name().unwrap_or_default()))?;
        }
    }
    File::open(&kept)?.set_modified(SystemTime::now()).ok();
    Ok(())
}

/// Keeps the crates that this checkout has compiled for tests and lints, unless those of its `Cargo.lock` are already
/// kept.
pub fn keep(step: &Step) -> Result<()> {
    let (home, key) = (home()?, key()?);
    let kept = home.join(&key);
    if kept.exists() {
        return Ok(());
    }
    let target = target_directory()?.join("debug");
    let hashes = hashes_in_use()?;
    host::made_once(&kept, "a copy of the compiled crates", step, |new| {
        step.note("keeping the compiled crates for other checkouts");
        for folder in FOLDERS {
            for entry in entries(&target.join(folder))? {
                let name = entry.file_name().unwrap_or_default();
                // Skip `.d` files: Cargo has the same facts about sources in its fingerprints.
                let is_crate = entry.extension().is_none_or(|it| it != "d");
                if is_crate && hash_of(name).is_some_and(|hash| hashes.contains(hash)) {
                    place(&entry, &new.join(folder).join(name))?;
                }
            }
        }
        Ok(())
    })?;
    let lock = lock(&home)?;
    lock.lock().context("cannot lock the kept crates")?;
    for old in by_age(&home)?.into_iter().skip(KEPT) {
        fs::remove_dir_all(&old).with_context(|| format!("cannot remove {}", old.display()))?;
    }
    Ok(())
}

fn home() -> Result<PathBuf> {
    let home = host::cache_dir()?.join("crates");
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    Ok(home)
}

/// The lock that [`host::made_once`] also takes.
fn lock(home: &Path) -> Result<File> {
    File::create(home.join("lock")).context("cannot make the lock of the kept crates")
}

/// The name of a set of crates: a hash of the compiler, and one of everything that determines the crates.
fn key() -> Result<String> {
    let root = host::repo_root()?;
    let version = Command::new("rustc").arg("-vV").current_dir(&root).output().context("cannot start rustc")?;
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let compiler = format!("{}{flags}", String::from_utf8_lossy(&version.stdout));
    let files = ["Cargo.lock", "Cargo.toml", "xtask/Cargo.toml", ".cargo/config.toml"].map(|file| root.join(file));
    Ok(format!("{}-{}", host::hash_of_path(Path::new(&compiler)), host::hash_of(&files)?))
}

/// The crates of that key, or the newest ones of the same compiler, most of which match.
fn best(home: &Path, key: &str) -> Result<Option<PathBuf>> {
    let exact = home.join(key);
    if exact.exists() {
        return Ok(Some(exact));
    }
    let compiler = key.split('-').next().unwrap_or_default();
    let same = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(compiler));
    Ok(by_age(home)?.into_iter().find(same))
}

/// The kept sets of crates, the newest first.
fn by_age(home: &Path) -> Result<Vec<PathBuf>> {
    let mut all = entries(home)?;
    all.retain(|path| path.is_dir() && path.extension().is_none());
    all.sort_by_key(|path| std::cmp::Reverse(path.metadata().and_then(|it| it.modified()).ok()));
    Ok(all)
}

/// The hashes in the names of all artifacts from a registry that Cargo uses for this program, the tests and the lints.
fn hashes_in_use() -> Result<BTreeSet<String>> {
    let lints = checks::clippy(&["--message-format", "json"])?;
    let tests = cargo(["test", "--workspace", "--no-run", "--message-format", "json"])?;
    let this = cargo(["build", "--package", "xtask", "--message-format", "json"])?;
    let mut hashes = BTreeSet::new();
    for mut command in [lints, tests, this] {
        let output = command.output().context("cannot start cargo")?;
        if !output.status.success() {
            bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        hashes.extend(messages.flat_map(|message| hashes_of(&message)));
    }
    Ok(hashes)
}

/// The hashes of the artifacts in a message of Cargo, if they come from a registry:
/// <https://doc.rust-lang.org/cargo/reference/external-tools.html#json-messages>.
fn hashes_of(message: &Value) -> Vec<String> {
    let is_foreign = message["package_id"].as_str().is_some_and(|id| id.starts_with("registry+"));
    let files = message["filenames"].as_array().into_iter().flatten().chain([&message["out_dir"]]);
    let paths = files.filter_map(Value::as_str).filter(|_| is_foreign).map(Path::new);
    // `deps/libserde-HASH.rlib`, `build/serde-HASH/build-script-build`, `build/serde-HASH/out`.
    let names = paths.flat_map(|path| [path.file_name(), path.parent().and_then(Path::file_name)]);
    names.flatten().filter_map(|name| hash_of(name).map(str::to_owned)).collect()
}

/// The hash at the end of a name that Cargo chose. It has 16 digits, and is different for each way to compile a crate.
fn hash_of(name: &OsStr) -> Option<&str> {
    let (_, rest) = name.to_str()?.rsplit_once('-')?;
    let hash = rest.split('.').next()?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}

/// Whether Cargo's folder belongs to the operator.
fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("causeway-"))
}

fn is_of_workspace(path: &Path) -> bool {
    is_ours(path) || path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("xtask-"))
}

/// Copies a file or a folder from `from` to `to`, with the modification times that Cargo compares.
fn place(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("cannot copy {} to {}", from.display(), to.display());
    if from.is_dir() {
        if to.exists() {
            fs::remove_dir_all(to).with_context(what)?;
        }
        fs::create_dir_all(to).with_context(what)?;
        for entry in entries(from)? {
            place(&entry, &to.join(entry.file_name().unwrap_or_default()))?;
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(what)?;
    }
    if to.exists() {
        fs::remove_file(to).with_context(what)?;
    }
    let replaced = from.extension().is_some_and(|it| REPLACED.iter().any(|replaced| it == *replaced));
    // Hard links are impossible across file systems.
    if replaced && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).with_context(what)?;
    let times = from.metadata().and_then(|it| it.modified()).with_context(what)?;
    File::options().write(true).open(to).and_then(|file| file.set_modified(times)).with_context(what)
}

/// The entries of a folder; none if it does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_comes_from_a_registry_is_kept() {
        let files = json!(["/w/target/debug/deps/libserde-0123456789abcdef.rlib"]);
        let foreign = json!({ "package_id": "registry+https://x#serde@1.0.0", "filenames": files });
        assert_eq!(hashes_of(&foreign), ["0123456789abcdef"]);
        assert!(hashes_of(&json!({ "package_id": "path+file:///w#causeway@0.1.0", "filenames": files })).is_empty());
        let script =
            json!({ "package_id": "registry+x#a@1", "out_dir": "/w/target/debug/build/a-b-fedcba9876543210/out" });
        assert_eq!(hashes_of(&script), ["fedcba9876543210"]);
        assert!(hashes_of(&json!({ "reason": "build-finished", "success": true })).is_empty());
    }

    #[test]
    fn names_without_a_hash_have_none() {
        assert_eq!(hash_of(OsStr::new("build-script-build")), None);
        assert_eq!(hash_of(OsStr::new("libserde-0123456789abcdef.rmeta")), Some("0123456789abcdef"));
        assert_eq!(hash_of(OsStr::new("serde-0123456789abcdef")), Some("0123456789abcdef"));
    }
}
