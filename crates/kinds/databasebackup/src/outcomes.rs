//! Jobs of one object, and why they failed.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job as KubernetesJob;
use kube::{Client, ResourceExt};

use causeway_api::DatabaseBackup;
use causeway_backup::jobs::end_of;
use causeway_backup::transfer;

use super::facts::{Job, Verification};
use super::names::{FOLDER, SOURCE, VERIFIES};

/// Returns what matters of a Job.
pub fn job(job: &KubernetesJob) -> Job {
    Job {
        name: job.name_any(),
        uid: job.uid().unwrap_or_default(),
        made: job.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
        end: end_of(job),
        failed_tries: job.status.as_ref().and_then(|status| status.failed).unwrap_or_default(),
        last_words: None,
        is_running: job.status.as_ref().and_then(|status| status.ready).is_some_and(|ready| ready > 0),
        stuck: None,
        going: job.metadata.deletion_timestamp.as_ref().map(|time| time.0),
    }
}

/// Returns what matters of a Job that proves a backup.
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

/// Replaces Kubernetes' failure messages of Jobs with what their pods reported.
pub async fn explain(client: &Client, object: &DatabaseBackup, jobs: Vec<&mut Job>) -> Result<(), transfer::Error> {
    for job in jobs {
        let pods = transfer::pods(client, object, &job.name, &job.uid).await?;
        transfer::explain(job.end.as_mut(), &pods);
    }
    Ok(())
}

/// Notes what the last pod that failed reported, of Jobs that are tried again.
pub async fn explain_tries(
    client: &Client,
    object: &DatabaseBackup,
    jobs: Vec<&mut Job>,
) -> Result<(), transfer::Error> {
    for job in jobs {
        let pods = transfer::pods(client, object, &job.name, &job.uid).await?;
        job.last_words = transfer::last_try(&pods);
    }
    Ok(())
}

/// Notes why no pod of a Job runs.
pub async fn explain_silence(
    client: &Client,
    object: &DatabaseBackup,
    jobs: Vec<&mut Job>,
    now: Timestamp,
) -> Result<(), transfer::Error> {
    for job in jobs {
        let Some(made) = transfer::get::<KubernetesJob>(client, object, &job.name, "Job").await? else { continue };
        let pods = transfer::pods(client, object, &job.name, &job.uid).await?;
        job.stuck = transfer::stuck(client, &made, &pods, now).await;
    }
    Ok(())
}

/// The same as [`explain`] for a verification. If it succeeded, also notes what its pod found.
pub async fn explain_verification(
    client: &Client,
    object: &DatabaseBackup,
    verification: &mut Verification,
) -> Result<(), transfer::Error> {
    let job = &mut verification.job;
    let pods = transfer::pods(client, object, &job.name, &job.uid).await?;
    transfer::explain(job.end.as_mut(), &pods);
    verification.keys = transfer::outcome(&pods).and_then(|outcome| outcome.keys);
    Ok(())
}
