//! The operator's image in local clusters: the program, its shared libraries and root certificates. The Dockerfile makes
//! that of a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Image, workshop};
use crate::progress::Step;
use crate::{cargo, host, tools};

/// The image's name before its digest is known, as in `deploy/overlays/local`.
pub const NAME: &str = "causeway:dev";

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const USER: &str = "65532:65532";

/// The programs of the image: the operator, and that of Jobs.
const PROGRAMS: [&str; 2] = ["causeway", "causeway-backup"];

/// The Cargo profile of releases and measurements.
pub const RELEASE: &str = "release";

/// Compiles both programs as the tests run them, and returns the path of the operator's. The tests compile nothing of them
/// again.
pub fn build(step: &Step) -> Result<PathBuf> {
    compile(&["--workspace", "--features", "causeway/testing"], step)?;
    Ok(target_directory()?.join("debug").join("causeway"))
}

fn compile(arguments: &[&str], step: &Step) -> Result<()> {
    host::install_build_tools(step)?;
    step.note("compiling the operator");
    let mut build = Command::new("cargo");
    build.args(["build", "--locked"]).args(PROGRAMS.iter().flat_map(|program| ["--bin", program])).args(arguments);
    cargo::run(build.current_dir(host::repo_root()?), "the operator", &workshop()?.join("build.log"), step)
}

/// Compiles both programs for release, and returns the path of the operator's.
pub fn build_release(step: &Step) -> Result<PathBuf> {
    compile(&["--profile", RELEASE, "--package", "causeway", "--package", "causeway-backup"], step)?;
    let folder = target_directory()?.join(RELEASE);
    for program in PROGRAMS.map(|name| folder.join(name)) {
        ensure!(
            is_stripped(&program)?,
            "{} has symbols, a third of its size: see [profile.release] in Cargo.toml",
            program.display()
        );
    }
    Ok(folder.join("causeway"))
}

/// Reports whether a 64-bit program has no symbol table. <https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html>
fn is_stripped(program: &Path) -> Result<bool> {
    /// `SHT_SYMTAB`. The table for dynamic linking has another type.
    const SYMBOLS: u64 = 2;
    let bytes = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let number = |at: usize, length: usize| {
        let part = bytes.get(at..at + length).unwrap_or_default();
        part.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let headers = usize::try_from(number(0x28, 8))?;
    let (size, count) = (usize::try_from(number(0x3a, 2))?, usize::try_from(number(0x3c, 2))?);
    Ok((0..count).all(|section| number(headers + section * size + 4, 4) != SYMBOLS))
}

/// The image of the operator's program, and that of Jobs beside it, for this machine.
pub fn image(binary: &Path) -> Result<Image> {
    let binaries = PROGRAMS.map(|program| binary.with_file_name(program));
    let root = workshop()?.join("operator");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for binary in &binaries {
        for library in libraries(binary)? {
            copy(&library, &root)?;
        }
    }
    copy(Path::new(CERTIFICATES), &root)
        .context("root certificates are missing: install the package ca-certificates")?;
    fs::write(root.join("etc/passwd"), "nonroot:x:65532:65532::/:/sbin/nologin\n")?;
    fs::write(root.join("etc/group"), "nonroot:x:65532:\n")?;
    fs::write(root.join("etc/nsswitch.conf"), "hosts: files dns\n")?;
    let programs =
        binaries.iter().zip(PROGRAMS).map(|(path, name)| format!("{}=/usr/local/bin/{name}", path.display()));
    Ok(Image {
        name: NAME.to_owned(),
        // Each program is a layer of its own, so that a new one leaves the others unchanged.
        layers: std::iter::once(root.display().to_string()).chain(programs).collect(),
        entrypoint: vec!["/usr/local/bin/causeway".to_owned()],
        user: USER.to_owned(),
        ..Image::default()
    })
}

/// The shared libraries that the dynamic loader would load, and the loader itself.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    libraries_in(&tools::output_of(Command::new("ldd").arg(binary))?)
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
fn copy(file: &Path, root: &Path) -> Result<()> {
    let target = root.join(file.strip_prefix("/")?);
    if let Some(directory) = target.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::copy(file, &target).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// Cargo's target directory.
pub fn target_directory() -> Result<PathBuf> {
    let root = host::repo_root()?;
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |directory| root.join(directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_of_ldd_names_files() -> Result<()> {
        let listing = "\tlinux-vdso.so.1 (0x00007ffc)\n\
                       \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f5e)\n\
                       \t/lib64/ld-linux-x86-64.so.2 (0x00007f5f)\n";
        assert_eq!(
            libraries_in(listing)?,
            [PathBuf::from("/lib/x86_64-linux-gnu/libc.so.6"), PathBuf::from("/lib64/ld-linux-x86-64.so.2")]
        );
        assert!(libraries_in("\tlibfoo.so.1 => not found\n").is_err());
        Ok(())
    }

    #[test]
    fn a_program_with_symbols_is_recognized() {
        assert!(is_stripped(Path::new("/bin/sh")).unwrap(), "Debian strips programs");
        assert!(!is_stripped(&std::env::current_exe().unwrap()).unwrap(), "tests have symbols");
    }

    #[test]
    fn docker_builds_the_program_from_all_its_inputs() {
        let root = host::repo_root().unwrap();
        let ignored = fs::read_to_string(root.join(".dockerignore")).unwrap();
        for path in [".cargo", "Cargo.lock", "Cargo.toml", "crates", "rust-toolchain.toml", "src", "tests", "xtask"] {
            assert!(root.join(path).exists(), "{path} is not there");
            assert!(ignored.lines().any(|line| line == format!("!{path}")), "{path} does not reach the builder");
        }
    }
}
