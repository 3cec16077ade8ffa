//! The questions of the chart's dashboards, put to a real Prometheus that scrapes the installed operator.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Local;
use super::install::NAMESPACE;
use crate::images::operator;
use crate::progress::Step;
use crate::test::alerts::metrics_in;
use crate::{chart, tools};

/// Where Prometheus listens, in the cluster's network.
const ADDRESS: &str = "127.0.0.1:19090";
/// What Grafana puts in place of `$__rate_interval`, for scrapes each second.
const RATE_INTERVAL: &str = "15s";
/// The account by which Prometheus reads metrics.
const ACCOUNT: &str = "prometheus";
/// Two scrapes make a rate.
const LIMIT: Duration = Duration::from_mins(1);

/// Every panel's query is understood, and each one that asks for what an operator at work always counts finds something.
pub fn find_what_they_show(local: &Local<'_>, step: &Step) -> Result<()> {
    let queries = queries()?;
    let _prometheus = Prometheus::start(local)?;
    let ask = |query: &str| answer(local, query);
    step.wait_for("Prometheus to have scraped the operator twice", LIMIT, || {
        let scraped = ask("min(count_over_time(up{job=\"causeway\"}[1m]) and up{job=\"causeway\"} == 1)")?;
        Ok(scraped.iter().any(|text| text.parse().is_ok_and(|count: f64| count >= 2.0)).then_some(()))
    })?;
    for query in &queries {
        step.note(query.clone());
        let found = ask(query)?;
        if found.is_empty() && !may_be_empty(query, |metric| ask(&format!("count({metric})")))? {
            bail!("a dashboard asks for {query}, and Prometheus finds nothing, though the operator has that metric");
        }
    }
    Ok(())
}

/// The queries of all panels.
fn queries() -> Result<Vec<String>> {
    let folder = chart::directory()?.join("files/dashboards");
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let dashboard = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        queries_in(&dashboard, &mut found);
    }
    if found.is_empty() {
        bail!("{} has no dashboard with a query", folder.display());
    }
    Ok(found)
}

fn queries_in(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(query) = fields.get("expr").and_then(Value::as_str) {
                found.push(query.replace("$__rate_interval", RATE_INTERVAL));
            }
            fields.values().for_each(|value| queries_in(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| queries_in(value, found)),
        _ => {}
    }
}

/// Whether nothing is a good answer: the query asks for failures or warnings alone, or for what was never counted yet.
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

/// The values that Prometheus finds now. A query that it does not understand is an error.
/// <https://prometheus.io/docs/prometheus/2.42/querying/api/#instant-queries>
fn answer(local: &Local<'_>, query: &str) -> Result<Vec<String>> {
    let url = format!("http://{ADDRESS}/api/v1/query");
    let mut curl = local.cluster.in_network("curl");
    curl.args(["--silent", "--show-error", "--get", "--data-urlencode", &format!("query={query}"), &url]);
    let answer: Value = serde_json::from_str(&tools::output_of(&mut curl)?).context("Prometheus answers with JSON")?;
    if answer["status"] != "success" {
        bail!("{query}: {}", answer["error"]);
    }
    let results = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    Ok(results.iter().filter_map(|result| result["value"][1].as_str().map(str::to_owned)).collect())
}

/// A Prometheus that ends with this.
struct Prometheus {
    process: Child,
    folder: PathBuf,
}

impl Prometheus {
    fn start(local: &Local<'_>) -> Result<Self> {
        let folder = operator::target_directory()?.join("dashboards");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let token = folder.join("token");
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&token)?;
        std::io::Write::write_all(&mut file, account(local)?.trim().as_bytes())?;
        fs::write(folder.join("prometheus.yml"), configuration(&targets(local)?, &token).to_string())?;
        let mut prometheus: Command = local.cluster.in_network("prometheus");
        let process = prometheus
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={ADDRESS}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("prometheus.log"))?)
            .spawn()
            .context("cannot start prometheus")?;
        Ok(Self { process, folder })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself; then its log says why.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The log stays.
        let _ = fs::remove_file(self.folder.join("token"));
    }
}

/// An account that may read metrics, as docs/operations.md tells users to make it. Returns a token of it.
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
    local.kubectl.run(&["-n", "default", "create", "token", ACCOUNT, "--duration=10m"])
}

/// Where the operator's pods tell of themselves.
fn targets(local: &Local<'_>) -> Result<Vec<String>> {
    let label = "--selector=app.kubernetes.io/name=causeway";
    let addresses = "--output=jsonpath={.items[*].status.podIP}";
    let found = local.kubectl.run(&["-n", NAMESPACE, "get", "pods", label, addresses])?;
    Ok(found.split_whitespace().map(|address| format!("{address}:8443")).collect())
}

/// JSON is YAML, too. <https://prometheus.io/docs/prometheus/2.42/configuration/configuration/>
fn configuration(targets: &[String], token: &Path) -> Value {
    json!({
        "global": { "scrape_interval": "1s" },
        "scrape_configs": [{
            "job_name": "causeway",
            "scheme": "https",
            "tls_config": { "insecure_skip_verify": true },
            "authorization": { "credentials_file": token },
            "static_configs": [{ "targets": targets }],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dashboard_has_queries() -> Result<()> {
        let queries = queries()?;
        assert!(queries.len() > 20 && queries.iter().all(|query| !query.contains('$')), "{queries:#?}");
        Ok(())
    }

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
