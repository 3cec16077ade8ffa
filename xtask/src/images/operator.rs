//! The operator's image: the program, its shared libraries and root certificates. There is no shell and no package
//! manager.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::system;
use super::{Image, workshop};
use crate::architecture::Architecture;
use crate::progress::Step;
use crate::release::contents::{self, Crate};
use crate::release::{licenses, native, sbom};
use crate::{cargo, host};

/// The image's name before its digest is known, as in `deploy/overlays/local`.
pub const NAME: &str = "causeway:dev";

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// A file of the package that generates the certificates: the certificates themselves belong to no package.
const OF_CERTIFICATES: &str = "/usr/sbin/update-ca-certificates";
/// The directory of documents in the image.
const DOCUMENTS: &str = "usr/share/doc/causeway";
const USER: &str = "65532:65532";

/// The Cargo profile of releases and measurements.
pub const RELEASE: &str = "release";

/// Compiles the operator as the tests run it, and returns the path of the program. The tests compile none of its
/// dependencies again.
pub fn build(step: &Step) -> Result<PathBuf> {
    compile(&["--workspace"], step)?;
    Ok(target_directory()?.join("debug").join("causeway"))
}

fn compile(arguments: &[&str], step: &Step) -> Result<()> {
    host::install_build_tools(step)?;
    step.note("compiling the operator");
    let mut build = Command::new("cargo");
    build.args(["build", "--locked", "--bin", "causeway"]).args(arguments);
    cargo::run(build.current_dir(host::repo_root()?), "the operator", &workshop()?.join("build.log"), step)
}

/// Compiles the operator for release, and returns the path of the program.
pub fn build_release(step: &Step) -> Result<PathBuf> {
    compile(&["--profile", RELEASE, "--package", "causeway"], step)?;
    let program = target_directory()?.join(RELEASE).join("causeway");
    ensure!(
        is_stripped(&program)?,
        "{} has symbols, a third of its size: see [profile.release] in Cargo.toml",
        program.display()
    );
    Ok(program)
}

/// Whether a 64-bit program has no symbol table. <https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html>
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

/// The program at that path, or one that is compiled in the release profile.
pub fn given_or_built(path: Option<&Path>, step: &Step) -> Result<PathBuf> {
    match path {
        Some(path) => path.canonicalize().with_context(|| format!("there is no {}", path.display())),
        None => build_release(step),
    }
}

/// The image of a program for this machine.
pub fn image(binary: &Path) -> Result<Image> {
    let root = workshop()?.join("operator");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for library in system::libraries(binary)? {
        system::copy(&library, &root)?;
    }
    system::copy(Path::new(CERTIFICATES), &root)
        .context("root certificates are missing: install the package ca-certificates")?;
    fs::write(root.join("etc/passwd"), "nonroot:x:65532:65532::/:/sbin/nologin\n")?;
    fs::write(root.join("etc/group"), "nonroot:x:65532:\n")?;
    fs::write(root.join("etc/nsswitch.conf"), "hosts: files dns\n")?;
    Ok(Image {
        name: NAME.to_owned(),
        // The program is a layer of its own, so that a new program leaves the other layer unchanged.
        layers: vec![root.display().to_string(), format!("{}=/usr/local/bin/causeway", binary.display())],
        entrypoint: vec!["/usr/local/bin/causeway".to_owned()],
        user: USER.to_owned(),
        ..Image::default()
    })
}

/// The image of a program, with its bill of materials and the licences of everything in it.
pub fn shipped_image(program: &Path) -> Result<Image> {
    let image = image(program)?;
    let folder = workshop()?.join("operator").join(DOCUMENTS);
    fs::create_dir_all(&folder)?;
    let crates = contents::crates(Architecture::native()?)?;
    fs::write(folder.join("sbom.cdx.json"), bill(program, &crates)?)?;
    fs::write(folder.join("LICENSES"), licenses::of(&crates)?)?;
    Ok(image)
}

/// The bill of materials of the image of a program that is built from those crates.
pub fn bill(program: &Path, crates: &[Crate]) -> Result<String> {
    let mut packages = contents::debian_packages(&system::libraries(program)?)?;
    packages.extend(contents::debian_packages(&[PathBuf::from(OF_CERTIFICATES)])?);
    let mut libraries = native::in_crates(crates)?;
    libraries.push(native::of_rust()?);
    Ok(serde_json::to_string_pretty(&sbom::of(crates, &libraries, &packages))?)
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
    fn a_program_with_symbols_is_recognized() {
        assert!(is_stripped(Path::new("/bin/sh")).unwrap(), "Debian strips programs");
        assert!(!is_stripped(&std::env::current_exe().unwrap()).unwrap(), "tests have symbols");
    }

    #[test]
    fn docker_builds_the_program_from_all_that_decides_how_it_is_built() {
        let root = host::repo_root().unwrap();
        let ignored = fs::read_to_string(root.join(".dockerignore")).unwrap();
        for path in [".cargo", "Cargo.lock", "Cargo.toml", "build.rs", "link", "rust-toolchain.toml", "src", "xtask"] {
            assert!(root.join(path).exists(), "{path} is not there");
            assert!(ignored.lines().any(|line| line == format!("!{path}")), "{path} does not reach the builder");
        }
    }
}
