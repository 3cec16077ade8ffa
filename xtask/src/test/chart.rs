//! Checks of the Helm chart that need no cluster.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use super::report::Outcome;
use super::{directory, log};
use crate::chart::{self, Helm};
use crate::images::operator;
use crate::progress::Step;
use crate::tools;

/// The limit in bytes for all annotations of an object. kubectl stores the last applied configuration in one of them.
/// <https://github.com/kubernetes/kubernetes/blob/v1.34.4/staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go>
const LARGEST_DEFINITION: usize = 262_144;

/// Values that must be refused, with a word of the message.
const REFUSED: [(&str, &str); 7] = [
    ("imge.tag=1", "'imge'"),
    ("image.tagg=1", "'tagg'"),
    ("metrics.serviceMonitor.enable=true", "'enable'"),
    ("kinds={MyIngres}", "kinds"),
    ("aws.roleArn=causeway", "roleArn"),
    ("clusterName=", "clusterName is missing"),
    ("image.repository=", "image.repository is missing"),
];

/// Runs all checks.
pub fn check(step: &Step) -> Result<Outcome> {
    let helm = Helm::find(step)?;
    let chart = chart::directory()?;
    step.note("helm lint");
    for golden in chart::golden()? {
        let (chart, values) = (chart.display().to_string(), golden.values.display().to_string());
        let mut lint = helm.command(&["lint", "--strict", "--quiet", &chart, "--values", &values])?;
        step.run(&mut lint, &log("helm-lint")?)?;
    }
    step.note("comparing with what the chart rendered before");
    files_are_current(&helm)?;
    step.note("trying what is to be refused");
    refuses(&helm)?;
    alerts_name_the_release(&helm)?;
    every_option_is_reachable(&helm)?;
    every_value_is_documented()?;
    definitions_fit()?;
    Ok(Outcome::Passed)
}

/// The golden files and those of `deploy/base` that are made of the chart must be as it renders them.
fn files_are_current(helm: &Helm) -> Result<()> {
    for (path, text) in chart::generated_files(helm)? {
        if fs::read_to_string(&path).unwrap_or_default() != text {
            let now = directory()?.join("rendered.yaml");
            fs::write(&now, text)?;
            let shown =
                Command::new("diff").arg("--unified").args([&path, &now]).output().context("cannot start diff")?;
            bail!(
                "{} is not what the chart renders; `cargo xtask chart` writes it again:\n{}",
                path.display(),
                String::from_utf8_lossy(&shown.stdout)
            );
        }
    }
    Ok(())
}

fn refuses(helm: &Helm) -> Result<()> {
    let values = chart::golden_directory()?.join("minimal.values.yaml").display().to_string();
    for (set, word) in REFUSED {
        match helm.render(&chart::directory()?, "causeway", &["--values", &values, "--set", set]) {
            Ok(_) => bail!("the chart takes --set {set}"),
            Err(error) if !error.to_string().contains(word) => bail!("of --set {set} the chart says: {error:#}"),
            Err(_) => {}
        }
    }
    Ok(())
}

/// The alerts must name the objects of their release, and only leases that it takes part in.
fn alerts_name_the_release(helm: &Helm) -> Result<()> {
    const COMMAND: &str = "-n blue logs deployment/edge-causeway ";
    const DATABASES: &str = r#"absent(causeway_leader{lease="edge-causeway-databases"})"#;
    const OTHERS: &str = r#"absent(causeway_leader{lease="edge-causeway"})"#;
    let values = chart::golden_directory()?.join("minimal.values.yaml").display().to_string();
    for (kinds, named, missing) in [
        ("kinds={MyApp,Redis}", &[COMMAND, OTHERS, DATABASES][..], &[][..]),
        ("kinds={Redis}", &[COMMAND, DATABASES], &[OTHERS]),
        ("kinds={MyApp}", &[COMMAND, OTHERS], &[DATABASES]),
    ] {
        let shown = ["--namespace", "blue", "--show-only", "templates/prometheusrule.yaml"];
        let set = ["--values", values.as_str(), "--set", "metrics.prometheusRule.enabled=true", "--set", kinds];
        let rendered = helm.render(&chart::directory()?, "edge", &[&shown[..], &set[..]].concat())?;
        // YAML breaks long lines.
        let text = rendered.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(lacking) = named.iter().find(|words| !text.contains(**words)) {
            bail!("with {kinds} the alerts lack: {lacking}");
        }
        if let Some(foreign) = missing.iter().chain(&["causeway-system"]).find(|words| text.contains(**words)) {
            bail!("with {kinds} the alerts name what is not of the release: {foreign}");
        }
    }
    Ok(())
}

/// The values that set everything must set every variable that `causeway run --help` names.
fn every_option_is_reachable(helm: &Helm) -> Result<()> {
    let program = operator::target_directory()?.join("debug/causeway");
    let said = tools::output_of(Command::new(program).args(["run", "--help"]))?;
    let options: Vec<&str> = said.split("[env: ").skip(1).filter_map(|rest| rest.split(['=', ']']).next()).collect();
    if options.len() < 10 {
        bail!("`causeway run --help` names only {} variables", options.len());
    }
    let everything = chart::golden()?.into_iter().find(|golden| golden.name == "everything");
    let rendered = helm.golden(&everything.context("there are no values that set everything")?)?;
    let set = |name: &str| {
        rendered
            .lines()
            .map(str::trim)
            .any(|line| line == format!("- name: {name}") || line.starts_with(&format!("{name}: ")))
    };
    let missing: Vec<_> = options.into_iter().filter(|name| !set(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!("no value of the chart sets {}: see causeway.options in its templates", missing.join(", "));
}

/// values.yaml must list all values of the schema, and the schema must refuse all others.
fn every_value_is_documented() -> Result<()> {
    let chart = chart::directory()?;
    let schema: Value = serde_json::from_str(&fs::read_to_string(chart.join("values.schema.json"))?)
        .context("values.schema.json is not JSON")?;
    let text = fs::read_to_string(chart.join("values.yaml"))?;
    let values: Value = serde_saphyr::from_str(&text).map_err(|error| anyhow!("values.yaml: {error}"))?;
    compare(&schema, &values, "values")
}

fn compare(schema: &Value, values: &Value, path: &str) -> Result<()> {
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    if schema["additionalProperties"] != Value::Bool(false) {
        bail!("values.schema.json takes anything in {path}");
    }
    for (name, property) in properties.iter().filter(|(name, _)| *name != "global") {
        let path = format!("{path}.{name}");
        let value = values.get(name).with_context(|| format!("values.yaml does not list {path}"))?;
        if !property["description"].is_string() {
            bail!("values.schema.json does not describe {path}");
        }
        compare(property, value, &path)?;
    }
    Ok(())
}

/// kubectl must be able to apply the definitions without --server-side.
fn definitions_fit() -> Result<()> {
    for (name, text) in crate::crds::all()? {
        if text.len() >= LARGEST_DEFINITION {
            bail!("crds/{name} has {} bytes: kubectl cannot apply it without --server-side", text.len());
        }
    }
    Ok(())
}
