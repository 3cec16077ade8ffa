//! The status of backups.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::DatabaseBackupStatus;
use causeway_api::databasebackup::{
    BackupFailure, BackupRun, BackupState, BackupVerification, DatabaseState, Recoverable,
};
use causeway_backup::jobs::{Catalog, Doubt};
use causeway_backup::manifest::{Document, LEFT_OUT, due_of, id_of};
use causeway_runtime::schedule::Schedule;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::facts::{Job, Signing, newest};
use super::super::times::due;
use super::super::unkept;
use super::super::verification;
use super::super::view::View;
use super::bucket::Verdict;
use super::{listing, runs, states};

/// How many backups that do not count are reported by name.
const NAMED: usize = 5;
/// How many ended Jobs are remembered.
const ENDED: usize = 200;

/// The status without conditions. What is not known now stays as it was reported last.
pub fn status(view: &View<'_>, schedule: &Schedule, results: Vec<BackupVerification>) -> DatabaseBackupStatus {
    let observed = view.observed;
    let mut status = view.before.clone();
    if let Some(bucket) = &observed.bucket {
        status.bucket = Some(bucket.place.bucket.clone());
        status.prefix = Some(view.prefix.clone());
    }
    status.sources = observed.sources.iter().map(|it| it.access.source.title.clone()).collect();
    status.next_run = schedule.next_after(view.now).filter(|_| !observed.sources.is_empty()).map(Time);
    status.backup_now = runs::begun(view);
    let ended: Vec<&Job> = observed.jobs.iter().filter(|job| job.end.is_some()).collect();
    status.ended = ended.iter().rev().take(ENDED).rev().map(|job| job.name.clone()).collect();
    // These have no limit: few of them stay.
    status.ended.extend(verification::reported(view).map(|it| it.job.name.clone()));
    status.running = runs::running(view);
    status.last_failure = last_failure(view);
    if let Signing::Key(key) = &observed.signing {
        status.signing_key = Some(key.clone());
    }
    if let Some(catalog) = observed.current() {
        status.recoverable = recoverable(catalog);
        status.recent = recent(view, catalog);
        explain(view, schedule, catalog, &results, &mut status.recent);
        for run in &mut status.recent {
            run.verified = verification::verdict(&results, &run.folder, &run.id).or(run.verified);
        }
        let finished = status.recent.iter().map(|run| run.finished.clone());
        status.last_success = finished.max_by_key(|time| time.0);
        let (backups, bytes) = catalog.total();
        status.backups = i64::try_from(backups).unwrap_or(i64::MAX);
        status.stored_bytes = signed(bytes);
        // Before the first backup the column stays blank.
        status.size = (backups > 0).then(|| in_words(bytes));
    }
    status.verified = results;
    status
}

/// Returns the failure of the Job that ended last, or that is gone; `None` if it succeeded.
pub fn last_failure(view: &View<'_>) -> Option<BackupFailure> {
    if let Some(lost) = runs::lost_failure(view) {
        return Some(lost);
    }
    let ended = view.observed.jobs.iter().filter_map(|job| Some((job, job.end.as_ref()?)));
    let Some((job, end)) = ended.max_by_key(|(_, end)| end.at) else { return view.before.last_failure.clone() };
    if let Some(later) = later_failure(view, end.at) {
        return Some(later.clone());
    }
    // A known reason is kept: it came from the Job's pods, which do not stay.
    let known = view.before.last_failure.clone().filter(|failure| failure.job == job.name);
    let told = |(reason, message)| BackupFailure { time: Time(end.at), reason, message, job: job.name.clone() };
    end.failure.clone().map(|failure| known.unwrap_or_else(|| told(failure)))
}

/// The reported failure, if it is of a Job that is gone and came after the last end that can be seen.
pub fn later_failure<'a>(view: &'a View<'_>, end: Timestamp) -> Option<&'a BackupFailure> {
    let is_gone = |it: &&BackupFailure| view.observed.jobs.iter().all(|job| job.name != it.job);
    view.before.last_failure.as_ref().filter(|it| it.time.0 > end).filter(is_gone)
}

/// Returns what could be restored now.
fn recoverable(catalog: &Catalog) -> Option<Recoverable> {
    let all: BTreeSet<Timestamp> = catalog.folders.keys().flat_map(|folder| catalog.complete(folder)).collect();
    let (oldest, newest) = (Time(*all.first()?), Time(*all.last()?));
    Some(Recoverable { oldest, newest, count: i64::try_from(catalog.total().0).unwrap_or(i64::MAX) })
}

fn recent(view: &View<'_>, catalog: &Catalog) -> Vec<BackupRun> {
    let text = |due: Timestamp, folder: &String| {
        let id = id_of(due);
        let before = view.before.recent.iter().find(|run| run.id == id && run.folder == *folder);
        let manifest = || view.observed.manifests.get(&(folder.clone(), due)).map(|it| run(folder, it));
        before.cloned().or_else(manifest)
    };
    newest(catalog).into_iter().filter_map(|(due, folder)| text(due, folder)).collect()
}

/// Returns what the newest backup of each server leaves out, as text to append to a message; none where they leave out nothing.
pub fn left_out(view: &View<'_>) -> Option<String> {
    let runs = view.observed.current().map_or_else(|| view.before.recent.clone(), |it| recent(view, it));
    let is_newest = |run: &&BackupRun| runs.iter().all(|it| it.folder != run.folder || it.id <= run.id);
    let newest = runs.iter().filter(is_newest);
    let described: Vec<String> =
        newest.filter_map(|run| Some(format!("{} of {}", run.left_out.as_ref()?, run.source))).collect();
    (!described.is_empty()).then(|| {
        let names = described.join(", ");
        format!("; its user may not connect to {names}, or no user may: they are in no backup")
    })
}

/// Notes for each recent backup why it is kept.
fn explain(
    view: &View<'_>,
    schedule: &Schedule,
    catalog: &Catalog,
    results: &[BackupVerification],
    recent: &mut [BackupRun],
) {
    for folder in catalog.folders.keys() {
        let mut kept = unkept::reasons(view, schedule, folder, &catalog.complete(folder), results);
        for run in recent.iter_mut().filter(|run| run.folder == *folder) {
            let reasons = due_of(&run.id).and_then(|due| kept.remove(&due)).unwrap_or_default();
            run.kept_by = reasons.into_iter().collect();
        }
    }
}

fn run(folder: &str, Document { manifest, .. }: &Document) -> BackupRun {
    BackupRun {
        id: manifest.id.clone(),
        source: manifest.source.clone(),
        folder: folder.to_owned(),
        finished: Time(manifest.finished),
        seconds: manifest.finished.duration_since(manifest.started).as_secs(),
        bytes: signed(manifest.size),
        stored_bytes: signed(manifest.stored_size),
        keys: signed(manifest.contents.keys),
        left_out: manifest.contents.facts.get(LEFT_OUT).cloned(),
        verified: None,
        kept_by: Vec::new(),
    }
}

/// The condition about backups that do not count. Where S3 was not read, it stays as before. While a Job runs, what it
/// writes is not recorded yet, so only doubts that no report can remove are shown.
pub fn unrecorded(view: &View<'_>) -> Option<ExtraCondition> {
    const TYPE: &str = "UnrecordedBackups";
    let catalog = view.observed.catalog.as_ref()?;
    let is_running = view.observed.is_running();
    let doubtful: Vec<(&str, Timestamp, Doubt)> =
        catalog.doubtful().filter(|(_, _, doubt)| !is_running || is_certain(*doubt)).collect();
    if doubtful.is_empty() {
        return (!is_running).then(|| ExtraCondition {
            type_: TYPE,
            status: ConditionStatus::Absent,
            reason: "None",
            message: String::new(),
        });
    }
    let name =
        |(folder, due, doubt): &(&str, Timestamp, Doubt)| format!("{folder}/{} {}", id_of(*due), doubt.describe());
    let named = doubtful.iter().rev().take(NAMED).map(name).collect::<Vec<_>>().join(", ");
    let more = doubtful.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let bucket = view.observed.bucket.as_ref().map_or("", |bucket| bucket.place.bucket.as_str());
    let message = format!(
        "under s3://{bucket}/{}/ lie backups that do not count and are neither restored nor deleted: {named}{more}. Check who may write there; then delete them (aws s3 rm --recursive), or accept them with spec.acceptUnrecordedBefore",
        view.prefix
    );
    Some(ExtraCondition { type_: TYPE, status: ConditionStatus::True, reason: "NotRecorded", message })
}

/// Reports whether no report of a Job can remove the doubt.
fn is_certain(doubt: Doubt) -> bool {
    matches!(doubt, Doubt::Future | Doubt::Early)
}

/// Reports whether a backup is missing that should be there by now.
pub fn overdue(view: &View<'_>, schedule: &Schedule, states: &[DatabaseState]) -> ExtraCondition {
    if let Some(unknown) = listing::overdue(view) {
        return unknown;
    }
    let Some(catalog) = &view.observed.catalog else {
        // An unknown state is reported as before.
        return ExtraCondition { status: was_overdue(view), ..not_overdue() };
    };
    let due = due(view.object, schedule, view.now);
    let withheld = view.observed.withheld.iter().map(|it| &it.database);
    let all = view.observed.sources.iter().chain(withheld);
    let lacking = all.filter(|database| due.is_some_and(|due| states::lacks(database, catalog, due)));
    let titles: Vec<&str> = lacking.map(|database| database.access.source.title.as_str()).collect();
    let never = states::titles(states, BackupState::NeverSucceeded);
    let why = view.before.last_failure.as_ref().map_or_else(String::new, |failure| format!(": {}", failure.message));
    let (reason, message) = match due {
        _ if !never.is_empty() => ("NeverSucceeded", format!("there was never a complete backup of {never}{why}")),
        Some(due) if !titles.is_empty() => {
            let titles = titles.join(", ");
            ("BackupMissing", format!("there is no backup of {titles} since {due}, when one was due{why}"))
        }
        _ => return not_overdue(),
    };
    ExtraCondition { type_: "BackupOverdue", status: ConditionStatus::True, reason, message }
}

/// Returns the condition without any missing backup.
pub fn not_overdue() -> ExtraCondition {
    ExtraCondition {
        type_: "BackupOverdue",
        status: ConditionStatus::False,
        reason: "UpToDate",
        message: "no backup is overdue".into(),
    }
}

fn was_overdue(view: &View<'_>) -> ConditionStatus {
    let before = view.before.conditions.iter().find(|condition| condition.type_ == "BackupOverdue");
    before.map_or(ConditionStatus::Absent, |condition| (condition.status == "True").into())
}

/// Returns the words about backups that all failed their verification; `None` if one did not, or if there is none.
pub fn disproven(view: &View<'_>, results: &[BackupVerification]) -> Option<String> {
    let catalog = view.observed.current()?;
    let all =
        catalog.folders.keys().flat_map(|folder| catalog.complete(folder).into_iter().map(move |it| (folder, it)));
    let mut count = 0;
    for (folder, due) in all {
        if verification::verdict(results, folder, &id_of(due)) != Some(false) {
            return None;
        }
        count += 1;
    }
    let failed = results.iter().find(|result| !result.ok)?;
    let backups = if count == 1 { "the only backup" } else { "every backup" };
    Some(format!("{backups} failed its verification: backup {} of {}: {}", failed.id, failed.source, failed.message))
}

/// Reports whether anything can be restored. Where S3 was not read, this stays as before.
pub fn restorable(view: &View<'_>, disproven: Option<&String>) -> Option<ExtraCondition> {
    const TYPE: &str = "Restorable";
    let catalog = view.observed.current()?;
    let (count, _) = catalog.total();
    let said = |status: bool, reason, message| ExtraCondition { type_: TYPE, status: status.into(), reason, message };
    if let Some(message) = disproven {
        return Some(said(false, "VerificationFailed", message.clone()));
    }
    if count > 0 {
        let newest = recoverable(catalog).map_or_else(String::new, |it| format!(", the newest of {}", it.newest.0));
        let backups = if count == 1 { "backup" } else { "backups" };
        return Some(said(true, "BackedUp", format!("{count} {backups} can be restored{newest}")));
    }
    let name = view.object.metadata.name.as_deref().unwrap_or_default();
    let message =
        format!("there is no backup yet that can be restored; to take one: kubectl causeway backup now {name}");
    Some(said(false, "NoBackupYet", message))
}

/// Reports whether the bucket can be used.
pub fn bucket_part(name: &str, verdict: &Verdict) -> ExtraCondition {
    let (status, reason, message) = match verdict {
        Verdict::Usable("Offered") => {
            (true, "Offered", format!("bucket {name} is used as it is: its owner offered it with a tag"))
        }
        Verdict::Usable(reason) => {
            (true, *reason, format!("bucket {name} belongs to Causeway, and is private and encrypted"))
        }
        Verdict::Change(_) => (false, "Preparing", format!("bucket {name} is being set up")),
        Verdict::Refused(reason, text) => (false, *reason, text.clone()),
    };
    ExtraCondition { type_: "BucketReady", status: status.into(), reason, message }
}

/// Formats a number of bytes for people.
pub fn in_words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut unit, mut tenths) = (0, bytes.saturating_mul(10) / 1024);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod words {
    use super::*;

    #[test]
    fn bytes_are_written_for_people() {
        for (bytes, words) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3.0 TiB")]
        {
            assert_eq!(in_words(bytes), words);
        }
    }
}
