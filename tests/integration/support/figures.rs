//! Counts of the last runs of the benchmarks, from docs/bench, which must not get worse. docs/benchmarks.md shows the
//! same.

use std::collections::BTreeMap;
use std::path::Path;

use causeway_runtime::metrics::Metrics;
use serde::Deserialize;

/// A figure of a benchmark.
#[derive(Deserialize)]
pub struct Figure {
    name: String,
    pub value: f64,
    /// Where the figure counts calls to AWS: how many of each operation.
    #[serde(default)]
    pub calls: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Record {
    figures: Vec<Figure>,
}

/// That figure of the benchmark's last run.
pub fn figure(benchmark: &str, name: &str) -> Figure {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/bench/{benchmark}.json"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let record: Record = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let found = record.figures.into_iter().find(|figure| figure.name == name);
    found.unwrap_or_else(|| panic!("{} has no {name}", path.display()))
}

/// How many calls there are of each operation.
pub fn counted(operations: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for operation in operations {
        *counts.entry(operation).or_default() += 1;
    }
    counts
}

/// Calls that a client has made so far to change something in Kubernetes.
pub fn kubernetes_writes(metrics: &Metrics) -> f64 {
    let text = metrics.encode().expect("metrics");
    let verbs = ["create", "update", "patch", "delete"];
    let counts = verbs.map(|verb| format!("causeway_kubernetes_calls_total{{verb=\"{verb}\""));
    let lines = text.lines().filter(|line| counts.iter().any(|count| line.starts_with(count)));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}
