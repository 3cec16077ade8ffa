//! `cargo xtask image`: builds the operator's image for a registry of the user.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::architecture::Architecture;
use crate::images::{layout, operator};
use crate::progress::Progress;
use crate::{host, release, tools};

/// Options of `cargo xtask image`.
#[derive(Args)]
pub struct Options {
    /// Folder of the OCI layout; it is emptied first
    #[arg(long, default_value = "target/image")]
    out: PathBuf,
    /// Push it there, as `REGISTRY/REPO:TAG`, with the credentials of docker's config file
    #[arg(long, value_name = "REFERENCE")]
    push: Option<String>,
    /// Use this program instead of building the release
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The registry speaks HTTP without TLS
    #[arg(long, requires = "push")]
    plain_http: bool,
}

/// Builds the operator, writes its image, and pushes it.
pub fn run(options: &Options) -> Result<()> {
    let mut steps = Progress::new(2 + usize::from(options.push.is_some()));
    let architecture = Architecture::native()?;
    let program = steps.step("Build the operator", |step| operator::given_or_built(options.binary.as_deref(), step))?;
    let digest = steps.step("Write the image", |step| {
        layout::write(&operator::shipped_image(&program)?, &facts(architecture, 9)?, &options.out, step)
    })?;
    println!("{} is an OCI layout with the image {digest} for linux/{architecture}", options.out.display());
    if let Some(reference) = &options.push {
        let pushed = steps.step("Push the image", |step| {
            layout::push(&options.out, reference, options.plain_http, step, Command::new)
        })?;
        let (repository, digest) = pushed.split_once('@').unwrap_or((&pushed, ""));
        println!("Pushed. For helm: --set image.repository={repository} --set image.digest={digest}");
    }
    Ok(())
}

/// Version, time and hash of the checked-out commit, for an image for that architecture.
pub fn facts(architecture: Architecture, level: u8) -> Result<layout::Facts> {
    let root = host::repo_root()?;
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&root).args(arguments).env("TZ", "UTC");
        tools::output_of(&mut git).map(|said| said.trim().to_owned())
    };
    // The sources may not come from git, and then there is no commit to name.
    let created = git(&["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"]);
    Ok(layout::Facts {
        version: release::version()?,
        created: created.unwrap_or_else(|_| "1970-01-01T00:00:00Z".to_owned()),
        revision: git(&["rev-parse", "HEAD"]).unwrap_or_default(),
        architecture,
        level,
    })
}
