//! The image of Redis' exporter: the real program, compiled from its Go module, laid out as in the official image.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Image;
use crate::progress::Step;
use crate::{golang, host};

/// The official image's name.
const REPOSITORY: &str = "oliver006/redis_exporter";
/// The program, in the official image's root folder.
const PROGRAM: &str = "redis_exporter";
/// The official image's user.
const USER: &str = "59000:59000";

/// The modules of all versions that there are images of; each is named as its version.
pub fn versions() -> Result<Vec<PathBuf>> {
    golang::modules(&host::repo_root()?.join("tests/exporter"))
}

/// The image of that version; its program is compiled if it is not in the cache.
pub fn prepare(module: &Path, step: &Step) -> Result<Image> {
    let version = module.file_name().context("a version has a folder")?.to_string_lossy();
    let mut sources = golang::sources(module)?;
    // Another way to lay it out makes another image.
    sources.push(host::repo_root()?.join("xtask/src/images/exporter.rs"));
    let made = host::cache_dir()?.join("exporter").join(&*version).join(host::hash_of(&sources)?);
    host::made_once(&made, "the exporter", step, |new| {
        step.note(format!("making the exporter {version}"));
        golang::compile(module, &["tool"], &format!("-X main.BuildVersion={version}"), new, step)?;
        let root = new.join("root");
        fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
        fs::rename(new.join(PROGRAM), root.join(PROGRAM)).context("Go compiled no exporter")
    })?;
    Ok(Image {
        name: format!("{REPOSITORY}:{version}"),
        layers: vec![made.join("root").display().to_string()],
        entrypoint: vec![format!("/{PROGRAM}")],
        user: USER.to_owned(),
        ..Image::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_what_their_folders_say() -> Result<()> {
        let versions = versions()?;
        assert!(!versions.is_empty());
        for module in versions {
            let required = golang::required(&module, "github.com/oliver006/redis_exporter")?;
            assert!(module.ends_with(&required), "{} has {required}", module.display());
        }
        Ok(())
    }
}
