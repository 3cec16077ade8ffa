//! Tests the files for Operator Lifecycle Manager, Argo CD and krew: they name our kinds, rights and version.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::report::Outcome;
use crate::progress::Step;
use crate::{crds, host, release, tools};

/// The Debian package with the interpreter of Argo CD's script.
pub const PACKAGE: &str = "lua5.1";

/// Runs all checks.
pub fn check(_: &Step) -> Result<Outcome> {
    let deploy = host::repo_root()?.join("deploy");
    let version = release::version()?;
    lifecycle_manager(&deploy, &version)?;
    argo_cd(&deploy)?;
    krew(&deploy, &version)?;
    Ok(Outcome::Passed)
}

/// The bundle must have the version of Cargo, own every definition, and grant what `deploy/base` grants.
fn lifecycle_manager(deploy: &Path, version: &str) -> Result<()> {
    let bundle = deploy.join("olm/manifests");
    let csv = documents(&bundle.join("causeway.clusterserviceversion.yaml"))?.pop().context("the bundle is empty")?;
    let named = csv["spec"]["version"] == version && csv["metadata"]["name"] == format!("causeway.v{version}");
    ensure!(named, "the bundle has another version than Cargo.toml");
    let pair = |name: &Value, version: &Value| format!("{name} {version}");
    let owned = list(&csv["spec"]["customresourcedefinitions"]["owned"]);
    let owned: BTreeSet<_> = owned.iter().map(|it| pair(&it["name"], &it["version"])).collect();
    let defined = crds::parsed()?;
    let defined: BTreeSet<_> =
        defined.iter().map(|it| pair(&it["metadata"]["name"], &it["spec"]["versions"][0]["name"])).collect();
    ensure!(owned == defined, "the bundle owns {owned:?}, and there are {defined:?}");

    let mut base = Vec::new();
    for entry in fs::read_dir(deploy.join("base"))? {
        base.extend(documents(&entry?.path())?);
    }
    let install = &csv["spec"]["install"]["spec"];
    let granted: BTreeSet<_> =
        ["permissions", "clusterPermissions"].iter().flat_map(|it| grants(&install[it][0])).collect();
    let is_operators = |it: &&Value| it["kind"] == "Role" || it["kind"] == "ClusterRole" && name(it) == "causeway";
    let needed: BTreeSet<_> = base.iter().filter(is_operators).flat_map(grants).collect();
    ensure!(
        needed == granted,
        "only one of the bundle and deploy/base grants: {:?}",
        needed.symmetric_difference(&granted).collect::<Vec<_>>()
    );
    for role in base.iter().filter(|it| it["kind"] == "ClusterRole" && name(it) != "causeway") {
        let file = bundle.join(format!("{}.clusterrole.yaml", name(role)));
        let bundled = documents(&file)?;
        ensure!(bundled.iter().flat_map(grants).eq(grants(role)), "{} is not that of deploy/base", file.display());
    }
    Ok(())
}

/// Argo CD must have the script for every kind, and the script must pass its own test.
fn argo_cd(deploy: &Path) -> Result<()> {
    let folder = deploy.join("argocd");
    let text = fs::read_to_string(folder.join("kustomization.yaml"))?;
    for (api, kind) in crds::parsed()?.iter().map(crds::api_of) {
        let group = api.split('/').next().unwrap_or_default();
        let entry = format!("resource.customizations.health.{group}_{kind}=health.lua");
        ensure!(text.contains(&entry), "deploy/argocd/kustomization.yaml lacks {entry}");
    }
    tools::output_of(Command::new("lua5.1").arg("test.lua").current_dir(folder)).map(drop)
}

/// krew must find the archives of this version.
fn krew(deploy: &Path, version: &str) -> Result<()> {
    let manifest = documents(&deploy.join("krew/causeway.yaml"))?;
    let spec = &manifest.first().context("krew's manifest is empty")?["spec"];
    ensure!(spec["version"] == format!("v{version}"), "krew's manifest has another version than Cargo.toml");
    for platform in list(&spec["platforms"]) {
        let architecture = platform["selector"]["matchLabels"]["arch"].as_str().unwrap_or_default();
        let archive = format!("/v{version}/{}", release::archive_of(version, architecture));
        let uri = platform["uri"].as_str().unwrap_or_default();
        ensure!(uri.ends_with(&archive), "{uri} does not end with {archive}");
    }
    Ok(())
}

fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_saphyr::from_multiple(&text).with_context(|| format!("{} is not YAML", file.display()))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// All that the rules of an object grant, one verb on one resource each.
fn grants(object: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rule in list(&object["rules"]) {
        let names = &rule["resourceNames"];
        for target in list(&rule["resources"]).iter().chain(&list(&rule["nonResourceURLs"])) {
            for verb in list(&rule["verbs"]) {
                found.insert(format!("{} {target} {names} {verb}", rule["apiGroups"]));
            }
        }
    }
    found
}
