//! Decides which targets a backend should have. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use causeway_aws::elbv2::{Target, TargetType};
use causeway_runtime::guardrails::Beyond;

use super::cluster::Cluster;
use super::facts::{Endpoint, Family, GatedPod, Node, Service, ServicePort, Slice};
use super::{Backend, Endpoints, PortName};

/// The targets that a backend should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Targets to be registered.
    pub targets: BTreeSet<Target>,
    /// The target of every pod with our readiness gate, by the pod's name, whether it is to be registered or not.
    pub gated: BTreeMap<String, Target>,
    /// The port on which they are checked, if the backend names one.
    pub check: CheckPort,
    /// An address that a client wrote into a slice and that may not be a target.
    pub refused: Option<Refused>,
}

/// An address that is not one of a pod of the Service's namespace, and that no policy allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub address: String,
    /// The slice that has it.
    pub slice: String,
    /// How many others are refused.
    pub others: usize,
}

/// The number of the port that a backend names for the health checks of its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckPort {
    /// No port is named, or its number is not known yet.
    #[default]
    Unknown,
    /// This number, on every target.
    Is(u16),
    /// Pods have different numbers for it, but a target group is checked on only one.
    Differs(BTreeSet<u16>),
    /// The Service has no such port, but these.
    Missing {
        /// Number, and name where it has one.
        ports: Vec<String>,
    },
    /// Targets cannot be checked on it; why, and what to do.
    Unsuitable(String),
}

/// Returns the endpoints of a backend, as the cluster has them. `beyond` returns the addresses besides those of pods
/// that may be targets in a namespace.
pub fn endpoints(cluster: &Cluster, backend: &Backend, beyond: impl Fn(&str) -> Beyond) -> Endpoints {
    if !cluster.complete(backend.target_type, &backend.namespace) {
        return Endpoints::NotReadyYet;
    }
    let Some(service) = cluster.service(&backend.namespace, &backend.service) else {
        return Endpoints::ServiceMissing;
    };
    let name = &backend.service;
    if service.external_name {
        let fix = "choose a Service with endpoints in the cluster";
        return Endpoints::Unsuitable(format!("Service {name} is an ExternalName, which has no endpoints: {fix}"));
    }
    let called = || service.ports.iter().filter(|port| has_name(port, &backend.port));
    // A Service may have the same number once for each protocol.
    let Some(port) = called().find(|port| port.tcp).or_else(|| called().next()) else {
        return Endpoints::PortMissing { ports: service.ports.iter().map(describe).collect() };
    };
    if !port.tcp {
        return Endpoints::Unsuitable(format!("port {} of Service {name} does not speak TCP", describe(port)));
    }
    let endpoints = match backend.target_type {
        TargetType::Ip => addresses(cluster, backend, service, port, beyond),
        TargetType::Instance => instances(cluster, backend, service, port),
    };
    match (endpoints, &backend.check) {
        (Endpoints::Known(wanted), Some(name)) => {
            Endpoints::Known(Wanted { check: checked_on(cluster, backend, service, name), ..wanted })
        }
        (endpoints, _) => endpoints,
    }
}

/// The registered targets that stay while the endpoints of their backend are not known: those at an address that a pod
/// of its namespace has, and those that policies allow besides. Another pod, possibly of another user, may get the
/// address of a pod that is gone, and must not get these requests. `None` if all stay, because pods or policies are not
/// known, or because the targets are nodes.
pub fn remaining(
    cluster: &Cluster,
    backend: &Backend,
    registered: BTreeSet<Target>,
    beyond: impl Fn(&str) -> Beyond,
) -> Option<BTreeSet<Target>> {
    if backend.target_type != TargetType::Ip || !cluster.complete(TargetType::Ip, &backend.namespace) {
        return None;
    }
    let addresses = cluster.addresses_of(&backend.namespace);
    let is_of_a_pod = |target: &Target| target.id.parse::<IpAddr>().is_ok_and(|address| addresses.contains(&address));
    let (mut remaining, others): (BTreeSet<Target>, BTreeSet<Target>) = registered.into_iter().partition(is_of_a_pod);
    let mut allowed = None;
    for target in others {
        if allowed.get_or_insert_with(|| beyond(&backend.namespace)).allows(&target.id).ok()? {
            remaining.insert(target);
        }
    }
    Some(remaining)
}

/// The number of the port with that name: the pods' own number, or the one that is open on nodes.
///
/// This works like `alb.ingress.kubernetes.io/healthcheck-port`, where a name stands for the node port or for a numeric
/// `targetPort`. Here a `targetPort` may also be a name, because slices contain the pods' numbers.
/// <https://github.com/kubernetes-sigs/aws-load-balancer-controller/blob/main/docs/guide/ingress/annotations.md#healthcheck-port>
fn checked_on(cluster: &Cluster, backend: &Backend, service: &Service, name: &str) -> CheckPort {
    let Some(port) = service.ports.iter().find(|port| port.name == name) else {
        return CheckPort::Missing { ports: service.ports.iter().map(describe).collect() };
    };
    let of = &backend.service;
    if !port.tcp {
        return CheckPort::Unsuitable(format!("port {} of Service {of} does not speak TCP", describe(port)));
    }
    if backend.target_type == TargetType::Instance {
        let closed = || {
            let fix = "make it a NodePort or LoadBalancer Service, or give a number";
            CheckPort::Unsuitable(format!("port {} of Service {of} is not open on the nodes: {fix}", describe(port)))
        };
        return port.node_port.map_or_else(closed, CheckPort::Is);
    }
    let slices = cluster.slices(&backend.namespace, of).filter(|slice| slice.family == family(backend));
    let numbers = slices.filter(|slice| slice.endpoints.iter().any(|endpoint| !endpoint.terminating));
    let numbers = numbers.flat_map(|slice| slice.ports.iter().filter(|(it, _)| it == name).map(|(_, number)| *number));
    let numbers: BTreeSet<u16> = numbers.collect();
    match (numbers.len(), numbers.first()) {
        (0 | 1, first) => first.copied().or(port.target).map_or(CheckPort::Unknown, CheckPort::Is),
        _ => CheckPort::Differs(numbers),
    }
}

fn family(backend: &Backend) -> Family {
    if backend.ipv6 { Family::V6 } else { Family::V4 }
}

fn has_name(port: &ServicePort, wanted: &PortName) -> bool {
    match wanted {
        PortName::Number(number) => port.number == *number,
        PortName::Name(name) => port.name == *name,
    }
}

/// A name of the port for people.
fn describe(port: &ServicePort) -> String {
    if port.name.is_empty() { port.number.to_string() } else { format!("{} ({})", port.number, port.name) }
}

fn addresses(
    cluster: &Cluster,
    backend: &Backend,
    service: &Service,
    port: &ServicePort,
    beyond: impl Fn(&str) -> Beyond,
) -> Endpoints {
    let (family, word) = (family(backend), if backend.ipv6 { "IPv6" } else { "IPv4" });
    let name = &backend.service;
    if !service.families.is_empty() && !service.families.contains(&family) {
        let fix = "see its spec.ipFamilies and the balancer's ipAddressType";
        return Endpoints::Unsuitable(format!("Service {name} has no {word} addresses: {fix}"));
    }
    let namespace = &backend.namespace;
    let slices: Vec<(&str, &Slice)> =
        cluster.named_slices(namespace, name).filter(|(_, slice)| slice.family == family).collect();
    if slices.is_empty() {
        return Endpoints::NoSlices;
    }
    let (mut wanted, mut allowed) = (Wanted::default(), None);
    for (slice_name, slice) in slices {
        // A port of a Service may have different numbers on different pods. Each slice has one number.
        let Some((_, number)) = slice.ports.iter().find(|(name, _)| *name == port.name) else { continue };
        for endpoint in slice.endpoints.iter().filter(|endpoint| !endpoint.terminating) {
            if !cluster.is_of_its_pod(namespace, endpoint) {
                match allowed.get_or_insert_with(|| beyond(namespace)).allows(&endpoint.address) {
                    Ok(true) => {}
                    Err(why) => return Endpoints::PoliciesUnknown(why),
                    // In a slice that Kubernetes wrote, such a pod is not known yet or has just gone.
                    Ok(false) if service.selects && slice.by_kubernetes => continue,
                    Ok(false) => {
                        match &mut wanted.refused {
                            Some(refused) => refused.others += 1,
                            none => *none = Some(Refused::new(endpoint, slice_name)),
                        }
                        continue;
                    }
                }
            }
            let target = Target { id: endpoint.address.to_string(), port: *number };
            let pod = gated_pod(cluster, &backend.namespace, endpoint);
            if endpoint.ready || service.publish_not_ready || pod.is_some_and(|(_, pod)| pod.able && !pod.leaving) {
                wanted.targets.insert(target.clone());
            }
            if let Some((name, _)) = pod {
                wanted.gated.insert(name.to_owned(), target);
            }
        }
    }
    Endpoints::Known(wanted)
}

impl Refused {
    fn new(endpoint: &Endpoint, slice: &str) -> Self {
        Self { address: endpoint.address.to_string(), slice: slice.to_owned(), others: 0 }
    }
}

/// The endpoint's pod, if it has our gate. A successor of the same name does not count.
fn gated_pod<'a>(cluster: &'a Cluster, namespace: &str, endpoint: &'a Endpoint) -> Option<(&'a str, &'a GatedPod)> {
    let (name, uid) = endpoint.pod.as_ref()?;
    let pod = cluster.pod(namespace, name)?;
    (uid.is_empty() || **uid == *pod.uid).then_some((name, pod))
}

fn instances(cluster: &Cluster, backend: &Backend, service: &Service, port: &ServicePort) -> Endpoints {
    let name = &backend.service;
    let Some(node_port) = port.node_port else {
        let fix = "make it a NodePort or LoadBalancer Service, or use targetType: ip";
        let port = describe(port);
        return Endpoints::Unsuitable(format!("port {port} of Service {name} is not open on the nodes: {fix}"));
    };
    let serving: Option<BTreeSet<&str>> = if service.local_only {
        let mut slices = cluster.slices(&backend.namespace, name).peekable();
        if slices.peek().is_none() {
            return Endpoints::NoSlices;
        }
        let endpoints = slices.flat_map(|slice| &slice.endpoints);
        let serving = endpoints.filter(|it| !it.terminating && (it.ready || service.publish_not_ready));
        Some(serving.filter_map(|endpoint| endpoint.node.as_deref()).collect())
    } else {
        None
    };
    // If no node at all is ready, it is the reporting that failed, not all of the nodes.
    if !cluster.nodes().any(|(_, node)| node.ready) {
        let fix = "wait for one, or use targetType: ip";
        let why = "targetType instance needs a ready node that is an EC2 instance (spec.providerID aws:///ZONE/i-...)";
        return Endpoints::Unsuitable(format!("{why}, and the cluster has none: {fix}"));
    }
    let chosen = |node: &Node| backend.nodes.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    if !cluster.nodes().any(|(_, node)| node.ready && chosen(node)) {
        let labels: Vec<String> = backend.nodes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let fix = "correct nodeSelector, or label nodes";
        return Endpoints::Unsuitable(format!("no ready node has the labels {}: {fix}", labels.join(", ")));
    }
    let nodes = cluster.nodes().filter(|(name, node)| {
        node.ready && !node.excluded && chosen(node) && serving.as_ref().is_none_or(|serving| serving.contains(name))
    });
    let targets = nodes.map(|(_, node)| Target { id: node.instance.clone(), port: node_port }).collect();
    Endpoints::Known(Wanted { targets, ..Wanted::default() })
}

#[cfg(test)]
mod tests;
