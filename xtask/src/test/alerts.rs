//! Tests the alerts of the chart: promtool accepts them, each fires when it should, and each has a runbook. Tests that
//! promtool accepts the queries of the chart's dashboards, too.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::report::Outcome;
use super::{dashboards, directory, log};
use crate::progress::Step;
use crate::{chart, host};

/// The Debian package with promtool.
pub const PACKAGE: &str = "prometheus";

/// Runs all checks.
pub fn check(step: &Step) -> Result<Outcome> {
    let root = host::repo_root()?;
    let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"));
    let rules = fs::read_to_string(chart::directory()?.join("files/alerts.yaml")).context("there are no alerts")?;
    let tests = read("xtask/alerts/tests.yaml")?;
    complete(&rules, &tests, &read("docs/runbooks.md")?, &read("docs/operations.md")?)?;
    let folder = directory()?.join("alerts");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("alerts.yaml"), rules)?;
    fs::write(folder.join("tests.yaml"), tests)?;
    fs::write(folder.join("dashboards.yaml"), dashboards::rules()?)?;
    for arguments in
        [["check", "rules", "alerts.yaml"], ["test", "rules", "tests.yaml"], ["check", "rules", "dashboards.yaml"]]
    {
        let mut promtool = Command::new("promtool");
        step.run(promtool.args(arguments).current_dir(&folder), &log("promtool")?)?;
    }
    Ok(Outcome::Passed)
}

/// Every alert must have a runbook and a test in which it fires, and use documented metrics.
fn complete(rules: &str, tests: &str, runbooks: &str, metrics: &str) -> Result<()> {
    let names: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    if names.is_empty() {
        bail!("there is no alert");
    }
    for name in &names {
        if !runbooks.lines().any(|line| line.strip_prefix("## ") == Some(name)) {
            bail!("docs/runbooks.md has no section {name}");
        }
        if !rules.contains(&format!("docs/runbooks.md#{}\n", name.to_lowercase())) {
            bail!("{name} does not lead to its runbook");
        }
        if !tests.contains(&format!("alertname=\"{name}\"")) {
            bail!("xtask/alerts/tests.yaml has no test in which {name} fires");
        }
    }
    for section in runbooks.lines().filter_map(|line| line.strip_prefix("## ")) {
        if !names.contains(&section) {
            bail!("docs/runbooks.md tells of {section}, and there is no such alert");
        }
    }
    for alert in rules.split("- alert: ").skip(1) {
        same_reasons(alert, runbooks)?;
    }
    for metric in metrics_in(rules) {
        if !metrics.contains(&format!("`{metric}`")) {
            bail!("an alert asks for {metric}, which docs/operations.md does not know");
        }
    }
    Ok(())
}

/// An alert that asks for certain reasons must explain just these in the first column of its runbook's table.
fn same_reasons(alert: &str, runbooks: &str) -> Result<()> {
    let Some((_, asked)) = alert.split_once("reason=~\"") else { return Ok(()) };
    let asked: BTreeSet<&str> = asked.split('"').next().unwrap_or_default().split('|').collect();
    let name = alert.lines().next().unwrap_or_default();
    let section = runbooks.split("\n## ").find(|section| section.lines().next() == Some(name)).unwrap_or_default();
    let columns = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let explained: BTreeSet<&str> =
        columns.flat_map(|column| column.split("`, `")).map(|it| it.trim_end_matches('`')).collect();
    if let Some(reason) = asked.symmetric_difference(&explained).next() {
        bail!("of {name} and its runbook, only one knows the reason {reason}");
    }
    Ok(())
}

/// The metrics in alerts.
fn metrics_in(rules: &str) -> BTreeSet<&str> {
    let words = rules.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("causeway_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str =
        "- alert: CausewayIll\n  expr: max(causeway_ill) > 0\n  runbook_url: docs/runbooks.md#causewayill\n";
    const TESTS: &str = "exp_samples: [{ labels: '{alertname=\"CausewayIll\"}', value: 1 }]";
    const RUNBOOKS: &str = "# Runbooks\n\n## CausewayIll\n\nCall support.\n";
    const METRICS: &str = "| `causeway_ill` | |";

    #[test]
    fn what_an_alert_lacks_is_named() {
        complete(RULES, TESTS, RUNBOOKS, METRICS).unwrap();
        let why = |rules, tests, runbooks, metrics| {
            complete(rules, tests, runbooks, metrics).map_err(|error| error.to_string()).unwrap_err()
        };
        assert_eq!(why(RULES, TESTS, "", METRICS), "docs/runbooks.md has no section CausewayIll");
        assert_eq!(why(RULES, "", RUNBOOKS, METRICS), "xtask/alerts/tests.yaml has no test in which CausewayIll fires");
        assert_eq!(
            why(RULES, TESTS, RUNBOOKS, ""),
            "an alert asks for causeway_ill, which docs/operations.md does not know"
        );
        let more = [RUNBOOKS, "## CausewayGone\n"].concat();
        assert_eq!(
            why(RULES, TESTS, &more, METRICS),
            "docs/runbooks.md tells of CausewayGone, and there is no such alert"
        );
        let of_reasons = RULES.replace("causeway_ill)", "causeway_ill{reason=~\"Cold|Flu\"})");
        let explaining = |table: &str| [RUNBOOKS, "\n| reason |\n|---|\n", table].concat();
        complete(&of_reasons, TESTS, &explaining("| `Cold`, `Flu` | wait |\n"), METRICS).unwrap();
        for table in ["| `Cold` | wait |\n", "| `Cold`, `Flu` | wait |\n| `Old` | |\n"] {
            let error = complete(&of_reasons, TESTS, &explaining(table), METRICS).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("only one knows the reason"), "{text}");
        }
        assert_eq!(
            why(&RULES.replace("#causewayill", ""), TESTS, RUNBOOKS, METRICS),
            "CausewayIll does not lead to its runbook"
        );
    }
}
