//! What the operator's program and image consist of: crates, according to Cargo, and files of this machine's Debian
//! packages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::architecture::Architecture;
use crate::{host, tools};

/// A crate that is compiled into the program. Macros that only the compiler runs are included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// An SPDX expression: <https://spdx.github.io/spdx-spec/v3.0.1/annexes/spdx-license-expressions/>
    pub license: String,
    /// The folder of its sources.
    pub folder: PathBuf,
    /// The SHA-256 checksum in the registry; empty for our own crates.
    pub checksum: String,
    /// Its dependencies, by name and version.
    pub depends_on: BTreeSet<(String, String)>,
}

/// A Debian package with files in the image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DebianPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The operator's crates for that architecture, our own first.
pub fn crates(architecture: Architecture) -> Result<Vec<Crate>> {
    let root = host::repo_root()?;
    let mut ask = Command::new("cargo");
    ask.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", architecture.target()]);
    ask.current_dir(&root);
    let metadata: Value = serde_json::from_str(&tools::output_of(&mut ask)?).context("cargo metadata is not JSON")?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    crates_in(&metadata, &checksums(&lock))
}

/// <https://doc.rust-lang.org/cargo/commands/cargo-metadata.html#json-format>
fn crates_in(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Vec<Crate>> {
    let listed = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        listed(&metadata["packages"]).into_iter().map(|it| (text(&it["id"]), it)).collect();
    let nodes: BTreeMap<String, Value> =
        listed(&metadata["resolve"]["nodes"]).into_iter().map(|it| (text(&it["id"]), it)).collect();
    let named = |id: &str| (text(&packages[id]["name"]), text(&packages[id]["version"]));
    let ours =
        packages.keys().find(|id| packages[*id]["name"] == "causeway").context("there is no package causeway")?;
    let (mut found, mut waiting, mut seen) = (Vec::new(), vec![ours.clone()], BTreeSet::from([ours.clone()]));
    while let Some(id) = waiting.pop() {
        let package = packages.get(&id).with_context(|| format!("Cargo describes no {id}"))?;
        // Dependencies of build scripts and tests have another kind.
        let is_normal = |it: &Value| listed(&it["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let dependencies: Vec<String> =
            listed(&nodes[&id]["deps"]).iter().filter(|it| is_normal(it)).map(|it| text(&it["pkg"])).collect();
        let name = named(&id);
        found.push(Crate {
            license: text(&package["license"]).replace(" / ", "/").replace('/', " OR "),
            folder: Path::new(&text(&package["manifest_path"])).parent().unwrap_or(Path::new("/")).to_owned(),
            checksum: checksums.get(&name).cloned().unwrap_or_default(),
            depends_on: dependencies.iter().map(|id| named(id)).collect(),
            name: name.0,
            version: name.1,
        });
        waiting.extend(dependencies.into_iter().filter(|id| seen.insert(id.clone())));
    }
    found[1..].sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    Ok(found)
}

/// The checksums in a Cargo.lock, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.and_then(|line| line.strip_suffix('"')).map(str::to_owned)
    };
    let packages = lock.split("[[package]]").skip(1);
    packages.filter_map(|it| Some(((field(it, "name")?, field(it, "version")?), field(it, "checksum")?))).collect()
}

/// The packages that contain these files of this machine. Files of no package are left out.
pub fn debian_packages(files: &[PathBuf]) -> Result<BTreeSet<DebianPackage>> {
    let mut found = BTreeSet::new();
    for file in files {
        // Packages list files by their paths before /lib became a link to /usr/lib.
        let real = file.canonicalize().with_context(|| format!("there is no {}", file.display()))?;
        let before = real.strip_prefix("/usr").map(|rest| Path::new("/").join(rest));
        for path in [Some(real.clone()), before.ok()].into_iter().flatten() {
            let owner = Command::new("dpkg-query").arg("--search").arg(&path).output().context("cannot start dpkg")?;
            let owner = String::from_utf8_lossy(&owner.stdout).into_owned();
            let Some((package, _)) = owner.split_once(": ") else { continue };
            let mut show = Command::new("dpkg-query");
            show.args(["--show", "--showformat", "${Package} ${Version}", package]);
            if let Some((name, version)) = tools::output_of(&mut show)?.split_once(' ') {
                found.insert(DebianPackage { name: name.to_owned(), version: version.to_owned() });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_only_builds_or_tests_is_not_in_the_program() {
        let package = |name: &str, license: &str| {
            json!({
                "id": name, "name": name, "version": "1.0.0", "license": license,
                "manifest_path": format!("/src/{name}/Cargo.toml"),
            })
        };
        let dependency = |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                package("xtask", "MIT"), package("b", "MIT/Apache-2.0"), package("a", "MIT"),
                package("causeway", "Apache-2.0"), package("builds", "MIT"), package("tests", "MIT"),
            ],
            "resolve": { "nodes": [
                { "id": "causeway", "deps": [
                    dependency("b", Value::Null), dependency("builds", json!("build")), dependency("tests", json!("dev")),
                ] },
                { "id": "b", "deps": [dependency("a", Value::Null)] },
                { "id": "a", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"c0ffee\"\n";
        let found = crates_in(&metadata, &checksums(lock)).unwrap();
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["causeway", "a", "b"]);
        assert_eq!((found[1].checksum.as_str(), found[2].checksum.as_str()), ("c0ffee", ""));
        assert_eq!(found[2].license, "MIT OR Apache-2.0");
        assert_eq!(found[0].depends_on, BTreeSet::from([("b".to_owned(), "1.0.0".to_owned())]));
    }
}
