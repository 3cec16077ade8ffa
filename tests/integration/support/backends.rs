//! Services for balancers to forward to. Their endpoints are written by hand: no pod has to start.

use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::Scene;

/// A Service without a selector, with these ports as (name, number). A name may be empty where there is only one port.
pub async fn service(scene: &Scene, name: &str, ports: &[(&str, u16)]) {
    let ports: Vec<Value> = ports.iter().map(|(name, number)| json!({ "name": name, "port": number })).collect();
    apply_service(scene, name, json!({ "ports": ports })).await;
}

/// A Service with this spec.
pub async fn apply_service(scene: &Scene, name: &str, spec: Value) {
    let object = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": name }, "spec": spec });
    let api = scene.api::<Service>();
    api.patch(name, &PatchParams::apply("test"), &Patch::Apply(&object)).await.expect("the Service is taken");
}

/// Removes a Service, with the endpoints that bear its name.
pub async fn remove_service(scene: &Scene, name: &str) {
    scene.api::<Service>().delete(name, &DeleteParams::default()).await.expect("the Service goes");
}

/// Makes these addresses the Service's endpoints, all ready, on these ports as (name, number).
pub async fn endpoints(scene: &Scene, service: &str, ports: &[(&str, u16)], addresses: &[&str]) {
    let ports: Vec<Value> =
        ports.iter().map(|(name, number)| json!({ "name": name, "port": number, "protocol": "TCP" })).collect();
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| json!({ "addresses": [address], "conditions": { "ready": true } })).collect();
    let name = format!("{service}-by-hand");
    let object = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
    });
    let api = scene.api::<EndpointSlice>();
    let force = PatchParams::apply("test").force();
    api.patch(&name, &force, &Patch::Apply(&object)).await.expect("the endpoints are taken");
}

/// The label by which a Secret may be used by each of our kinds.
pub const USABLE_BY_ALL: &str = "myingress.redis.etcdcluster.databasebackup.databaserestore";

/// A Secret with one key that all our kinds may use.
pub async fn secret(scene: &Scene, name: &str, key: &str, value: &str) {
    let metadata = json!({ "name": name, "labels": { "causeway.example.com/usable-by": USABLE_BY_ALL } });
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": { key: value },
    });
    let force = PatchParams::apply("test").force();
    scene.api::<Secret>().patch(name, &force, &Patch::Apply(&object)).await.expect("the Secret is taken");
}
