//! The queries of the chart's dashboards, as rules that promtool can check.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::chart;

/// Replaces Grafana's `$__rate_interval`.
const RATE_INTERVAL: &str = "1m";

/// A file of rules for Prometheus, with one rule for each query of a panel. JSON is YAML.
pub fn rules() -> Result<String> {
    let rules = queries()?.into_iter().enumerate().map(|(index, query)| {
        // Prometheus refuses two rules that are equal.
        json!({ "record": "panel", "labels": { "index": index.to_string() }, "expr": query })
    });
    Ok(json!({ "groups": [{ "name": "dashboards", "rules": rules.collect::<Vec<_>>() }] }).to_string())
}

/// The queries of all panels.
fn queries() -> Result<Vec<String>> {
    let folder = chart::directory()?.join("files/dashboards");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let dashboard: Value =
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let panels = dashboard["panels"].as_array().into_iter().flatten();
        for target in panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten()) {
            let query =
                target["expr"].as_str().with_context(|| format!("{} has a panel without a query", path.display()))?;
            found.push(query.replace("$__rate_interval", RATE_INTERVAL));
        }
    }
    if found.is_empty() {
        bail!("{} has no dashboard with a panel", folder.display());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_query_has_a_variable_of_grafana() -> Result<()> {
        let queries = queries()?;
        // "$1" is label_replace's own.
        let has_variable = |query: &String| query.replace("\"$1\"", "").contains('$');
        assert!(queries.len() > 20 && !queries.iter().any(has_variable), "{queries:#?}");
        Ok(())
    }

    /// Prometheus renames labels that its targets have, too, unless it honours those of a metric:
    /// <https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config>
    #[test]
    fn queries_use_the_names_of_labels_that_prometheus_renamed() -> Result<()> {
        let mut asked = 0;
        for query in queries()? {
            let labels = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
            let labels: BTreeSet<&str> = labels.flat_map(|list| list.split(", ")).collect();
            for label in ["namespace", "service", "pod", "container", "endpoint", "instance", "job"] {
                if labels.contains(label) {
                    asked += 1;
                    assert!(query.contains(&format!("\"{label}\", \"$1\", \"exported_{label}\", \"(.+)\"")), "{query}");
                }
            }
        }
        assert!(asked > 1, "no query is by such a label");
        Ok(())
    }
}
