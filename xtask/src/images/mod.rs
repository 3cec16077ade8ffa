//! The container images of the local cluster. No container engine is involved: files become layers, and the cluster's
//! own registry stores them under the names that manifests use.

pub mod debian;
pub mod etcd;
mod exporter;
pub mod operator;
mod redis;
mod sql;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cluster::Cluster;
use crate::progress::{Progress, Step};

/// Options of `cargo xtask images`.
#[derive(Args)]
pub struct Options {
    /// Local cluster whose registry gets the images
    #[arg(long, default_value = "demo")]
    cluster: String,
    /// Only the images of other people's software, without compiling the operator
    #[arg(long)]
    without_operator: bool,
}

/// Builds every image and pushes it.
pub fn run(options: &Options) -> Result<()> {
    let Some(cluster) = Cluster::find(&options.cluster)? else {
        bail!("the cluster {:?} is not running: start it with `cargo xtask cluster up`", options.cluster);
    };
    if options.without_operator {
        return Progress::new(1).step("Push images", |step| push(Which::All, &cluster, step));
    }
    let mut steps = Progress::new(2);
    let binary = steps.step("Build the operator", operator::build)?;
    steps.step("Push images", |step| {
        push(Which::All, &cluster, step)?;
        operator::image(&binary)?.push(&cluster, step)
    })?;
    Ok(())
}

/// Which images of other people's software.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The images that the demo's examples use. The demo shows these before it builds the rest.
    OfExamples,
    /// All images.
    All,
}

/// The images of the demo's examples, and the default images of objects that name none.
const OF_EXAMPLES: [&str; 3] = ["nginx:latest", "redis:7.0.15", "quay.io/coreos/etcd:v3.5.9"];

/// Builds those images, or finds them in the cache.
pub fn prepare(which: Which, step: &Step) -> Result<Vec<Image>> {
    let wanted = |name: &str| which == Which::All || OF_EXAMPLES.contains(&name);
    let mut images = Vec::new();
    for recipe in debian::RECIPES.iter().filter(|recipe| wanted(recipe.name)) {
        images.push(debian::prepare(recipe, step)?);
    }
    for version in etcd::versions()?.iter().filter(|version| wanted(&etcd::name(version))) {
        images.push(etcd::prepare(version, step)?);
    }
    if which == Which::All {
        for version in exporter::versions()? {
            images.push(exporter::prepare(&version, step)?);
        }
    }
    Ok(images)
}

/// Pushes those images into the cluster's registry.
pub fn push(which: Which, cluster: &Cluster, step: &Step) -> Result<()> {
    prepare(which, step)?.iter().try_for_each(|image| image.push(cluster, step).map(drop))
}

/// Builds and pushes the images that only thorough tests use.
pub fn push_thorough(cluster: &Cluster, step: &Step) -> Result<()> {
    debian::THOROUGH.iter().try_for_each(|recipe| debian::prepare(recipe, step)?.push(cluster, step).map(drop))
}

/// The `PATH` of every image.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image to push.
#[derive(Default)]
pub struct Image {
    /// Name and tag as in manifests.
    name: String,
    /// Directories and tar files, bottom first, or `FILE=/path/in/image`.
    layers: Vec<String>,
    entrypoint: Vec<String>,
    command: Vec<String>,
    /// Empty means root.
    user: String,
    /// Empty means SIGTERM.
    stop_signal: String,
    /// Empty means `/`.
    working_directory: String,
}

impl Image {
    /// Pushes the image into the cluster's registry, without layers that it already has. Returns `name:tag@digest`, a
    /// reference that changes with the content.
    pub fn push(&self, cluster: &Cluster, step: &Step) -> Result<String> {
        step.note(format!("pushing {}", self.name));
        let mut tool = cluster.in_network(cluster.tool());
        tool.args(["image", "--tag", &self.name, "--user", &self.user, "--stop-signal", &self.stop_signal]);
        tool.args(["--workdir", &self.working_directory]);
        tool.args(["--env", PATH]);
        let repeated = [("--rootfs", &self.layers), ("--entrypoint", &self.entrypoint), ("--cmd", &self.command)];
        for (option, values) in repeated {
            for value in values {
                tool.args([option, value]);
            }
        }
        let output = tool.output().context("cannot start the image tool")?;
        if !output.status.success() {
            bail!("cannot push {}: {}", self.name, String::from_utf8_lossy(&output.stderr).trim());
        }
        // The tool prints: name digest size.
        let answer = String::from_utf8(output.stdout)?;
        let digest = answer.split_whitespace().nth(1).context("the image tool named no digest")?;
        Ok(format!("{}@{digest}", self.name))
    }
}

/// The directory in which images are built, inside Cargo's target directory.
fn workshop() -> Result<PathBuf> {
    let directory = operator::target_directory()?.join("images");
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}
