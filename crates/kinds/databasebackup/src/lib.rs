//! `DatabaseBackup`: keeps databases backed up to S3.
//!
//! ```text
//! databases ──▶ plan ──▶ CronJob ──▶ Jobs ──▶ S3
//!                 bucket ────────────────────▶ │
//! status ◀── what there is ◀───────────────────┘ ──▶ what no rule keeps is deleted
//! ```
//!
//! Kubernetes starts the Jobs and retries them, also while the operator is down. Only S3 says which backups exist: a
//! backup is its manifest and its data. The record in the operator's namespace says which of them count.

mod accepted;
mod action;
mod apply;
pub mod asks;
mod buckets;
mod cached_watch;
mod children;
mod databases;
mod decide;
mod error;
mod facts;
#[cfg(test)]
mod fixtures;
mod log;
mod names;
mod observe;
mod outcomes;
mod recording;
mod resources;
pub mod restore;
mod restoring;
mod retention;
mod signing;
mod times;
mod undeleted;
mod unkept;
mod verification;
mod view;
mod watches;

use std::sync::Arc;

use aws_config::SdkConfig;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::Controller;

use action::Action;
use apply::Clients;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use causeway_aws::s3::S3;
use causeway_backup::jobs::Settings;
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::leader::Fence;
use causeway_runtime::{ActionEvent, Environment, Kind, Plan, Removal};
use error::Error;
use facts::Observed;
use observe::Observer;

struct DatabaseBackupKind {
    guardrails: Guardrails,
    clients: Clients,
    observer: Observer,
}

/// The parts from which the controller of `DatabaseBackup` is built.
pub struct Inputs {
    /// Client of the cluster, metrics, and the signal to stop.
    pub environment: Environment,
    /// Configuration of AWS clients.
    pub aws: SdkConfig,
    /// Lets changes pass only while this process leads.
    pub fence: Fence,
    /// The operator's options for backups.
    pub settings: Settings,
    /// True if this operator also serves `DatabaseRestore`.
    pub restores: bool,
}

/// Runs the controller of backups until its shutdown is requested.
pub async fn controller(inputs: Inputs) {
    let (client, metrics) = (inputs.environment.client.clone(), inputs.environment.metrics.clone());
    let s3 = S3::new(&inputs.aws, metrics.clone(), inputs.fence);
    let guardrails = inputs.environment.guardrails.clone();
    let (sweep, asked) = (inputs.environment.sweep, guardrails.clone());
    let observer = Observer::new(client.clone(), s3.clone(), inputs.settings, sweep, asked, inputs.restores);
    let objects = observer.watches.objects.clone();
    metrics.tell_of_backups(move || {
        let now = Timestamp::now();
        objects.all().iter().map(|object| times::measure(object, now)).collect()
    });
    let kind = DatabaseBackupKind { guardrails, clients: Clients { client, s3, metrics }, observer };
    causeway_runtime::run(Arc::new(kind), inputs.environment).await;
}

impl Kind for DatabaseBackupKind {
    type Object = DatabaseBackup;
    type Status = DatabaseBackupStatus;
    type Observed = Observed;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "DatabaseBackup";
    const FINALIZER: Option<&'static str> = Some("causeway.example.com/databasebackup");

    fn status(object: &DatabaseBackup) -> Option<&DatabaseBackupStatus> {
        object.status.as_ref()
    }

    fn refresh(object: &mut DatabaseBackup, status: DatabaseBackupStatus) {
        object.status = Some(status);
    }

    /// Never: the runtime leaves a suspended object alone, but the controller has to suspend its `CronJob` first.
    fn is_suspended(_: &DatabaseBackup) -> bool {
        false
    }

    fn forget(&self, uid: &str) {
        self.observer.forget(uid);
    }

    async fn observe(&self, object: &DatabaseBackup) -> Result<Observed, Error> {
        self.guardrails.ready().await;
        let denied = self.guardrails.denial(object, || asks::of_backup(&object.spec));
        Ok(Observed { denied, ..self.observer.observe(object).await? })
    }

    fn decide(object: &DatabaseBackup, observed: &Observed, now: Timestamp) -> Plan<Action, DatabaseBackupStatus> {
        decide::decide(object, observed, now)
    }

    fn decide_removal(object: &DatabaseBackup, observed: &Observed) -> Removal<Action> {
        decide::decide_removal(object, observed)
    }

    async fn apply(&self, object: &DatabaseBackup, action: &Action) -> Result<(), Error> {
        apply::apply(&self.clients, &self.observer, object, action).await
    }

    /// Set aside is what S3 refuses to delete: the deletion of the other backups goes on.
    fn set_aside(&self, object: &DatabaseBackup, _: &Action, error: &Error) -> bool {
        let Error::Undeleted(refusals) = error else { return false };
        self.observer.undeleted.note(&object.uid().unwrap_or_default(), refusals, Timestamp::now());
        true
    }

    fn event(action: &Action) -> Option<ActionEvent> {
        action.event()
    }

    fn triggers(&self, controller: Controller<DatabaseBackup>, namespace: Option<&str>) -> Controller<DatabaseBackup> {
        self.observer.watches.add_to(controller, &self.clients.client, namespace)
    }
}
