//! The system with a program's shared libraries: this machine's own, or that of another architecture.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::architecture::Architecture;
use crate::cross::Cross;
use crate::progress::Step;
use crate::release::contents::{self, DebianPackage};
use crate::release::native::{self, Library};

/// The system of a program.
pub enum System {
    /// This machine's.
    Own,
    /// The system of another architecture, in a folder.
    Foreign(Cross),
}

impl System {
    /// The system of an architecture. If it is another one, everything that it needs is fetched.
    pub fn of(architecture: Architecture, step: &Step) -> Result<Self> {
        if architecture == Architecture::native()? {
            return Ok(Self::Own);
        }
        Ok(Self::Foreign(Cross::prepare(architecture, step)?))
    }

    /// The architecture of its programs.
    pub fn architecture(&self) -> Result<Architecture> {
        match self {
            Self::Own => Architecture::native(),
            Self::Foreign(cross) => Ok(cross.architecture()),
        }
    }

    /// The shared libraries that the dynamic loader would load, and the loader itself.
    pub fn libraries(&self, binary: &Path) -> Result<Vec<PathBuf>> {
        libraries_in(&match self {
            Self::Own => ldd(binary)?,
            Self::Foreign(cross) => cross.listing(binary)?,
        })
    }

    /// Libraries that the linker adds to programs, beside the shared ones.
    pub fn linked(&self) -> Vec<Library> {
        match self {
            // On this machine they come from the sources of libc6 and libgcc-s1, which are listed anyway.
            Self::Own => Vec::new(),
            Self::Foreign(_) => native::of_zig(),
        }
    }

    /// Copies one of its files to the same path below `root`.
    pub fn place(&self, file: &Path, root: &Path) -> Result<()> {
        match self {
            Self::Own => copy(file, file, root),
            Self::Foreign(cross) => copy(&cross.file(file)?, file, root),
        }
    }

    /// The Debian packages that contain its files.
    pub fn packages_of(&self, files: &[PathBuf]) -> Result<BTreeSet<DebianPackage>> {
        match self {
            Self::Own => contents::debian_packages(files),
            Self::Foreign(cross) => Ok(cross.packages_of(files)),
        }
    }
}

fn ldd(binary: &Path) -> Result<String> {
    let output = Command::new("ldd").arg(binary).output().context("cannot start ldd")?;
    if !output.status.success() {
        bail!("ldd {}: {}", binary.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn libraries_in(listing: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in listing.lines().map(str::trim) {
        if line.ends_with("=> not found") {
            bail!("a library of the operator is missing: {line}");
        }
        // `name => /path (address)`, `/path/of/loader (address)`, or `linux-vdso.so.1 (address)`, which is no file.
        let path = line.split(" => ").last().and_then(|rest| rest.split(" (").next()).unwrap_or_default();
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

/// Copies a file to the path `path` below `root`.
pub fn copy(file: &Path, path: &Path, root: &Path) -> Result<()> {
    let target = root.join(path.strip_prefix("/")?);
    if let Some(directory) = target.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::copy(file, &target).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_ldd_prints() -> Result<()> {
        let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                       \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f5e)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f5f)\n";
        assert_eq!(
            libraries_in(listing)?,
            [PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"), PathBuf::from("/lib64/ld-linux-x86-64.so.2")]
        );
        Ok(())
    }

    #[test]
    fn a_missing_library_is_an_error() {
        assert!(libraries_in("\tlibfoo.so.1 => not found\n").is_err());
    }
}
