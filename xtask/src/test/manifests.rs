//! Validates all manifests with a real API server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::report::Outcome;
use super::{directory, log, pages};
use crate::cluster::Cluster;
use crate::progress::Step;
use crate::{crds, host, rights};

/// Installs the definitions of our kinds.
fn install_crds(cluster: &Cluster, step: &Step) -> Result<()> {
    step.note("installing the CRDs");
    let mut apply = cluster.kubectl();
    apply.args(["apply", "--server-side", "--force-conflicts", "--kustomize"]).arg(crds::directory()?);
    step.run(&mut apply, &log("crds-apply")?)?;
    let mut wait = cluster.kubectl();
    wait.args(["wait", "crds", "--all", "--for=condition=Established", "--timeout=300s"]);
    step.run(&mut wait, &log("crds-wait")?)
}

/// Installs the definitions of our kinds, and gives operators of tests their rights.
pub fn prepare(cluster: &Cluster, step: &Step) -> Result<()> {
    install_crds(cluster, step)?;
    rights::give(cluster, &log("rights")?, step)
}

/// The API server must accept the CRDs, the deployment with its overlays, and the examples. Warnings are errors.
pub fn validate(cluster: &Cluster, step: &Step) -> Result<Outcome> {
    install_crds(cluster, step)?;
    let root = host::repo_root()?;
    // Objects can be validated only in a namespace that exists.
    let mut namespace = cluster.kubectl();
    namespace.args(["apply", "--filename"]).arg(root.join("deploy/base/namespace.yaml"));
    step.run(&mut namespace, &log("manifests-namespace")?)?;

    let mut folders = vec![root.join("deploy/base")];
    folders.extend(entries(&root.join("deploy/overlays"))?);
    for folder in folders {
        let name = name_of(&folder);
        step.note(format!("rendering and validating {}", folder.display()));
        let rendered = directory()?.join(format!("manifests-{name}.yaml"));
        let mut kustomize = cluster.kubectl();
        step.run(kustomize.arg("kustomize").arg(&folder).arg("--output").arg(&rendered), &log("kustomize")?)?;
        server_understands(cluster, &rendered, &name, step)?;
    }

    for file in pages::objects(&directory()?)? {
        step.note(format!("validating {}", name_of(&file)));
        server_understands(cluster, &file, &name_of(&file), step)?;
    }

    let mut unknown = Vec::new();
    // Folders in it contain programs, so only files are read.
    for example in entries(&root.join("examples"))?.into_iter().filter(|path| path.is_file()) {
        if kind_exists(cluster, &example)? {
            step.note(format!("validating {}", example.display()));
            server_understands(cluster, &example, &name_of(&example), step)?;
        } else {
            unknown.push(name_of(&example));
        }
    }
    if unknown.is_empty() {
        Ok(Outcome::Passed)
    } else {
        Ok(Outcome::Partly(format!("no CRD yet for {}", unknown.join(", "))))
    }
}

fn server_understands(cluster: &Cluster, file: &Path, name: &str, step: &Step) -> Result<()> {
    let mut apply = cluster.kubectl();
    apply.args(["apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "--filename"]).arg(file);
    step.run(&mut apply, &log(&format!("manifests-{name}"))?)
}

/// Reports whether `crds/` defines the kind of the object in `file`.
fn kind_exists(cluster: &Cluster, file: &Path) -> Result<bool> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let group = field("apiVersion:").split('/').next().unwrap_or_default();
    let kind = field("kind:");
    let known = cluster
        .kubectl()
        .args(["get", "crds", "--output=jsonpath={range .items[*]}{.spec.group}/{.spec.names.kind}{\"\\n\"}{end}"])
        .output()
        .context("cannot start kubectl")?;
    Ok(String::from_utf8_lossy(&known.stdout).lines().any(|line| line == format!("{group}/{kind}")))
}

/// The entries of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
