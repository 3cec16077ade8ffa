//! Checks what Lifecycle Manager's own validators check; those are not available here.
//!
//! <https://github.com/operator-framework/api/tree/master/pkg/validation>

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::{list, text};

/// <https://sdk.operatorframework.io/docs/overview/operator-capabilities/>
const CAPABILITIES: [&str; 5] = ["Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"];
/// The categories of OperatorHub.io that a bridge to a cloud may have.
const CATEGORIES: [&str; 4] = ["Cloud Provider", "Database", "Networking", "Storage"];

/// Fails if a catalogue would refuse the CSV.
pub fn service_version(csv: &Value, definitions: &[Value]) -> Result<()> {
    let (name, version) = (text(csv, "/metadata/name"), text(csv, "/spec/version"));
    ensure!(name.len() <= 63 && name == format!("causeway.v{version}"), "{name} is not named by its version {version}");
    ensure!(version.split(['.', '-', '+']).take(3).all(|part| part.parse::<u64>().is_ok()), "{version} is no version");
    for field in ["displayName", "description", "provider/name", "maintainers/0/name", "links/0/name"] {
        ensure!(!text(csv, &format!("/spec/{field}")).is_empty(), "spec.{field} is empty");
    }
    ensure!(text(csv, "/spec/maintainers/0/email").contains('@'), "a maintainer has an email address");
    ensure!(text(csv, "/spec/links/0/url").starts_with("https://"), "a link has a URL");
    ensure!(text(csv, "/spec/icon/0/mediatype") == "image/svg+xml", "the icon is an SVG");
    let annotation = |name: &str| text(csv, &format!("/metadata/annotations/{name}"));
    ensure!(CAPABILITIES.contains(&annotation("capabilities")), "{} is no capability", annotation("capabilities"));
    for category in annotation("categories").split(", ") {
        ensure!(CATEGORIES.contains(&category), "{category} is no category");
    }
    definitions_are_owned(csv, definitions)?;
    examples_are_whole(annotation("alm-examples"), definitions)?;
    deployment_is_sound(csv)
}

/// Every definition must be owned in its version and described, and nothing else may be owned.
fn definitions_are_owned(csv: &Value, definitions: &[Value]) -> Result<()> {
    let owned = list(&csv["spec"]["customresourcedefinitions"]["owned"]);
    ensure!(owned.len() == definitions.len(), "{} of {} definitions are owned", owned.len(), definitions.len());
    for definition in definitions {
        let (name, versions) = (text(definition, "/metadata/name"), list(&definition["spec"]["versions"]));
        let Some(entry) = owned.iter().find(|it| text(it, "/name") == name) else { bail!("{name} is not owned") };
        ensure!(versions.iter().any(|it| it["name"] == entry["version"]), "{name} has no version {}", entry["version"]);
        ensure!(!text(entry, "/description").is_empty(), "{name} is not described");
    }
    Ok(())
}

/// Every kind must have an example.
fn examples_are_whole(examples: &str, definitions: &[Value]) -> Result<()> {
    let examples: Vec<Value> = serde_json::from_str(examples)?;
    for definition in definitions {
        let kind = &definition["spec"]["names"]["kind"];
        ensure!(examples.iter().any(|it| it["kind"] == *kind), "there is no example of {kind}");
    }
    Ok(())
}

/// The pod must request resources, and no rule may grant everything or allow the creation of definitions.
fn deployment_is_sound(csv: &Value) -> Result<()> {
    let install = &csv["spec"]["install"]["spec"];
    let container = &install["deployments"][0]["spec"]["template"]["spec"]["containers"][0];
    for resource in ["cpu", "memory"] {
        ensure!(container["resources"]["requests"][resource].is_string(), "the operator requests no {resource}");
    }
    for permission in ["permissions", "clusterPermissions"] {
        for rule in list(&install[permission][0]["rules"]) {
            let named = |field: &str, name: &str| list(&rule[field]).iter().any(|it| it == name);
            let everything = ["apiGroups", "resources", "verbs"].iter().any(|field| named(field, "*"));
            let makes_definitions = named("resources", "customresourcedefinitions") && named("verbs", "create");
            ensure!(!everything && !makes_definitions, "{permission} give too much: {rule}");
        }
    }
    Ok(())
}
