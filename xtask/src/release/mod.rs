//! `cargo xtask release`: gathers the files of a release in one folder. Images are not among them: the Dockerfile makes
//! them.

pub mod manifests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::chart::Helm;
use crate::images::operator;
use crate::progress::{Progress, Step};
use crate::{host, tools};

/// Options of `cargo xtask release`.
#[derive(Args)]
pub struct Options {
    /// Image that chart and install.yaml are to name, as `REPOSITORY` (with the version as its tag) or
    /// `REPOSITORY@DIGEST`; unless given, who installs names one
    #[arg(long)]
    image: Option<String>,
    /// Program for an architecture, such as `arm64=PATH`; may be repeated. Unless given, this machine's is built
    #[arg(long, value_name = "ARCH=PATH", value_parser = parse_program)]
    program: Vec<Program>,
}

/// The operator's program for an architecture, by the name that images and krew have for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub architecture: String,
    pub path: PathBuf,
}

fn parse_program(text: &str) -> Result<Program> {
    let (architecture, path) = text.split_once('=').context("an architecture and a path have `=` between them")?;
    let path = fs::canonicalize(path).with_context(|| format!("there is no {path}"))?;
    Ok(Program { architecture: architecture.to_owned(), path })
}

/// Builds the operator unless its programs are given, and gathers the release.
pub fn run(options: &Options) -> Result<()> {
    let mut steps = Progress::new(2);
    let programs = steps.step("Build the operator", |step| {
        if options.program.is_empty() {
            let architecture = native()?.to_owned();
            return Ok(vec![Program { architecture, path: operator::build_release(step)? }]);
        }
        Ok(options.program.clone())
    })?;
    let folder = operator::target_directory()?.join(format!("release-{}", version()?));
    let files = steps.step("Gather the release", |step| {
        let helm = Helm::find(step)?;
        gather(&Parts { helm: &helm, programs: &programs, image: options.image.as_deref() }, &folder, step)
    })?;
    println!("{}:\n  {}", folder.display(), files.join("\n  "));
    Ok(())
}

/// The architecture of this machine.
fn native() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("there is no release for {other}"),
    }
}

/// The input of a release.
pub struct Parts<'a> {
    /// Renders and packages the chart.
    pub helm: &'a Helm,
    /// The operator's program for each architecture.
    pub programs: &'a [Program],
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
    step.note("packing the plugin");
    let krew = host::repo_root()?.join("deploy/krew/causeway.yaml");
    let mut krew = fs::read_to_string(&krew).with_context(|| format!("cannot read {}", krew.display()))?;
    for program in parts.programs {
        let sum = pack(program, &version, folder)?;
        krew = krew.replace(&format!("${{SHA256_{}}}", program.architecture.to_uppercase()), &sum);
    }
    // krew refuses a manifest in which a sum is missing.
    if !krew.contains("${") {
        fs::write(folder.join("causeway.krew.yaml"), krew)?;
    }
    step.note("writing manifests and the chart");
    let scratch = folder.with_extension("scratch");
    parts.helm.package(parts.image, &scratch, folder)?;
    fs::remove_dir_all(&scratch)?;
    fs::write(folder.join("install.yaml"), manifests::install(parts.helm, parts.image)?)?;
    fs::write(folder.join("crds.yaml"), manifests::crds()?)?;

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

/// The name of the plugin's archive.
pub fn archive_of(version: &str, architecture: &str) -> String {
    format!("kubectl-causeway-{version}-linux-{architecture}.tar.gz")
}

/// Packs the program under the plugin's name, by which kubectl finds it, and the licence. Returns the archive's SHA-256.
fn pack(program: &Program, version: &str, folder: &Path) -> Result<String> {
    let scratch = folder.with_extension("plugin");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    for (file, name) in [(&program.path, "kubectl-causeway"), (&host::repo_root()?.join("LICENSE"), "LICENSE")] {
        fs::copy(file, scratch.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    }
    let archive = folder.join(archive_of(version, &program.architecture));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=ustar", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    tar.args(["--mode=u+rw,go+r,go-w,a+X", "--use-compress-program=gzip --no-name", "--file"]).arg(&archive);
    tools::output_of(tar.arg("--directory").arg(&scratch).args(["kubectl-causeway", "LICENSE"]))?;
    fs::remove_dir_all(&scratch)?;
    let sum = tools::output_of(Command::new("sha256sum").arg(&archive))?;
    Ok(sum.split_whitespace().next().unwrap_or_default().to_owned())
}

/// The version of this checkout.
pub fn version() -> Result<String> {
    let path = host::repo_root()?.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    version_in(&text)
}

/// The version of all packages, in the Cargo.toml of the workspace.
pub fn version_in(manifest: &str) -> Result<String> {
    let package = manifest.split_once("\n[workspace.package]\n").map(|(_, package)| package);
    let line = package.and_then(|text| text.lines().find_map(|line| line.strip_prefix("version = \"")));
    match line.and_then(|line| line.strip_suffix('"')) {
        Some(version) => Ok(version.to_owned()),
        None => bail!("Cargo.toml names no version"),
    }
}
