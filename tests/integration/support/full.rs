//! The full example, and everything that its first lines ask for.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::Scene;
use super::backends::{endpoints, secret, service};
use super::certificates::{EXAMPLE_COM, import};
use crate::support::scene::{condition, is_ready};

/// The name of the object in the example.
pub const NAME: &str = "shop";
/// Address and port of the targets, by backend.
pub const TARGETS: [(&str, &str); 3] =
    [("api", "198.18.7.3:9000"), ("cart", "198.18.7.2:8080"), ("shop", "198.18.7.1:8080")];

/// Makes Services, Secret and certificate.
pub async fn stage(scene: &Scene) {
    service(scene, "shop", &[("", 80)]).await;
    endpoints(scene, "shop", &[("", 8080)], &["198.18.7.1"]).await;
    service(scene, "cart", &[("http", 80)]).await;
    endpoints(scene, "cart", &[("http", 8080)], &["198.18.7.2"]).await;
    service(scene, "api", &[("grpc", 9000)]).await;
    endpoints(scene, "api", &[("grpc", 9000)], &["198.18.7.3"]).await;
    secret(scene, "shop-login", "clientSecret", "s3cr3t").await;
    let certificates = scene.acm().list_certificates().send().await.expect("certificates");
    if certificates.certificate_summary_list().is_empty() {
        import(scene, EXAMPLE_COM).await;
    }
}

/// The example's spec; its user pool is one of the scene's account.
pub fn spec(scene: &Scene) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/myingress-full.yaml");
    let text = std::fs::read_to_string(path).expect("the example");
    let text = text.replace("000000000000", scene.emulator.account());
    let object: Value = serde_saphyr::from_str(&text).expect("a manifest");
    object["spec"].clone()
}

/// Creates the example on its stage, and waits until every target is healthy; returns the ARN of its balancer.
pub async fn created(scene: &Scene) -> String {
    stage(scene).await;
    scene.create::<MyIngress>(NAME, spec(scene)).await;
    complete(scene).await
}

/// Waits until the example is ready, with all its targets; returns the ARN of its balancer.
pub async fn complete(scene: &Scene) -> String {
    let object = scene.ingress(NAME, "the full example to be ready with healthy targets", is_complete).await;
    object.status.and_then(|status| status.alb).expect("a balancer").arn
}

/// Reports whether an object is ready, and every target of every backend is healthy.
pub fn is_complete(object: &MyIngress) -> bool {
    let status = object.status.clone().unwrap_or_default();
    is_ready(object) && condition(&status.conditions, "TargetsHealthy").is_some_and(|(status, ..)| status == "True")
}

/// The rules of the HTTPS listener in the spec, to be edited.
pub fn rules(spec: &mut Value) -> &mut Vec<Value> {
    spec["listeners"][1]["rules"].as_array_mut().expect("rules")
}

/// Puts a whole spec in place of the object's.
pub async fn replace(scene: &Scene, name: &str, spec: &Value) {
    let patch = json!([{ "op": "replace", "path": "/spec", "value": spec }]);
    let patch: kube::api::Patch<Value> = kube::api::Patch::Json(serde_json::from_value(patch).expect("a patch"));
    let api = scene.api::<MyIngress>();
    api.patch(name, &kube::api::PatchParams::default(), &patch).await.expect("the spec is accepted");
}
