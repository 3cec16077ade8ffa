//! Runs the queries of the chart's dashboards in a real Prometheus, which scrapes the installed operator from its first
//! minute on. Draws the pictures in docs/dashboards.md from the answers.

mod scene;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use super::Local;
use super::install::NAMESPACE;
use crate::dashboards::{self, Prometheus};
use crate::progress::Step;
use crate::test::alerts::metrics_in;

/// The account with which Prometheus reads metrics.
const ACCOUNT: &str = "prometheus";
/// A rate needs two scrapes, and a scrape of a busy machine may be late.
const LIMIT: Duration = Duration::from_mins(5);

/// The operator while Prometheus scrapes it.
pub struct Watched<'a> {
    local: &'a Local<'a>,
    prometheus: Prometheus<'a>,
    /// Whether to draw pictures.
    draws: bool,
}

impl<'a> Watched<'a> {
    /// Starts to scrape. The operator must be installed.
    pub fn begin(local: &'a Local<'a>, step: &Step) -> Result<Self> {
        let draws = std::env::var_os(dashboards::WRITE).is_some_and(|it| it == "1");
        if draws {
            scene::prepare(local, step)?;
        }
        let prometheus = Prometheus::start(local.cluster, &targets(local)?, &account(local)?)?;
        Ok(Self { local, prometheus, draws })
    }

    /// Every panel's query must be valid. Each query about what a working operator always counts must return something.
    /// Draws pictures on request.
    pub fn end(self, step: &Step) -> Result<()> {
        self.has_scraped_twice(step)?;
        let ask = |query: &str| self.prometheus.values(query);
        for query in dashboards::queries()? {
            step.wait_for(format!("an answer to {query}"), LIMIT, || {
                let found = ask(&query)?;
                if found.is_empty() && !may_be_empty(&query, |metric| ask(&format!("count({metric})")))? {
                    bail!("Prometheus finds nothing, though the operator has that metric");
                }
                Ok(Some(()))
            })?;
        }
        if self.draws {
            scene::play(self.local, step)?;
            for path in self.draw()? {
                step.note(format!("wrote {}", path.display()));
            }
            scene::clear(self.local, step)?;
        }
        Ok(())
    }

    fn has_scraped_twice(&self, step: &Step) -> Result<()> {
        step.wait_for("Prometheus to have scraped the operator twice", LIMIT, || {
            let scraped = "min(count_over_time(up{job=\"causeway\"}[1m]) and up{job=\"causeway\"} == 1)";
            let counts = self.prometheus.values(scraped)?;
            Ok(counts.iter().any(|text| text.parse().is_ok_and(|count: f64| count >= 2.0)).then_some(()))
        })
    }

    fn draw(&self) -> Result<Vec<PathBuf>> {
        dashboards::draw(&self.prometheus)
    }
}

/// Whether an empty answer is correct: the query is only about failures or warnings, or about something that was never
/// counted.
fn may_be_empty(query: &str, mut count: impl FnMut(&str) -> Result<Vec<String>>) -> Result<bool> {
    if query.contains("!=") || query.contains("type=\"Warning\"") {
        return Ok(true);
    }
    for metric in metrics_in(query) {
        if count(metric)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates an account that may read metrics, as docs/operations.md describes. Returns its token.
fn account(local: &Local<'_>) -> Result<String> {
    let objects = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": ACCOUNT, "namespace": "default" } },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "causeway-metrics-reader" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "causeway-metrics-reader" },
            "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default" }],
        },
    ]});
    local.kubectl.feed(&["apply", "-f", "-"], &objects.to_string())?;
    local.kubectl.run(&["-n", "default", "create", "token", ACCOUNT, "--duration=1h"])
}

/// The addresses of the metrics of the operator's pods.
fn targets(local: &Local<'_>) -> Result<Vec<String>> {
    let label = "--selector=app.kubernetes.io/name=causeway";
    let addresses = "--output=jsonpath={.items[*].status.podIP}";
    let found = local.kubectl.run(&["-n", NAMESPACE, "get", "pods", label, addresses])?;
    Ok(found.split_whitespace().map(|address| format!("{address}:8443")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_an_answer_where_only_failures_are_asked_for_or_nothing_was_counted() -> Result<()> {
        let counted = |_: &str| Ok(vec!["1".to_owned()]);
        let never = |_: &str| Ok(Vec::new());
        assert!(!may_be_empty("max by (lease) (causeway_leader)", counted)?);
        assert!(may_be_empty("max by (lease) (causeway_leader)", never)?);
        assert!(may_be_empty("sum(rate(causeway_aws_calls_total{outcome!=\"ok\"}[15s]))", counted)?);
        Ok(())
    }
}
