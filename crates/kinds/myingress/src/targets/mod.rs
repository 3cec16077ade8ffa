//! Targets follow endpoints: keeps every bound target group equal to the endpoints of its Service.
//!
//! This is independent of the reconcile: a pod is registered within a second of its readiness even while a thousand
//! balancers are being created. A reconcile creates the group and [binds](Targets::bind) it to a [`Backend`]. From then
//! on:
//!
//! ```text
//! watches ─▶ cluster ─▶ wanted ─┐
//!                               ├─▶ planner ─▶ RegisterTargets, DeregisterTargets
//! DescribeTargetHealth ─▶ cache ┘
//!                           └─▶ gate, summary ─▶ the pods' readiness gates, the objects' status
//! ```
//!
//! `wanted`, `cache`, `planner`, `cadence`, `gate` and `summary` decide and are pure. `watches`, `worker` and `pods`
//! act. A restart needs no stored state: groups are bound again, and each is read once.

mod cache;
mod cadence;
mod cluster;
mod dry_run;
mod facts;
mod gate;
mod group;
mod lean;
mod planner;
mod pods;
mod priority;
mod registry;
#[cfg(test)]
mod simulation;
mod summary;
mod wanted;
mod watches;
mod worker;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use futures::channel::mpsc::UnboundedReceiver;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use super::ownership::ObjectKey;
use causeway_aws::aws::AwsError;
use causeway_aws::ec2::Ec2;
use causeway_aws::elbv2::{Elbv2, HealthCheck, Target, TargetType};
use causeway_runtime::Environment;
use causeway_runtime::guardrails::{Beyond, Guardrails};
use cluster::{Cluster, Concerned};
use group::Group;
use registry::Registry;
use zones::Zones;

pub use planner::Step;
pub use wanted::{CheckPort, Refused, Wanted};

/// A port of a Service, with what decides how a target group's targets reach it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// The Service's namespace.
    pub namespace: String,
    pub service: String,
    pub port: PortName,
    /// The type of the targets: IP addresses or instances.
    pub target_type: TargetType,
    /// True if the targets are IPv6 addresses instead of IPv4.
    pub ipv6: bool,
    /// Labels that nodes must have to be targets.
    pub nodes: BTreeMap<String, String>,
    /// Name of the Service's port on which targets are checked, if that is another one.
    pub check: Option<String>,
}

/// How a backend names a port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortName {
    /// By its number: the Service's own, not its pods'.
    Number(u16),
    Name(String),
}

impl fmt::Display for PortName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Name(name) => name.fmt(formatter),
        }
    }
}

/// The endpoints of a backend, as the cluster has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// The cluster has not been read yet.
    NotReadyYet,
    /// There is no such Service.
    ServiceMissing,
    /// The Service has no such port, but these.
    PortMissing {
        /// Number, and name where it has one.
        ports: Vec<String>,
    },
    /// The Service cannot be such a backend; why, and what to do.
    Unsuitable(String),
    /// The Service exists, but no slice that lists its endpoints. That is not taken for an empty list.
    NoSlices,
    /// Some addresses are not those of pods, and it is not known whether policies allow them; the reason.
    PoliciesUnknown(String),
    /// These are its targets, possibly none.
    Known(Wanted),
}

/// A target group that is to follow a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The group; `None` while there is none yet. Then the objects are only woken when the backend changes.
    pub group_arn: Option<String>,
    /// The group's VPC; `None` where it is not known.
    pub vpc: Option<String>,
    /// The backend that it follows.
    pub backend: Backend,
    /// The backend that it followed before: its targets stay until one of the new backend is healthy.
    pub former: Option<Backend>,
    /// True if this process has just created the group: then it is filled without being read first.
    pub created: bool,
    /// Objects to wake.
    pub owners: BTreeSet<ObjectKey>,
}

/// A summary of a target group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Targets that are healthy, and so get requests.
    pub healthy: usize,
    /// The number of them that are of the backend that the group follows, and not of a former one.
    pub own: usize,
    /// Targets that are registered and not draining.
    pub registered: usize,
    /// Targets that there should be.
    pub total: usize,
    /// Former targets that finish their requests.
    pub draining: usize,
    /// True if it had a healthy target within the last minutes.
    pub served_lately: bool,
    /// True if the group has been read, so the health of its targets is known.
    pub known: bool,
    /// True if the group has exactly the targets that it should have, and none of them waits for its first checks.
    pub settled: bool,
    /// The present trouble, in readable words: the last error, or a target that fails its checks.
    pub trouble: Option<String>,
}

/// Keeps the targets of all groups.
pub struct Targets {
    elb: Elbv2,
    zones: Arc<Zones>,
    shared: Arc<Shared>,
}

/// The reasons why watches fail; the namespace is `None` for a watch of all.
type Troubles = BTreeMap<(cluster::Kind, Option<String>), String>;

/// The state that the watches and the groups share.
struct Shared {
    cluster: Mutex<Cluster>,
    registry: Registry,
    /// Changes whenever a kind has been listed in a namespace.
    listed: watch::Sender<()>,
    nodes_matter: watch::Sender<bool>,
    /// The reasons why watches fail, by kind and namespace.
    watch_trouble: Mutex<Troubles>,
    guardrails: Guardrails,
}

impl Shared {
    fn new(guardrails: Guardrails) -> Self {
        Self {
            cluster: Mutex::default(),
            registry: Registry::default(),
            listed: watch::Sender::default(),
            nodes_matter: watch::Sender::new(false),
            watch_trouble: Mutex::default(),
            guardrails,
        }
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock()
    }

    fn watch_trouble(&self) -> MutexGuard<'_, Troubles> {
        self.watch_trouble.lock()
    }

    fn endpoints(&self, backend: &Backend) -> Endpoints {
        wanted::endpoints(&self.cluster(), backend, |namespace| self.beyond_pods(namespace))
    }

    /// The targets that a bound group is to have, and whether its endpoints are known. If these are not known, they are
    /// what remains of its present targets. While none of its endpoints is healthy, targets stay that are: a changed
    /// selector of the Service does not move all requests to pods that fail. `None` if the group stays as it is.
    fn aim(&self, group: &Group) -> Option<(BTreeSet<Target>, bool)> {
        let (backend, former) = {
            let state = group.state();
            (state.backend.clone(), state.former.clone())
        };
        let all = [Some(backend), former].map(|backend| backend.map(|backend| (self.endpoints(&backend), backend)));
        let all: Vec<(Endpoints, Backend)> = all.into_iter().flatten().collect();
        let known = all.iter().all(|(endpoints, _)| matches!(endpoints, Endpoints::Known(_)));
        let registered = {
            let mut state = group.state();
            // Noted before pods are looked at: one that goes after that notifies the group.
            state.adrift = !known;
            state.planner.cache.there()
        };
        let beyond = |namespace: &str| self.beyond_pods(namespace);
        let mut aim = BTreeSet::new();
        for (endpoints, backend) in all {
            match endpoints {
                Endpoints::Known(Wanted { targets, .. }) => aim.extend(targets),
                _ => aim.extend(wanted::remaining(&self.cluster(), &backend, registered.clone(), beyond)?),
            }
        }
        if known {
            aim.extend(self.still_serving(group, &aim));
        }
        Some((aim, known))
    }

    /// The healthy targets of a group that are no endpoints any more, and whose pods serve, while no endpoint is healthy.
    /// Where there are no endpoints at all, nothing is to serve.
    fn still_serving(&self, group: &Group, endpoints: &BTreeSet<Target>) -> Vec<Target> {
        let (namespace, healthy) = {
            let mut state = group.state();
            let healthy: Vec<Target> = state.planner.cache.healthy().cloned().collect();
            if endpoints.is_empty() || healthy.is_empty() || healthy.iter().any(|target| endpoints.contains(target)) {
                return Vec::new();
            }
            // Noted before pods are looked at: one that stops serving after that notifies the group.
            state.adrift = true;
            (state.backend.namespace.clone(), healthy)
        };
        let serving = self.cluster().serving_addresses(&namespace);
        let serves = |target: &Target| target.id.parse().is_ok_and(|address| serving.contains(&address));
        healthy.into_iter().filter(serves).collect()
    }

    /// The registered targets of a bound group whose pods are gone. Asked only while a quota has no room, for otherwise
    /// it makes no difference.
    fn gone_targets(&self, group: &Group) -> BTreeSet<Target> {
        let (backend, registered) = {
            let state = group.state();
            if !state.planner.full() {
                return BTreeSet::new();
            }
            (state.backend.clone(), state.planner.cache.there())
        };
        let beyond = |namespace: &str| self.beyond_pods(namespace);
        let remaining = wanted::remaining(&self.cluster(), &backend, registered.clone(), beyond);
        let Some(remaining) = remaining else { return BTreeSet::new() };
        registered.difference(&remaining).cloned().collect()
    }

    /// The addresses besides those of pods that may be targets in that namespace.
    fn beyond_pods(&self, namespace: &str) -> Beyond {
        self.guardrails.beyond_pods(namespace)
    }

    fn changed(&self, concerned: &Concerned) {
        self.registry.changed(concerned);
    }
}

impl Targets {
    /// Follows nothing yet.
    pub fn new(elb: Elbv2, ec2: Ec2, guardrails: Guardrails) -> Self {
        Self { elb, zones: Arc::new(Zones::new(ec2)), shared: Arc::new(Shared::new(guardrails)) }
    }

    /// Watches the cluster and keeps the groups until `environment.stop`. Calls in flight are finished before it
    /// returns.
    pub async fn run(&self, environment: &Environment) {
        tokio::select! {
            () = watches::run(&self.shared, environment) => {}
            () = worker::run(&self.shared, &self.elb, &self.zones, environment) => {}
        }
    }

    /// Waits until that namespace has been read once. Before that nothing is known about any backend in it.
    pub async fn ready(&self, namespace: &str) {
        let mut listed = self.shared.listed.subscribe();
        while !self.shared.cluster().complete(TargetType::Ip, namespace) {
            // Cannot fail: the sender lives in `self`.
            if listed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Explains why that namespace cannot be read, if it cannot.
    pub fn watch_trouble(&self, namespace: &str) -> Option<String> {
        let troubles = self.shared.watch_trouble();
        let mut here = troubles.iter().filter(|((_, of), _)| of.as_deref().is_none_or(|of| of == namespace));
        here.next().map(|(_, trouble)| trouble.clone())
    }

    /// Returns the endpoints of a backend, as far as the watches have shown them. No call is made.
    pub fn endpoints(&self, backend: &Backend) -> Endpoints {
        self.note_nodes(backend);
        self.shared.endpoints(backend)
    }

    /// Binds groups, in place of all that `owner` had bound before. Repeating it changes nothing and costs nothing.
    pub fn bind(&self, bindings: Vec<Binding>, owner: &ObjectKey) {
        for binding in &bindings {
            self.note_nodes(&binding.backend);
        }
        self.shared.registry.bind(bindings, owner);
    }

    /// The summary of a group; `None` for one that is not bound.
    pub fn summary(&self, group_arn: &str) -> Option<Summary> {
        self.shared.registry.group(group_arn).map(|group| group.summary(&self.shared))
    }

    /// The objects to wake, from now on, because their groups or backends changed.
    pub fn subscribe(&self) -> UnboundedReceiver<ObjectKey> {
        self.shared.registry.subscribe()
    }

    /// Notes a change of a group, or of what is before it, that can make its targets healthy or unhealthy. Their health
    /// is read as often as that of new targets, until AWS has judged them by this check. A group that is not bound is
    /// left alone.
    pub fn disturbed(&self, group_arn: &str, check: &HealthCheck) {
        if let Some(group) = self.shared.registry.group(group_arn) {
            group.disturbed(cadence::judged_within(check));
        }
    }

    /// Reads a group now, and repairs what others changed in it. A group that is not bound is left alone.
    pub async fn recheck(&self, group_arn: &str) -> Result<(), AwsError> {
        let Some(group) = self.shared.registry.group(group_arn) else { return Ok(()) };
        let (answer, answered) = oneshot::channel();
        group.recheck(answer);
        // If the group is released meanwhile, no task answers. It must not be kept alive here, because it holds the
        // sender.
        drop(group);
        answered.await.unwrap_or(Ok(()))
    }

    fn note_nodes(&self, backend: &Backend) {
        if backend.target_type == TargetType::Instance {
            self.shared.nodes_matter.send_if_modified(|matter| !std::mem::replace(matter, true));
        }
    }
}
