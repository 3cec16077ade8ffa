//! The `EndpointSlice`s of a Service.
//!
//! Kubernetes writes no slices for a Service without a selector, but those that it wrote earlier stay. It also mirrors
//! an Endpoints object of the Service's name into slices.
//! <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslice/endpointslice_controller.go> and
//! <https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go>

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use serde_json::{Value, json};

use causeway_api::Redis;
use causeway_api::pods::TrafficDistribution;
use causeway_databases::builders::metadata;
use causeway_runtime::manifest::Manifest;

use super::super::database::RedisDatabase;
use super::super::facts::Pod;
use super::super::names::{self, PORT, SLICER};

/// Label of slices: their Service.
const SERVICE: &str = "kubernetes.io/service-name";
/// Label of slices: who writes them.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The controllers that write the slices of Services with a selector, and those that mirror Endpoints.
const OF_KUBERNETES: [&str; 2] = ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];
/// The family of addresses unless another is known.
const USUAL: &str = "IPv4";

/// An endpoint of a slice, which leads to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The IP address at which it answers.
    pub address: String,
    /// The name of its pod.
    pub pod: String,
    /// The pod's uid: the address may be another pod's by now.
    pub uid: String,
    /// The Kubernetes node that the pod runs on.
    pub node: Option<String>,
    /// The zone of that Kubernetes node; needed where clients are led to nodes near them.
    pub zone: Option<String>,
}

impl Route {
    /// Returns the route to a pod, if it has an address.
    pub fn to_pod(pod: &Pod) -> Option<Self> {
        let (pod_name, uid, node) = (pod.name.clone(), pod.uid.clone(), pod.own.host.clone());
        Some(Self { address: pod.address.clone()?, pod: pod_name, uid, node, zone: pod.own.zone.clone() })
    }

    /// Reports whether it leads to that pod, and still does.
    pub fn leads_to(&self, pod: &Pod) -> bool {
        self.uid == pod.uid && Some(&self.address) == pod.address.as_ref()
    }
}

/// The family of an address.
pub fn family_of(address: Option<&str>) -> &'static str {
    if address.is_some_and(|address| address.contains(':')) { "IPv6" } else { USUAL }
}

/// Builds a slice of a Service with just these routes.
pub fn slice(object: &Redis, service: &str, family: &str, routes: &[Route]) -> Manifest {
    let namespace = object.namespace().unwrap_or_default();
    let mut metadata = metadata::<RedisDatabase>(object, names::slice(service, family));
    if let Some(labels) = metadata.labels.as_mut() {
        labels.insert(SERVICE.into(), service.to_owned());
        labels.insert(MANAGED_BY.into(), SLICER.into());
    }
    let near = distribution(object, service);
    // Kubernetes heeds hints only if all endpoints have them, and ignores them for a client that has no endpoint near
    // it: https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-distribution
    let hinted = near.filter(|_| routes.iter().all(|route| route.zone.is_some()));
    let endpoint = |route: &Route| {
        let mut endpoint = json!({
            "addresses": [route.address],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "targetRef": { "kind": "Pod", "namespace": namespace, "name": route.pod, "uid": route.uid },
        });
        if let Some(node) = &route.node {
            endpoint["nodeName"] = node.as_str().into();
        }
        if let Some(zone) = route.zone.as_ref().filter(|_| near.is_some()) {
            endpoint["zone"] = zone.as_str().into();
        }
        if let (Some(near), Some(zone)) = (hinted, &route.zone) {
            endpoint["hints"] = json!({ "forZones": [{ "name": zone }] });
            if let Some(node) = route.node.as_ref().filter(|_| near == TrafficDistribution::PreferSameNode) {
                endpoint["hints"]["forNodes"] = json!([{ "name": node }]);
            }
        }
        endpoint
    };
    Manifest::new::<EndpointSlice>(json!({
        "metadata": serde_json::to_value(metadata).unwrap_or_default(),
        "addressType": family,
        "endpoints": routes.iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{ "name": "redis", "port": PORT, "protocol": "TCP" }],
    }))
}

/// Which endpoints the clients of a Service prefer.
pub fn distribution(object: &Redis, service: &str) -> Option<TrafficDistribution> {
    let template = object.spec.replica_service.as_ref().filter(|_| service == names::replicas(object));
    template?.traffic_distribution
}

/// The Service of a slice.
pub fn service_of(slice: &Value) -> Option<&str> {
    slice["metadata"]["labels"][SERVICE].as_str()
}

/// Reports whether one of Kubernetes' own controllers wrote a slice.
pub fn is_of_kubernetes(slice: &Value) -> bool {
    slice["metadata"]["labels"][MANAGED_BY].as_str().is_some_and(|writer| OF_KUBERNETES.contains(&writer))
}

/// The endpoints of a slice to which new clients are led.
pub fn routes_of(slice: &Value) -> Vec<Route> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let is_ready = |endpoint: &&Value| endpoint["conditions"]["ready"] != false;
    let endpoints = slice["endpoints"].as_array().into_iter().flatten().filter(is_ready);
    let routes = endpoints.flat_map(|endpoint| {
        let pod = &endpoint["targetRef"];
        endpoint["addresses"].as_array().into_iter().flatten().filter_map(move |address| {
            Some(Route {
                address: text(address)?,
                pod: text(&pod["name"]).unwrap_or_default(),
                uid: text(&pod["uid"]).unwrap_or_default(),
                node: text(&endpoint["nodeName"]),
                zone: text(&endpoint["zone"]),
            })
        })
    });
    routes.collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::redis;
    use super::*;

    fn route(address: &str) -> Route {
        let (pod, uid, node) = ("cache-0".into(), "u".into(), Some("node-1".into()));
        Route { address: address.into(), pod, uid, node, zone: None }
    }

    #[test]
    fn readers_prefer_their_zone_if_all_zones_are_known() {
        let mut object = redis(2);
        object.spec.replica_service =
            serde_json::from_value(json!({ "trafficDistribution": "PreferSameNode" })).unwrap();
        let zoned = |address: &str| Route { zone: Some("us-east-1a".into()), ..route(address) };
        let of =
            |service: &str, routes: &[Route]| slice(&object, service, "IPv4", routes).value["endpoints"][0].clone();
        let all = of("cache-replicas", &[zoned("10.0.0.1"), zoned("10.0.0.2")]);
        assert_eq!(all["zone"], "us-east-1a");
        let near = json!({ "forZones": [{ "name": "us-east-1a" }], "forNodes": [{ "name": "node-1" }] });
        assert_eq!(all["hints"], near);
        let some = of("cache-replicas", &[zoned("10.0.0.1"), route("10.0.0.2")]);
        assert_eq!((&some["zone"], &some["hints"]), (&json!("us-east-1a"), &Value::Null));
        let master = of("cache", &[zoned("10.0.0.1")]);
        assert_eq!((&master["zone"], &master["hints"]), (&Value::Null, &Value::Null));
        let near = slice(&object, "cache-replicas", "IPv4", &[zoned("10.0.0.1")]);
        assert_eq!(routes_of(&near.value), [zoned("10.0.0.1")]);
        object.spec.replica_service = None;
        let far = slice(&object, "cache-replicas", "IPv4", &[zoned("10.0.0.1")]);
        assert!(near.is_met_by(&near.value) && far.is_met_by(&far.value));
        assert!(!far.is_met_by(&near.value), "the spec does not ask for that any more");
    }

    #[test]
    fn what_is_written_is_read_again() {
        for routes in [vec![], vec![route("10.0.0.1")], vec![route("10.0.0.1"), route("10.0.0.2")]] {
            let slice = slice(&redis(1), "cache", "IPv4", &routes);
            assert_eq!((slice.name(), service_of(&slice.value)), ("cache-ipv4", Some("cache")));
            assert_eq!(routes_of(&slice.value), routes);
            assert!(!is_of_kubernetes(&slice.value));
            serde_json::from_value::<EndpointSlice>(slice.value).expect("a slice");
        }
    }

    #[test]
    fn a_changed_endpoint_is_found() {
        let wanted = slice(&redis(1), "cache", "IPv4", &[route("10.0.0.1")]);
        for routes in [vec![], vec![route("10.0.0.2")], vec![route("10.0.0.1"), route("10.0.0.2")]] {
            assert!(!wanted.is_met_by(&slice(&redis(1), "cache", "IPv4", &routes).value), "{routes:?}");
        }
        assert!(wanted.is_met_by(&wanted.value));
    }

    #[test]
    fn families_have_slices_of_their_own() {
        assert_eq!([None, Some("10.0.0.1"), Some("fd00::1")].map(family_of), ["IPv4", "IPv4", "IPv6"]);
    }
}
