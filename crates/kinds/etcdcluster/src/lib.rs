//! `EtcdCluster`: keeps an etcd cluster at its size and version, and its members well.
//!
//! ```text
//! watches ──▶ facts ──▶ decide ──▶ apply ──▶ children, members
//! members ──▶ facts                  ▲
//!   └───────▶ monitor ───────────────┘ wakes
//! ```
//!
//! Only etcd knows who is a member. Pods and volumes follow the members, never the other way round.

mod action;
mod apply;
mod asking;
pub mod asks;
mod auth;
mod backups;
mod cache;
mod damage;
mod database;
mod decide;
mod error;
mod facts;
#[cfg(test)]
mod fixtures;
mod membership;
mod monitor;
mod names;
mod observe;
pub mod recovery;
mod resources;
mod settings;
#[cfg(test)]
mod simulation;
mod tls;

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use kube::runtime::Controller;

use action::Action;
use causeway_api::{EtcdCluster, EtcdClusterStatus};
use causeway_databases::Rules;
use causeway_databases::etcd::{Etcd, Transport};
use causeway_runtime::leader::Fence;
use causeway_runtime::{ActionEvent, Environment, Kind, Plan, Replacement};
use database::EtcdDatabase;
use error::Error;
use facts::Observed;
use observe::Observer;

struct EtcdClusterKind {
    etcd: Etcd,
    observer: Observer,
}

/// The parts from which the controller of `EtcdCluster` is built.
pub struct Inputs {
    /// Client of the cluster, metrics, and the signal to stop.
    pub environment: Environment,
    /// Sends calls to members.
    pub etcd: Arc<dyn Transport>,
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
    let etcd = Etcd::new(inputs.etcd, inputs.fence, inputs.environment.metrics.clone());
    let guardrails = inputs.environment.guardrails.clone();
    let image = inputs.image.clone();
    let observer = Observer::new(client, etcd.clone(), image, inputs.rules, guardrails);
    let kind = EtcdClusterKind { etcd, observer };
    causeway_runtime::run(Arc::new(kind), inputs.environment).await;
}

impl Kind for EtcdClusterKind {
    type Object = EtcdCluster;
    type Status = EtcdClusterStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "EtcdCluster";
    const LONGEST_PAUSE: std::time::Duration = std::time::Duration::from_secs(1);
    const TROUBLE: &'static [&'static str] =
        &["QuorumLost", "MemberCrashing", "ContainerCrashing", "ImagePullFailed", "PodRefused", "Unschedulable"];
    const OBSERVED_CONDITIONS: &'static [&'static str] = &[
        "Alarm",
        "AllMembersReady",
        "BackupReady",
        "CertificatesValid",
        "EvictionsBlocked",
        "MemoryRisk",
        "NodeFailureRisk",
        "Quorate",
    ];

    fn status(object: &EtcdCluster) -> Option<&EtcdClusterStatus> {
        object.status.as_ref()
    }

    fn refresh(object: &mut EtcdCluster, status: EtcdClusterStatus) {
        object.status = Some(status);
    }

    fn is_suspended(object: &EtcdCluster) -> bool {
        object.spec.suspend
    }

    fn storage(object: &EtcdCluster) -> i128 {
        causeway_databases::storage::<EtcdDatabase>(object, object.spec.replicas)
    }

    fn forget(&self, uid: &str) {
        self.observer.monitor.forget(uid);
        self.observer.cache.forget(uid);
        self.observer.refusals.forget(uid);
        self.observer.sets.forget(uid);
    }

    async fn observe(&self, object: &EtcdCluster) -> Result<Observed, Error> {
        Box::pin(self.observer.observe(object)).await
    }

    fn decide(object: &EtcdCluster, observed: &Observed, now: Timestamp) -> Plan<Action, EtcdClusterStatus> {
        decide::decide(object, observed, now)
    }

    async fn apply(&self, object: &EtcdCluster, action: &Action) -> Result<(), Error> {
        let Observer { cache, sets, refusals, .. } = &self.observer;
        sets.expect_change(object);
        let begun = Instant::now();
        let outcome = apply::apply(sets, &self.etcd, object, action).await;
        if action.is_about_login() || matches!(&outcome, Err(Error::Etcd(error)) if error.is_about_login()) {
            cache.forget_access(object);
        }
        cache.note_outcome(object, action, outcome.as_ref().err(), begun.elapsed());
        match (action, outcome) {
            (Action::Child(child), Err(Error::Children(error)))
                if refusals.note::<EtcdDatabase>(object, child, &error) =>
            {
                Err(Error::SetAside(error))
            }
            (_, Err(error)) if self.observer.backups.excuses(object, &error) => Ok(()),
            (_, outcome) => outcome,
        }
    }

    fn replaces(action: &Action) -> Option<Replacement<'_>> {
        if let Action::Child(child) = action { child.replaces() } else { None }
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(&self, controller: Controller<EtcdCluster>, namespace: Option<&str>) -> Controller<EtcdCluster> {
        let woken = self.observer.monitor.requests(namespace);
        let Observer { sets, backups, .. } = &self.observer;
        let controller = backups.add_to(controller, &sets.client, namespace);
        sets.add_to(controller, namespace).reconcile_on(woken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alert_for_databases_fires_for_trouble_of_pods() {
        causeway_databases::runbooks::explain_trouble(EtcdClusterKind::TROUBLE);
    }
}
