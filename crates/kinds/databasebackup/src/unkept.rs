//! Which backups no rule keeps, and what holds them nevertheless: Object Lock, or a refusal of S3. Pure.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::{BackupVerification, KeptBy, LockedBackups, Method, Retention};
use causeway_backup::jobs::{Catalog, Stored};
use causeway_backup::manifest::{due_of, id_of};
use causeway_backup::plan::WAL;
use causeway_runtime::schedule::Schedule;

use super::facts::{Bucket, Observed};
use super::log;
use super::retention::{Proofs, Reasons, follows_base_backups, kept_by_rules, kept_proven};
use super::undeleted::Undeleted;
use super::verification;
use super::view::View;

/// A younger object may belong to a run whose pod the operator cannot see.
pub const YOUNG: SignedDuration = SignedDuration::from_hours(1);
/// An older object belongs to no run any more.
pub const OLD: SignedDuration = SignedDuration::from_hours(24);
/// How much later than a backup its signature may be written.
const LATE: SignedDuration = SignedDuration::from_hours(1);

/// A backup: its folder, the instant at which it was due, and what is stored.
pub type Backup<'a> = (&'a str, Timestamp, &'a Stored);

/// Reports whether retention deletes a complete backup, as far as restores let it.
pub fn prunes(object: &DatabaseBackup, observed: &Observed, schedule: &Schedule, now: Timestamp) -> bool {
    let (view, Some(bucket)) = (View::new(object, observed, now), &observed.bucket) else { return false };
    let results = verification::results(&view);
    unheld(&view, schedule, bucket, &results).iter().any(|(_, _, backup)| backup.is_complete())
}

/// Backups that no rule keeps, nothing holds and no restore reads.
pub fn going<'a>(
    view: &View<'a>,
    schedule: &Schedule,
    bucket: &Bucket,
    results: &[BackupVerification],
) -> Vec<Backup<'a>> {
    let in_use = view.observed.in_use.as_ref();
    let is_read =
        |(_, due, backup): &Backup<'_>| backup.is_complete() && in_use.is_none_or(|in_use| in_use.contains(*due));
    unheld(view, schedule, bucket, results).into_iter().filter(|it| !is_read(it)).collect()
}

/// Backups that no rule keeps and nothing holds.
fn unheld<'a>(
    view: &View<'a>,
    schedule: &Schedule,
    bucket: &Bucket,
    results: &[BackupVerification],
) -> Vec<Backup<'a>> {
    let Some(catalog) = &view.observed.catalog else { return Vec::new() };
    let stays = |it: &Backup<'_>| held_until(view, bucket, it).is_some() || refused(view, it).is_some();
    unkept(view, catalog, schedule, results).into_iter().filter(|it| !stays(it)).collect()
}

/// Returns the prefix of the keys of a backup, without a slash at the end.
pub fn base(view: &View<'_>, folder: &str, due: Timestamp) -> String {
    format!("{}/{folder}/{}", view.prefix, id_of(due))
}

/// Returns what no rule keeps.
fn unkept<'a>(
    view: &View<'_>,
    catalog: &'a Catalog,
    schedule: &Schedule,
    results: &[BackupVerification],
) -> Vec<Backup<'a>> {
    let mut unkept = Vec::new();
    for (folder, found) in &catalog.folders {
        let complete = catalog.complete(folder);
        let kept = reasons(view, schedule, folder, &complete, results);
        let running = verification::running(view, folder);
        for (due, backup) in found {
            // A backup that no Job reported may come from any client. A condition names it, and people delete it.
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
    bucket.keeping().lock.map(|lock| lock.locked_until(backup.modified + LATE))
}

/// The backup as S3 refused to delete it; none where that is to be tried.
fn refused<'a>(view: &View<'a>, (folder, due, _): &Backup<'_>) -> Option<&'a Undeleted> {
    let refused = view.observed.undeleted.get(&base(view, folder, *due));
    refused.filter(|it| it.again > view.now)
}

/// Until when a lock holds a backup. The end of a lock that S3 only showed by a refusal is not known: until the next try.
fn held_until(view: &View<'_>, bucket: &Bucket, it: &Backup<'_>) -> Option<Timestamp> {
    let shown = refused(view, it).filter(|it| it.locked).map(|it| it.again);
    lock_of(bucket, it.2).into_iter().chain(shown).filter(|until| *until > view.now).max()
}

/// Returns what no rule keeps and Object Lock holds.
pub fn locked(view: &View<'_>, schedule: &Schedule, results: &[BackupVerification]) -> Option<LockedBackups> {
    let (catalog, bucket) = (view.observed.catalog.as_ref()?, view.observed.bucket.as_ref()?);
    if bucket.keeping().lock.is_none() && view.observed.undeleted.is_empty() {
        return None;
    }
    let unkept = unkept(view, catalog, schedule, results);
    let complete = unkept.iter().filter(|(_, _, backup)| backup.is_complete());
    let locks: Vec<Timestamp> = complete.filter_map(|it| held_until(view, bucket, it)).collect();
    let until = locks.iter().max().copied()?;
    Some(LockedBackups { backups: i64::try_from(locks.len()).unwrap_or(i64::MAX), until: Time(until) })
}

/// Returns what the rules keep of one database, and why.
pub fn reasons(
    view: &View<'_>,
    schedule: &Schedule,
    folder: &str,
    complete: &BTreeSet<Timestamp>,
    results: &[BackupVerification],
) -> Reasons {
    let (rules, zone) = (&view.object.spec.retention, schedule.zone());
    if follows_base_backups(view.object) {
        return log::kept_by_need(&view.observed.log, complete);
    }
    if folder == WAL {
        // A log with holes brings nothing back: only its age counts, and only while the object still keeps log.
        let max_age = rules.max_age.clone().filter(|_| view.object.spec.method == Method::Wal);
        if max_age.is_none() {
            return log::kept_by_need(&view.observed.log, complete);
        }
        let mut kept = kept_by_rules(&Retention { max_age, ..Retention::default() }, complete, zone, view.now);
        // The next backup goes on where the log ends: a Job that was retried for long took that under an earlier ID.
        if let Some(last) = written_last(view, folder, complete) {
            kept.entry(last).or_default().insert(KeptBy::Newest);
        }
        return kept;
    }
    let result = results.iter().find(|result| result.folder == folder);
    match result.filter(|_| view.object.spec.verify.is_some()) {
        Some(result) => {
            let proven = result.proven.last().and_then(|id| due_of(id));
            let failed = result.failed.iter().filter_map(|id| due_of(id)).collect();
            kept_proven(rules, complete, &Proofs { proven, failed }, zone, view.now)
        }
        None => kept_by_rules(rules, complete, zone, view.now),
    }
}

/// The backup of a database that was written last.
fn written_last(view: &View<'_>, folder: &str, complete: &BTreeSet<Timestamp>) -> Option<Timestamp> {
    let backups = view.observed.catalog.as_ref()?.folders.get(folder)?;
    let written = complete.iter().filter_map(|due| Some((backups.get(due)?.modified, *due)));
    written.max().map(|(_, due)| due)
}

/// Reports whether an incomplete backup will never be complete.
fn is_left_over(view: &View<'_>, due: Timestamp, backup: &Stored, complete: &BTreeSet<Timestamp>) -> bool {
    let overtaken = complete.last().is_some_and(|newest| due < *newest);
    let age = age(view, backup.modified);
    !view.observed.is_running() && (age > OLD || (overtaken && age > YOUNG))
}

/// How long ago that was.
pub fn age(view: &View<'_>, instant: Timestamp) -> SignedDuration {
    view.now.duration_since(instant)
}
