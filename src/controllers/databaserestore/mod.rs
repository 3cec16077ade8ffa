//! `DatabaseRestore`: brings a backup back into a database, once.
//!
//! ```text
//! S3 ─▶ which backup ─▶ Job: fetched and checked ─▶ a server that is thrown away ─▶ target
//! ```
//!
//! One Job does it, of a name that follows from the object's: whoever goes on after we died finds it. Nothing is begun a
//! second time.

mod decide;
mod error;
mod facts;
mod observe;
mod resources;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::runtime::Controller;
use kube::{Client, ResourceExt};

use super::World;
use crate::api::{DatabaseRestore, DatabaseRestoreStatus};
use crate::external::s3::S3;
use crate::runtime::children::Watch;
use crate::runtime::{self, ActionEvent, Kind, Plan, Removal};
use decide::Action;
use error::Error;
use facts::Observed;
use observe::Observer;

/// The kind.
struct DatabaseRestoreKind {
    client: Client,
    observer: Observer,
    jobs: Watch<DatabaseRestore, Job>,
}

/// Runs the controller.
pub async fn controller(world: World) {
    let client = world.environment.client.clone();
    let s3 = S3::new(&world.aws, world.environment.metrics.clone(), world.fence);
    let observer = Observer::new(client.clone(), s3, world.backups);
    let kind = DatabaseRestoreKind { client, observer, jobs: Watch::new(resources::LABEL) };
    runtime::run(Arc::new(kind), world.environment).await;
}

impl Kind for DatabaseRestoreKind {
    type Object = DatabaseRestore;
    type Status = DatabaseRestoreStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "DatabaseRestore";
    /// Kubernetes deletes the Job with its owner.
    const FINALIZER: Option<&'static str> = None;

    fn status(object: &DatabaseRestore) -> Option<&DatabaseRestoreStatus> {
        object.status.as_ref()
    }

    fn refresh(object: &mut DatabaseRestore, status: DatabaseRestoreStatus) {
        object.status = Some(status);
    }

    fn suspended(_: &DatabaseRestore) -> bool {
        false
    }

    async fn observe(&self, object: &DatabaseRestore) -> Result<Observed, Error> {
        self.observer.observe(object).await
    }

    fn decide(object: &DatabaseRestore, observed: &Observed, now: Timestamp) -> Plan<Action, DatabaseRestoreStatus> {
        decide::decide(object, observed, now)
    }

    fn decide_removal(_: &DatabaseRestore, _: &Observed) -> Removal<Action> {
        Removal { actions: Vec::new(), farewell: None }
    }

    async fn apply(&self, object: &DatabaseRestore, action: &Action) -> Result<(), Error> {
        let namespace = object.namespace().unwrap_or_default();
        match action {
            Action::Apply { child } => {
                let applied = child.apply(&self.client, &namespace, None).await;
                applied.map_err(|source| Error::Apply { child: format!("{child:?}"), source })
            }
            Action::Start { job, .. } => {
                match job.create_for(&self.client, &object.namespace().unwrap_or_default(), object).await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(Error::NameTaken(job.name().to_owned())),
                    Err(source) => Err(Error::Start { name: job.name().to_owned(), source }),
                }
            }
        }
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(
        &self,
        controller: Controller<DatabaseRestore>,
        namespace: Option<&str>,
    ) -> Controller<DatabaseRestore> {
        self.jobs.add_to(controller, &self.client, namespace)
    }
}
