//! `MyIngress`: keeps an Application Load Balancer equal to its object.

mod apply;
mod decide;
mod error;
mod fleet;
mod names;
mod observe;
mod ownership;
mod refresh;
#[cfg(test)]
mod world;

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use kube::runtime::Controller;
use kube::runtime::reflector::ObjectRef;

use error::Error;
use fleet::Fleet;

use super::World;
use crate::api::{MyIngress, MyIngressStatus};
use crate::external::elbv2::Elbv2;
use crate::runtime::{self, ActionEvent, Kind, Plan, Removal};
use apply::Action;
use observe::Observed;

/// Runs the controller, and keeps the snapshot fresh meanwhile.
pub async fn controller(world: World) {
    let elb = Elbv2::new(&world.aws, world.environment.metrics.clone(), world.fence);
    let fleet = Arc::new(Fleet::new(elb, world.cluster_name));
    let kind = MyIngressKind { fleet: fleet.clone() };
    let sweep = world.environment.sweep;
    tokio::select! {
        () = runtime::run(Arc::new(kind), world.environment) => {}
        () = refresh::keep_fresh(&fleet, sweep) => {}
    }
}

/// The kind, with the snapshot that all its objects share.
struct MyIngressKind {
    fleet: Arc<Fleet>,
}

impl Kind for MyIngressKind {
    type Object = MyIngress;
    type Status = MyIngressStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "MyIngress";
    const FINALIZER: Option<&'static str> = Some("causeway.example.com/load-balancer");

    fn status(object: &MyIngress) -> Option<&MyIngressStatus> {
        object.status.as_ref()
    }

    fn suspended(object: &MyIngress) -> bool {
        object.spec.suspend
    }

    async fn observe(&self, object: &MyIngress) -> Result<Observed, Error> {
        observe::observe(&self.fleet, object).await
    }

    fn decide(object: &MyIngress, observed: &Observed, _: Timestamp) -> Plan<Action, MyIngressStatus> {
        decide::decide(object, observed)
    }

    fn decide_removal(object: &MyIngress, observed: &Observed) -> Removal<Action> {
        decide::decide_removal(object, observed)
    }

    async fn apply(&self, _: &MyIngress, action: &Action) -> Result<(), Error> {
        apply::apply(&self.fleet, action).await
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        Some(action.event())
    }

    fn triggers(&self, controller: Controller<MyIngress>, namespace: Option<&str>) -> Controller<MyIngress> {
        let served = namespace.map(str::to_owned);
        let drifted = self.fleet.subscribe().filter_map(move |(namespace, name)| {
            let ours = served.as_ref().is_none_or(|served| *served == namespace);
            std::future::ready(ours.then(|| ObjectRef::new(&name).within(&namespace)))
        });
        let fleet = self.fleet.clone();
        let recovered = async move { fleet.recovered().await };
        controller.reconcile_on(drifted).reconcile_all_on(stream::once(recovered.boxed()))
    }
}
