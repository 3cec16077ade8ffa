//! The kubectl plugin of a release: an archive, and the manifest by which krew installs it.
//!
//! <https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::archive;
use crate::tools;

/// By this name kubectl finds it.
const PROGRAM: &str = "kubectl-causeway";
/// Where releases are published.
const RELEASES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/releases/download");

/// Packs the operator's program under the plugin's name into `folder`, with its manifest.
pub fn pack(binary: &Path, license: &Path, version: &str, architecture: &str, folder: &Path) -> Result<()> {
    let scratch = folder.with_extension("plugin");
    fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
    let program = scratch.join(PROGRAM);
    fs::copy(binary, &program).with_context(|| format!("cannot copy {}", binary.display()))?;
    let name = format!("{PROGRAM}-{version}-linux-{architecture}.tar.gz");
    archive(&folder.join(&name), &[&program, license])?;
    fs::remove_dir_all(&scratch)?;
    let sum = tools::output_of(Command::new("sha256sum").arg(&name).current_dir(folder))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    fs::write(folder.join("causeway.krew.yaml"), manifest(version, architecture, &name, sum)?)?;
    Ok(())
}

/// JSON is YAML too; this one is read by people as well.
fn manifest(version: &str, architecture: &str, archive: &str, sum: &str) -> Result<String> {
    let platform = json!({
        "selector": { "matchLabels": { "os": "linux", "arch": architecture } },
        "uri": format!("{RELEASES}/v{version}/{archive}"),
        "sha256": sum,
        "bin": PROGRAM,
        "files": [{ "from": PROGRAM, "to": "." }, { "from": "LICENSE", "to": "." }],
    });
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
            "platforms": [platform],
        },
    });
    serde_saphyr::to_string(&manifest).context("cannot write the manifest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn krew_finds_the_archive_of_its_platform() {
        let text = manifest("0.1.0", "amd64", "kubectl-causeway-0.1.0-linux-amd64.tar.gz", "abc").unwrap();
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        let platform = &read["spec"]["platforms"][0];
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
