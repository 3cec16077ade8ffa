//! The operator's image: the program, the libraries it is linked to, root certificates. No shell, no packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Image, workshop};
use crate::progress::Step;
use crate::release::{contents, licenses, sbom};
use crate::{cargo, host};

/// The image's name before its digest is known; `deploy/overlays/local` writes the same.
pub const NAME: &str = "causeway:dev";

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// A file of the package that makes them: they themselves belong to none.
const OF_CERTIFICATES: &str = "/usr/sbin/update-ca-certificates";
/// Where the image has its documents.
const DOCUMENTS: &str = "usr/share/doc/causeway";
const USER: &str = "65532:65532";

/// The profile of what is shipped and measured.
pub const RELEASE: &str = "release";
/// The profile of the demo: less optimized, built in a fraction of the time.
pub const LOCAL: &str = "local";

/// Compiles the operator in that profile and returns the program.
pub fn build(profile: &str, step: &Step) -> Result<PathBuf> {
    host::install_build_tools(step)?;
    step.note("compiling the operator");
    let mut build = Command::new("cargo");
    build.args(["build", "--profile", profile, "--locked", "--package", "causeway", "--bin", "causeway"]);
    cargo::run(build.current_dir(host::repo_root()?), "the operator", &workshop()?.join("build.log"), step)?;
    Ok(target_directory()?.join(profile).join("causeway"))
}

/// The program at that path, or else one that is compiled in that profile.
pub fn given_or_built(path: Option<&Path>, profile: &str, step: &Step) -> Result<PathBuf> {
    match path {
        Some(path) => path.canonicalize().with_context(|| format!("there is no {}", path.display())),
        None => build(profile, step),
    }
}

/// The image of that program.
pub fn image(binary: &Path) -> Result<Image> {
    let root = workshop()?.join("operator");
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    for library in libraries(binary)? {
        place(&library, &root)?;
    }
    place(Path::new(CERTIFICATES), &root)
        .context("root certificates are missing: install the package ca-certificates")?;
    fs::write(root.join("etc/passwd"), "nonroot:x:65532:65532::/:/sbin/nologin\n")?;
    fs::write(root.join("etc/group"), "nonroot:x:65532:\n")?;
    fs::write(root.join("etc/nsswitch.conf"), "hosts: files dns\n")?;
    Ok(Image {
        name: NAME.to_owned(),
        // The program is a layer of its own: a new one leaves the other as it is.
        layers: vec![root.display().to_string(), format!("{}=/usr/local/bin/causeway", binary.display())],
        entrypoint: vec!["/usr/local/bin/causeway".to_owned()],
        user: USER.to_owned(),
        ..Image::default()
    })
}

/// The same image with its bill of materials and the licences of all that is in it.
pub fn shipped_image(binary: &Path) -> Result<Image> {
    let image = image(binary)?;
    let folder = workshop()?.join("operator").join(DOCUMENTS);
    fs::create_dir_all(&folder)?;
    let (bill, licenses) = documents(binary)?;
    fs::write(folder.join("sbom.cdx.json"), bill)?;
    fs::write(folder.join("LICENSES"), licenses)?;
    Ok(image)
}

/// The bill of materials of that program's image, and the licences of all that is in the program.
pub fn documents(binary: &Path) -> Result<(String, String)> {
    let crates = contents::crates()?;
    let mut files = libraries(binary)?;
    files.push(PathBuf::from(OF_CERTIFICATES));
    let bill = sbom::of(&crates, &contents::debian_packages(&files)?);
    Ok((serde_json::to_string_pretty(&bill)?, licenses::of(&crates)?))
}

/// Where Cargo puts what it builds.
pub fn target_directory() -> Result<PathBuf> {
    let root = host::repo_root()?;
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |directory| root.join(directory)))
}

/// The shared libraries that the dynamic loader would load, and the loader itself.
fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(binary).output().context("cannot start ldd")?;
    if !output.status.success() {
        bail!("ldd {}: {}", binary.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    libraries_in(&String::from_utf8(output.stdout)?)
}

fn libraries_in(listing: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in listing.lines().map(str::trim) {
        if line.ends_with("=> not found") {
            bail!("a library of the operator is missing on this machine: {line}");
        }
        // `name => /path (address)`, `/path/of/loader (address)`, or `linux-vdso.so.1 (address)`, which is no file.
        let path = line.split(" => ").last().and_then(|rest| rest.split(" (").next()).unwrap_or_default();
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

/// Copies a file of this machine to the same path below `root`.
fn place(file: &Path, root: &Path) -> Result<()> {
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
