//! The shared libraries of a program, from this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The shared libraries that the dynamic loader would load, and the loader itself.
pub fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    libraries_in(&ldd(binary)?)
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

/// Copies a file to the same path below `root`.
pub fn copy(file: &Path, root: &Path) -> Result<()> {
    let target = root.join(file.strip_prefix("/")?);
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
