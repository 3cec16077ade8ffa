//! Gathers a release, and checks it and the workflows that publish it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::report::Outcome;
use super::{directory, log};
use crate::chart::Helm;
use crate::progress::Step;
use crate::release::{self, Parts, Program};
use crate::{host, tools};

/// A release must have the same bytes when it is made twice, and be complete. Workflows must be valid.
pub fn check(step: &Step) -> Result<Outcome> {
    let helm = Helm::find(step)?;
    // Any program is good enough, because nothing that is packed here is run.
    let program = |it: &str| Program { architecture: it.to_owned(), path: PathBuf::from("/bin/true") };
    let parts = Parts {
        helm: &helm,
        programs: &["amd64", "arm64"].map(program),
        image: Some(
            "registry.example.com/causeway@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ),
    };
    let (one, other) = (directory()?.join("release"), directory()?.join("release-again"));
    let names = release::gather(&parts, &one, step)?;
    release::gather(&parts, &other, step)?;
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).context("there are no checksums");
    if sums(&one)? != sums(&other)? {
        bail!("two releases differ:\n{}\n{}", sums(&one)?, sums(&other)?);
    }
    let version = release::version()?;
    let mut wanted = vec![
        format!("causeway-{version}.tgz"),
        format!("kubectl-causeway-{version}-linux-amd64.tar.gz"),
        format!("kubectl-causeway-{version}-linux-arm64.tar.gz"),
        "causeway.krew.yaml".to_owned(),
        "crds.yaml".to_owned(),
        "install.yaml".to_owned(),
    ];
    wanted.sort();
    wanted.push("SHA256SUMS".to_owned());
    if names != wanted {
        bail!("a release has {names:?}");
    }
    packaged_chart_works(&helm, &one.join(format!("causeway-{version}.tgz")))?;
    workflows(step)?;
    Ok(Outcome::Passed)
}

/// The packaged chart must render what its sources link to, with the release's image.
fn packaged_chart_works(helm: &Helm, package: &Path) -> Result<()> {
    let rendered =
        helm.render(package, "causeway", &["--set", "clusterName=prod", "--set", "aws.identity=podIdentity"])?;
    for wanted in ["kind: CustomResourceDefinition", "kind: ClusterRole\n", "causeway@sha256:0123456789abcdef"] {
        if !rendered.contains(wanted) {
            bail!("{} renders no {wanted}", package.display());
        }
    }
    Ok(())
}

/// actionlint must accept the GitHub workflows.
fn workflows(step: &Step) -> Result<()> {
    step.note("checking the workflows");
    let mut lint = Command::new(tools::program(tools::ACTIONLINT, step)?);
    // Not every machine has these two programs, and findings must not depend on that.
    lint.args(["-shellcheck=", "-pyflakes="]).current_dir(host::repo_root()?);
    step.run(&mut lint, &log("workflows")?)
}
