//! Measures the time from the apply until a majority answers, in comparison with the same pods without an operator.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{ETCD, METRICS_PORT, spec};
use crate::bench::databases::{DATABASE_TIMEOUT, addresses, is_ready, says};
use crate::bench::http::Http;
use crate::bench::report::Report;
use crate::bench::scene::{Bench, Scene};
use crate::progress::Step;

const ROUNDS: usize = 5;
const NAME: &str = "db";
/// The StatefulSet of the same pods, with settings written by hand.
const BARE: &str = "bare";
const SETS: &str = "/apis/apps/v1";

pub fn measure(bench: &Bench, report: &mut Report, step: &Step) -> Result<()> {
    for (index, replicas) in [(1, 1), (2, 3)] {
        step.note(format!("{replicas} members"));
        let (mut with, mut without) = (Vec::new(), Vec::new());
        // The first round opens connections and unpacks the image, so it is not counted.
        for round in 0..=ROUNDS {
            let scene = bench.scene(10 * index + u64::try_from(round)?, 0)?;
            let set = cluster(&scene, replicas, &mut with)?;
            let set = bare(&set, scene.namespace(), replicas);
            scene.apply_other("/api/v1", "services", &peers())?;
            let begun = Instant::now();
            scene.apply_other(SETS, "statefulsets", &set)?;
            answered(&scene, step)?;
            without.push(begun.elapsed());
            scene.end()?;
        }
        with.remove(0);
        without.remove(0);
        let how = "server-side apply to the condition Quorate in a watch";
        let with = report.add_median(&format!("apply_to_quorate_ms_p50_{replicas}"), &mut with, how);
        let how = "the same pods as a StatefulSet alone: to the first /health that is good";
        let without = report.add_median(&format!("bare_pods_to_quorate_ms_p50_{replicas}"), &mut without, how);
        report.add(&format!("apply_to_quorate_by_bare_ratio_{replicas}"), with / without, "");
    }
    Ok(())
}

/// Creates a cluster, records how long it took, and deletes the cluster. Returns the StatefulSet of its pods.
fn cluster(scene: &Scene, replicas: usize, took: &mut Vec<Duration>) -> Result<Value> {
    let mut operator = scene.operator("1h")?;
    operator.ready()?;
    let watch = ETCD.watch(scene)?;
    let begun = Instant::now();
    ETCD.apply(scene, NAME, spec(replicas))?;
    let mut quorate = None;
    watch.until("all members to be ready", DATABASE_TIMEOUT, |event| {
        if says(event, "Quorate") {
            quorate.get_or_insert(event.at);
        }
        is_ready(event)
    })?;
    took.push(quorate.context("it is ready without a majority")?.duration_since(begun));
    let set = scene.get_other(SETS, &format!("statefulsets/{NAME}"))?;
    scene.delete_other(&ETCD.path(), &format!("{}/{NAME}", ETCD.plural))?;
    watch.until("the cluster to be gone", DATABASE_TIMEOUT, |event| event.deleted)?;
    operator.stop()?;
    Ok(set)
}

/// The StatefulSet with another name, and with settings that need no operator.
fn bare(set: &Value, namespace: &str, replicas: usize) -> Value {
    let labels = json!({ "app": BARE });
    let host = |name: &str| format!("http://{name}.{BARE}.{namespace}.svc");
    let members: Vec<String> =
        (0..replicas).map(|n| format!("{BARE}-{n}={}:2380", host(&format!("{BARE}-{n}")))).collect();
    let mut template = set["spec"]["template"]["spec"].clone();
    template["containers"][0]["env"] = json!([
        { "name": "ETCD_NAME", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
        { "name": "ETCD_DATA_DIR", "value": "/var/lib/etcd/data" },
        { "name": "ETCD_LISTEN_PEER_URLS", "value": "http://0.0.0.0:2380" },
        { "name": "ETCD_LISTEN_CLIENT_URLS", "value": "http://0.0.0.0:2379" },
        { "name": "ETCD_LISTEN_METRICS_URLS", "value": "http://0.0.0.0:2381" },
        { "name": "ETCD_INITIAL_ADVERTISE_PEER_URLS", "value": format!("{}:2380", host("$(ETCD_NAME)")) },
        { "name": "ETCD_ADVERTISE_CLIENT_URLS", "value": format!("{}:2379", host("$(ETCD_NAME)")) },
        { "name": "ETCD_INITIAL_CLUSTER", "value": members.join(",") },
    ]);
    let mut claim = set["spec"]["volumeClaimTemplates"][0].clone();
    claim["metadata"] = json!({ "name": claim["metadata"]["name"] });
    claim["status"] = Value::Null;
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": { "name": BARE },
        "spec": {
            "replicas": replicas,
            "serviceName": BARE,
            "podManagementPolicy": "Parallel",
            "persistentVolumeClaimRetentionPolicy": { "whenDeleted": "Delete", "whenScaled": "Retain" },
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": template },
            "volumeClaimTemplates": [claim],
        },
    })
}

fn peers() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": BARE },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": { "app": BARE },
            "ports": [{ "name": "peer", "port": 2380 }],
        },
    })
}

/// Waits until a member has a leader.
fn answered(scene: &Scene, step: &Step) -> Result<()> {
    let health = |address: &String| Http::new(&format!("http://{address}:{METRICS_PORT}")).get_json("/health");
    step.wait_for("a majority of bare pods", DATABASE_TIMEOUT, || {
        let pods = addresses(scene, &format!("app%3D{BARE}"))?;
        let good = pods.iter().any(|pod| health(pod).is_ok_and(|health| health["health"] == "true"));
        Ok(good.then_some(()))
    })
    .context("the pods that nobody looks after")
}
