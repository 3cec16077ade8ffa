//! `cargo xtask release`: gathers all files of a release in one folder.

pub mod contents;
pub mod licenses;
pub mod manifests;
pub mod native;
mod notes;
mod plugin;
pub mod sbom;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::architecture::Architecture;
use crate::chart::Helm;
use crate::images::operator::{self, Program};
use crate::images::{layout, system::System};
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
    /// Architectures of program, image and plugin, as `amd64,arm64`; unless given, this machine's. amd64 machines make
    /// arm64's, too
    #[arg(long, value_enum, value_delimiter = ',')]
    arch: Vec<Architecture>,
}

/// Builds the operator and gathers the release.
pub fn run(options: &Options) -> Result<()> {
    let architectures = Architecture::wanted(&options.arch)?;
    if options.binary.is_some() && architectures.len() > 1 {
        bail!("--binary is a program for one architecture: name one by --arch");
    }
    let mut steps = Progress::new(2 + 2 * architectures.len());
    // Report what is missing before the long compilation begins.
    let systems = steps.step("Find what each architecture needs", |step| {
        architectures.iter().map(|&architecture| System::of(architecture, step)).collect::<Result<Vec<_>>>()
    })?;
    let folder = operator::target_directory()?.join(format!("release-{}", version()?));
    let mut builds = Vec::new();
    for (&architecture, system) in architectures.iter().zip(systems) {
        let program = steps.step(format!("Build the operator for {architecture}"), |step| {
            Program::given_or_built(options.binary.as_deref(), system, step)
        })?;
        let layout = operator::target_directory()?.join(format!("image-{architecture}"));
        steps.step(format!("Write the image for {architecture}"), |step| {
            layout::write(&operator::shipped_image(&program)?, &image::facts(architecture, 9)?, &layout, step)
        })?;
        builds.push(Build { program, layout });
    }
    let files = steps.step("Gather the release", |step| {
        let helm = Helm::find(step)?;
        gather(&Parts { helm: &helm, builds: &builds, image: options.image.as_deref() }, &folder, step)
    })?;
    println!("{}:\n  {}", folder.display(), files.join("\n  "));
    println!("{}", made(&architectures));
    Ok(())
}

/// Says for which architectures the release was built.
fn made(architectures: &[Architecture]) -> String {
    match architectures {
        [one] => {
            format!("Program, image and plugin are for linux/{one} alone: --arch amd64,arm64 makes those of both.")
        }
        several => {
            let names: Vec<String> = several.iter().map(|it| format!("linux/{it}")).collect();
            format!("Programs, images and plugins are for {}.", names.join(" and "))
        }
    }
}

/// The operator built for one architecture.
pub struct Build {
    /// The program.
    pub program: Program,
    /// The OCI layout of its image.
    pub layout: PathBuf,
}

/// The input of a release.
pub struct Parts<'a> {
    /// Renders and packages the chart.
    pub helm: &'a Helm,
    /// The operator's build for each architecture.
    pub builds: &'a [Build],
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
    pack(parts.builds, &version, folder, step)?;
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

/// Packs the files of each architecture (program, image, plugin and bill of materials), and the licences of all of
/// them.
fn pack(builds: &[Build], version: &str, folder: &Path, step: &Step) -> Result<()> {
    let license = host::repo_root()?.join("LICENSE");
    let (mut platforms, mut all) = (Vec::new(), Vec::new());
    for Build { program, layout } in builds {
        let architecture = program.system.architecture()?;
        step.note(format!("packing program and image for {architecture}"));
        let name = format!("causeway-{version}-linux-{architecture}");
        archive(&folder.join(format!("{name}.tar.gz")), &[&program.path, &license])?;
        archive(&folder.join(format!("causeway-{version}-image-linux-{architecture}.tar")), &[layout])?;
        platforms.push(plugin::pack(&program.path, &license, version, architecture, folder)?);
        let crates = contents::crates(architecture)?;
        fs::write(folder.join(format!("{name}.cdx.json")), operator::bill(program, &crates)?)?;
        all.extend(crates);
    }
    // Our own crate stays the first.
    let mut seen = BTreeSet::new();
    all.retain(|it| seen.insert((it.name.clone(), it.version.clone())));
    fs::write(folder.join("LICENSES.txt"), licenses::of(&all)?)?;
    plugin::describe(&platforms, version, folder)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_names_what_was_made() {
        let (amd64, arm64) = (Architecture::Amd64, Architecture::Arm64);
        assert!(made(&[arm64]).starts_with("Program, image and plugin are for linux/arm64 alone"));
        assert_eq!(made(&[amd64, arm64]), "Programs, images and plugins are for linux/amd64 and linux/arm64.");
    }
}
