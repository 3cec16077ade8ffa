//! `Redis`: keeps one master and its replicas, and makes another master when that fails.
//!
//! ```text
//! watches ──▶ facts ──▶ decide ──▶ apply ──▶ children, nodes
//! nodes ────▶ facts                  ▲
//!   └───────▶ monitor ───────────────┘ wakes
//! ```
//!
//! Every process begins as a replica of nobody. Who is the master is in the status, written before anybody is promoted;
//! the slices by which Services lead there follow it, and the labels follow those.

mod action;
mod apply;
mod damage;
mod decide;
mod drift;
mod error;
mod facts;
#[cfg(test)]
mod fixtures;
mod monitor;
mod names;
mod notes;
mod observe;
mod pulse;
mod reading;
mod resources;
mod settings;
mod slices;
mod strays;
mod tls;
mod vault;
#[cfg(test)]
mod world;

use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::runtime::Controller;
use kube::runtime::reflector::ObjectRef;

use super::World;
use crate::api::{self, RedisStatus};
use crate::external::redis::Redis;
use crate::runtime::{self, ActionEvent, Kind, Plan, Removal};
use action::Action;
use error::Error;
use facts::Observed;
use observe::Observer;

/// The kind.
struct RedisKind {
    client: Client,
    redis: Redis,
    observer: Observer,
}

/// Runs the controller.
pub async fn controller(world: World) {
    let client = world.environment.client.clone();
    let redis = Redis::new(world.redis, world.fence, world.environment.metrics.clone());
    let kind = RedisKind { observer: Observer::new(client.clone(), redis.clone()), client, redis };
    runtime::run(Arc::new(kind), world.environment).await;
}

impl Kind for RedisKind {
    type Object = api::Redis;
    type Status = RedisStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "Redis";
    /// Kubernetes deletes the children with their owner, and the volumes as the `StatefulSet` says.
    const FINALIZER: Option<&'static str> = None;

    fn status(object: &api::Redis) -> Option<&RedisStatus> {
        object.status.as_ref()
    }

    fn refresh(object: &mut api::Redis, status: RedisStatus) {
        object.status = Some(status);
    }

    fn suspended(object: &api::Redis) -> bool {
        object.spec.suspend
    }

    fn forget(&self, uid: &str) {
        self.observer.forget(uid);
    }

    async fn observe(&self, object: &api::Redis) -> Result<Observed, Error> {
        Box::pin(self.observer.observe(object)).await
    }

    fn decide(object: &api::Redis, observed: &Observed, now: Timestamp) -> Plan<Action, RedisStatus> {
        decide::decide(object, observed, now)
    }

    fn decide_removal(_: &api::Redis, _: &Observed) -> Removal<Action> {
        Removal { actions: Vec::new(), farewell: None }
    }

    async fn apply(&self, object: &api::Redis, action: &Action) -> Result<(), Error> {
        apply::apply(&self.client, &self.redis, &self.observer, object, action).await
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(&self, controller: Controller<api::Redis>, namespace: Option<&str>) -> Controller<api::Redis> {
        let served = namespace.map(str::to_owned);
        let woken = self.observer.monitor.subscribe().filter_map(move |(namespace, name)| {
            let is_served = served.as_ref().is_none_or(|served| *served == namespace);
            std::future::ready(is_served.then(|| ObjectRef::new(&name).within(&namespace)))
        });
        let controller = self.observer.watches.add_to(controller, &self.client, namespace).reconcile_on(woken);
        let controller = self.observer.slices.add_to(controller, namespace);
        self.observer.restores.add_to(controller, namespace)
    }
}
