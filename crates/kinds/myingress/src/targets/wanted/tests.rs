//! The endpoints of a backend in a small cluster.

use std::time::Instant;

use super::{endpoints as endpoints_within, *};
use crate::targets::cluster::{Entered, Kind};
use crate::targets::facts::Pod;

/// The endpoints if every address is allowed.
fn endpoints(cluster: &Cluster, backend: &Backend) -> Endpoints {
    endpoints_within(cluster, backend, |_| Beyond::All)
}

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
    Slice { service: "web".into(), family: Family::V4, ports, endpoints, by_kubernetes: false }
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
        cluster.listed(kind, None);
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
    cluster.listed(Kind::Services, None);
    cluster.listed(Kind::Slices, None);
    service().enter(&mut cluster, &key("web"));
    assert_eq!(endpoints(&cluster, &http()), Endpoints::NotReadyYet);
    cluster.listed(Kind::Pods, None);
    assert_eq!(endpoints(&cluster, &http()), Endpoints::NoSlices);
    let nodes = Backend { target_type: TargetType::Instance, ..http() };
    assert_eq!(endpoints(&cluster, &nodes), Endpoints::NotReadyYet);
}

#[test]
fn a_namespace_is_believed_although_another_cannot_be_listed() {
    let mut cluster = Cluster::default();
    for kind in [Kind::Services, Kind::Slices, Kind::Pods] {
        cluster.listed(kind, Some("shop"));
    }
    let elsewhere = Backend { namespace: "blog".into(), ..http() };
    assert_eq!(endpoints(&cluster, &http()), Endpoints::ServiceMissing);
    assert_eq!(endpoints(&cluster, &elsewhere), Endpoints::NotReadyYet, "its targets stay as they are");
    cluster.listed(Kind::Nodes, None);
    let nodes = Backend { target_type: TargetType::Instance, ..http() };
    assert_eq!(endpoints(&cluster, &nodes), Endpoints::ServiceMissing);
}

#[test]
fn targets_stay_where_pods_or_policies_are_not_known() {
    let mut cluster = listed();
    Pod { addresses: ["10.0.0.1".parse().unwrap()].into(), serves: true, gated: None }.enter(&mut cluster, &key("a"));
    let registered: BTreeSet<Target> =
        ["10.0.0.1", "10.0.0.2"].map(|id| Target { id: id.into(), port: 8080 }).into_iter().collect();
    let left = |cluster: &Cluster, backend: &Backend, beyond: Beyond| {
        let remaining = remaining(cluster, backend, registered.clone(), |_| beyond.clone());
        remaining.map(|remaining| remaining.into_iter().map(|target| target.id).collect::<Vec<_>>())
    };
    let nothing = || Beyond::Within(Vec::new());
    assert_eq!(left(&cluster, &http(), nothing()), Some(vec!["10.0.0.1".to_owned()]));
    assert_eq!(left(&cluster, &Backend { namespace: "bank".into(), ..http() }, nothing()), Some(Vec::new()));
    assert_eq!(left(&cluster, &http(), Beyond::All).map(|left| left.len()), Some(2));
    assert_eq!(left(&cluster, &http(), Beyond::Unknown("not listed".into())), None);
    assert_eq!(left(&cluster, &Backend { target_type: TargetType::Instance, ..http() }, nothing()), None);
    assert_eq!(left(&Cluster::default(), &http(), nothing()), None);
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
fn the_tcp_port_counts_among_ports_of_one_number() {
    let tcp = ServicePort { name: "https".into(), number: 443, node_port: None, target: Some(8443), tcp: true };
    let udp = ServicePort { name: "http3".into(), target: Some(8444), tcp: false, ..tcp.clone() };
    let pods = || vec![slice(&[("https", 8443)], vec![endpoint("10.0.0.1", true)])];
    let found = |ports: Vec<ServicePort>| {
        let cluster = with(Service { ports, ..service() }, pods());
        endpoints(&cluster, &backend(PortName::Number(443)))
    };
    assert_eq!(targets(found(vec![tcp.clone(), udp.clone()])), ["10.0.0.1:8443"]);
    assert_eq!(targets(found(vec![udp.clone(), tcp])), ["10.0.0.1:8443"]);
    let Endpoints::Unsuitable(why) = found(vec![udp]) else { panic!("it speaks UDP only") };
    assert_eq!(why, "port 443 (http3) of Service web does not speak TCP");
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
fn a_check_port_has_its_number_from_the_pods() {
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
    assert_eq!(check(metrics(Some(9091)), vec![idle()], http()), CheckPort::Is(9091), "no pod says otherwise");
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
        Pod { gated: Some(pod), ..Pod::default() }.enter(&mut cluster, &key("a"));
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
fn terminating_endpoints_are_no_targets_even_if_unready_ones_are() {
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
    for (name, ready, excluded) in [("a", true, false), ("b", true, false), ("c", false, false), ("d", true, true)] {
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

#[test]
fn only_pods_of_the_namespace_and_allowed_addresses_are_targets() {
    let within = |networks: &[&str]| Beyond::Within(vec![networks.iter().map(|it| (*it).to_owned()).collect()]);
    let at = |address: &str| Pod { addresses: Box::new([address.parse().unwrap()]), serves: true, gated: None };
    let ready = |address: &str, pod: &str| Endpoint { ready: true, ..of_pod(address, pod) };
    // Besides its own pod: another tenant's address under the name of our own pod, an endpoint that names a pod of
    // theirs, and an address without a pod.
    let lies = vec![
        ready("10.0.0.1", "own"),
        ready("10.9.0.1", "own"),
        ready("10.9.0.2", "theirs"),
        endpoint("169.254.169.254", true),
    ];
    let mut cluster = with(service(), vec![slice(&[("http", 80)], lies)]);
    at("10.0.0.1").enter(&mut cluster, &key("own"));
    at("10.9.0.2").enter(&mut cluster, &("bank".into(), "theirs".into()));
    let found = |beyond: Beyond| {
        endpoints_within(&cluster, &http(), |namespace| {
            assert_eq!(namespace, "shop");
            beyond.clone()
        })
    };
    let Endpoints::Known(wanted) = found(Beyond::Within(vec![])) else { panic!("policies are known") };
    let refused = Refused { address: "10.9.0.1".into(), slice: "web-0".into(), others: 2 };
    assert_eq!(wanted.refused, Some(refused));
    assert_eq!(targets(Endpoints::Known(wanted)), ["10.0.0.1:80"]);
    assert_eq!(targets(found(within(&["10.9.0.2/32"]))), ["10.0.0.1:80", "10.9.0.2:80"]);
    assert_eq!(found(Beyond::Unknown("why".into())), Endpoints::PoliciesUnknown("why".into()));
}

#[test]
fn pods_need_no_policy_and_may_be_unknown_at_first() {
    let of_kubernetes = Slice { by_kubernetes: true, ..slice(&[("http", 80)], vec![of_pod("10.0.0.1", "a")]) };
    let found = |service: Service, pods: &[&str]| {
        let mut cluster = with(service, vec![of_kubernetes.clone()]);
        for address in pods {
            Pod { addresses: Box::new([address.parse().unwrap()]), serves: true, gated: None }
                .enter(&mut cluster, &key("a"));
        }
        let asks = || if pods.is_empty() { Beyond::Within(vec![]) } else { Beyond::Unknown("asked".into()) };
        let Endpoints::Known(wanted) = endpoints_within(&cluster, &http(), |_| asks()) else { panic!("asked") };
        wanted.refused.is_some()
    };
    let selecting = || Service { selects: true, ..service() };
    assert!(!found(selecting(), &["10.0.0.1"]));
    assert!(!found(selecting(), &[]), "it is about to be known, or just gone");
    assert!(found(service(), &[]), "Kubernetes writes none for a Service without a selector");
}
