//! A tenant who may write `ConfigMap`s writes large ones with our labels, to fill the operator's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use causeway_api::EtcdCluster;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tower::service_fn;

use crate::support::wait::wait_for;
use crate::support::{Operator, Scene};

/// `ConfigMap`s of the attacker's.
const MANY: usize = 5;
/// The size of each, in bytes.
const LARGE: usize = 900_000;

/// A client that counts the bytes in answers about `ConfigMap`s.
fn counting(inner: &Client, counted: &Arc<AtomicUsize>) -> Client {
    let (asked, counted) = (inner.clone(), counted.clone());
    let ask = move |request: http::Request<kube::client::Body>| {
        let (asked, counted) = (asked.clone(), counted.clone());
        async move {
            let of_config_maps = request.uri().path().contains("/configmaps");
            let answer = asked.send(request).await?;
            Ok::<_, kube::Error>(answer.map(move |body| {
                body.map_frame(move |frame| {
                    let bytes = frame.data_ref().filter(|_| of_config_maps).map_or(0, bytes::Bytes::len);
                    counted.fetch_add(bytes, Ordering::Relaxed);
                    frame
                })
            }))
        }
    };
    Client::new(service_fn(ask), inner.default_namespace().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_config_maps_with_our_labels_are_not_read() {
    let scene = Scene::new("security-memory").await;
    let api = scene.api::<ConfigMap>();
    for number in 0..MANY {
        let labels = json!({
            "causeway.example.com/redis": "cache", "causeway.example.com/etcd": "cache", "causeway.example.com/backup": "cache",
        });
        let metadata = json!({ "name": format!("large-{number}"), "labels": labels });
        let object = json!({ "metadata": metadata, "data": { "x": "x".repeat(LARGE) } });
        let object: ConfigMap = serde_json::from_value(object).expect("a ConfigMap");
        api.create(&PostParams::default(), &object).await.expect("the ConfigMap is taken");
    }
    let received = Arc::new(AtomicUsize::new(0));
    let client = counting(&Operator::client().await, &received);
    let _operator = Operator::start_with(&scene, client, scene.aws.clone(), Duration::from_secs(2));
    scene.create::<EtcdCluster>("cache", json!({ "version": "3.5.9", "replicas": 1 })).await;
    let ready = || async { scene.api::<EtcdCluster>().get("cache").await.expect("the object") };
    let is_ready = |object: &EtcdCluster| {
        let conditions = object.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    wait_for("an etcd with ConfigMaps of its labels beside it", ready, is_ready).await;
    // Changes are watched by metadata alone, too. Our own `ConfigMap` is read by its name, and put right.
    let more = json!({ "metadata": { "annotations": { "again": "x" } } });
    api.patch("large-0", &PatchParams::default(), &Patch::Merge(&more)).await.expect("the change is taken");
    let wrong = json!({ "data": { "ETCD_DATA_DIR": "/tmp" } });
    api.patch("cache", &PatchParams::default(), &Patch::Merge(&wrong)).await.expect("the change is taken");
    let settings = || async { api.get("cache").await.expect("the ConfigMap").data.unwrap_or_default() };
    let right = |data: &std::collections::BTreeMap<String, String>| data["ETCD_DATA_DIR"].contains("/var/lib/etcd");
    wait_for("the settings to be put right", settings, right).await;
    let received = received.load(Ordering::Relaxed);
    println!("» of {} bytes in ConfigMaps with our labels the operator received {received}", MANY * LARGE);
    assert!(received > 0 && received < LARGE, "{received} bytes");
}
