//! What an `EtcdCluster` costs to create, and what two hundred idle ones cost. docs/benchmarks.md describes how each
//! figure is taken.

mod begin;

use anyhow::Result;
use serde_json::{Value, json};

use super::databases::{Database, idle};
use super::http::Http;
use super::report::Report;
use super::scene::Bench;
use crate::progress::Progress;

const ETCD: Database =
    Database { api: "mycompany.com/v1alpha1", kind: "EtcdCluster", plural: "etcdclusters", pods: "etcd" };

/// The port on which a member reports its health by plain HTTP.
const METRICS_PORT: u16 = 2381;

/// Takes all figures.
pub fn measure(bench: &Bench) -> Result<Report> {
    let mut steps = Progress::new(2);
    let mut report = Report::default();
    steps.step("From the apply to a majority", |step| begin::measure(bench, &mut report, step))?;
    let asked = idle::Asked { calls: "etcd_calls", served, asking: 0.0, others: |_, _| Ok(()) };
    steps.step(format!("{} idle clusters", idle::OBJECTS), |step| {
        idle::measure(bench, &mut report, step, (&ETCD, &spec(1)), &asked)
    })?;
    Ok(report)
}

/// A cluster with `replicas` members.
fn spec(replicas: usize) -> Value {
    json!({ "version": "3.5.9", "replicas": replicas, "storageSize": "1Gi" })
}

/// How many calls the members have answered so far, of all clients.
fn served(members: &[String]) -> Result<f64> {
    members.iter().try_fold(0.0, |sum, address| {
        let metrics = Http::new(&format!("http://{address}:{METRICS_PORT}")).get("/metrics")?;
        let counts = metrics.lines().filter(|line| line.starts_with("grpc_server_handled_total{"));
        Ok(sum + counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>())
    })
}
