//! Jobs of one object, and why those failed that did.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job as KubernetesJob;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::error::Error;
use super::facts::{Job, Verification};
use super::names::{FOLDER, SOURCE, VERIFIES};
use crate::api::DatabaseBackup;
use crate::backup::jobs::{end_of, in_words, last_words, report_of};

/// What matters of a Job.
pub fn job(job: &KubernetesJob) -> Job {
    Job {
        name: job.name_any(),
        uid: job.uid().unwrap_or_default(),
        made: job.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
        end: end_of(job),
        going: job.metadata.deletion_timestamp.as_ref().map(|time| time.0),
    }
}

/// What matters of a Job that proves a backup.
pub fn verification(made: &KubernetesJob) -> Verification {
    let note = |key| made.annotations().get(key).cloned().unwrap_or_default();
    Verification {
        job: job(made),
        folder: note(FOLDER),
        id: made.labels().get(VERIFIES).cloned().unwrap_or_default(),
        source: note(SOURCE),
        keys: None,
    }
}

/// Puts what the pods of failed Jobs said in the place of Kubernetes' words.
pub async fn explain(client: &Client, object: &DatabaseBackup, jobs: Vec<&mut Job>) -> Result<(), Error> {
    for job in jobs {
        let pods = pods(client, object, job).await?;
        put_into_words(job, &pods);
    }
    Ok(())
}

/// The same, and what its pod found where it succeeded.
pub async fn explain_verification(
    client: &Client,
    object: &DatabaseBackup,
    verification: &mut Verification,
) -> Result<(), Error> {
    let pods = pods(client, object, &verification.job).await?;
    put_into_words(&mut verification.job, &pods);
    let report = pods.iter().rev().find_map(report_of);
    verification.keys = report.and_then(|report| report.results.into_iter().find_map(|outcome| outcome.keys));
    Ok(())
}

/// Pods of a Job, in the order in which they were made.
async fn pods(client: &Client, object: &DatabaseBackup, job: &Job) -> Result<Vec<Pod>, Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let selector = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", job.name));
    let mut pods = api.list(&selector).await.map_err(|source| Error::Read { what: "pods", source })?.items;
    pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    Ok(pods)
}

fn put_into_words(job: &mut Job, pods: &[Pod]) {
    let said = pods.iter().rev().find_map(last_words).and_then(|words| in_words(&words));
    if let (Some(said), Some(failure)) = (said, job.end.as_mut().and_then(|end| end.failure.as_mut())) {
        *failure = said;
    }
}
