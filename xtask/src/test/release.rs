//! Gathers a release with the program that was compiled with the tests, and checks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::report::Outcome;
use super::{directory, log, registry};
use crate::architecture::Architecture;
use crate::chart::Helm;
use crate::images::{layout, operator};
use crate::progress::Step;
use crate::release::{self, Build, Parts};
use crate::{host, image, tools};

/// The directory of that program's image.
pub fn image_layout() -> Result<PathBuf> {
    Ok(directory()?.join("image"))
}

/// Writes the image of that program, with fast compression.
pub fn write_layout(binary: &Path, folder: &Path, step: &Step) -> Result<String> {
    layout::write(&operator::shipped_image(binary)?, &image::facts(Architecture::native()?, 1)?, folder, step)
}

/// The image must have the same bytes when it is made twice, a release must be complete, and workflows must be valid.
pub fn check(step: &Step) -> Result<Outcome> {
    let binary = operator::target_directory()?.join("debug/causeway");
    // A small program shows as well whether an image depends on anything else.
    let small = [directory()?.join("image-of-true"), directory()?.join("image-again")];
    let [first, again] = small.each_ref().map(|folder| write_layout(Path::new("/bin/true"), folder, step));
    if first? != again? || files_in(&small[0])? != files_in(&small[1])? {
        bail!("two images of the same program differ: {} and {}", small[0].display(), small[1].display());
    }
    small.iter().try_for_each(fs::remove_dir_all)?;
    let one = image_layout()?;
    let digest = write_layout(&binary, &one, step)?;
    layout_is_sound(&one, &digest)?;
    registry::takes(&one, &digest, step)?;

    let helm = Helm::find(step)?;
    // Compression is fast. Any program is good enough, because nothing that is packed here is run.
    let parts = Parts {
        helm: &helm,
        build: &Build { program: PathBuf::from("/bin/true"), layout: host::repo_root()?.join("iam") },
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
    let (version, architecture) = (release::version()?, Architecture::native()?);
    let mut wanted = vec![
        format!("causeway-{version}-image-linux-{architecture}.tar"),
        format!("causeway-{version}-linux-{architecture}.tar.gz"),
        format!("causeway-{version}-olm.tar.gz"),
        format!("causeway-{version}-linux-{architecture}.cdx.json"),
        format!("causeway-{version}.tgz"),
        "LICENSES.txt".to_owned(),
        "argocd-cm.yaml".to_owned(),
        "causeway.krew.yaml".to_owned(),
        format!("kubectl-causeway-{version}-linux-{architecture}.tar.gz"),
        "crds.yaml".to_owned(),
        "install.yaml".to_owned(),
        "release-notes.md".to_owned(),
    ];
    wanted.sort();
    wanted.push("SHA256SUMS".to_owned());
    if names != wanted {
        bail!("a release has {names:?}");
    }
    bill_is_whole(&one.join(format!("causeway-{version}-linux-{architecture}.cdx.json")))?;
    packaged_chart_works(&helm, &one.join(format!("causeway-{version}.tgz")))?;
    workflows(step)?;
    Ok(Outcome::Passed)
}

/// Paths below a folder, and digests of the contents.
fn files_in(folder: &Path) -> Result<String> {
    let mut list = Command::new("sh");
    list.args(["-c", "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum"]).current_dir(folder);
    tools::output_of(&mut list)
}

/// Every descriptor must lead to a file with that digest and size, and the image must not run as root.
fn layout_is_sound(layout: &Path, digest: &str) -> Result<()> {
    let blob = |digest: &str| layout.join("blobs").join(digest.replace(':', "/"));
    let read = |digest: &str| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(blob(digest))?)?) };
    let manifest = read(digest)?;
    let layers = manifest["layers"].as_array().context("a manifest has layers")?;
    for descriptor in layers.iter().chain([&manifest["config"]]) {
        let named = descriptor["digest"].as_str().context("a descriptor has a digest")?;
        if layout::digest_of(&blob(named))? != named || descriptor["size"] != blob(named).metadata()?.len() {
            bail!("{descriptor} does not describe its file");
        }
    }
    let config = read(manifest["config"]["digest"].as_str().unwrap_or_default())?;
    if config["config"]["User"] != "65532:65532" || config["config"]["Entrypoint"][0] != "/usr/local/bin/causeway" {
        bail!("this is not how the operator runs: {config}");
    }
    Ok(())
}

/// The bill must name crates and packages, each with a licence or in Debian's form, and their dependencies.
fn bill_is_whole(bill: &Path) -> Result<()> {
    let bill: Value = serde_json::from_slice(&fs::read(bill)?)?;
    let components = bill["components"].as_array().context("a bill has components")?;
    let names: Vec<&str> = components.iter().filter_map(|it| it["name"].as_str()).collect();
    for wanted in [
        "kube",
        "aws-sdk-elasticloadbalancingv2",
        "zstd-sys",
        "zstd",
        "aws-lc",
        "mimalloc",
        "std",
        "libc6",
        "ca-certificates",
    ] {
        if !names.contains(&wanted) {
            bail!("the bill of materials has no {wanted}");
        }
    }
    for unwanted in ["proptest", "xtask"] {
        if names.contains(&unwanted) {
            bail!("the bill of materials has {unwanted}, which is not in the program");
        }
    }
    let refs: Vec<&Value> =
        components.iter().chain([&bill["metadata"]["component"]]).map(|it| &it["bom-ref"]).collect();
    for dependency in bill["dependencies"].as_array().context("a bill has dependencies")? {
        for reference in dependency["dependsOn"].as_array().into_iter().flatten().chain([&dependency["ref"]]) {
            if !refs.contains(&reference) {
                bail!("the bill of materials does not have {reference}, which it names");
            }
        }
    }
    Ok(())
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
