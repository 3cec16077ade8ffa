//! What is deleted from S3: backups that no rule keeps, and what dead runs left behind.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::action::{Action, Change};
use super::super::facts::Bucket;
use super::super::log;
use super::super::retention::{Proofs, Reasons, follows_base_backups, kept, kept_proven};
use super::super::verification;
use super::super::view::View;
use crate::api::databasebackup::{BackupVerification, LockedBackups, Method, Retention};
use crate::backup::jobs::{Catalog, Stored};
use crate::backup::manifest::{DATA, NAME, due_of, id_of};
use crate::backup::plan::WAL;
use crate::backup::signature::SIGNATURE;
use crate::external::s3::DELETED_AT_ONCE;
use crate::schedule::Schedule;

/// What is younger may be of a run whose pod the operator cannot see.
const YOUNG: SignedDuration = SignedDuration::from_hours(1);
/// What is older is of no run any more.
const OLD: SignedDuration = SignedDuration::from_hours(24);
/// How much later than a backup its signature may be written.
const LATE: SignedDuration = SignedDuration::from_hours(1);

/// What is to be deleted. Manifests go first: without one, what is left is no backup.
pub fn step(view: &View<'_>, schedule: &Schedule, bucket: &Bucket, results: &[BackupVerification]) -> Vec<Action> {
    let Some(catalog) = &view.observed.catalog else { return Vec::new() };
    let (mut manifests, mut data, mut backups) = (Vec::new(), Vec::new(), 0);
    for (folder, due, backup) in unkept(view, catalog, schedule, results) {
        if lock_of(bucket, backup).is_some_and(|until| until > view.now) {
            continue;
        }
        backups += usize::from(backup.is_complete());
        let key = |file| format!("{}/{folder}/{}/{file}", view.prefix, id_of(due));
        manifests.extend(backup.manifest.then(|| key(NAME)));
        data.extend(backup.data.then(|| key(DATA)));
        data.extend(backup.signed.then(|| key(SIGNATURE)));
    }
    let change = |change| Action::Bucket { bucket: Box::new(bucket.clone()), change };
    let chunks = |keys: &[String]| keys.chunks(DELETED_AT_ONCE).map(<[String]>::to_vec).collect::<Vec<_>>();
    let mut actions = Vec::new();
    for keys in chunks(&manifests).into_iter().chain(chunks(&data)) {
        actions.push(change(Change::DeleteObjects { keys, backups: std::mem::take(&mut backups) }));
    }
    if !view.observed.is_running() {
        let stale = catalog.uploads.iter().filter(|upload| {
            let age = age(view, upload.begun);
            age > OLD || (age > YOUNG && catalog.is_overtaken(upload))
        });
        actions.extend(stale.map(|upload| change(Change::Abort(upload.clone()))));
    }
    actions
}

/// What no rule keeps: its folder, the instant at which it was due, and what is stored.
fn unkept<'a>(
    view: &View<'_>,
    catalog: &'a Catalog,
    schedule: &Schedule,
    results: &[BackupVerification],
) -> Vec<(&'a str, Timestamp, &'a Stored)> {
    let mut unkept = Vec::new();
    for (folder, found) in &catalog.folders {
        let complete = catalog.complete(folder);
        let kept = reasons(view, schedule, folder, &complete, results);
        let running = verification::running(view, folder);
        for (due, backup) in found {
            // A backup that no Job reported may be anybody's. A condition names it, and people delete it.
            let goes = if backup.is_complete() {
                backup.doubt.is_none() && !kept.contains_key(due) && !running.contains(due)
            } else {
                // Where not all was read, the rest of it may be there.
                !catalog.cut && is_left_over(view, *due, backup, &complete)
            };
            unkept.extend(goes.then_some((folder.as_str(), *due, backup)));
        }
    }
    unkept
}

/// Until when Object Lock holds a backup and its signature; none where the bucket locks nothing. The signature is
/// written within a minute after the backup, and `LATE` allows for a wrong clock.
fn lock_of(bucket: &Bucket, backup: &Stored) -> Option<Timestamp> {
    bucket.keeping().lock.map(|lock| lock.until(backup.modified + LATE))
}

/// What no rule keeps and Object Lock holds.
pub fn locked(view: &View<'_>, schedule: &Schedule, results: &[BackupVerification]) -> Option<LockedBackups> {
    let (catalog, bucket) = (view.observed.catalog.as_ref()?, view.observed.bucket.as_ref()?);
    bucket.keeping().lock?;
    let unkept = unkept(view, catalog, schedule, results);
    let locks = unkept.iter().filter(|(_, _, backup)| backup.is_complete());
    let locks: Vec<Timestamp> =
        locks.filter_map(|(_, _, backup)| lock_of(bucket, backup)).filter(|until| *until > view.now).collect();
    let until = locks.iter().max().copied()?;
    Some(LockedBackups { backups: i64::try_from(locks.len()).unwrap_or(i64::MAX), until: Time(until) })
}

/// What the rules keep of one database, and why.
pub fn reasons(
    view: &View<'_>,
    schedule: &Schedule,
    folder: &str,
    complete: &BTreeSet<Timestamp>,
    results: &[BackupVerification],
) -> Reasons {
    let (rules, zone) = (&view.object.spec.retention, schedule.zone());
    if follows_base_backups(view.object) {
        return log::kept(&view.observed.log, complete);
    }
    if folder == WAL {
        // A log with holes brings nothing back: only its age counts, and only while the object still keeps log.
        let max_age = rules.max_age.clone().filter(|_| view.object.spec.method == Method::Wal);
        return match max_age {
            None => log::kept(&view.observed.log, complete),
            max_age => kept(&Retention { max_age, ..Retention::default() }, complete, zone, view.now),
        };
    }
    let result = results.iter().find(|result| result.folder == folder);
    match result.filter(|_| view.object.spec.verify.is_some()) {
        Some(result) => {
            let proven = result.proven.last().and_then(|id| due_of(id));
            let failed = result.failed.iter().filter_map(|id| due_of(id)).collect();
            kept_proven(rules, complete, &Proofs { proven, failed }, zone, view.now)
        }
        None => kept(rules, complete, zone, view.now),
    }
}

/// Whether an incomplete backup will never be complete.
fn is_left_over(view: &View<'_>, due: Timestamp, backup: &Stored, complete: &BTreeSet<Timestamp>) -> bool {
    let overtaken = complete.last().is_some_and(|newest| due < *newest);
    let age = age(view, backup.modified);
    !view.observed.is_running() && (age > OLD || (overtaken && age > YOUNG))
}

fn age(view: &View<'_>, instant: Timestamp) -> SignedDuration {
    view.now.duration_since(instant)
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::{Job, Observed};
    use super::super::super::fixtures::backup;
    use super::super::tests::{catalog, decided, now, settled};
    use super::*;
    use crate::external::s3::{Found, Keeping, Lock, Upload};

    const BEFORE: &str = "p/redis-cache/20261120T020000Z/data";
    const AFTER: &str = "p/redis-cache/20261122T020000Z/data";
    const OTHER: &str = "p/redis-other/20261120T020000Z/data";

    fn aborted(observed: &Observed) -> Vec<String> {
        let actions = decided(&backup(), observed).actions.into_iter();
        let key = |action| match action {
            Action::Bucket { change: Change::Abort(upload), .. } => Some(upload.key),
            _ => None,
        };
        actions.filter_map(key).collect()
    }

    fn with_uploads(minutes: i64) -> Observed {
        let begun = now() - SignedDuration::from_mins(minutes);
        let upload = |key: &str| Upload { key: key.into(), id: "i".into(), begun };
        let mut found = catalog(&["20261121T020000Z"], &[], now());
        found.uploads = [BEFORE, AFTER, OTHER, "p/redis-cache/notes/data"].map(upload).to_vec();
        Observed { catalog: Some(found), ..settled(&backup()) }
    }

    #[test]
    fn an_upload_that_a_later_backup_overtook_is_aborted_after_an_hour_and_others_after_a_day() {
        assert!(aborted(&with_uploads(59)).is_empty());
        assert_eq!(aborted(&with_uploads(61)), [BEFORE]);
        assert_eq!(aborted(&with_uploads(25 * 60)).len(), 4);
    }

    #[test]
    fn what_is_locked_is_not_deleted_before_its_lock_ends_and_that_is_reported() {
        let mut object = backup();
        object.spec.retention = Retention { keep_last: 1, ..Retention::default() };
        let with = |hours: i64, lock: Option<Lock>| {
            let written = now() - SignedDuration::from_hours(hours);
            let found = catalog(&["20261120T020000Z", "20261121T020000Z"], &[], written);
            let mut observed = Observed { catalog: Some(found), ..settled(&object) };
            if let Some(Found::There(facts)) = observed.bucket.as_mut().and_then(|bucket| bucket.found.as_mut()) {
                facts.keeping = Keeping { versions: Some(true), lock };
            }
            let plan = decided(&object, &observed);
            let deletes =
                |action: &Action| matches!(action, Action::Bucket { change: Change::DeleteObjects { .. }, .. });
            (plan.actions.iter().any(deletes), plan.status.locked)
        };
        let day = Some(Lock { compliance: false, days: 1 });
        assert_eq!(with(2, None), (true, None));
        let (deleted, locked) = with(2, day);
        assert_eq!(
            (deleted, locked.map(|it| (it.backups, it.until.0))),
            (false, Some((1, now() + SignedDuration::from_hours(23))))
        );
        assert_eq!(with(26, day), (true, None));
    }

    #[test]
    fn while_a_job_runs_no_upload_is_aborted() {
        let mut observed = with_uploads(25 * 60);
        observed.jobs.push(Job { name: "nightly-1".into(), ..Job::default() });
        assert!(aborted(&observed).is_empty());
    }
}
