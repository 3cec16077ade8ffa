//! Objects of the cluster with only the fields that matter. The rest is not even parsed: tenants may make it large, and
//! there are values in it that no type holds, such as times far ahead in managed fields.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;
use serde::{Deserialize, Deserializer};

#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = "core::Service")]
pub struct LeanService {
    #[serde(deserialize_with = "identity")]
    metadata: ObjectMeta,
    #[serde(default)]
    pub spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    #[serde(rename = "type")]
    pub type_: Option<String>,
    pub ip_families: Option<Vec<String>>,
    pub ports: Option<Vec<ServicePort>>,
    pub publish_not_ready_addresses: Option<bool>,
    pub external_traffic_policy: Option<String>,
    pub selector: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    pub name: Option<String>,
    pub port: i64,
    pub target_port: Option<IntOrString>,
    pub node_port: Option<i64>,
    pub protocol: Option<String>,
}

/// A slice of a Service's endpoints.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = "discovery::EndpointSlice")]
#[serde(rename_all = "camelCase")]
pub struct LeanSlice {
    #[serde(deserialize_with = "identity_and_labels")]
    pub metadata: ObjectMeta,
    pub address_type: String,
    pub ports: Option<Vec<EndpointPort>>,
    pub endpoints: Option<Vec<Endpoint>>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct EndpointPort {
    pub name: Option<String>,
    pub port: Option<i64>,
    pub protocol: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    pub addresses: Option<Vec<String>>,
    pub conditions: Option<EndpointConditions>,
    pub node_name: Option<String>,
    pub target_ref: Option<Reference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct EndpointConditions {
    pub ready: Option<bool>,
    pub terminating: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Reference {
    pub kind: Option<String>,
    pub name: Option<String>,
    pub uid: Option<String>,
}

#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = "core::Pod")]
pub struct LeanPod {
    #[serde(deserialize_with = "identity")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpec,
    #[serde(default)]
    pub status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    pub readiness_gates: Option<Vec<ReadinessGate>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessGate {
    pub condition_type: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodStatus {
    pub phase: Option<String>,
    #[serde(rename = "podIPs")]
    pub addresses: Option<Vec<PodAddress>>,
    pub conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PodAddress {
    #[serde(default)]
    pub ip: String,
}

/// A condition of a pod or a node.
#[derive(Clone, Debug, Deserialize)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
}

#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = "core::Node")]
pub struct LeanNode {
    #[serde(deserialize_with = "identity_and_labels")]
    metadata: ObjectMeta,
    #[serde(default)]
    pub spec: NodeSpec,
    #[serde(default)]
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeSpec {
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    pub taints: Option<Vec<Taint>>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Taint {
    pub key: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeStatus {
    pub conditions: Option<Vec<Condition>>,
}

/// The metadata that identify an object and its version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
}

impl From<Identity> for ObjectMeta {
    fn from(identity: Identity) -> Self {
        Self {
            name: identity.name,
            namespace: identity.namespace,
            uid: identity.uid,
            resource_version: identity.resource_version,
            deletion_timestamp: identity.deletion_timestamp,
            labels: identity.labels,
            ..Self::default()
        }
    }
}

fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Ok(ObjectMeta { labels: None, ..identity_and_labels(deserializer)? })
}

fn identity_and_labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Identity::deserialize(deserializer).map(Into::into)
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_large_or_strange_that_is_not_needed_is_parsed() {
        let strange = json!({
            "name": "a", "namespace": "shop", "annotations": 5, "labels": { "a": "b" }, "ownerReferences": "x",
            "managedFields": [{ "time": "9999-12-31T23:59:59Z" }],
        });
        let pod = json!({ "metadata": strange, "spec": { "containers": 7 }, "status": { "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "9999-12-31T23:59:59Z" },
        ] } });
        let pod: LeanPod = serde_json::from_value(pod).expect("a pod");
        assert_eq!((pod.name_any().as_str(), pod.labels().len()), ("a", 0));
        let slice = json!({ "metadata": strange, "addressType": "IPv4", "ports": null, "endpoints": null });
        let slice: LeanSlice = serde_json::from_value(slice).expect("a slice");
        assert_eq!((slice.namespace().as_deref(), slice.labels().len()), (Some("shop"), 1));
        let service = json!({ "metadata": strange, "spec": { "selector": {}, "ports": null }, "status": 5 });
        serde_json::from_value::<LeanService>(service).expect("a Service");
    }
}
