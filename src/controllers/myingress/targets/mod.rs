//! Targets follow endpoints: keeps every bound target group equal to the endpoints of its Service.
//!
//! This is apart from the reconcile: a pod is registered within a second of its readiness even while a thousand
//! balancers are being made. A reconcile makes the group and [binds](Targets::bind) it to a [`Backend`]; from then on
//!
//! ```text
//! watches ─▶ cluster ─▶ wanted ─┐
//!                               ├─▶ planner ─▶ RegisterTargets, DeregisterTargets
//! DescribeTargetHealth ─▶ cache ┘
//!                           └─▶ gate, summary ─▶ the pods' readiness gates, the objects' status
//! ```
//!
//! `wanted`, `cache`, `planner`, `cadence`, `gate` and `summary` decide and are pure. `watches`, `worker` and `pods`
//! act. Nothing here is needed after a restart: groups are bound again, and each is read once.

mod cache;
mod cadence;
mod cluster;
mod dry_run;
mod facts;
mod gate;
mod group;
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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};

use super::ownership::ObjectKey;
use crate::external::aws::AwsError;
use crate::external::ec2::Ec2;
use crate::external::elbv2::{Elbv2, TargetType};
use crate::guardrails::{Beyond, Guardrails};
use crate::runtime::Environment;
use cluster::{Cluster, Concerned};
use registry::Registry;
use zones::Zones;

pub use planner::Step;
pub use wanted::{CheckPort, Refused, Wanted};

/// A port of a Service, as a target group's targets are to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Backend {
    /// The Service's namespace.
    pub namespace: String,
    /// The Service.
    pub service: String,
    /// Its port.
    pub port: PortName,
    /// What the targets are.
    pub target_type: TargetType,
    /// IPv6 addresses instead of IPv4.
    pub ipv6: bool,
    /// Labels that nodes must have to be targets.
    pub nodes: BTreeMap<String, String>,
    /// Name of the Service's port on which targets are checked, where that is another one.
    pub check: Option<String>,
}

/// How a port of a Service is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortName {
    /// By its number: the Service's own, not its pods'.
    Number(u16),
    /// By its name.
    Name(String),
}

/// What the cluster says of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// The cluster has not been read yet.
    NotReadyYet,
    /// There is no such Service.
    ServiceMissing,
    /// The Service has other ports: these, in a person's words.
    PortMissing {
        /// Number, and name where it has one.
        ports: Vec<String>,
    },
    /// The Service cannot be such a backend; why, and what to do.
    Unsuitable(String),
    /// The Service exists, but nothing that lists its endpoints: that is not believed.
    NoSlices,
    /// Some are no pods, and whether policies allow those is not known; why.
    PoliciesUnknown(String),
    /// These are its targets, be it none.
    Known(Wanted),
}

/// A target group that is to follow a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The group; `None` while there is none yet, to be told what becomes of the backend.
    pub group_arn: Option<String>,
    /// The group's VPC; `None` where it is not known.
    pub vpc: Option<String>,
    /// What it follows.
    pub backend: Backend,
    /// This process has just created the group: it is filled without being read first.
    pub created: bool,
    /// Objects to wake.
    pub owners: BTreeSet<ObjectKey>,
}

/// How a target group stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Targets that get requests.
    pub healthy: usize,
    /// Targets that AWS has been told of and that do not leave.
    pub registered: usize,
    /// Targets that there should be.
    pub total: usize,
    /// Former targets that finish their requests.
    pub draining: usize,
    /// AWS has said how they are.
    pub known: bool,
    /// The group has just the targets that it should have, and none waits for its first checks.
    pub settled: bool,
    /// What is wrong, in a person's words: the last error, or a target that fails its checks.
    pub trouble: Option<String>,
}

/// Keeps the targets of all groups.
pub struct Targets {
    elb: Elbv2,
    zones: Arc<Zones>,
    shared: Arc<Shared>,
}

/// What the watches and the groups share.
struct Shared {
    cluster: Mutex<Cluster>,
    registry: Registry,
    listed: watch::Sender<bool>,
    nodes_matter: watch::Sender<bool>,
    watch_trouble: Mutex<Option<String>>,
    guardrails: Guardrails,
}

impl Shared {
    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch_trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.watch_trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn endpoints(&self, backend: &Backend) -> Endpoints {
        wanted::endpoints(&self.cluster(), backend, |namespace| self.beyond_pods(namespace))
    }

    /// Which addresses that are no pods of that namespace may be targets there.
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
        let shared = Shared {
            cluster: Mutex::default(),
            registry: Registry::default(),
            listed: watch::Sender::new(false),
            nodes_matter: watch::Sender::new(false),
            watch_trouble: Mutex::default(),
            guardrails,
        };
        Self { elb, zones: Arc::new(Zones::new(ec2)), shared: Arc::new(shared) }
    }

    /// Watches the cluster and keeps the groups, until `environment.stop`; then the calls in hand are finished.
    pub async fn run(&self, environment: &Environment) {
        tokio::select! {
            () = watches::run(&self.shared, environment) => {}
            () = worker::run(&self.shared, &self.elb, &self.zones, environment) => {}
        }
    }

    /// Waits until the cluster has been read once: until then nothing is known of any backend.
    pub async fn ready(&self) {
        // Cannot fail: the sender lives in `self`.
        let _ = self.shared.listed.subscribe().wait_for(|listed| *listed).await;
    }

    /// Why the cluster cannot be read, if it cannot.
    pub fn watch_trouble(&self) -> Option<String> {
        self.shared.watch_trouble().clone()
    }

    /// What the cluster says of a backend. Asks nobody.
    pub fn endpoints(&self, backend: &Backend) -> Endpoints {
        self.note_nodes(backend);
        self.shared.endpoints(backend)
    }

    /// Binds groups, in place of all that `owner` had bound before. Doing it again changes nothing and costs nothing.
    pub fn bind(&self, bindings: Vec<Binding>, owner: &ObjectKey) {
        for binding in &bindings {
            self.note_nodes(&binding.backend);
        }
        self.shared.registry.bind(bindings, owner);
    }

    /// How a group stands; `None` for one that is not bound.
    pub fn summary(&self, group_arn: &str) -> Option<Summary> {
        self.shared.registry.group(group_arn).map(|group| group.summary(&self.shared))
    }

    /// Objects whose groups or backends are no longer as they were, from now on.
    pub fn subscribe(&self) -> UnboundedReceiver<ObjectKey> {
        self.shared.registry.subscribe()
    }

    /// Reads a group now and repairs what others changed in it. One that is not bound is left alone.
    pub async fn recheck(&self, group_arn: &str) -> Result<(), AwsError> {
        let Some(group) = self.shared.registry.group(group_arn) else { return Ok(()) };
        let (answer, answered) = oneshot::channel();
        group.recheck(answer);
        // Nobody answers when the group is let go of meanwhile: it must not be held here, and the question in it.
        drop(group);
        answered.await.unwrap_or(Ok(()))
    }

    fn note_nodes(&self, backend: &Backend) {
        if backend.target_type == TargetType::Instance {
            self.shared.nodes_matter.send_if_modified(|matter| !std::mem::replace(matter, true));
        }
    }
}
