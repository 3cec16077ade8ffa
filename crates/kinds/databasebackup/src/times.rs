//! When backups are due, when they last succeeded, how much log servers keep for them, and whether one is overdue or
//! bad: for metrics. Pure.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use causeway_api::databasebackup::BackupState;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use causeway_runtime::metrics::BackupTimes;
use causeway_runtime::schedule::Schedule;

/// The metrics of one object at an instant, from its status.
pub fn measure(object: &DatabaseBackup, now: Timestamp) -> BackupTimes {
    let status = object.status.as_ref();
    let results = status.filter(|_| object.spec.verify.is_some()).into_iter().flat_map(|status| &status.verified);
    let logs = || status.into_iter().flat_map(|status| &status.databases).filter_map(|it| it.kept_log.as_ref());
    let conditions = || status.into_iter().flat_map(|status| &status.conditions);
    let find = |type_: &str| conditions().find(|it| it.type_ == type_);
    BackupTimes {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        success: status.and_then(|status| status.last_success.as_ref()).map(|time| time.0),
        log_kept: logs().map(|it| it.bytes).max(),
        log_room: logs().map(|it| it.bytes_until_lost).min(),
        // A suspended object counts as well: the server goes on keeping its log.
        log_unmeasured: logs()
            .map(|it| it.seen.0)
            .min()
            .is_some_and(|seen| last_due(object, now).is_some_and(|due| seen < due)),
        verified: results.filter_map(|result| result.proven_at.as_ref()).map(|time| time.0).max(),
        // Where the newest backups could not be read, an administrator has to look as well.
        overdue: find("BackupOverdue").is_some_and(|it| it.status == "True" || it.reason == "ListingCut")
            || status.is_some_and(|status| fell_behind(object, status, now)),
        bad: find("Verified").is_some_and(|it| it.status == "False"),
    }
}

/// The instant for which every database must have a backup by now; none where none was due since the object was made.
pub fn due(object: &DatabaseBackup, schedule: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let deadline = SignedDuration::from_secs(object.spec.retry.deadline.signed_seconds());
    let due = now.checked_sub(deadline).ok().and_then(|then| schedule.last_before(then));
    let made = object.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
    due.filter(|due| *due >= made)
}

/// Reports whether a backup that is due by now is missing in the status of an object that is not looked at: its condition stays
/// as it was while looking fails, or the spec is refused.
fn fell_behind(object: &DatabaseBackup, status: &DatabaseBackupStatus, now: Timestamp) -> bool {
    let is = |type_: &str| status.conditions.iter().any(|it| it.type_ == type_ && it.status == "True");
    if object.spec.suspend || (is("Ready") && !is("Reconciling")) {
        return false;
    }
    let Some(due) = last_due(object, now) else { return false };
    let mut databases = status.databases.iter().filter(|it| it.state != BackupState::NotStarted);
    databases.any(|it| it.newest.as_ref().is_some_and(|newest| newest.0 < due))
}

/// The instant of [`due`] by the schedule in the spec; none where that cannot be read.
fn last_due(object: &DatabaseBackup, now: Timestamp) -> Option<Timestamp> {
    let schedule = Schedule::read(&object.spec.schedule, object.spec.time_zone.as_deref()).ok()?;
    due(object, &schedule, now)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixtures::backup;
    use super::*;

    /// An hour of a day, and half an hour.
    fn at_hour(hour: i64) -> Timestamp {
        let midnight: Timestamp = "2026-11-22T00:30:00Z".parse().expect("an instant");
        midnight + SignedDuration::from_hours(hour)
    }

    #[test]
    fn an_unobserved_object_becomes_overdue() {
        let mut object = backup();
        let mut overdue = |now: Timestamp, says: [(&str, &str); 2], suspended: bool| {
            let condition = |(type_, status): (&str, &str)| {
                json!({
                    "type": type_, "status": status, "reason": "ObserveFailed", "message": "",
                    "lastTransitionTime": "2026-11-21T03:00:00Z",
                })
            };
            let status = json!({
                "conditions": says.map(condition),
                "databases": [{
                    "source": "Redis cache", "folder": "redis-cache", "state": "UpToDate",
                    "newest": "2026-11-21T02:00:00Z",
                }],
            });
            object.status = Some(serde_json::from_value(status).expect("a status"));
            object.spec.suspend = suspended;
            measure(&object, now).overdue
        };
        let fails = [("BackupOverdue", "False"), ("Ready", "False")];
        assert!(!overdue(at_hour(2), fails, false), "it may still be on its way");
        assert!(overdue(at_hour(3), fails, false));
        assert!(!overdue(at_hour(3), fails, true), "a suspended object takes none");
        assert!(
            overdue(at_hour(3), [("Reconciling", "True"), ("Ready", "True")], false),
            "looking fails, and is retried"
        );
        assert!(!overdue(at_hour(3), [("BackupOverdue", "False"), ("Ready", "True")], false), "it is looked at");
    }

    #[test]
    fn log_is_unmeasured_after_a_missed_job() {
        let mut object = backup();
        let status = json!({ "databases": [{
            "source": "PostgreSQL shop", "folder": "postgresql-wal", "state": "Failed",
            "keptLog": { "seen": "2026-11-21T02:01:00Z", "bytes": 5, "bytesUntilLost": 6 },
        }] });
        object.status = Some(serde_json::from_value(status).expect("a status"));
        for suspend in [false, true] {
            object.spec.suspend = suspend;
            assert!(!measure(&object, at_hour(2)).log_unmeasured, "the Job may still try");
            assert!(measure(&object, at_hour(3)).log_unmeasured);
        }
        assert!(!measure(&backup(), at_hour(3)).log_unmeasured, "no server keeps log for it");
    }

    #[test]
    fn metrics_follow_the_conditions() {
        let mut object = backup();
        assert!(!measure(&object, at_hour(3)).overdue, "it has no status yet");
        let mut says = |type_: &str, status: &str, reason: &str| {
            let condition = json!({
                "type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-22T03:00:00Z",
            });
            let conditions = vec![serde_json::from_value(condition).expect("a condition")];
            object.status = Some(DatabaseBackupStatus { conditions, ..DatabaseBackupStatus::default() });
            let BackupTimes { overdue, bad, .. } = measure(&object, at_hour(3));
            (overdue, bad)
        };
        let (overdue, bad, well) = ((true, false), (false, true), (false, false));
        assert_eq!(says("BackupOverdue", "True", "BackupMissing"), overdue);
        assert_eq!(says("BackupOverdue", "Unknown", "ListingCut"), overdue);
        assert_eq!(says("BackupOverdue", "False", "UpToDate"), well);
        assert_eq!(says("Verified", "False", "VerificationFailed"), bad);
        assert_eq!(says("Verified", "Unknown", "NotTried"), well);
        assert_eq!(says("Ready", "True", "Scheduled"), well);
    }
}
