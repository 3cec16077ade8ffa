//! `DatabaseRestore`: restores a backup into a database, once.
//!
//! ```text
//! S3 ─▶ which backup ─▶ Job: fetched and checked ─▶ a server that is thrown away ─▶ target
//! ```
//!
//! One Job does it. Its name follows from the object's name, so the operator finds the Job after a restart. Nothing is
//! started a second time.

mod bucket;
mod choice;
mod decide;
mod facts;
mod instant;
mod listing;
mod observe;
mod resources;
mod shelf;
mod target;

use std::sync::Arc;

use aws_config::SdkConfig;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::runtime::Controller;

use causeway_api::{DatabaseRestore, DatabaseRestoreStatus};
use causeway_aws::s3::S3;
use causeway_backup::jobs::Settings;
use causeway_backup::transfer::{self, Error};
use causeway_runtime::child_watch::Watch;
use causeway_runtime::leader::Fence;
use causeway_runtime::{ActionEvent, Environment, Kind, Plan};
use decide::Action;
use facts::Observed;
use observe::Observer;

struct DatabaseRestoreKind {
    client: Client,
    observer: Observer,
    jobs: Watch<DatabaseRestore, Job>,
}

/// The parts from which the controller of `DatabaseRestore` is built.
pub struct Inputs {
    /// Client of the cluster, metrics, and the signal to stop.
    pub environment: Environment,
    /// Configuration of AWS clients.
    pub aws: SdkConfig,
    /// Lets changes pass only while this process leads.
    pub fence: Fence,
    /// The operator's options for backups.
    pub settings: Settings,
}

/// Runs the controller of restores until its shutdown is requested.
pub async fn controller(inputs: Inputs) {
    let client = inputs.environment.client.clone();
    let s3 = S3::new(&inputs.aws, inputs.environment.metrics.clone(), inputs.fence);
    let observer = Observer::new(client.clone(), s3, inputs.settings, inputs.environment.guardrails.clone());
    let kind = DatabaseRestoreKind { client, observer, jobs: Watch::new(resources::LABEL) };
    causeway_runtime::run(Arc::new(kind), inputs.environment).await;
}

impl Kind for DatabaseRestoreKind {
    type Object = DatabaseRestore;
    type Status = DatabaseRestoreStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "DatabaseRestore";

    fn status(object: &DatabaseRestore) -> Option<&DatabaseRestoreStatus> {
        object.status.as_ref()
    }

    fn refresh(object: &mut DatabaseRestore, status: DatabaseRestoreStatus) {
        object.status = Some(status);
    }

    fn is_suspended(_: &DatabaseRestore) -> bool {
        false
    }

    async fn observe(&self, object: &DatabaseRestore) -> Result<Observed, Error> {
        self.observer.observe(object).await
    }

    fn decide(object: &DatabaseRestore, observed: &Observed, now: Timestamp) -> Plan<Action, DatabaseRestoreStatus> {
        decide::decide(object, observed, now)
    }

    async fn apply(&self, object: &DatabaseRestore, action: &Action) -> Result<(), Error> {
        match action {
            Action::Apply { child } => transfer::apply(&self.client, object, child, None).await,
            Action::Start { job, .. } => transfer::start(&self.client, object, job).await,
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
