//! Images of etcd: the real programs, compiled from their Go modules, laid out as in the official images.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Image;
use crate::progress::Step;
use crate::{golang, host};

/// The official image's name.
const REPOSITORY: &str = "quay.io/coreos/etcd";

/// The tools of a module in `tests/etcd`, and what the official image calls them. Go names them by their modules.
const PROGRAMS: [(&str, &str); 3] = [("server", "etcd"), ("etcdctl", "etcdctl"), ("etcdutl", "etcdutl")];

/// Files beside the programs. There is no shell.
const FILES: [(&str, &str); 3] = [
    ("etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534::/nonexistent:/sbin/nologin\n"),
    ("etc/group", "root:x:0:\nnobody:x:65534:\n"),
    ("etc/nsswitch.conf", "hosts: files dns\n"),
];

/// The working directory, in which etcd keeps its data by default.
const WORKING_DIRECTORY: &str = "/var/lib/etcd/";

/// The modules of all versions that there are images of; each is named as its version.
pub fn versions() -> Result<Vec<PathBuf>> {
    golang::modules(&host::repo_root()?.join("tests/etcd"))
}

/// The name of the image of that version.
pub fn name(module: &Path) -> String {
    format!("{REPOSITORY}:{}", module.file_name().unwrap_or_default().to_string_lossy())
}

/// The image of that version; its programs are compiled if they are not in the cache.
pub fn prepare(module: &Path, step: &Step) -> Result<Image> {
    let version = module.file_name().context("a version has a folder")?.to_string_lossy();
    let mut sources = golang::sources(module)?;
    // Another way to lay it out makes another image.
    sources.push(host::repo_root()?.join("xtask/src/images/etcd.rs"));
    let made = host::cache_dir()?.join("etcd").join(&*version).join(host::hash_of(&sources)?);
    host::made_once(&made, "etcd", step, |new| {
        step.note(format!("making etcd {version}"));
        golang::compile(module, &["tool"], "", new, step)?;
        lay_out(new, &new.join("root"))
    })?;
    Ok(Image {
        name: name(module),
        layers: vec![made.join("root").display().to_string()],
        command: vec!["/usr/local/bin/etcd".to_owned()],
        working_directory: WORKING_DIRECTORY.to_owned(),
        ..Image::default()
    })
}

/// Moves the compiled programs from `built` to their places below `root`, and adds the rest.
fn lay_out(built: &Path, root: &Path) -> Result<()> {
    for directory in ["etc", "tmp", "usr/local/bin", "var/etcd", "var/lib/etcd"] {
        fs::create_dir_all(root.join(directory)).with_context(|| format!("cannot make {directory}"))?;
    }
    fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o1777))?;
    for (tool, name) in PROGRAMS {
        let place = root.join("usr/local/bin").join(name);
        fs::rename(built.join(tool), place).with_context(|| format!("Go compiled no {tool}"))?;
    }
    for (path, content) in FILES {
        fs::write(root.join(path), content).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_what_their_folders_say() -> Result<()> {
        let versions = versions()?;
        assert!(!versions.is_empty());
        for module in versions {
            for part in ["server", "etcdctl", "etcdutl", "api"] {
                let required = golang::required(&module, &format!("go.etcd.io/etcd/{part}/v3"))?;
                assert!(module.ends_with(&required), "{}: {part} is {required}", module.display());
            }
        }
        Ok(())
    }
}
