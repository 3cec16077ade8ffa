//! Whom a Service leads to.
//!
//! Kubernetes leaves a Service without selector alone: what it wrote before stays, and an Endpoints object of its name is
//! mirrored.
//! <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslice/endpointslice_controller.go> and
//! <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go>

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::super::facts::Pod;
use super::super::names::{self, PORT, SLICER};
use crate::api::Redis;
use crate::runtime::manifest::Manifest;
use crate::stateful::builders::metadata;

/// Label of slices: their Service.
const SERVICE: &str = "kubernetes.io/service-name";
/// Label of slices: who writes them.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Who writes those of Services with a selector, and those that mirror Endpoints.
const OF_KUBERNETES: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
/// Addresses unless others are known.
const USUAL: &str = "IPv4";

/// A way to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Where it answers.
    pub address: String,
    /// Its pod.
    pub pod: String,
    /// The pod's uid: the address may be another pod's by now.
    pub uid: String,
    /// The node of Kubernetes that it is on.
    pub node: Option<String>,
}

impl Way {
    /// The way to a pod, if it has an address.
    pub fn to(pod: &Pod) -> Option<Self> {
        let (pod_name, uid, node) = (pod.name.clone(), pod.uid.clone(), pod.own.host.clone());
        Some(Self { address: pod.address.clone()?, pod: pod_name, uid, node })
    }

    /// Whether it leads to that pod, and still does.
    pub fn leads_to(&self, pod: &Pod) -> bool {
        self.uid == pod.uid && Some(&self.address) == pod.address.as_ref()
    }
}

/// The family of an address.
pub fn family_of(address: Option<&str>) -> &'static str {
    if address.is_some_and(|address| address.contains(':')) { "IPv6" } else { USUAL }
}

/// A slice of a Service, with just these ways.
pub fn slice(object: &Redis, service: &str, family: &str, ways: &[Way]) -> Manifest {
    let namespace = object.namespace().unwrap_or_default();
    let mut metadata = metadata(object, names::slice(service, family));
    if let Some(labels) = metadata.labels.as_mut() {
        labels.insert(SERVICE.into(), service.to_owned());
        labels.insert(MANAGED_BY.into(), SLICER.into());
    }
    let endpoint = |way: &Way| {
        let mut endpoint = json!({
            "addresses": [way.address],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "targetRef": { "kind": "Pod", "namespace": namespace, "name": way.pod, "uid": way.uid },
        });
        if let Some(node) = &way.node {
            endpoint["nodeName"] = node.as_str().into();
        }
        endpoint
    };
    Manifest::new::<EndpointSlice>(json!({
        "metadata": serde_json::to_value(metadata).unwrap_or_default(),
        "addressType": family,
        "endpoints": ways.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{ "name": "redis", "port": PORT, "protocol": "TCP" }],
    }))
}

/// The Service of a slice.
pub fn service_of(slice: &Value) -> Option<&str> {
    slice["metadata"]["labels"][SERVICE].as_str()
}

/// Whether a controller of Kubernetes wrote a slice.
pub fn is_of_kubernetes(slice: &Value) -> bool {
    slice["metadata"]["labels"][MANAGED_BY].as_str().is_some_and(|writer| OF_KUBERNETES.contains(&writer))
}

/// The ways of a slice that new clients are led.
pub fn ways_of(slice: &Value) -> Vec<Way> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
    let endpoints = slice["endpoints"].as_array().into_iter().flatten().filter(is_ready);
    let ways = endpoints.flat_map(|endpoint| {
        let pod = &endpoint["targetRef"];
        endpoint["addresses"].as_array().into_iter().flatten().filter_map(move |address| {
            Some(Way {
                address: text(address)?,
                pod: text(&pod["name"]).unwrap_or_default(),
                uid: text(&pod["uid"]).unwrap_or_default(),
                node: text(&endpoint["nodeName"]),
            })
        })
    });
    ways.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::redis;
    use super::*;

    fn way(address: &str) -> Way {
        Way { address: address.into(), pod: "cache-0".into(), uid: "u".into(), node: Some("node-1".into()) }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for ways in [vec![], vec![way("10.0.0.1")], vec![way("10.0.0.1"), way("10.0.0.2")]] {
            let slice = slice(&redis(1), "cache", "IPv4", &ways);
            assert_eq!((slice.name(), service_of(&slice.value)), ("cache-ipv4", Some("cache")));
            assert_eq!(ways_of(&slice.value), ways);
            assert!(!is_of_kubernetes(&slice.value));
            serde_json::from_value::<EndpointSlice>(slice.value).expect("a slice");
        }
    }

    #[test]
    fn an_endpoint_that_somebody_adds_or_takes_away_is_seen() {
        let wanted = slice(&redis(1), "cache", "IPv4", &[way("10.0.0.1")]);
        for ways in [vec![], vec![way("10.0.0.2")], vec![way("10.0.0.1"), way("10.0.0.2")]] {
            assert!(!wanted.is_met_by(&slice(&redis(1), "cache", "IPv4", &ways).value), "{ways:?}");
        }
        assert!(wanted.is_met_by(&wanted.value));
    }

    #[test]
    fn families_have_slices_of_their_own() {
        assert_eq!([None, Some("10.0.0.1"), Some("fd00::1")].map(family_of), ["IPv4", "IPv4", "IPv6"]);
    }
}
