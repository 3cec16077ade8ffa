//! Decides which targets a backend should have. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::Cluster;
use super::facts::{Endpoint, Family, GatedPod, Node, Service, ServicePort, Slice};
use super::{Backend, Endpoints, PortName};
use crate::external::elbv2::{Target, TargetType};

/// The targets that a backend should have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// To be registered.
    pub targets: BTreeSet<Target>,
    /// The target of every pod with our readiness gate, by the pod's name, whether it is to be registered or not.
    pub gated: BTreeMap<String, Target>,
    /// The port on which they are checked, where the backend names one.
    pub check: CheckPort,
}

/// The number of a port that a backend names for the checks of its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum CheckPort {
    /// None is named, or nothing says the number yet.
    #[default]
    Unknown,
    /// This one, on every target.
    Is(u16),
    /// Pods have different numbers for it, and a target group is checked on one.
    Differs(BTreeSet<u16>),
    /// The Service has other ports: these, in a person's words.
    Missing {
        /// Number, and name where it has one.
        ports: Vec<String>,
    },
    /// Targets cannot be checked on it; why, and what to do.
    Unsuitable(String),
}

/// What the cluster says of a backend.
pub fn endpoints(cluster: &Cluster, backend: &Backend) -> Endpoints {
    if !cluster.complete(backend.target_type) {
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
    let Some(port) = service.ports.iter().find(|port| named(port, &backend.port)) else {
        return Endpoints::PortMissing { ports: service.ports.iter().map(describe).collect() };
    };
    if !port.tcp {
        return Endpoints::Unsuitable(format!("port {} of Service {name} does not speak TCP", describe(port)));
    }
    let endpoints = match backend.target_type {
        TargetType::Ip => addresses(cluster, backend, service, port),
        TargetType::Instance => instances(cluster, backend, service, port),
    };
    match (endpoints, &backend.check) {
        (Endpoints::Known(wanted), Some(name)) => {
            Endpoints::Known(Wanted { check: checked_on(cluster, backend, service, name), ..wanted })
        }
        (endpoints, _) => endpoints,
    }
}

/// The number of the port of that name: the pods' own, or the one that is open on nodes.
///
/// As `alb.ingress.kubernetes.io/healthcheck-port` has it, where a name stands for the node port or for a numeric
/// `targetPort`; here a `targetPort` may have a name too, for slices tell the pods' numbers.
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

fn named(port: &ServicePort, wanted: &PortName) -> bool {
    match wanted {
        PortName::Number(number) => port.number == *number,
        PortName::Name(name) => port.name == *name,
    }
}

/// A port in a person's words.
fn describe(port: &ServicePort) -> String {
    if port.name.is_empty() { port.number.to_string() } else { format!("{} ({})", port.number, port.name) }
}

fn addresses(cluster: &Cluster, backend: &Backend, service: &Service, port: &ServicePort) -> Endpoints {
    let (family, word) = (family(backend), if backend.ipv6 { "IPv6" } else { "IPv4" });
    let name = &backend.service;
    if !service.families.is_empty() && !service.families.contains(&family) {
        let fix = "see its spec.ipFamilies and the balancer's ipAddressType";
        return Endpoints::Unsuitable(format!("Service {name} has no {word} addresses: {fix}"));
    }
    let slices: Vec<&Slice> = cluster.slices(&backend.namespace, name).filter(|slice| slice.family == family).collect();
    if slices.is_empty() {
        return Endpoints::NoSlices;
    }
    let mut wanted = Wanted::default();
    for slice in slices {
        // A port of a Service may lead to different numbers on different pods; each slice has one.
        let Some((_, number)) = slice.ports.iter().find(|(name, _)| *name == port.name) else { continue };
        for endpoint in slice.endpoints.iter().filter(|endpoint| !endpoint.terminating) {
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

/// The endpoint's pod, if it has our gate; a successor of the same name is not it.
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
    // That not one node works is a failure of what reports on them, not of all of them.
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
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::controllers::myingress::targets::cluster::{Entered, Kind};

    fn backend(port: PortName) -> Backend {
        let (namespace, service) = ("shop".into(), "web".into());
        let (target_type, nodes) = (TargetType::Ip, BTreeMap::new());
        Backend { namespace, service, port, target_type, ipv6: false, nodes, check: None }
    }

    fn http() -> Backend {
        backend(PortName::Number(80))
    }

    fn service() -> Service {
        let ports = vec![
            ServicePort { name: "http".into(), number: 80, node_port: Some(30080), target: Some(8080), tcp: true },
            ServicePort { name: "dns".into(), number: 53, node_port: None, target: Some(53), tcp: false },
        ];
        Service { ports, ..Service::default() }
    }

    fn slice(ports: &[(&str, u16)], endpoints: Vec<Endpoint>) -> Slice {
        let ports = ports.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        Slice { service: "web".into(), family: Family::V4, ports, endpoints }
    }

    fn endpoint(address: &str, ready: bool) -> Endpoint {
        Endpoint { address: address.into(), ready, terminating: false, node: None, pod: None }
    }

    fn of_pod(address: &str, pod: &str) -> Endpoint {
        Endpoint { pod: Some((pod.into(), "1".into())), ..endpoint(address, false) }
    }

    fn pod(able: bool) -> GatedPod {
        let able_since = able.then(Instant::now);
        GatedPod { uid: "1".into(), able, able_since, leaving: false, gate: None, version: 1 }
    }

    fn listed() -> Cluster {
        let mut cluster = Cluster::default();
        for kind in [Kind::Services, Kind::Slices, Kind::Pods, Kind::Nodes] {
            cluster.listed(kind);
        }
        cluster
    }

    fn key(name: &str) -> (String, String) {
        ("shop".into(), name.into())
    }

    fn with(service: Service, slices: Vec<Slice>) -> Cluster {
        let mut cluster = listed();
        service.enter(&mut cluster, &key("web"));
        for (index, slice) in slices.into_iter().enumerate() {
            slice.enter(&mut cluster, &key(&format!("web-{index}")));
        }
        cluster
    }

    fn targets(endpoints: Endpoints) -> Vec<String> {
        let Endpoints::Known(wanted) = endpoints else { panic!("{endpoints:?}") };
        wanted.targets.iter().map(|target| format!("{}:{}", target.id, target.port)).collect()
    }

    #[test]
    fn nothing_is_believed_before_everything_was_listed() {
        let mut cluster = Cluster::default();
        cluster.listed(Kind::Services);
        cluster.listed(Kind::Slices);
        service().enter(&mut cluster, &key("web"));
        assert_eq!(endpoints(&cluster, &http()), Endpoints::NotReadyYet);
        cluster.listed(Kind::Pods);
        assert_eq!(endpoints(&cluster, &http()), Endpoints::NoSlices);
        let nodes = Backend { target_type: TargetType::Instance, ..http() };
        assert_eq!(endpoints(&cluster, &nodes), Endpoints::NotReadyYet);
    }

    #[test]
    fn what_is_missing_is_told_apart() {
        assert_eq!(endpoints(&listed(), &http()), Endpoints::ServiceMissing);
        let cluster = with(service(), vec![]);
        let ports = vec!["80 (http)".to_owned(), "53 (dns)".to_owned()];
        assert_eq!(endpoints(&cluster, &backend(PortName::Name("grpc".into()))), Endpoints::PortMissing { ports });
        assert!(matches!(endpoints(&cluster, &backend(PortName::Number(53))), Endpoints::Unsuitable(_)));
        let named = with(Service { external_name: true, ..service() }, vec![]);
        assert!(matches!(endpoints(&named, &http()), Endpoints::Unsuitable(_)));
        assert_eq!(targets(endpoints(&with(service(), vec![slice(&[("http", 8080)], vec![])]), &http())), [""; 0]);
    }

    #[test]
    fn each_slice_has_its_own_number_for_a_port() {
        let slices = vec![
            slice(&[("http", 8080), ("other", 1)], vec![endpoint("10.0.0.1", true), endpoint("10.0.0.2", false)]),
            slice(&[("http", 9090)], vec![endpoint("10.0.0.3", true)]),
            slice(&[("other", 1)], vec![endpoint("10.0.0.4", true)]),
        ];
        let found = endpoints(&with(service(), slices), &backend(PortName::Name("http".into())));
        assert_eq!(targets(found), ["10.0.0.1:8080", "10.0.0.3:9090"]);
    }

    #[test]
    fn a_check_port_is_the_number_that_the_pods_have_for_it() {
        let metrics = |target| {
            let port = ServicePort { name: "metrics".into(), number: 9, node_port: Some(30009), target, tcp: true };
            let ports = [service().ports, vec![port]].concat();
            Service { ports, ..service() }
        };
        let check = |service: Service, slices: Vec<Slice>, backend: Backend| {
            let named = Backend { check: Some("metrics".into()), ..backend };
            let mut cluster = with(service, slices);
            let labels = BTreeMap::new();
            let node = Node { instance: "i-a".into(), ready: true, excluded: false, labels };
            node.enter(&mut cluster, &(String::new(), "a".into()));
            match endpoints(&cluster, &named) {
                Endpoints::Known(wanted) => wanted.check,
                other => panic!("{other:?}"),
            }
        };
        let on = |number| slice(&[("http", 8080), ("metrics", number)], vec![endpoint("10.0.0.1", true)]);
        let idle = || slice(&[("http", 8080), ("metrics", 9099)], vec![]);
        assert_eq!(check(metrics(None), vec![on(9090), idle()], http()), CheckPort::Is(9090));
        assert_eq!(check(metrics(Some(9091)), vec![idle()], http()), CheckPort::Is(9091), "nobody says otherwise");
        assert_eq!(check(metrics(None), vec![idle()], http()), CheckPort::Unknown);
        let both = CheckPort::Differs(BTreeSet::from([9090, 9091]));
        assert_eq!(check(metrics(None), vec![on(9090), on(9091)], http()), both);
        let instances = || Backend { target_type: TargetType::Instance, ..http() };
        assert_eq!(check(metrics(None), vec![on(9090)], instances()), CheckPort::Is(30009));
        let CheckPort::Missing { ports } = check(service(), vec![on(9090)], http()) else { panic!("it has none") };
        assert_eq!(ports, ["80 (http)", "53 (dns)"]);
        let mut closed = metrics(None);
        closed.ports.iter_mut().for_each(|port| port.node_port = port.node_port.filter(|it| *it == 30080));
        let CheckPort::Unsuitable(why) = check(closed, vec![on(9090)], instances()) else { panic!("it is closed") };
        assert!(why.starts_with("port 9 (metrics) of Service web is not open on the nodes"), "{why}");
    }

    #[test]
    fn addresses_of_the_other_family_do_not_count() {
        let six = Slice { family: Family::V6, ..slice(&[("http", 80)], vec![endpoint("fd00::1", true)]) };
        let cluster = with(service(), vec![six]);
        assert_eq!(endpoints(&cluster, &http()), Endpoints::NoSlices);
        assert_eq!(targets(endpoints(&cluster, &Backend { ipv6: true, ..http() })), ["fd00::1:80"]);
        let four = with(Service { families: BTreeSet::from([Family::V4]), ..service() }, vec![]);
        assert!(matches!(endpoints(&four, &Backend { ipv6: true, ..http() }), Endpoints::Unsuitable(_)));
    }

    #[test]
    fn a_pod_that_lacks_only_our_gate_is_registered() {
        let endpoints_of = |pod: GatedPod, endpoint: Endpoint| {
            let mut cluster = with(service(), vec![slice(&[("http", 80)], vec![endpoint])]);
            pod.enter(&mut cluster, &key("a"));
            targets(endpoints(&cluster, &http()))
        };
        assert_eq!(endpoints_of(pod(true), of_pod("10.0.0.1", "a")), ["10.0.0.1:80"]);
        assert_eq!(endpoints_of(pod(false), of_pod("10.0.0.1", "a")), [""; 0]);
        assert_eq!(endpoints_of(pod(true), of_pod("10.0.0.1", "b")), [""; 0]);
        let successor = GatedPod { uid: "2".into(), ..pod(true) };
        assert_eq!(endpoints_of(successor, of_pod("10.0.0.1", "a")), [""; 0]);
        let leaving = GatedPod { leaving: true, ..pod(true) };
        assert_eq!(endpoints_of(leaving, of_pod("10.0.0.1", "a")), [""; 0]);
    }

    #[test]
    fn what_is_on_its_way_out_is_no_target_even_when_unready_ones_are() {
        let leaving = Endpoint { terminating: true, ..endpoint("10.0.0.1", true) };
        let slices = vec![slice(&[("http", 80)], vec![leaving, endpoint("10.0.0.2", false)])];
        let cluster = with(Service { publish_not_ready: true, ..service() }, slices);
        assert_eq!(targets(endpoints(&cluster, &http())), ["10.0.0.2:80"]);
    }

    #[test]
    fn instances_are_the_nodes_that_take_traffic() {
        let nodes = Backend { target_type: TargetType::Instance, ..http() };
        let on_b = Endpoint { node: Some("b".into()), ..endpoint("10.0.0.1", true) };
        let mut cluster = with(service(), vec![slice(&[("http", 80)], vec![on_b.clone()])]);
        for (name, ready, excluded) in [("a", true, false), ("b", true, false), ("c", false, false), ("d", true, true)]
        {
            let labels = BTreeMap::from([("name".to_owned(), name.to_owned())]);
            let node = Node { instance: format!("i-{name}"), ready, excluded, labels };
            node.enter(&mut cluster, &(String::new(), name.into()));
        }
        assert_eq!(targets(endpoints(&cluster, &nodes)), ["i-a:30080", "i-b:30080"]);
        Service { local_only: true, ..service() }.enter(&mut cluster, &key("web"));
        assert_eq!(targets(endpoints(&cluster, &nodes)), ["i-b:30080"]);
        let selecting = |name: &str| {
            let nodes = BTreeMap::from([("name".to_owned(), name.to_owned())]);
            Backend { target_type: TargetType::Instance, nodes, ..http() }
        };
        service().enter(&mut cluster, &key("web"));
        assert_eq!(targets(endpoints(&cluster, &selecting("a"))), ["i-a:30080"]);
        let Endpoints::Unsuitable(why) = endpoints(&cluster, &selecting("c")) else { panic!("c is not ready") };
        assert_eq!(why, "no ready node has the labels name=c: correct nodeSelector, or label nodes");
        for name in ["a", "b", "d"] {
            let node = Node { instance: format!("i-{name}"), ready: false, excluded: false, labels: BTreeMap::new() };
            node.enter(&mut cluster, &(String::new(), name.into()));
        }
        assert!(matches!(endpoints(&cluster, &nodes), Endpoints::Unsuitable(_)), "not all nodes fail at once");
        let closed = Backend { port: PortName::Name("dns".into()), ..nodes };
        assert!(matches!(endpoints(&cluster, &closed), Endpoints::Unsuitable(_)));
    }
}
