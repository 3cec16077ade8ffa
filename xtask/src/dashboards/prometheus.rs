//! A real Prometheus in the cluster's network, and its answers.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::series::{self, Series, Span};
use crate::cluster::Cluster;
use crate::images::operator;
use crate::tools;

/// The address of Prometheus in the cluster's network.
const ADDRESS: &str = "127.0.0.1:19090";
/// Points of a picture: enough to see changes, and few enough for a small file.
const POINTS: i64 = 150;

/// A Prometheus that scrapes every second. It ends when this is dropped.
pub struct Prometheus<'a> {
    cluster: &'a Cluster,
    process: Child,
    folder: PathBuf,
    begun: i64,
}

impl<'a> Prometheus<'a> {
    /// Scrapes programs at those addresses over TLS with that token.
    pub fn start(cluster: &'a Cluster, targets: &[String], token: &str) -> Result<Self> {
        let folder = operator::target_directory()?.join("dashboards");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file_of_token = folder.join("token");
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file_of_token)?;
        std::io::Write::write_all(&mut file, token.trim().as_bytes())?;
        fs::write(folder.join("prometheus.yml"), configuration(targets, &file_of_token).to_string())?;
        let mut prometheus: Command = cluster.in_network("prometheus");
        let process = prometheus
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={ADDRESS}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("prometheus.log"))?)
            .spawn()
            .context("cannot start prometheus")?;
        Ok(Self { cluster, process, folder, begun: Timestamp::now().as_second() })
    }

    /// The span of all scrapes.
    pub fn span_until_now(&self) -> Span {
        Span::of_points(self.begun, Timestamp::now().as_second(), POINTS)
    }

    /// The present values of a query. An invalid query is an error.
    /// <https://prometheus.io/docs/prometheus/2.42/querying/api/#instant-queries>
    pub fn values(&self, query: &str) -> Result<Vec<String>> {
        let results = self.ask("query", &[("query", query)])?;
        Ok(results.iter().filter_map(|result| result["value"][1].as_str().map(str::to_owned)).collect())
    }

    /// The values of a query over a span of time.
    /// <https://prometheus.io/docs/prometheus/2.42/querying/api/#range-queries>
    pub fn series(&self, query: &str, span: Span) -> Result<Vec<Series>> {
        let [from, to, step] = [span.from, span.to, span.step].map(|it| it.to_string());
        let results = self.ask("query_range", &[("query", query), ("start", &from), ("end", &to), ("step", &step)])?;
        series::series_in(&results).with_context(|| query.to_owned())
    }

    fn ask(&self, what: &str, options: &[(&str, &str)]) -> Result<Vec<Value>> {
        let mut curl = self.cluster.in_network("curl");
        curl.args(["--silent", "--show-error", "--get"]);
        for (name, value) in options {
            curl.arg("--data-urlencode").arg(format!("{name}={value}"));
        }
        curl.arg(format!("http://{ADDRESS}/api/v1/{what}"));
        let answer = serde_json::from_str(&tools::output_of(&mut curl)?).context("Prometheus answers with JSON")?;
        results_in(answer).with_context(|| options.first().map_or_else(String::new, |(_, query)| (*query).to_owned()))
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        // It may have ended by itself; its log says why.
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Only the log stays.
        let _ = fs::remove_file(self.folder.join("token"));
    }
}

fn results_in(mut answer: Value) -> Result<Vec<Value>> {
    if answer["status"] != "success" {
        bail!("{}", answer["error"]);
    }
    match answer["data"]["result"].take() {
        Value::Array(results) => Ok(results),
        other => bail!("no list of results, but {other}"),
    }
}

/// The configuration as JSON, which is also YAML.
/// <https://prometheus.io/docs/prometheus/2.42/configuration/configuration/>
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
    fn a_query_that_is_not_understood_is_an_error() {
        let refused = json!({ "status": "error", "error": "parse error" });
        assert!(results_in(refused).unwrap_err().to_string().contains("parse error"));
        let answered =
            json!({ "status": "success", "data": { "resultType": "vector", "result": [{ "value": [1, "2"] }] } });
        assert_eq!(results_in(answered).unwrap().len(), 1);
    }
}
