//! `Redis`: keeps one master and its replicas, and makes another master when that fails.
//!
//! ```text
//! watches ──▶ facts ──▶ decide ──▶ apply ──▶ children, nodes
//! nodes ────▶ facts                  ▲
//!   └───────▶ monitor ───────────────┘ wakes
//! ```
//!
//! Every process starts as a replica without a master. The status names the master, and is written before a node is
//! promoted. The `EndpointSlice`s of the Services follow the status, and the labels follow the slices.

mod action;
mod applied_config;
mod apply;
pub mod asks;
mod busy;
mod conf_file;
mod damage;
mod database;
mod decide;
mod door;
mod drift;
mod error;
mod exporter_user;
mod facts;
#[cfg(test)]
mod fixtures;
mod listened;
mod memory;
mod modules;
mod monitor;
mod names;
mod observe;
mod pulse;
mod resources;
mod secret_cache;
pub mod sentinel;
mod settings;
mod sightings;
#[cfg(test)]
mod simulation;
mod slices;
mod tls;
mod values;
mod ways;
mod words;
mod zones;

use std::sync::Arc;

use jiff::Timestamp;
use kube::runtime::Controller;

use action::Action;
use causeway_api::RedisStatus;
use causeway_databases::Rules;
use causeway_databases::redis::{Redis, Transport};
use causeway_runtime::leader::Fence;
use causeway_runtime::{ActionEvent, Environment, Kind, Plan, Replacement};
use database::RedisDatabase;
use error::Error;
use facts::Observed;
use observe::Observer;

struct RedisKind {
    redis: Redis,
    observer: Observer,
}

/// The parts from which the controller of `Redis` is built.
pub struct Inputs {
    /// Client of the cluster, metrics, and the signal to stop.
    pub environment: Environment,
    /// Sends commands to nodes.
    pub redis: Arc<dyn Transport>,
    /// Lets changes pass only while this process leads.
    pub fence: Fence,
    /// Image of the operator, which init containers and sidecars run.
    pub image: Option<String>,
    /// The operator's options for databases.
    pub rules: Rules,
}

/// Runs the controller until the process ends.
pub async fn controller(inputs: Inputs) {
    let client = inputs.environment.client.clone();
    let redis = Redis::new(inputs.redis, inputs.fence, inputs.environment.metrics.clone());
    let guardrails = inputs.environment.guardrails.clone();
    let observer = Observer::new(client, redis.clone(), inputs.image, inputs.rules, guardrails);
    let kind = RedisKind { redis, observer };
    causeway_runtime::run(Arc::new(kind), inputs.environment).await;
}

impl Kind for RedisKind {
    type Object = causeway_api::Redis;
    type Status = RedisStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "Redis";
    const OBSERVED_CONDITIONS: &'static [&'static str] =
        &["CertificatesValid", "EvictionsBlocked", "MemoryRisk", "NodeFailureRisk", "Replicated"];
    const LONGEST_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
    const TROUBLE: &'static [&'static str] = &[
        "NoMaster",
        "MasterBusy",
        "MasterEmptied",
        "ClientsRefused",
        "NodeCrashing",
        "ContainerCrashing",
        "ImagePullFailed",
        "PodRefused",
        "Unschedulable",
        "VolumeFull",
    ];

    fn status(object: &causeway_api::Redis) -> Option<&RedisStatus> {
        object.status.as_ref()
    }

    fn refresh(object: &mut causeway_api::Redis, status: RedisStatus) {
        object.status = Some(status);
    }

    fn is_suspended(object: &causeway_api::Redis) -> bool {
        object.spec.suspend
    }

    fn storage(object: &causeway_api::Redis) -> i128 {
        causeway_databases::storage::<RedisDatabase>(object, object.spec.replicas + 1)
    }

    fn forget(&self, uid: &str) {
        self.observer.forget(uid);
    }

    async fn observe(&self, object: &causeway_api::Redis) -> Result<Observed, Error> {
        Box::pin(self.observer.observe(object)).await
    }

    /// Begins to listen to the nodes: when this process becomes the leader, it already knows how long a master has been
    /// silent.
    async fn warm_up(&self, object: &causeway_api::Redis) {
        if let Err(error) = Box::pin(self.observer.observe(object)).await {
            tracing::debug!(%error, "not looked at yet");
        }
    }

    fn decide(object: &causeway_api::Redis, observed: &Observed, now: Timestamp) -> Plan<Action, RedisStatus> {
        decide::decide(object, observed, now)
    }

    async fn apply(&self, object: &causeway_api::Redis, action: &Action) -> Result<(), Error> {
        let outcome = apply::apply(&self.redis, &self.observer, object, action).await;
        match (action, outcome) {
            (Action::Child(child), Err(Error::Children(error)))
                if self.observer.refusals.note::<RedisDatabase>(object, child, &error) =>
            {
                Err(Error::SetAside(error))
            }
            (_, outcome) => outcome,
        }
    }

    fn replaces(action: &Action) -> Option<Replacement<'_>> {
        if let Action::Child(child) = action { child.replaces() } else { None }
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(
        &self,
        controller: Controller<causeway_api::Redis>,
        namespace: Option<&str>,
    ) -> Controller<causeway_api::Redis> {
        let woken = self.observer.monitor.requests(namespace);
        let controller = self.observer.slices.add_to(controller, namespace);
        self.observer.sets.add_to(controller, namespace).reconcile_on(woken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alert_for_databases_fires_for_trouble_of_pods() {
        causeway_databases::runbooks::explain_trouble(RedisKind::TROUBLE);
    }
}
