//! The state of each database's backups. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::databasebackup::{BackupState, DatabaseState, KeptLogState, RunningBackup};
use causeway_backup::jobs::Catalog;
use causeway_runtime::schedule::Schedule;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::facts::Database;
use super::super::times::due;
use super::super::view::View;
use super::{runs, status};

/// How many databases are reported.
const REPORTED: usize = 100;
/// The clocks of S3 and of Kubernetes differ by at most this.
const CLOCKS: SignedDuration = SignedDuration::from_mins(1);

/// Reports whether a database lacks the backup that was due at `due`.
pub fn lacks(database: &Database, catalog: &Catalog, due: Timestamp) -> bool {
    database.since <= due && newest(database, catalog).is_none_or(|newest| newest < due)
}

/// The state of each database. Where the newest backups were not read, it stays as before, except for the kept log that
/// Jobs reported.
pub fn states(view: &View<'_>, schedule: &Schedule) -> Vec<DatabaseState> {
    let Some(catalog) = view.observed.current() else {
        let before = view.before.databases.iter();
        return before.map(|it| DatabaseState { kept_log: kept_log(view, &it.folder), ..it.clone() }).collect();
    };
    let due = due(view.object, schedule, view.now);
    let backed_up = view.observed.sources.iter().map(|it| (it, state(view, it, catalog, due)));
    let withheld = view.observed.withheld.iter().map(|it| (&it.database, BackupState::SecretRefused));
    let starting = view.observed.starting.iter().map(|it| (it, BackupState::NotStarted));
    let all = backed_up.chain(withheld).chain(starting).take(REPORTED).map(|(database, state)| DatabaseState {
        source: database.access.source.title.clone(),
        folder: database.access.source.folder.clone(),
        state,
        newest: newest(database, catalog).map(Time),
        kept_log: kept_log(view, &database.access.source.folder),
    });
    all.collect()
}

/// The log that the server of a database keeps, as it was reported last.
fn kept_log(view: &View<'_>, folder: &str) -> Option<KeptLogState> {
    let Some((seen, kept)) = view.observed.kept_logs.get(folder) else {
        return view.before.databases.iter().find(|it| it.folder == folder)?.kept_log.clone();
    };
    let (bytes, bytes_until_lost) = (status::signed(kept.held), status::signed(kept.room));
    Some(KeptLogState { seen: Time(*seen), bytes, bytes_until_lost })
}

/// The message about log that no backup takes: how much of it the server keeps, and after how much more it will be lost.
fn filling(states: &[DatabaseState]) -> String {
    let bad = |it: &&DatabaseState| matches!(it.state, BackupState::Failed | BackupState::NeverSucceeded);
    let words = states.iter().filter(bad).filter_map(|it| {
        let KeptLogState { seen, bytes, bytes_until_lost } = it.kept_log.as_ref()?;
        let (kept, left) = (in_bytes(*bytes), in_bytes(*bytes_until_lost));
        Some(format!(
            "; at {} the server of {} kept {kept} of log, and gives it up after {left} more",
            seen.0, it.source
        ))
    });
    words.collect()
}

fn in_bytes(bytes: i64) -> String {
    status::in_words(u64::try_from(bytes).unwrap_or_default())
}

/// How many databases are up to date, of how many, for people.
pub fn in_words(states: &[DatabaseState]) -> Option<String> {
    let good = states.iter().filter(|it| matches!(it.state, BackupState::UpToDate)).count();
    (!states.is_empty()).then(|| format!("{good}/{}", states.len()))
}

/// The titles of the databases in a state, joined.
pub fn titles(states: &[DatabaseState], state: BackupState) -> String {
    let titles: Vec<&str> = states.iter().filter(|it| it.state == state).map(|it| it.source.as_str()).collect();
    titles.join(", ")
}

/// The condition that names the databases whose last backup failed. It is present only while there are any.
pub fn failed(view: &View<'_>, states: &[DatabaseState]) -> Option<ExtraCondition> {
    const TYPE: &str = "BackupFailed";
    view.observed.current()?;
    let never = titles(states, BackupState::NeverSucceeded);
    let failed = titles(states, BackupState::Failed);
    if never.is_empty() && failed.is_empty() {
        return Some(ExtraCondition {
            type_: TYPE,
            status: ConditionStatus::Absent,
            reason: "None",
            message: String::new(),
        });
    }
    let mut words = Vec::new();
    if !never.is_empty() {
        words.push(format!("there was never a complete backup of {never}"));
    }
    if !failed.is_empty() {
        words.push(format!("the last backup of {failed} failed"));
    }
    let why = status::last_failure(view).map_or_else(String::new, |failure| format!(": {}", failure.message));
    let reason = if never.is_empty() { "Failed" } else { "NeverSucceeded" };
    Some(ExtraCondition {
        type_: TYPE,
        status: ConditionStatus::True,
        reason,
        message: format!("{}{why}{}", words.join("; "), filling(states)),
    })
}

fn state(view: &View<'_>, database: &Database, catalog: &Catalog, due: Option<Timestamp>) -> BackupState {
    let is_overdue = due.is_some_and(|due| lacks(database, catalog, due));
    let has_failed = failed_last(view, database, catalog);
    match (newest(database, catalog), is_overdue) {
        (None, overdue) if overdue || has_failed => BackupState::NeverSucceeded,
        (None, _) => BackupState::Waiting,
        (Some(_), _) if has_failed => BackupState::Failed,
        (Some(_), true) => BackupState::Overdue,
        (Some(_), false) => BackupState::UpToDate,
    }
}

/// Reports whether the last Job that ended failed without a backup of this database. Jobs do not stay: where there is none any
/// more, the state that was reported holds as long as there is no newer backup.
fn failed_last(view: &View<'_>, database: &Database, catalog: &Catalog) -> bool {
    let folder = &database.access.source.folder;
    let is_lost = |it: &&RunningBackup| database.since <= it.started.0 && !has_newer(folder, catalog, it.started.0);
    if runs::lost_jobs(view).iter().any(is_lost) {
        return true;
    }
    let ended = view.observed.jobs.iter().filter_map(|job| Some((job, job.end.as_ref()?)));
    let last = ended.max_by_key(|(_, end)| end.at).filter(|(_, end)| status::later_failure(view, end.at).is_none());
    let Some((job, end)) = last else {
        let was = |it: &&DatabaseState| {
            it.folder == *folder && it.newest.as_ref().map(|time| time.0) == newest(database, catalog)
        };
        let before = view.before.databases.iter().find(was);
        return before.is_some_and(|it| matches!(it.state, BackupState::Failed | BackupState::NeverSucceeded));
    };
    end.failure.is_some() && database.since <= job.made && !has_newer(folder, catalog, job.made)
}

/// Reports whether there is a backup of a database that was written after a Job was made.
pub fn has_newer(folder: &str, catalog: &Catalog, made: Timestamp) -> bool {
    let newest = catalog.complete(folder).last().copied();
    let stored = newest.and_then(|due| catalog.folders.get(folder)?.get(&due));
    stored.is_some_and(|it| it.modified + CLOCKS >= made)
}

fn newest(database: &Database, catalog: &Catalog) -> Option<Timestamp> {
    catalog.complete(&database.access.source.folder).last().copied()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{catalog, decided, now, settled};
    use super::*;
    use crate::facts::{Job, Observed};
    use crate::fixtures::backup;
    use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
    use causeway_backup::jobs::End;
    use causeway_backup::report::KeptLog;
    use causeway_runtime::{Health, Plan};

    type Decision = Plan<super::super::Action, DatabaseBackupStatus>;

    /// A second database beside the Redis.
    fn with_another(mut observed: Observed) -> Observed {
        let mut other = observed.sources[0].clone();
        (other.access.source.folder, other.access.source.title) = ("redis-other".into(), "Redis other".into());
        observed.sources.push(other);
        observed
    }

    fn ended(observed: &mut Observed, at: &str, failed: bool) {
        let at: Timestamp = at.parse().expect("an instant");
        let failure = failed.then(|| ("SourceUnreachable".to_owned(), "redis-other: no server answers".to_owned()));
        let (name, made) = (format!("nightly-{}", observed.jobs.len()), at - SignedDuration::from_mins(5));
        observed.jobs.push(Job { name, made, end: Some(End { at, failure }), ..Job::default() });
    }

    fn reported(plan: &Decision) -> Vec<(&str, BackupState)> {
        plan.status.databases.iter().map(|it| (it.source.as_str(), it.state)).collect()
    }

    fn condition<'a>(plan: &'a Decision, type_: &str) -> &'a ExtraCondition {
        plan.parts.iter().find(|part| part.type_ == type_).expect("the condition")
    }

    #[test]
    fn a_database_without_any_backup_is_reported() {
        let mut object: DatabaseBackup = backup();
        object.metadata.creation_timestamp = Some(Time(now() - SignedDuration::from_mins(30)));
        let mut observed = with_another(settled(&object));
        let plan = decided(&object, &observed);
        assert_eq!(reported(&plan), [("Redis cache", BackupState::Waiting), ("Redis other", BackupState::Waiting)]);
        assert_eq!(condition(&plan, "BackupOverdue").status, ConditionStatus::False, "none was due");

        observed.catalog = Some(catalog(&["20261122T115500Z"], &[], now()));
        ended(&mut observed, "2026-11-22T11:59:00Z", true);
        let plan = decided(&object, &observed);
        assert_eq!(
            reported(&plan),
            [("Redis cache", BackupState::UpToDate), ("Redis other", BackupState::NeverSucceeded)]
        );
        assert_eq!(plan.status.up_to_date.as_deref(), Some("1/2"));
        for type_ in ["BackupOverdue", "BackupFailed"] {
            let found = condition(&plan, type_);
            assert_eq!((found.status, found.reason), (ConditionStatus::True, "NeverSucceeded"), "{type_}");
            assert!(
                found.message.contains("Redis other") && !found.message.contains("Redis cache"),
                "{}",
                found.message
            );
        }
        // The Job is deleted later, and the state that it showed stays.
        object.status = Some(plan.status);
        observed.jobs.clear();
        assert_eq!(reported(&decided(&object, &observed))[1].1, BackupState::NeverSucceeded);
    }

    #[test]
    fn untaken_log_is_reported_with_the_bytes_left() {
        let mut object = backup();
        let mut observed = settled(&object);
        let written = "2026-11-22T02:01:00Z".parse().expect("an instant");
        observed.catalog = Some(catalog(&["20261122T020000Z"], &[], written));
        ended(&mut observed, "2026-11-22T11:00:00Z", true);
        let seen: Timestamp = "2026-11-22T11:00:00Z".parse().expect("an instant");
        observed.kept_logs.insert("redis-cache".into(), (seen, KeptLog { held: 3 << 30, room: 512 << 20 }));
        let kept = KeptLogState { seen: Time(seen), bytes: 3 << 30, bytes_until_lost: 512 << 20 };
        let plan = decided(&object, &observed);
        assert!(plan.write_status_first, "it is asked for once");
        object.status = Some(plan.status);
        observed.kept_logs.clear();
        let plan = decided(&object, &observed);
        assert_eq!(plan.status.databases[0].kept_log.as_ref(), Some(&kept));
        let message = &condition(&plan, "BackupFailed").message;
        let words = "at 2026-11-22T11:00:00Z the server of Redis cache kept 3.0 GiB of log, and gives it up after 512.0 MiB more";
        assert!(message.ends_with(words), "{message}");
        observed.catalog = None;
        let later = KeptLogState { bytes: 4 << 30, ..kept };
        observed.kept_logs.insert("redis-cache".into(), (seen, KeptLog { held: 4 << 30, room: 512 << 20 }));
        assert_eq!(decided(&object, &observed).status.databases[0].kept_log, Some(later), "whether or not S3 answers");
    }

    #[test]
    fn a_failed_database_is_reported_until_success() {
        let object = backup();
        let mut observed = settled(&object);
        let written = "2026-11-22T02:01:00Z".parse().expect("an instant");
        observed.catalog = Some(catalog(&["20261122T020000Z"], &[], written));
        ended(&mut observed, "2026-11-22T11:00:00Z", true);
        let plan = decided(&object, &observed);
        assert_eq!(reported(&plan), [("Redis cache", BackupState::Failed)]);
        assert_eq!(condition(&plan, "BackupFailed").reason, "Failed");
        assert_eq!(condition(&plan, "BackupOverdue").status, ConditionStatus::False, "that of the schedule is there");
        observed.catalog = Some(catalog(&["20261122T020000Z", "20261122T113000Z"], &[], now()));
        ended(&mut observed, "2026-11-22T11:35:00Z", false);
        let plan = decided(&object, &observed);
        assert_eq!(reported(&plan), [("Redis cache", BackupState::UpToDate)]);
        assert_eq!(condition(&plan, "BackupFailed").status, ConditionStatus::Absent, "the condition goes");
    }

    #[test]
    fn a_database_that_never_served_is_left_out() {
        let object = backup();
        let mut observed = with_another(settled(&object));
        let starting = observed.sources.remove(1);
        observed.starting.push(starting);
        let plan = decided(&object, &observed);
        assert!(plan.actions.is_empty(), "no Job tries to back it up: {:?}", plan.actions);
        assert_eq!(reported(&plan)[1], ("Redis other", BackupState::NotStarted));
        assert!(!condition(&plan, "BackupOverdue").message.contains("Redis other"), "nothing of it is due");
        let Health::Ready(cause) = &plan.health else { panic!("{:?}", plan.health) };
        assert!(cause.message.contains("Redis other is left out, for it has not come up yet"), "{}", cause.message);
        // There is no other database.
        observed.sources.clear();
        let plan = decided(&object, &observed);
        assert_eq!(plan.status.next_run, None);
        assert!(plan.actions.iter().all(|action| format!("{action:?}").starts_with("Apply")), "{:?}", plan.actions);
    }
}
