//! When backups last succeeded, how much log servers keep for them, and whether one is overdue or bad, for metrics. Pure.

use kube::ResourceExt;

use crate::api::DatabaseBackup;
use crate::metrics::BackupTimes;

/// The metrics of one object, from its status.
pub fn of(object: &DatabaseBackup) -> BackupTimes {
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
        verified: results.filter_map(|result| result.proven_at.as_ref()).map(|time| time.0).max(),
        // Where the newest backups could not be read, somebody has to look as well.
        overdue: find("BackupOverdue").is_some_and(|it| it.status == "True" || it.reason == "ListingCut"),
        bad: find("Verified").is_some_and(|it| it.status == "False"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixtures::backup;
    use super::*;
    use crate::api::DatabaseBackupStatus;

    #[test]
    fn an_object_is_overdue_or_has_a_bad_backup_while_its_condition_says_so() {
        let mut object = backup();
        assert!(!of(&object).overdue, "it has no status yet");
        let mut says = |type_: &str, status: &str, reason: &str| {
            let condition = json!({
                "type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-22T03:00:00Z",
            });
            let conditions = vec![serde_json::from_value(condition).expect("a condition")];
            object.status = Some(DatabaseBackupStatus { conditions, ..DatabaseBackupStatus::default() });
            let BackupTimes { overdue, bad, .. } = of(&object);
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
