//! `cargo xtask crds`: writes `crds/` from the Rust types, and checks that it is current.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::host;
use crate::images::operator;
use crate::progress::{Progress, Step};

/// Written by hand, and lists the generated files beside it.
const LIST: &str = "kustomization.yaml";

/// The directory of the definitions.
pub fn directory() -> Result<PathBuf> {
    Ok(host::repo_root()?.join("crds"))
}

/// All definitions: file names and texts.
pub fn all() -> Result<BTreeMap<String, String>> {
    definitions(&directory()?)
}

/// All definitions, parsed.
pub fn parsed() -> Result<Vec<Value>> {
    let read = |(name, text): (String, String)| {
        serde_saphyr::from_str(&text).with_context(|| format!("cannot read crds/{name}"))
    };
    all()?.into_iter().map(read).collect()
}

/// The `apiVersion` and `kind` of the objects of a definition.
pub fn api_of(definition: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    (format!("{}/{}", text(&spec["group"]), text(&spec["versions"][0]["name"])), text(&spec["names"]["kind"]))
}

/// Writes the definitions.
pub fn run() -> Result<()> {
    let crds = directory()?;
    Progress::new(1).step("Write crds/", |step| {
        let program = operator::build(step)?;
        let log = operator::target_directory()?.join("crds.log");
        for file in definitions(&crds)?.keys() {
            fs::remove_file(crds.join(file)).with_context(|| format!("cannot remove {file}"))?;
        }
        generate(Command::new(program), &crds, &log, step)
    })
}

/// Fails unless `crds/` matches the types, according to the program that was compiled with the tests, and its list is
/// complete. Works in the folder `scratch`.
pub fn check(scratch: &Path, step: &Step) -> Result<()> {
    let generated = scratch.join("crds");
    if generated.exists() {
        fs::remove_dir_all(&generated).with_context(|| format!("cannot remove {}", generated.display()))?;
    }
    fs::create_dir_all(&generated).with_context(|| format!("cannot make {}", generated.display()))?;
    let program = Command::new(operator::target_directory()?.join("debug/causeway"));
    generate(program, &generated, &scratch.join("crds.log"), step)?;

    let (kept, generated) = (definitions(&directory()?)?, definitions(&generated)?);
    let mut names: Vec<&String> = kept.keys().chain(generated.keys()).collect();
    names.retain(|name| kept.get(*name) != generated.get(*name));
    names.sort();
    names.dedup();
    if !names.is_empty() {
        bail!("crds/ is not what the types say: {names:?}; `cargo xtask crds` puts it right");
    }
    let list = fs::read_to_string(directory()?.join(LIST)).with_context(|| format!("cannot read crds/{LIST}"))?;
    let listed: Vec<&str> = list.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    match kept.keys().find(|name| !listed.contains(&name.as_str())) {
        Some(unlisted) => bail!("crds/{LIST} does not list {unlisted}"),
        None => Ok(()),
    }
}

fn generate(mut program: Command, folder: &Path, log: &Path, step: &Step) -> Result<()> {
    step.run(program.args(["crds", "--out"]).arg(folder).current_dir(host::repo_root()?), log)
}

/// The definitions in a folder: names and texts.
fn definitions(folder: &Path) -> Result<BTreeMap<String, String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != LIST {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            found.insert(name, text);
        }
    }
    Ok(found)
}
