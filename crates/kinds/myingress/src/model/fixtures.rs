//! Objects for tests.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use causeway_api::{MyIngress, MyIngressSpec};

use super::build::Secrets;
use super::{Built, Inputs, Limits, Model, build};
use crate::members::occupied::Occupied;
use crate::ownership::Owner;

/// The example that people start from.
pub const FULL: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/myingress-full.yaml"));

/// An object with this spec in the namespace `shop`, created at this second.
pub fn born(name: &str, second: i64, spec: Value) -> MyIngress {
    let spec: MyIngressSpec = serde_json::from_value(spec).unwrap();
    let born = jiff::Timestamp::from_second(second).unwrap();
    let metadata = ObjectMeta {
        name: Some(name.into()),
        namespace: Some("shop".into()),
        uid: Some(format!("uid-{name}")),
        creation_timestamp: Some(Time(born)),
        ..ObjectMeta::default()
    };
    MyIngress { metadata, spec, status: None }
}

/// An object that has subnets, and what `more` says.
pub fn standing(name: &str, more: Value) -> MyIngress {
    let mut spec = json!({ "subnets": ["subnet-a", "subnet-b"] });
    merge(&mut spec, more);
    born(name, 0, spec)
}

/// A member of the group `all` that does not say where the balancer stands.
pub fn joining(name: &str, more: Value) -> MyIngress {
    let mut spec = json!({ "group": { "name": "all" } });
    merge(&mut spec, more);
    born(name, 0, spec)
}

/// A member of the group `all` in the namespace `guests`, which is not the group's own.
pub fn guest(name: &str, second: i64, more: Value) -> MyIngress {
    let mut spec = json!({ "group": { "name": "all", "namespace": "shop" } });
    merge(&mut spec, more);
    let mut object = born(name, second, spec);
    object.metadata.namespace = Some("guests".into());
    object
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// A log-in, whose Secret is among [`secrets`].
pub fn oidc() -> Value {
    json!({
        "issuer": "https://i.example.com",
        "authorizationEndpoint": "https://i.example.com/a",
        "tokenEndpoint": "https://i.example.com/t",
        "userInfoEndpoint": "https://i.example.com/u",
        "clientId": "shop",
        "clientSecretName": "shop-login",
    })
}

/// The secrets that the objects here name.
pub fn secrets() -> Secrets {
    let place = |key: &str| ("shop".into(), "shop-login".into(), key.into());
    Secrets::from([(place("clientSecret"), "s3cr3t".into()), (place("broken"), "s3cr3t\n".into())])
}

/// The group `all` as an owner.
pub fn owner() -> Owner {
    let (cluster, namespace, name, uid) = ("prod".into(), "shop".into(), "all".into(), "uid-all".into());
    Owner { cluster, namespace, name, uid }
}

/// Builds the model of these objects, in this order.
pub fn built(members: &[&MyIngress]) -> Built {
    let (owner, secrets, limits, occupied) = (owner(), secrets(), Limits::default(), Occupied::default());
    let inputs = Inputs { owner: &owner, secrets: &secrets, limits: &limits, certificates: None, occupied: &occupied };
    build(members, &inputs)
}

/// The state that AWS should have for this one object.
pub fn model(spec: Value) -> Model {
    let built = built(&[&standing("web", spec)]);
    assert!(built.complaints.is_empty(), "{:?}", built.complaints);
    built.model.unwrap()
}

/// Reason and text of the complaint about this one object.
pub fn complaint(spec: Value) -> (&'static str, String) {
    let built = built(&[&standing("web", spec)]);
    assert_eq!(built.model, None);
    let (_, complaint) = built.complaints.into_iter().next().unwrap();
    (complaint.reason, complaint.message)
}

/// The text of the complaint about the first member called `name`, or nothing.
pub fn describe(built: &Built, name: &str) -> String {
    let mut complaints = built.complaints.iter().filter(|((_, it), _)| it == name);
    let complaint = complaints.next().map(|(_, complaint)| complaint);
    complaint.map(|complaint| complaint.message.clone()).unwrap_or_default()
}
