//! Drops the replication slot in which a PostgreSQL server keeps its log for an object that is deleted.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::Method;
use causeway_backup::transfer;
use causeway_runtime::{Class, Failure};

use super::super::error::Error;
use super::super::facts::{Observed, Slot};
use super::super::outcomes;
use super::Observer;

/// How long the operator waits for the Job to end. Kubernetes should have ended it half a minute before.
const JOB_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

impl Observer {
    /// Notes that the Job that drops the slot cannot be made. A lasting error must not block the deletion of the object.
    pub fn slot_stays(&self, object: &DatabaseBackup, error: &transfer::Error) {
        if matches!(error.class(), Class::Denied | Class::Invalid | Class::NotFound) {
            self.slots.set(&object.uid().unwrap_or_default(), error.to_string());
        }
    }

    /// Finds out what becomes of the slot.
    pub(super) async fn look_at_slot(&self, object: &DatabaseBackup, observed: &mut Observed) -> Result<(), Error> {
        observed.slot = if has_slot(object, observed) { self.slot(object, observed).await? } else { Slot::None };
        Ok(())
    }

    async fn slot(&self, object: &DatabaseBackup, observed: &mut Observed) -> Result<Slot, Error> {
        if let Some(job) = &mut observed.slot_job {
            // A missing permission must not block the deletion of the object: Kubernetes' own message will do.
            let explained = outcomes::explain(&self.client, object, vec![&mut *job]).await;
            explained.or_else(|error| if error.class() == Class::Denied { Ok(()) } else { Err(error) })?;
            return Ok(match &job.end {
                Some(end) => match &end.failure {
                    None => Slot::Gone,
                    Some((reason, message)) => Slot::Stays(format!("Job {} failed: {reason}: {message}", job.name)),
                },
                None if Timestamp::now().duration_since(job.made) > JOB_TIMEOUT => {
                    Slot::Stays(format!("Job {} did not end: kubectl describe job {}", job.name, job.name))
                }
                None => Slot::Going,
            });
        }
        if let Some(why) = self.slots.get(&object.uid().unwrap_or_default()) {
            return Ok(Slot::Stays(why));
        }
        match self.look_at_secrets(object, observed).await {
            Err(error) if error.class() == Class::Denied => return Ok(Slot::Stays(error.to_string())),
            looked => looked?,
        }
        Ok(match (observed.sources.first(), observed.withheld.first()) {
            (Some(database), _) => Slot::Due(Box::new(database.clone())),
            (None, Some(withheld)) => Slot::Stays(withheld.refusal.message.clone()),
            (None, None) => Slot::Stays("spec.source names no server".into()),
        })
    }
}

/// Reports whether a Job of the object may have made the slot.
fn has_slot(object: &DatabaseBackup, observed: &Observed) -> bool {
    let was_tried = object.status.as_ref().is_some_and(|status| {
        status.last_success.is_some() || status.last_failure.is_some() || !status.ended.is_empty()
    });
    object.spec.method == Method::Wal && (was_tried || !observed.jobs.is_empty() || observed.slot_job.is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use serde_json::json;

    use super::super::super::facts::Job;
    use super::super::super::fixtures::{backup, denied};
    use super::*;

    #[tokio::test]
    async fn unreadable_secrets_and_jobs_do_not_block_deletion() {
        let mut object = backup();
        object.spec.method = Method::Wal;
        let server = json!({ "postgresql": { "host": "db", "image": "postgres:15", "authSecretName": "login" } });
        object.spec.source = serde_json::from_value(server).expect("a source");
        let (denied, calls) = denied();
        let mut observed = Observed::default();
        denied.look_at_slot(&object, &mut observed).await.expect("nothing stands in its way");
        assert_eq!((&observed.slot, calls.load(Ordering::Relaxed)), (&Slot::None, 0), "no Job was ever made");
        object.status = serde_json::from_value(json!({ "lastSuccess": "2026-11-22T00:05:00Z" })).expect("a status");
        denied.look_at_slot(&object, &mut observed).await.expect("nothing stands in its way");
        assert!(
            matches!(&observed.slot, Slot::Stays(why) if why.contains("Secret login may not be read")),
            "{:?}",
            observed.slot
        );
        observed.slot_job = Some(Job { name: "nightly-slot-1".into(), ..Job::default() });
        denied.look_at_slot(&object, &mut observed).await.expect("nothing stands in its way");
        assert!(matches!(&observed.slot, Slot::Stays(why) if why.contains("nightly-slot-1 did not end")));
    }
}
