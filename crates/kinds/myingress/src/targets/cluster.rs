//! Everything known about the cluster: facts by name, and the Services that a change of a fact concerns. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use causeway_aws::elbv2::TargetType;

use super::facts::{Endpoint, GatedPod, Node, Pod, Service, Slice};

/// Namespace and name; the namespace of a node is empty.
pub type Key = (String, String);

/// A kind of object that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Services,
    /// Their endpoints.
    Slices,
    Pods,
    Nodes,
}

/// The backends that a change concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Concerned {
    /// Backends of these Services.
    pub services: BTreeSet<Key>,
    /// Every backend whose targets are nodes.
    pub nodes: bool,
    /// Namespaces in which a pod lost an address. This concerns backends of which the endpoints are not known.
    pub left: BTreeSet<String>,
}

impl Concerned {
    fn service(key: Key) -> Self {
        Self { services: BTreeSet::from([key]), ..Self::default() }
    }

    /// Adds what another change concerns.
    pub fn add(&mut self, other: Self) {
        self.services.extend(other.services);
        self.nodes |= other.nodes;
        self.left.extend(other.left);
    }
}

/// The facts.
#[derive(Default)]
pub struct Cluster {
    /// The kinds that have been listed, with the namespace; `None` stands for all namespaces.
    listed: BTreeSet<(Kind, Option<String>)>,
    services: HashMap<Key, Service>,
    /// Slices by Service, then by their own name.
    slices: HashMap<Key, BTreeMap<String, Slice>>,
    /// The Service of a slice.
    service_of_slice: HashMap<Key, String>,
    /// Pods with our readiness gate.
    pods: HashMap<Key, GatedPod>,
    /// The addresses of all pods, and whether each serves.
    addresses: HashMap<Key, (Box<[IpAddr]>, bool)>,
    nodes: BTreeMap<String, Node>,
}

impl Cluster {
    /// Notes that all of a kind has been seen once in a namespace, or in all. Returns whether that is new.
    pub fn listed(&mut self, kind: Kind, namespace: Option<&str>) -> bool {
        self.listed.insert((kind, namespace.map(str::to_owned)))
    }

    /// Reports whether everything that decides about such targets in that namespace has been seen.
    pub fn complete(&self, targets: TargetType, namespace: &str) -> bool {
        let needed: &[Kind] = match targets {
            TargetType::Ip => &[Kind::Services, Kind::Slices, Kind::Pods],
            TargetType::Instance => &[Kind::Services, Kind::Slices, Kind::Nodes],
        };
        needed.iter().all(|kind| self.knows(*kind, namespace))
    }

    fn knows(&self, kind: Kind, namespace: &str) -> bool {
        self.listed.contains(&(kind, None)) || self.listed.contains(&(kind, Some(namespace.to_owned())))
    }

    pub fn service(&self, namespace: &str, name: &str) -> Option<&Service> {
        self.services.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The slices of a Service.
    pub fn slices(&self, namespace: &str, service: &str) -> impl Iterator<Item = &Slice> {
        self.named_slices(namespace, service).map(|(_, slice)| slice)
    }

    /// The same, with their names.
    pub fn named_slices(&self, namespace: &str, service: &str) -> impl Iterator<Item = (&str, &Slice)> {
        let slices = self.slices.get(&(namespace.to_owned(), service.to_owned()));
        slices.into_iter().flatten().map(|(name, slice)| (name.as_str(), slice))
    }

    /// Reports whether the endpoint is what it claims to be: a pod of that namespace, with an address that this pod
    /// has. Anyone who writes a slice may name any pod and any address.
    pub fn is_of_its_pod(&self, namespace: &str, endpoint: &Endpoint) -> bool {
        let Some((name, _)) = &endpoint.pod else { return false };
        let addresses = self.addresses.get(&(namespace.to_owned(), name.to_string()));
        addresses.is_some_and(|(addresses, _)| endpoint.address.parse().is_ok_and(|it| addresses.contains(&it)))
    }

    /// The addresses of all pods of a namespace.
    pub fn addresses_of(&self, namespace: &str) -> HashSet<IpAddr> {
        self.pods_of(namespace).flat_map(|(addresses, _)| addresses.iter().copied()).collect()
    }

    /// The addresses of the pods of a namespace that serve, whether or not they are endpoints of any Service.
    pub fn serving_addresses(&self, namespace: &str) -> HashSet<IpAddr> {
        let serving = self.pods_of(namespace).filter(|(_, serves)| *serves);
        serving.flat_map(|(addresses, _)| addresses.iter().copied()).collect()
    }

    /// The pods of a namespace: the addresses of each, and whether it serves.
    fn pods_of(&self, namespace: &str) -> impl Iterator<Item = &(Box<[IpAddr]>, bool)> {
        self.addresses.iter().filter(move |((of, _), _)| of == namespace).map(|(_, pod)| pod)
    }

    /// A pod with our readiness gate.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&GatedPod> {
        self.pods.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The nodes that are EC2 instances.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), node))
    }

    /// The Services that one of these pods is an endpoint of.
    pub fn services_of(&self, namespace: &str, pods: &BTreeSet<&str>) -> BTreeSet<Key> {
        let has = |slice: &Slice| {
            slice.endpoints.iter().any(|endpoint| endpoint.pod.as_ref().is_some_and(|(name, _)| pods.contains(&**name)))
        };
        let within = self.slices.iter().filter(|((of, _), _)| of == namespace);
        within.filter(|(_, slices)| slices.values().any(has)).map(|(service, _)| service.clone()).collect()
    }

    /// The Services that a change of that pod concerns. Until all pods of its namespace are listed there are none,
    /// because everything is checked after that list anyway.
    fn concerned_by_pod(&self, key: &Key) -> Concerned {
        if !self.knows(Kind::Pods, &key.0) {
            return Concerned::default();
        }
        let services = self.services_of(&key.0, &BTreeSet::from([key.1.as_str()]));
        Concerned { services, ..Concerned::default() }
    }

    /// Returns the same for a pod that lost an address or stopped serving.
    fn concerned_by_address(&self, key: &Key) -> Concerned {
        if !self.knows(Kind::Pods, &key.0) {
            return Concerned::default();
        }
        Concerned { left: BTreeSet::from([key.0.clone()]), ..self.concerned_by_pod(key) }
    }

    /// Enters what we have just written into a pod, before its watch shows it.
    pub fn written(&mut self, key: &Key, pod: GatedPod) {
        if self.pods.get(key).is_some_and(|known| known.uid == pod.uid && known.version < pod.version) {
            self.pods.insert(key.clone(), kept_since(self.pods.get(key), pod));
        }
    }
}

/// A fact that is entered when its object appears or changes, and removed when the object is gone. Both return what the
/// change concerns: nothing, if nothing that matters changed.
pub trait Entered: Sized {
    /// The kind of the object.
    const KIND: Kind;
    /// Enters it.
    fn enter(self, cluster: &mut Cluster, key: &Key) -> Concerned;
    /// Removes it.
    fn leave(cluster: &mut Cluster, key: &Key) -> Concerned;
    /// The names of all facts of this kind.
    fn keys(cluster: &Cluster) -> Vec<Key>;
    /// Returns the bytes that it takes of its namespace's room; 0 if a tenant cannot make it large.
    fn bytes(&self) -> usize {
        0
    }
}

impl Entered for Service {
    const KIND: Kind = Kind::Services;

    fn enter(self, cluster: &mut Cluster, key: &Key) -> Concerned {
        if cluster.services.get(key) == Some(&self) {
            return Concerned::default();
        }
        cluster.services.insert(key.clone(), self);
        Concerned::service(key.clone())
    }

    fn leave(cluster: &mut Cluster, key: &Key) -> Concerned {
        cluster.services.remove(key).map(|_| Concerned::service(key.clone())).unwrap_or_default()
    }

    fn keys(cluster: &Cluster) -> Vec<Key> {
        cluster.services.keys().cloned().collect()
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.ports.iter().map(|port| size_of_val(port) + port.name.len()).sum::<usize>()
    }
}

impl Entered for Slice {
    const KIND: Kind = Kind::Slices;

    fn enter(self, cluster: &mut Cluster, key: &Key) -> Concerned {
        let mut concerned = Concerned::default();
        let known = cluster.service_of_slice.get(key);
        if known.is_some_and(|service| *service != self.service) {
            concerned.add(Self::leave(cluster, key));
        }
        let service = (key.0.clone(), self.service.clone());
        let slices = cluster.slices.entry(service.clone()).or_default();
        if slices.get(&key.1) == Some(&self) {
            return concerned;
        }
        cluster.service_of_slice.insert(key.clone(), self.service.clone());
        slices.insert(key.1.clone(), self);
        concerned.add(Concerned::service(service));
        concerned
    }

    fn leave(cluster: &mut Cluster, key: &Key) -> Concerned {
        let Some(service) = cluster.service_of_slice.remove(key) else { return Concerned::default() };
        let service = (key.0.clone(), service);
        if let Some(slices) = cluster.slices.get_mut(&service) {
            slices.remove(&key.1);
            if slices.is_empty() {
                cluster.slices.remove(&service);
            }
        }
        Concerned::service(service)
    }

    fn keys(cluster: &Cluster) -> Vec<Key> {
        cluster.service_of_slice.keys().cloned().collect()
    }

    fn bytes(&self) -> usize {
        let ports = self.ports.iter().map(|port| size_of_val(port) + port.0.len());
        // Addresses and names of nodes and pods.
        let endpoints = self.endpoints.iter().map(|endpoint| size_of_val(endpoint) + 100);
        size_of_val(self) + ports.sum::<usize>() + endpoints.sum::<usize>()
    }
}

impl Entered for Pod {
    const KIND: Kind = Kind::Pods;

    fn enter(self, cluster: &mut Cluster, key: &Key) -> Concerned {
        let concerned = match self.gated {
            Some(pod) => pod.enter(cluster, key),
            None => GatedPod::leave(cluster, key),
        };
        let before = match cluster.addresses.get_mut(key) {
            Some((known, served)) if *known == self.addresses => {
                let stops = std::mem::replace(served, self.serves) && !self.serves;
                return if stops { cluster.concerned_by_address(key) } else { concerned };
            }
            None if self.addresses.is_empty() => return concerned,
            _ => cluster.addresses.insert(key.clone(), (self.addresses, self.serves)),
        };
        if before.is_some() { cluster.concerned_by_address(key) } else { cluster.concerned_by_pod(key) }
    }

    fn leave(cluster: &mut Cluster, key: &Key) -> Concerned {
        let concerned = GatedPod::leave(cluster, key);
        if cluster.addresses.remove(key).is_some() { cluster.concerned_by_address(key) } else { concerned }
    }

    fn keys(cluster: &Cluster) -> Vec<Key> {
        cluster.pods.keys().chain(cluster.addresses.keys()).cloned().collect()
    }
}

impl GatedPod {
    fn enter(self, cluster: &mut Cluster, key: &Key) -> Concerned {
        let known = cluster.pods.get(key);
        // The watch may still deliver a state from before our own last write.
        if known.is_some_and(|known| known.uid == self.uid && known.version >= self.version) {
            return Concerned::default();
        }
        let pod = kept_since(known, self);
        let same = known.is_some_and(|known| GatedPod { version: pod.version, ..known.clone() } == pod);
        cluster.pods.insert(key.clone(), pod);
        if same { Concerned::default() } else { cluster.concerned_by_pod(key) }
    }

    fn leave(cluster: &mut Cluster, key: &Key) -> Concerned {
        if cluster.pods.remove(key).is_some() { cluster.concerned_by_pod(key) } else { Concerned::default() }
    }
}

/// The pod, with the time at which we first saw it able.
fn kept_since(known: Option<&GatedPod>, pod: GatedPod) -> GatedPod {
    match known.filter(|known| known.uid == pod.uid && known.able && pod.able) {
        Some(known) => GatedPod { able_since: known.able_since, ..pod },
        None => pod,
    }
}

impl Entered for Node {
    const KIND: Kind = Kind::Nodes;

    fn enter(self, cluster: &mut Cluster, (_, name): &Key) -> Concerned {
        let nodes = cluster.nodes.get(name) != Some(&self);
        cluster.nodes.insert(name.clone(), self);
        Concerned { nodes, ..Concerned::default() }
    }

    fn leave(cluster: &mut Cluster, (_, name): &Key) -> Concerned {
        Concerned { nodes: cluster.nodes.remove(name).is_some(), ..Concerned::default() }
    }

    fn keys(cluster: &Cluster) -> Vec<Key> {
        cluster.nodes.keys().map(|name| (String::new(), name.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::targets::facts::{Endpoint, Family};

    fn key(name: &str) -> Key {
        ("shop".into(), name.into())
    }

    fn slice(service: &str, pod: &str) -> Slice {
        let pod = Some((pod.into(), "1".into()));
        let endpoint = Endpoint { address: "10.0.0.1".into(), ready: true, terminating: false, node: None, pod };
        Slice {
            service: service.into(),
            family: Family::V4,
            ports: vec![],
            endpoints: vec![endpoint],
            by_kubernetes: true,
        }
    }

    fn pod(version: u64, able: bool) -> GatedPod {
        let able_since = able.then(Instant::now);
        GatedPod { uid: "1".into(), able, able_since, leaving: false, gate: None, version }
    }

    #[test]
    fn an_unchanged_fact_concerns_no_group() {
        let mut cluster = Cluster::default();
        cluster.listed(Kind::Pods, None);
        assert_eq!(slice("web", "a").enter(&mut cluster, &key("s")), Concerned::service(key("web")));
        assert_eq!(slice("web", "a").enter(&mut cluster, &key("s")), Concerned::default());
        assert_eq!(pod(1, false).enter(&mut cluster, &key("a")).services, BTreeSet::from([key("web")]));
        assert_eq!(pod(2, false).enter(&mut cluster, &key("a")), Concerned::default());
        let at = |address: &str| Pod { addresses: Box::new([address.parse().unwrap()]), serves: true, gated: None };
        assert_eq!(at("10.0.0.1").enter(&mut cluster, &key("a")).services, BTreeSet::from([key("web")]));
        assert_eq!(at("10.0.0.1").enter(&mut cluster, &key("a")), Concerned::default());
        let (services, left) = (BTreeSet::from([key("web")]), BTreeSet::from(["shop".to_owned()]));
        let concerned = Concerned { services, left, nodes: false };
        assert_eq!(at("10.0.0.2").enter(&mut cluster, &key("a")), concerned);
        let stops = Pod { serves: false, ..at("10.0.0.2") };
        assert_eq!(stops.enter(&mut cluster, &key("a")), concerned, "it serves no more");
        assert_eq!(at("10.0.0.2").enter(&mut cluster, &key("a")), Concerned::default());
        assert_eq!(Pod::leave(&mut cluster, &key("a")), concerned);
        assert_eq!(Pod::keys(&cluster), []);
    }

    #[test]
    fn a_slice_that_moves_concerns_both_services() {
        let mut cluster = Cluster::default();
        slice("web", "a").enter(&mut cluster, &key("s"));
        let moved = slice("api", "a").enter(&mut cluster, &key("s"));
        assert_eq!(moved.services, BTreeSet::from([key("api"), key("web")]));
        assert_eq!(cluster.slices("shop", "web").count(), 0);
        assert_eq!(Slice::leave(&mut cluster, &key("s")), Concerned::service(key("api")));
        assert!(cluster.slices.is_empty() && cluster.service_of_slice.is_empty());
    }

    #[test]
    fn an_older_version_of_a_pod_undoes_no_write() {
        let mut cluster = Cluster::default();
        pod(1, true).enter(&mut cluster, &key("a"));
        let since = cluster.pod("shop", "a").unwrap().able_since;
        cluster
            .written(&key("a"), GatedPod { able_since: since.map(|it| it + Duration::from_secs(1)), ..pod(3, true) });
        assert_eq!(pod(2, false).enter(&mut cluster, &key("a")), Concerned::default());
        let known = cluster.pod("shop", "a").unwrap();
        assert!(known.able && known.able_since == since);
    }
}
