//! `cargo xtask release`: gathers all files of a release in one folder.

pub mod contents;
pub mod licenses;
pub mod manifests;
pub mod native;
mod notes;
mod plugin;
pub mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::architecture::Architecture;
use crate::chart::Helm;
use crate::images::{layout, operator};
use crate::progress::{Progress, Step};
use crate::{argocd, host, image, olm, tools};

/// Options of `cargo xtask release`.
#[derive(Args)]
pub struct Options {
    /// Image that chart and install.yaml are to name, as `REPOSITORY` (with the version as its tag) or
    /// `REPOSITORY@DIGEST`; unless given, who installs names one
    #[arg(long)]
    image: Option<String>,
    /// Use this program instead of building the release
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Builds the operator and gathers the release.
pub fn run(options: &Options) -> Result<()> {
    let architecture = Architecture::native()?;
    let mut steps = Progress::new(3);
    let program = steps.step("Build the operator", |step| operator::given_or_built(options.binary.as_deref(), step))?;
    let layout = operator::target_directory()?.join("image");
    steps.step("Write the image", |step| {
        layout::write(&operator::shipped_image(&program)?, &image::facts(architecture, 9)?, &layout, step)
    })?;
    let folder = operator::target_directory()?.join(format!("release-{}", version()?));
    let files = steps.step("Gather the release", |step| {
        let helm = Helm::find(step)?;
        let build = Build { program, layout };
        gather(&Parts { helm: &helm, build: &build, image: options.image.as_deref() }, &folder, step)
    })?;
    println!("{}:\n  {}", folder.display(), files.join("\n  "));
    println!("Program, image and plugin are for linux/{architecture}.");
    Ok(())
}

/// The operator, built for this machine.
pub struct Build {
    /// The program.
    pub program: PathBuf,
    /// The OCI layout of its image.
    pub layout: PathBuf,
}

/// The input of a release.
pub struct Parts<'a> {
    /// Renders and packages the chart.
    pub helm: &'a Helm,
    /// The operator's build.
    pub build: &'a Build,
    /// The image in the manifests.
    pub image: Option<&'a str>,
}

/// Writes the release into a folder, which it empties first. Returns the names of its files.
pub fn gather(parts: &Parts<'_>, folder: &Path, step: &Step) -> Result<Vec<String>> {
    let version = version()?;
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    pack(parts.build, &version, folder, step)?;
    step.note("writing manifests and the chart");
    let scratch = folder.with_extension("scratch");
    parts.helm.package(parts.image, &scratch, folder)?;
    fs::remove_dir_all(&scratch)?;
    fs::write(folder.join("install.yaml"), manifests::install(parts.helm, parts.image)?)?;
    fs::write(folder.join("crds.yaml"), manifests::crds()?)?;
    let bundle = folder.with_extension("olm");
    olm::write(&olm::bundle(parts.helm, parts.image, &version)?, &bundle)?;
    archive(&folder.join(format!("causeway-{version}-olm.tar.gz")), &[&bundle])?;
    fs::remove_dir_all(&bundle)?;
    fs::write(folder.join("argocd-cm.yaml"), argocd::customizations()?)?;
    let changes = host::repo_root()?.join("CHANGELOG.md");
    let changes = fs::read_to_string(&changes).with_context(|| format!("cannot read {}", changes.display()))?;
    fs::write(folder.join("release-notes.md"), notes::of(&changes, &version)?)?;

    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let sums = tools::output_of(Command::new("sha256sum").args(&names).current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), sums)?;
    names.push("SHA256SUMS".to_owned());
    Ok(names)
}

/// Packs program, image, plugin, bill of materials and licences.
fn pack(Build { program, layout }: &Build, version: &str, folder: &Path, step: &Step) -> Result<()> {
    let license = host::repo_root()?.join("LICENSE");
    let architecture = Architecture::native()?;
    step.note("packing program and image");
    let name = format!("causeway-{version}-linux-{architecture}");
    archive(&folder.join(format!("{name}.tar.gz")), &[program, &license])?;
    archive(&folder.join(format!("causeway-{version}-image-linux-{architecture}.tar")), &[layout])?;
    let platform = plugin::pack(program, &license, version, architecture, folder)?;
    let crates = contents::crates(architecture)?;
    fs::write(folder.join(format!("{name}.cdx.json")), operator::bill(program, &crates)?)?;
    fs::write(folder.join("LICENSES.txt"), licenses::of(&crates)?)?;
    plugin::describe(&[platform], version, folder)
}

/// Writes files and folders into one archive, compressed if its name says so. Files of a folder are stored without the
/// folder's name.
fn archive(to: &Path, sources: &[&Path]) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    tar.args(["--mode=u+rw,go+r,go-w,a+X", "--file"]).arg(to);
    if to.extension().is_some_and(|extension| extension == "gz") {
        tar.arg("--use-compress-program=gzip --no-name");
    }
    for source in sources {
        if source.is_dir() {
            tar.arg("--directory").arg(source.canonicalize()?).arg("--transform=s|^[.]/||").args(["."]);
        } else {
            tar.arg("--directory").arg(source.parent().context("a file lies in a folder")?);
            tar.arg(source.file_name().context("a file has a name")?);
        }
    }
    tools::output_of(&mut tar).map(drop)
}

/// The version of this checkout.
pub fn version() -> Result<String> {
    let path = host::repo_root()?.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    version_in(&text)
}

/// The version of the package in a Cargo.toml.
pub fn version_in(manifest: &str) -> Result<String> {
    let package = manifest.split_once("\n[package]\n").map(|(_, package)| package);
    let line = package.and_then(|text| text.lines().find_map(|line| line.strip_prefix("version = \"")));
    match line.and_then(|line| line.strip_suffix('"')) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("Cargo.toml names no version"),
    }
}
