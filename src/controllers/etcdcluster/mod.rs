//! `EtcdCluster`: keeps an etcd cluster at its size and version, and its members well.
//!
//! ```text
//! watches ──▶ facts ──▶ decide ──▶ apply ──▶ children, members
//! members ──▶ facts                  ▲
//!   └───────▶ monitor ───────────────┘ wakes
//! ```
//!
//! Who is a member is known to etcd alone; pods and volumes follow the members, never the other way round.

mod action;
mod apply;
mod auth;
mod backups;
mod damage;
mod decide;
mod error;
mod facts;
#[cfg(test)]
mod fixtures;
mod membership;
mod memory;
mod monitor;
mod names;
mod observe;
mod resources;
mod settings;
mod strays;
mod tls;
#[cfg(test)]
mod world;

use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::Controller;
use kube::runtime::reflector::ObjectRef;
use kube::{Client, ResourceExt};

use super::World;
use crate::api::{EtcdCluster, EtcdClusterStatus};
use crate::external::etcd::Etcd;
use crate::runtime::{self, ActionEvent, Kind, Plan, Removal};
use action::Action;
use error::Error;
use facts::Observed;
use observe::Observer;

/// The kind.
struct EtcdClusterKind {
    client: Client,
    etcd: Etcd,
    observer: Observer,
}

/// Runs the controller.
pub async fn controller(world: World) {
    let client = world.environment.client.clone();
    let etcd = Etcd::new(world.etcd, world.fence, world.environment.metrics.clone());
    let observer = Observer::new(client.clone(), etcd.clone(), world.backups.image.clone());
    let kind = EtcdClusterKind { client, etcd, observer };
    runtime::run(Arc::new(kind), world.environment).await;
}

impl Kind for EtcdClusterKind {
    type Object = EtcdCluster;
    type Status = EtcdClusterStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "EtcdCluster";
    /// Kubernetes deletes the children with their owner, and the volumes as the `StatefulSet` says.
    const FINALIZER: Option<&'static str> = None;

    fn status(object: &EtcdCluster) -> Option<&EtcdClusterStatus> {
        object.status.as_ref()
    }

    fn refresh(object: &mut EtcdCluster, status: EtcdClusterStatus) {
        object.status = Some(status);
    }

    fn suspended(object: &EtcdCluster) -> bool {
        object.spec.suspend
    }

    fn forget(&self, uid: &str) {
        self.observer.memory.forget(uid);
        self.observer.revivals.forget(uid);
    }

    async fn observe(&self, object: &EtcdCluster) -> Result<Observed, Error> {
        Box::pin(self.observer.observe(object)).await
    }

    fn decide(object: &EtcdCluster, observed: &Observed, now: Timestamp) -> Plan<Action, EtcdClusterStatus> {
        decide::decide(object, observed, now)
    }

    fn decide_removal(_: &EtcdCluster, _: &Observed) -> Removal<Action> {
        Removal { actions: Vec::new(), farewell: None }
    }

    async fn apply(&self, object: &EtcdCluster, action: &Action) -> Result<(), Error> {
        let memory = &self.observer.memory;
        memory.expect_change(object);
        let outcome = apply::apply(&self.client, &self.etcd, &self.observer.restores, object, action).await;
        if action.is_about_login() || matches!(&outcome, Err(Error::Etcd(error)) if error.is_about_login()) {
            memory.forget_access(object);
        }
        match (action, outcome) {
            (Action::Revive { name, .. }, Ok(())) => {
                self.observer.revivals.note(&object.uid().unwrap_or_default(), name);
                Ok(())
            }
            (Action::Compact { revision, .. }, Ok(())) => {
                memory.note_compaction(object, *revision);
                Ok(())
            }
            (Action::Defragment { .. }, Ok(())) => {
                memory.note_defragmentation(object);
                Ok(())
            }
            (Action::Apply { child, .. }, Err(Error::Apply { source: kube::Error::Api(status), .. }))
                if child.kind() == "StatefulSet" && status.code == 422 =>
            {
                memory.note_refusal(object, status.message.clone());
                Err(Error::Refused(status.message))
            }
            (_, Err(error)) if self.observer.backups.excuses(object, &error) => Ok(()),
            (_, outcome) => outcome,
        }
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(&self, controller: Controller<EtcdCluster>, namespace: Option<&str>) -> Controller<EtcdCluster> {
        let served = namespace.map(str::to_owned);
        let woken = self.observer.monitor.subscribe().filter_map(move |(namespace, name)| {
            let is_served = served.as_ref().is_none_or(|served| *served == namespace);
            std::future::ready(is_served.then(|| ObjectRef::new(&name).within(&namespace)))
        });
        let controller = self.observer.watches.add_to(controller, &self.client, namespace).reconcile_on(woken);
        let controller = self.observer.backups.add_to(controller, &self.client, namespace);
        self.observer.restores.add_to(controller, namespace)
    }
}
