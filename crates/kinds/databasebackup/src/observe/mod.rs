//! Reads the cluster and AWS. Children and databases come from watches; after a change of ours, children come from the
//! API server. The bucket and what is in it come from S3, which is read as seldom as possible.

mod listing;
mod log;
mod manifests;
mod remains;
mod restores;
mod secrets;
mod slot;
mod verification;

pub use remains::Step;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{CronJob, Job as KubernetesJob};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Client, Resource, ResourceExt};

use super::accepted::{Accepted, accepted};
use super::buckets::Buckets;
use super::children::observed;
use super::error::Error;
use super::facts::{Bucket, Job, Observed, Recording};
use super::log::keeps_log;
use super::names::{LABEL, LOST, NOW};
use super::outcomes;
use super::recording;
use super::signing::Signer;
use super::undeleted;
use super::watches::Watches;
use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::Method;
use causeway_aws::s3::{Found, Place, S3};
use causeway_backup::jobs::{Catalog, SERVICE_ACCOUNT, Settings};
use causeway_backup::record::{Record, Reported};
use causeway_backup::transfer::{self, Records};
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::{Class, Failure, PerObject};
use remains::Failing;

/// How errors name the record.
const RECORD: &str = "record of backups in the operator's namespace";
/// How many failed Jobs one look explains from their pods.
const ASKED: usize = 4;

/// Reads for all objects.
pub struct Observer {
    client: Client,
    s3: S3,
    settings: Settings,
    guardrails: Guardrails,
    /// True if this operator also serves `DatabaseRestore`.
    serves_restores: bool,
    pub buckets: Buckets,
    pub records: Records,
    pub signer: Signer,
    pub undeleted: undeleted::UndeletedCache,
    pub watches: Watches,
    /// Objects whose children we changed: the watches may not show that yet.
    changed: PerObject<()>,
    /// The contents of S3, by object.
    catalogs: PerObject<listing::Seen>,
    /// Objects that could not be cleaned up.
    failing: PerObject<Failing>,
    /// Objects whose replication slot cannot be dropped: why.
    slots: PerObject<String>,
    /// The contents of manifests of base backups and log, by the object that keeps the log.
    manifests_read: PerObject<log::Known>,
    /// Manifests of the newest backups, by object.
    documents: PerObject<manifests::Documents>,
}

impl Observer {
    /// Reads with these clients and settings.
    pub fn new(
        client: Client,
        s3: S3,
        settings: Settings,
        sweep: Duration,
        guardrails: Guardrails,
        serves_restores: bool,
    ) -> Self {
        let buckets = Buckets::new(s3.clone(), settings.cluster.clone(), sweep);
        let records = Records::new(client.clone(), settings.namespace.clone());
        let key = transfer::Signing::new(client.clone(), settings.namespace.clone());
        let signer = Signer::new(s3.clone(), key, settings.cluster.clone());
        Self {
            client,
            s3,
            settings,
            guardrails,
            serves_restores,
            buckets,
            records,
            signer,
            undeleted: undeleted::UndeletedCache::default(),
            watches: Watches::new(),
            changed: PerObject::default(),
            catalogs: PerObject::default(),
            failing: PerObject::default(),
            slots: PerObject::default(),
            manifests_read: PerObject::default(),
            documents: PerObject::default(),
        }
    }

    /// Call this before a child is changed: the next look goes to the API server.
    pub fn expect_change(&self, object: &DatabaseBackup) {
        self.changed.set(&object.uid().unwrap_or_default(), ());
    }

    /// Something was deleted from S3: the next look goes there.
    pub fn forget_catalog(&self, object: &DatabaseBackup) {
        self.catalogs.forget(&object.uid().unwrap_or_default());
    }

    /// The object with that UID is gone.
    pub fn forget(&self, uid: &str) {
        self.changed.forget(uid);
        self.catalogs.forget(uid);
        self.failing.forget(uid);
        self.slots.forget(uid);
        self.manifests_read.forget(uid);
        self.documents.forget(uid);
        self.records.forget(uid);
        self.signer.forget(uid);
        self.undeleted.forget(uid);
    }

    /// Reads all that matters to one object.
    pub async fn observe(&self, object: &DatabaseBackup) -> Result<Observed, Error> {
        self.watches.ready(object).await;
        let uid = object.uid().unwrap_or_default();
        let fresh = self.changed.take(&uid).is_some();
        let mut observed = if fresh { self.read(object).await? } else { self.watched(object) };
        // The watch may not show a Job yet that an answer of the API server had.
        if !fresh && lacks_running(object, &observed) {
            observed = self.read(object).await?;
        }
        // A Job that is gone ended unseen, so that what it left in S3 was not read then.
        if lacks_running(object, &observed) {
            self.forget_catalog(object);
        }
        observed.settings = self.settings.clone();
        observed.lacks_kind = self.watches.lacks_kind(object);
        if object.meta().deletion_timestamp.is_some() {
            observed.are_stops_overdue = observed.jobs_are_overdue(object, Timestamp::now());
            self.look_at_remains(object, &mut observed).await?;
            self.look_at_slot(object, &mut observed).await?;
            return Ok(observed);
        }
        let (reported, denied) = self.look_at_reports(object, &mut observed).await?;
        observed.kept_logs = recording::kept_logs(&observed.jobs, &reported);
        observed.messages = recording::messages(&reported);
        // This is enough to suspend the schedule, which must work whether or not AWS answers, and whatever we may read.
        if object.spec.suspend {
            return Ok(observed);
        }
        if object.spec.method == Method::BaseBackup {
            observed.keeps_log = keeps_log(object, self.watches.objects.all());
        }
        self.look_at_secrets(object, &mut observed).await?;
        (observed.asked, observed.acknowledged) = (self.annotation(object, NOW), self.annotation(object, LOST));
        let Ok(accepted) = accepted(object, &self.settings) else { return Ok(observed) };
        match self.look_at_backups(object, &accepted, (&reported, denied), &mut observed).await {
            // The schedule mounts a Secret that may not be used any more: it has to stop, whether or not AWS answers.
            Err(error) if observed.mounts_more(object) => {
                tracing::warn!(%error, "the CronJob is suspended: it mounts a Secret that may not be used");
            }
            outcome => outcome?,
        }
        Ok(observed)
    }

    /// The bucket and what is in it.
    async fn look_at_backups(
        &self,
        object: &DatabaseBackup,
        accepted: &Accepted,
        (reported, denied): (&[Reported], Option<Error>),
        observed: &mut Observed,
    ) -> Result<(), Error> {
        if let Some(denied) = denied {
            return Err(denied);
        }
        let news: Vec<&mut Job> = observed.jobs.iter_mut().filter(|job| is_new(object, job)).take(ASKED).collect();
        outcomes::explain(&self.client, object, news).await?;
        let retried = observed.jobs.iter_mut().filter(|job| job.end.is_none() && job.failed_tries > 0);
        outcomes::explain_tries(&self.client, object, retried.take(ASKED).collect()).await?;
        let now = Timestamp::now();
        let is_late = |job: &&mut Job| job.is_silent() && now.duration_since(job.made) >= transfer::PATIENCE;
        let proofs = observed.verifications.iter_mut().map(|it| &mut it.job);
        let silent = observed.jobs.iter_mut().chain(proofs).filter(is_late).take(ASKED).collect();
        outcomes::explain_silence(&self.client, object, silent, now).await?;
        let owner = self.s3.account().await?;
        let destination = &object.spec.destination;
        let place = Place {
            bucket: self.settings.bucket_of(destination, &owner),
            region: self.settings.region_of(destination).to_owned(),
            endpoint: destination.endpoint.clone(),
        };
        let found = Some(self.buckets.look(&place, &owner).await?);
        let usual = destination.bucket.is_none();
        let locks = destination.object_lock.is_some();
        let shared = locks && self.is_shared(object, &place, &owner);
        let unlisted = locks.then(|| self.watches.objects.unlisted().names()).flatten();
        let bucket = Bucket { place, owner, usual, shared, unlisted, found };
        if matches!(bucket.found, Some(Found::Absent)) && observed.recorded.is_none() {
            let record = recording::first(object, &bucket.place.bucket);
            observed.recording = Some(Recording { record, accepted: 0 });
        }
        if matches!(bucket.found, Some(Found::Absent)) {
            // Its contents are gone with it.
            self.forget_catalog(object);
            observed.catalog = Some(Catalog::default());
        }
        if matches!(bucket.found, Some(Found::There(_))) {
            let (catalog, recording) = self.judged(object, &bucket, observed, reported).await?;
            observed.manifests = self.manifests(object, &bucket, &recording.record, &catalog).await?;
            observed.log = self.look_at_log(object, &bucket, &recording.record, &catalog).await?;
            (observed.catalog, observed.recording) = (Some(catalog), Some(recording));
            let uid = object.uid().unwrap_or_default();
            (observed.signing, observed.odd) = self.signer.look(&uid).await;
            observed.undeleted = self.undeleted.refusals(&uid);
            self.look_at_verifications(object, observed).await?;
            if let Some(when) = &accepted.verify {
                self.look_at_candidate(object, &bucket, when, observed).await?;
            }
        }
        observed.bucket = Some(bucket);
        self.look_at_restores(object, accepted, observed).await;
        Ok(())
    }

    /// Reports whether an object of another namespace has its backups in a bucket.
    fn is_shared(&self, object: &DatabaseBackup, place: &Place, owner: &str) -> bool {
        let is_other = |other: &Arc<DatabaseBackup>| other.namespace() != object.namespace();
        let all = self.watches.objects.all();
        all.iter().filter(|other| is_other(other)).any(|other| uses(&self.settings, other, place, owner))
    }

    /// Observes what Jobs reported that is not recorded yet, and the record that follows from that alone. That record is
    /// written even if S3 cannot be read, because the pods with the reports do not stay. Where we may not read the record or
    /// the reports, that error is returned as a value.
    async fn look_at_reports(
        &self,
        object: &DatabaseBackup,
        observed: &mut Observed,
    ) -> Result<(Vec<Reported>, Option<Error>), Error> {
        let read = async {
            let uid = object.uid().unwrap_or_default();
            let record =
                self.records.record(&uid).await.map_err(|source| transfer::Error::Read { what: RECORD, source })?;
            let reported = recording::reported(&self.client, object, &observed.jobs, record.as_ref()).await?;
            Ok::<_, Error>((record, reported))
        };
        let (record, reported) = match read.await {
            Ok(read) => read,
            Err(error) if error.class() == Class::Denied => return Ok((Vec::new(), Some(error))),
            Err(error) => return Err(error),
        };
        let jobs = observed.jobs.as_slice();
        let without_s3 = |record: &Record| recording::without_s3(record, (jobs, &reported), Timestamp::now());
        observed.recording = record.as_ref().map(without_s3);
        observed.recorded = record;
        Ok((reported, None))
    }

    /// Returns what is in S3, with a `Doubt` for each backup that does not count, and what is to be recorded.
    async fn judged(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        observed: &Observed,
        reported: &[Reported],
    ) -> Result<(Catalog, Recording), Error> {
        let found = self.catalog(object, bucket, observed).await?;
        let (before, jobs, now) = (observed.recorded.as_ref(), observed.jobs.as_slice(), Timestamp::now());
        let recording = recording::next(object, before, &bucket.place.bucket, &found, (jobs, reported), now);
        let judged = recording.record.judged(found.as_ref().clone(), now);
        Ok((judged, recording))
    }

    fn watched(&self, object: &DatabaseBackup) -> Observed {
        let watches = &self.watches;
        let jobs = watches.jobs.children_of(object);
        let account = watches.accounts.get(&object.namespace().unwrap_or_default(), SERVICE_ACCOUNT);
        observed(object, watches.cron_jobs.get(object).as_deref(), account.as_deref(), jobs.iter().map(Arc::as_ref))
    }

    async fn read(&self, object: &DatabaseBackup) -> Result<Observed, Error> {
        let name = object.name_any();
        let selector = format!("{LABEL}={name}");
        let client = &self.client;
        let (schedule, account, jobs) = tokio::try_join!(
            transfer::get::<CronJob>(client, object, &name, "CronJob"),
            transfer::get::<ServiceAccount>(client, object, SERVICE_ACCOUNT, "service account"),
            transfer::list::<KubernetesJob>(client, object, &selector, "Jobs"),
        )?;
        Ok(observed(object, schedule.as_ref(), account.as_ref(), jobs.iter()))
    }

    /// An annotation, as the watch has it that triggered the controller for it; else as `object` has it.
    fn annotation(&self, object: &DatabaseBackup, key: &str) -> Option<String> {
        let seen = self.watches.objects.get(&object.namespace().unwrap_or_default(), &object.name_any());
        let seen = seen.filter(|seen| seen.uid() == object.uid());
        let annotations = seen.as_ref().map_or_else(|| object.annotations(), |seen| seen.annotations());
        annotations.get(key).filter(|token| !token.is_empty() && token.len() <= 256).cloned()
    }
}

/// Reports whether an object has its backups in a bucket.
fn uses(settings: &Settings, object: &DatabaseBackup, place: &Place, owner: &str) -> bool {
    let destination = &object.spec.destination;
    destination.endpoint == place.endpoint && settings.bucket_of(destination, owner) == place.bucket
}

/// Reports whether a Job is not there of which no end was seen.
fn lacks_running(object: &DatabaseBackup, observed: &Observed) -> bool {
    let running = object.status.iter().flat_map(|status| &status.running);
    running.into_iter().any(|it| observed.jobs.iter().all(|job| job.name != it.job))
}

/// Reports whether a Job failed and that was not reported yet.
fn is_new(object: &DatabaseBackup, job: &Job) -> bool {
    let text = object.status.as_ref().map(|status| status.ended.as_slice()).unwrap_or_default();
    let failed = job.end.as_ref().is_some_and(|end| end.failure.is_some());
    failed && !text.contains(&job.name)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{backup, denied};
    use super::*;

    #[test]
    fn an_object_uses_its_bucket_or_the_default() {
        let (mut object, settings) = (backup(), super::super::fixtures::observed().settings);
        let place = |bucket: &str, endpoint: Option<&str>| Place {
            bucket: bucket.into(),
            region: "eu-west-1".into(),
            endpoint: endpoint.map(str::to_owned),
        };
        let usual = place("causeway-prod-1-eu-west-1", None);
        assert!(uses(&settings, &object, &usual, "1") && !uses(&settings, &object, &place("b", None), "1"));
        object.spec.destination.bucket = Some("b".into());
        assert!(uses(&settings, &object, &place("b", None), "1") && !uses(&settings, &object, &usual, "1"));
        assert!(!uses(&settings, &object, &place("b", Some("https://minio.example.com")), "1"));
    }

    #[tokio::test]
    async fn an_unreadable_record_does_not_prevent_suspension() {
        let (denied, _) = denied();
        let mut observed = Observed::default();
        let (reported, why) = denied.look_at_reports(&backup(), &mut observed).await.expect("no failure yet");
        assert_eq!((reported.len(), why.map(|error| error.class())), (0, Some(Class::Denied)));
        assert_eq!(observed, Observed::default(), "it counts as none");
    }
}
