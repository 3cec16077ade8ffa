//! The kubectl plugin of a release: an archive for each architecture, and the manifest by which krew installs it.
//!
//! <https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::archive;
use crate::tools;

/// The name by which kubectl finds it.
const PROGRAM: &str = "kubectl-causeway";
/// The URL of published releases.
const RELEASES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/releases/download");

/// Packs the operator's program for that architecture under the plugin's name into `folder`. Returns its entry in the
/// manifest.
pub fn pack(binary: &Path, license: &Path, version: &str, architecture: &str, folder: &Path) -> Result<Value> {
    let scratch = folder.with_extension("plugin");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let program = scratch.join(PROGRAM);
    fs::copy(binary, &program).with_context(|| format!("cannot copy {}", binary.display()))?;
    let name = format!("{PROGRAM}-{version}-linux-{architecture}.tar.gz");
    archive(&folder.join(&name), &[&program, license])?;
    fs::remove_dir_all(&scratch)?;
    let sum = tools::output_of(Command::new("sha256sum").arg(&name).current_dir(folder))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    Ok(platform(version, architecture, &name, sum))
}

/// Writes the manifest of all packed archives into `folder`.
pub fn describe(platforms: &[Value], version: &str, folder: &Path) -> Result<()> {
    fs::write(folder.join("causeway.krew.yaml"), manifest(version, platforms)?).context("cannot write krew's manifest")
}

fn platform(version: &str, architecture: &str, archive: &str, sum: &str) -> Value {
    json!({
        "selector": { "matchLabels": { "os": "linux", "arch": architecture } },
        "uri": format!("{RELEASES}/v{version}/{archive}"),
        "sha256": sum,
        "bin": PROGRAM,
        "files": [{ "from": PROGRAM, "to": "." }, { "from": "LICENSE", "to": "." }],
    })
}

/// The manifest as JSON, which is also YAML, formatted for readers.
fn manifest(version: &str, platforms: &[Value]) -> Result<String> {
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": { "name": "causeway" },
        "spec": {
            "version": format!("v{version}"),
            "homepage": env!("CARGO_PKG_REPOSITORY"),
            "shortDescription": "Look after objects of Causeway",
            "description": "Shows load balancers, databases and backups of Causeway and what they consist of, says why one \
                            is not ready, and starts backups, switchovers and recoveries.",
            "platforms": platforms,
        },
    });
    serde_saphyr::to_string(&manifest).context("cannot write the manifest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn krew_finds_the_archive_of_its_platform() {
        let platforms = [("amd64", "abc"), ("arm64", "def")].map(|(architecture, sum)| {
            let archive = format!("kubectl-causeway-0.1.0-linux-{architecture}.tar.gz");
            platform("0.1.0", architecture, &archive, sum)
        });
        let text = manifest("0.1.0", &platforms).unwrap();
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        let platform = &read["spec"]["platforms"][0];
        let other = &read["spec"]["platforms"][1];
        assert_eq!(other["selector"]["matchLabels"]["arch"], "arm64");
        assert!(other["uri"].as_str().unwrap().ends_with("-linux-arm64.tar.gz") && other["sha256"] == "def");
        assert_eq!(read["spec"]["version"], "v0.1.0");
        assert_eq!((&platform["bin"], &platform["sha256"]), (&"kubectl-causeway".into(), &"abc".into()));
        let uri = platform["uri"].as_str().unwrap();
        assert!(
            uri.starts_with("https://") && uri.ends_with("/v0.1.0/kubectl-causeway-0.1.0-linux-amd64.tar.gz"),
            "{uri}"
        );
        assert!(read["spec"]["shortDescription"].as_str().unwrap().len() < 50, "krew shows it in a line");
    }
}
