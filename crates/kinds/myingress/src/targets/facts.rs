//! The facts about the cluster that decide about targets, and no more: of ten thousand pods, only those with our
//! readiness gate leave anything in memory besides their addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::lean::{self, LeanNode, LeanPod, LeanService, LeanSlice};

/// The label that names the Service of a slice.
/// <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#ownership>
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names the writer of a slice, and its value if Kubernetes wrote it for a Service with a selector.
/// <https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#management>
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const OF_KUBERNETES: &str = "endpointslice-controller.k8s.io";
/// Nodes with one of these labels get no traffic from load balancers.
/// <https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-exclude-from-external-load-balancers>
const EXCLUDED: [&str; 2] =
    ["node.kubernetes.io/exclude-from-external-load-balancers", "node-role.kubernetes.io/control-plane"];
/// The cluster autoscaler is about to remove a node with this taint.
const GOING: &str = "ToBeDeletedByClusterAutoscaler";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a Service")]
pub struct Service {
    /// True if it is only a name for something outside the cluster.
    pub external_name: bool,
    /// Its address families; empty if the cluster does not say.
    pub families: BTreeSet<Family>,
    pub ports: Vec<ServicePort>,
    /// True if endpoints count as ready even when they are not.
    pub publish_not_ready: bool,
    /// True if traffic from outside reaches only endpoints on the node that it came to.
    pub local_only: bool,
    /// True if Kubernetes finds its endpoints by a selector.
    pub selects: bool,
}

/// Family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    fn parse(word: &str) -> Option<Self> {
        match word {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; empty for a Service's only port.
    pub name: String,
    pub number: u16,
    /// The port of every node that leads to it.
    pub node_port: Option<u16>,
    /// The port of the pods that it leads to, if the Service gives it as a number.
    pub target: Option<u16>,
    /// True if it is a TCP port.
    pub tcp: bool,
}

impl From<LeanService> for Service {
    fn from(service: LeanService) -> Self {
        let spec = service.spec;
        let port = |port: lean::ServicePort| {
            let number = u16::try_from(port.port).ok()?;
            Some(ServicePort {
                name: port.name.unwrap_or_default(),
                number,
                target: match port.target_port {
                    Some(IntOrString::Int(target)) if target != 0 => u16::try_from(target).ok(),
                    Some(IntOrString::String(_)) => None,
                    Some(IntOrString::Int(_)) | None => Some(number),
                },
                node_port: port.node_port.and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0),
                tcp: port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"),
            })
        };
        Self {
            external_name: spec.type_.as_deref() == Some("ExternalName"),
            families: spec.ip_families.iter().flatten().filter_map(|family| Family::parse(family)).collect(),
            ports: spec.ports.into_iter().flatten().filter_map(port).collect(),
            publish_not_ready: spec.publish_not_ready_addresses == Some(true),
            local_only: spec.external_traffic_policy.as_deref() == Some("Local"),
            selects: spec.selector.is_some_and(|selector| !selector.is_empty()),
        }
    }
}

/// A part of a Service's endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub service: String,
    /// Family of the addresses.
    pub family: Family,
    /// Numbers of the ports by name.
    pub ports: Vec<(String, u16)>,
    pub endpoints: Vec<Endpoint>,
    /// True if its labels say that Kubernetes wrote it for a Service with a selector.
    pub by_kubernetes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub address: Box<str>,
    /// True if the slice says that it can serve.
    pub ready: bool,
    /// True if it is terminating.
    pub terminating: bool,
    pub node: Option<Box<str>>,
    /// Its pod, as name and uid.
    pub pod: Option<(Box<str>, Box<str>)>,
}

impl Slice {
    /// The facts of a slice that matter; `None` for one that belongs to no Service or holds no IP addresses.
    pub fn from_lean(slice: LeanSlice) -> Option<Self> {
        let mut labels = slice.metadata.labels?;
        let service = labels.remove(SERVICE_NAME)?;
        let by_kubernetes = labels.get(MANAGED_BY).is_some_and(|it| it == OF_KUBERNETES);
        let family = Family::parse(&slice.address_type)?;
        let ports = slice.ports.into_iter().flatten();
        let tcp = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
        let numbered = |port: lean::EndpointPort| {
            Some((port.name.unwrap_or_default(), port.port.and_then(|number| u16::try_from(number).ok())?))
        };
        let endpoints = slice.endpoints.into_iter().flatten().filter_map(endpoint).collect();
        Some(Self { service, family, ports: tcp.filter_map(numbered).collect(), endpoints, by_kubernetes })
    }
}

fn endpoint(endpoint: lean::Endpoint) -> Option<Endpoint> {
    let conditions = endpoint.conditions.unwrap_or_default();
    let pod = endpoint.target_ref.filter(|reference| reference.kind.as_deref() == Some("Pod"));
    Some(Endpoint {
        // All addresses of an endpoint lead to the same place. Kubernetes itself uses only the first.
        address: canonical_address(endpoint.addresses?.into_iter().next()?).into(),
        // An unknown condition means ready.
        ready: conditions.ready.unwrap_or(true),
        terminating: conditions.terminating.unwrap_or(false),
        node: endpoint.node_name.map(Into::into),
        pod: pod.and_then(|pod| Some((pod.name?.into(), pod.uid.unwrap_or_default().into()))),
    })
}

/// An address as Rust writes it, so addresses can be compared. Any other text stays as it is.
pub fn canonical_address(text: String) -> String {
    text.parse::<IpAddr>().map_or(text, |address| address.to_string())
}

/// Type of the pod condition that a pod names in `spec.readinessGates` to wait for its targets.
pub const CONDITION: &str = "causeway.example.com/target-health";

/// Our condition of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// True if its status is `True`.
    pub open: bool,
    /// Stable `CamelCase` word.
    pub reason: String,
    /// An explanation for people.
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its addresses; none once it has ended, for another pod may have them then.
    pub addresses: Box<[IpAddr]>,
    /// True if it is ready and is not being deleted, whether or not it is an endpoint of any Service.
    pub serves: bool,
    /// The facts that matter if it has our gate.
    pub gated: Option<GatedPod>,
}

/// A pod that waits for its targets before it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatedPod {
    /// Its uid. A successor of the same name is another pod.
    pub uid: String,
    /// True if its containers are ready, and so is everything else that it waits for: only our gate may be missing.
    pub able: bool,
    /// Since when we have known it to be able.
    pub able_since: Option<Instant>,
    /// True if it is being deleted, or has ended.
    pub leaving: bool,
    /// Our condition, as it is in the cluster.
    pub gate: Option<Gate>,
    /// The resource version that these facts are from.
    pub version: u64,
}

impl LeanPod {
    /// True if it has ended, and only its object is left.
    fn is_over(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// True if it is being deleted, or has ended.
    fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() || self.is_over()
    }

    fn condition(&self, type_: &str) -> Option<&lean::Condition> {
        self.status.conditions.iter().flatten().find(|condition| condition.type_ == type_)
    }

    /// True if it has that condition with status `True`.
    fn holds(&self, type_: &str) -> bool {
        self.condition(type_).is_some_and(|condition| condition.status == "True")
    }
}

impl Pod {
    /// The facts of a pod that matter; `None` if there are none.
    pub fn from_lean(pod: &LeanPod, now: Instant) -> Option<Self> {
        let addresses = pod.status.addresses.iter().flatten().filter(|_| !pod.is_over());
        let pod = Self {
            addresses: addresses.filter_map(|address| address.ip.parse().ok()).collect(),
            serves: !pod.is_leaving() && pod.holds("Ready"),
            gated: GatedPod::from_lean(pod, now),
        };
        (pod != Self::default()).then_some(pod)
    }
}

impl GatedPod {
    /// The facts of a pod that matter; `None` for one without our gate.
    pub fn from_lean(pod: &LeanPod, now: Instant) -> Option<Self> {
        let gates: Vec<&str> = pod.spec.readiness_gates.iter().flatten().map(|it| it.condition_type.as_str()).collect();
        if !gates.contains(&CONDITION) {
            return None;
        }
        let able = pod.holds("ContainersReady") && gates.iter().all(|gate| *gate == CONDITION || pod.holds(gate));
        let gate = pod.condition(CONDITION).map(|condition| Gate {
            open: condition.status == "True",
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        });
        Some(Self {
            uid: pod.uid().unwrap_or_default(),
            able,
            able_since: able.then_some(now),
            leaving: pod.is_leaving(),
            gate,
            version: version_of(&pod.metadata),
        })
    }
}

/// The resource version as a number, for "newer than" among versions of one object.
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>
pub fn version_of(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its EC2 instance.
    pub instance: String,
    /// True if it is ready.
    pub ready: bool,
    /// True if load balancers must leave it out.
    pub excluded: bool,
    /// Its labels, by which backends choose nodes.
    pub labels: BTreeMap<String, String>,
}

impl Node {
    /// The facts of a node that matter; `None` for one that is no EC2 instance.
    pub fn from_lean(node: &LeanNode) -> Option<Self> {
        let labels = node.labels();
        let going = |taint: &lean::Taint| taint.key == GOING;
        let ready = |condition: &lean::Condition| condition.type_ == "Ready" && condition.status == "True";
        Some(Self {
            instance: instance_of(node.spec.provider_id.as_deref()?)?.to_owned(),
            ready: node.status.conditions.iter().flatten().any(ready),
            excluded: EXCLUDED.iter().any(|label| labels.contains_key(*label))
                || node.spec.taints.iter().flatten().any(going),
            labels: labels.clone(),
        })
    }
}

/// The instance in `aws:///us-east-1a/i-0abc`.
fn instance_of(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix("aws://")?.rsplit('/').next().filter(|id| id.starts_with("i-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> Option<GatedPod> {
        GatedPod::from_lean(&serde_json::from_value(value).unwrap(), Instant::now())
    }

    fn gated(gates: &[&str], conditions: &Value) -> Value {
        let gates: Vec<Value> = gates.iter().map(|gate| json!({ "conditionType": gate })).collect();
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "a", "namespace": "shop", "uid": "1", "resourceVersion": "7" },
            "spec": { "containers": [{ "name": "a" }], "readinessGates": gates },
            "status": { "phase": "Running", "conditions": conditions },
        })
    }

    #[test]
    fn a_pod_without_our_gate_leaves_nothing() {
        assert_eq!(pod(json!({ "metadata": {}, "spec": {} })), None);
        assert_eq!(pod(gated(&["other"], &json!([]))), None);
    }

    #[test]
    fn a_pod_is_able_when_only_our_gate_is_missing() {
        let conditions = json!([{ "type": "ContainersReady", "status": "True" }]);
        let able = |gates, conditions| pod(gated(gates, &conditions)).unwrap().able;
        assert!(able(&[CONDITION], conditions.clone()));
        assert!(!able(&[CONDITION, "other"], conditions));
        assert!(!able(&[CONDITION], json!([{ "type": "ContainersReady", "status": "False" }])));
        let both = json!([{ "type": "ContainersReady", "status": "True" }, { "type": "other", "status": "True" }]);
        assert!(able(&[CONDITION, "other"], both));
    }

    #[test]
    fn our_condition_is_read() {
        let set = json!([{ "type": CONDITION, "status": "True", "reason": "R", "message": "M" }]);
        let read = pod(gated(&[CONDITION], &set)).unwrap();
        assert_eq!(read.gate, Some(Gate { open: true, reason: "R".into(), message: "M".into() }));
        assert_eq!(read.version, 7);
    }

    #[test]
    fn a_pod_has_its_addresses_until_it_is_over() {
        let addresses = |phase: &str| {
            let status = json!({ "phase": phase, "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "FD00::1" }] });
            let pod = serde_json::from_value(json!({ "metadata": {}, "spec": {}, "status": status })).unwrap();
            let pod = Pod::from_lean(&pod, Instant::now()).unwrap_or_default();
            pod.addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(addresses("Running"), ["10.0.0.1", "fd00::1"]);
        assert_eq!(addresses("Failed"), [""; 0]);
    }

    #[test]
    fn only_ec2_instances_are_nodes_for_us() {
        assert_eq!(instance_of("aws:///us-east-1a/i-0abc"), Some("i-0abc"));
        assert_eq!(instance_of("aws:///us-east-1a/0123/fargate-ip-10-0-0-1"), None);
        assert_eq!(instance_of("kind://docker/kind/kind-worker"), None);
    }

    #[test]
    fn a_node_with_an_excluding_label_or_taint_is_excluded() {
        let node = |labels: Value, taints: Value| {
            let node = json!({
                "metadata": { "name": "n", "labels": labels },
                "spec": { "providerID": "aws:///a/i-1", "taints": taints },
                "status": { "images": [{ "sizeBytes": 1 }], "conditions": [{ "type": "Ready", "status": "True" }] },
            });
            Node::from_lean(&serde_json::from_value(node).unwrap()).unwrap()
        };
        assert!(node(json!({}), json!([])).ready);
        assert!(!node(json!({}), json!([])).excluded);
        assert!(node(json!({ EXCLUDED[0]: "" }), json!([])).excluded);
        assert!(node(json!({}), json!([{ "key": GOING, "effect": "NoSchedule" }])).excluded);
    }

    #[test]
    fn a_slice_without_service_or_with_host_names_is_ignored() {
        let slice = |labels: Value, kind: &str| {
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": kind,
                "metadata": { "name": "s", "labels": labels },
                "ports": [{ "name": "http", "port": 80 }, { "name": "dns", "port": 53, "protocol": "UDP" }, {}],
                "endpoints": [{ "addresses": ["10.0.0.1"] }, { "addresses": [] }],
            });
            Slice::from_lean(serde_json::from_value(slice).unwrap())
        };
        assert_eq!(slice(json!({}), "IPv4"), None);
        assert_eq!(slice(json!({ SERVICE_NAME: "web" }), "FQDN"), None);
        let read = slice(json!({ SERVICE_NAME: "web" }), "IPv4").unwrap();
        assert_eq!(read.ports, [("http".to_owned(), 80)]);
        assert_eq!(read.endpoints.len(), 1);
        assert!(read.endpoints[0].ready && !read.endpoints[0].terminating);
    }
}
