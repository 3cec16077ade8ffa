//! Observes what a deleted object leaves behind in S3.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::ResourceExt;

use causeway_api::{DatabaseBackup, DeletionPolicy};
use causeway_aws::aws::AwsError;
use causeway_aws::s3::{Found, Place};
use causeway_backup::record::Record;
use causeway_backup::transfer::{self, is_ours};
use causeway_runtime::{Class, class_of_kubernetes};

use super::super::error::Error;
use super::super::facts::{Bucket, Observed, Remains};
use super::super::names::prefix;
use super::super::undeleted::locked_until;
use super::{Observer, RECORD};

/// A cleanup that is refused for this long is given up, because the deletion of the namespace may be waiting for it. The
/// time starts with the first refusal that this process saw, so the first one after an outage of the operator does not
/// end it, and starts again after each success. An outage of S3 passes, and is waited for.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(30);

/// A step of the cleanup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The rest is read.
    Look,
    /// It is deleted.
    Delete,
}

/// A cleanup that fails.
#[derive(Clone, Debug)]
pub struct Failing {
    since: Instant,
    /// The furthest step that failed since then.
    step: Step,
    why: String,
    /// False while the last failure is one that passes by itself.
    is_refused: bool,
    /// It was refused for so long that it is given up.
    is_hopeless: bool,
}

impl Observer {
    /// A step of the cleanup of a deleted object failed.
    pub fn cleanup_failed(&self, object: &DatabaseBackup, step: Step, error: &AwsError) {
        let is_refused = error.class.needs_person();
        let begin = || Failing { since: Instant::now(), step, why: String::new(), is_refused, is_hopeless: false };
        self.failing.change(&object.uid().unwrap_or_default(), begin, |failing| {
            if is_refused != failing.is_refused {
                (failing.since, failing.is_refused) = (Instant::now(), is_refused);
            }
            // The last try is one after that time.
            failing.is_hopeless = is_refused && failing.since.elapsed() > CLEANUP_TIMEOUT;
            failing.step = failing.step.max(step);
            failing.why = error.to_string();
        });
    }

    /// A step of the cleanup succeeded: what failed before was passing. To read what is left does not show that it can be
    /// deleted.
    pub fn cleanup_goes_on(&self, object: &DatabaseBackup, step: Step) {
        let uid = object.uid().unwrap_or_default();
        if self.failing.with(&uid, |failing| failing.step <= step) == Some(true) {
            self.failing.forget(&uid);
        }
    }

    /// Observes what a deleted object leaves behind.
    pub(super) async fn look_at_remains(&self, object: &DatabaseBackup, observed: &mut Observed) -> Result<(), Error> {
        // The backups stay, so nothing is read: a missing permission must not block the deletion of the object.
        if object.spec.deletion_policy == DeletionPolicy::Retain {
            return Ok(());
        }
        let uid = object.uid().unwrap_or_default();
        observed.recorded = self.readable_record(&uid).await?;
        let was_served = object.status.as_ref().is_some_and(|status| status.bucket.is_some());
        if !(was_served || observed.recorded.is_some()) {
            return Ok(());
        }
        let failing = self.failing.get(&uid);
        if let Some(failing) = failing.filter(|failing| failing.is_hopeless) {
            observed.remains = Some(Remains { given_up: Some(failing.why), ..Remains::default() });
            return Ok(());
        }
        let (bucket, remains) = self
            .remains(object, observed.recorded.as_ref())
            .await
            .inspect_err(|error| self.cleanup_failed(object, Step::Look, error))?;
        self.cleanup_goes_on(object, Step::Look);
        (observed.bucket, observed.remains) = (Some(bucket), Some(remains));
        Ok(())
    }

    /// The record; none where we may not read it.
    async fn readable_record(&self, uid: &str) -> Result<Option<Record>, Error> {
        match self.records.record(uid).await {
            Err(error) if class_of_kubernetes(&error) == Class::Denied => {
                tracing::warn!(uid, %error, "the record of backups cannot be read");
                Ok(None)
            }
            read => Ok(read.map_err(|source| transfer::Error::Read { what: RECORD, source })?),
        }
    }

    /// Returns what is left, by the spec, the UID and the record. The status is not used: users may write it, and could lead
    /// the cleanup to the backups of others.
    async fn remains(&self, object: &DatabaseBackup, recorded: Option<&Record>) -> Result<(Bucket, Remains), AwsError> {
        let destination = &object.spec.destination;
        let region = self.settings.region_of(destination).to_owned();
        let endpoint = destination.endpoint.clone().filter(|it| self.settings.endpoints.contains(it));
        let owner = self.s3.account().await?;
        let name = recorded.map(|record| record.bucket.clone());
        let name = name.unwrap_or_else(|| self.settings.bucket_of(destination, &owner));
        let place = Place { bucket: name, region, endpoint };
        let found = self.buckets.look(&place, &owner).await?;
        if let Found::Forbidden(api_message) | Found::Invalid(api_message) = &found {
            // A bucket that cannot be read may still hold backups: that is no success.
            return Err(AwsError {
                operation: "GetBucketTagging",
                service: "s3",
                code: Some("AccessDenied".into()),
                message: api_message.clone(),
                class: Class::Denied,
                ambiguous: false,
            });
        }
        let uid = object.uid();
        let mut remains = Remains::default();
        if let Found::There(facts) = &found {
            let ours = is_ours(&facts.tags, &self.settings.cluster);
            let is_user = |other: &Arc<DatabaseBackup>| {
                other.uid() != uid && self.settings.bucket_of(&other.spec.destination, &owner) == place.bucket
            };
            let prefix = format!("{}/", prefix(object));
            remains.objects = self.s3.list(&place, &owner, &prefix).await?.objects;
            let found = remains.objects.len();
            if let Some(lock) = facts.keeping.lock {
                let now = Timestamp::now();
                let locks = remains.objects.iter().map(|object| lock.locked_until(object.modified));
                remains.locked = locks.filter(|until| *until > now).max();
                remains.objects.retain(|object| lock.locked_until(object.modified) <= now);
            }
            // S3 also refuses what the bucket's own lock does not explain: a legal hold, or a lock of an earlier setting.
            let (undeleted, now) = (self.undeleted.refusals(&object.uid().unwrap_or_default()), Timestamp::now());
            let locked = remains.objects.iter().filter_map(|object| locked_until(&object.key, &undeleted, now)).max();
            remains.locked = remains.locked.max(locked);
            remains.objects.retain(|object| locked_until(&object.key, &undeleted, now).is_none());
            remains.uploads = self.s3.uploads(&place, &owner, &prefix).await?;
            // An object that cannot be listed may be a user as well.
            let objects = &self.watches.objects;
            let last = ours && objects.unlisted().is_empty() && !objects.all().iter().any(is_user);
            let empty = found == 0 && remains.uploads.is_empty();
            // Versioning was enabled to keep replaced objects, so the bucket stays.
            let forgets = facts.keeping.versions.is_none();
            remains.bucket_may_go = last && forgets && empty && self.s3.is_empty(&place, &owner).await?;
        }
        let usual = destination.bucket.is_none();
        let bucket = Bucket { place, owner, usual, shared: false, unlisted: None, found: Some(found) };
        Ok((bucket, remains))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::super::fixtures::{backup, denied};
    use super::*;

    #[tokio::test]
    async fn a_cleanup_with_progress_is_not_given_up() {
        let (object, (observer, _)) = (backup(), denied());
        let error = AwsError::stale("DeleteObjects", "SlowDown".into());
        let fails_since = || observer.failing.with("uid-1", |failing| failing.since);
        observer.cleanup_failed(&object, Step::Look, &error);
        observer.cleanup_goes_on(&object, Step::Look);
        assert_eq!(fails_since(), None, "it was passing");
        observer.cleanup_failed(&object, Step::Delete, &error);
        let first = fails_since();
        observer.cleanup_goes_on(&object, Step::Look);
        observer.cleanup_failed(&object, Step::Look, &error);
        observer.cleanup_goes_on(&object, Step::Look);
        assert!(first.is_some() && fails_since() == first, "nothing was deleted since");
        observer.cleanup_goes_on(&object, Step::Delete);
        assert_eq!(fails_since(), None);
    }

    #[tokio::test]
    async fn only_what_is_refused_all_the_time_is_given_up() {
        let (object, (observer, _)) = (backup(), denied());
        let error = |class| AwsError { class, ..AwsError::stale("DeleteObjects", "no".into()) };
        // A minute later it fails again.
        let fails_again = |class| {
            let begin = || unreachable!("it fails");
            observer.failing.change("uid-1", begin, |it| it.since -= 2 * CLEANUP_TIMEOUT);
            observer.cleanup_failed(&object, Step::Delete, &error(class));
            observer.failing.with("uid-1", |it| it.is_hopeless)
        };
        observer.cleanup_failed(&object, Step::Delete, &error(Class::Transient));
        assert_eq!(fails_again(Class::Transient), Some(false), "S3 is away");
        assert_eq!(fails_again(Class::Throttled), Some(false));
        assert_eq!(fails_again(Class::Denied), Some(false), "it is the first refusal");
        assert_eq!(fails_again(Class::Denied), Some(true));
    }

    #[tokio::test]
    async fn an_object_goes_whose_record_may_not_be_read() {
        let (mut object, mut observed) = (backup(), Observed::default());
        for (policy, expected) in [(DeletionPolicy::Retain, 0), (DeletionPolicy::Delete, 1)] {
            object.spec.deletion_policy = policy;
            let (denied, calls) = denied();
            denied.look_at_remains(&object, &mut observed).await.expect("nothing stands in its way");
            assert_eq!(calls.load(Ordering::Relaxed), expected, "{:?}", object.spec.deletion_policy);
            assert_eq!(observed, Observed::default());
        }
    }
}
