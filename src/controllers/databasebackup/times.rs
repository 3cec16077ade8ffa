//! When backups last succeeded, how much log servers keep for them, and whether one is overdue, for metrics. Pure.

use kube::ResourceExt;

use crate::api::DatabaseBackup;
use crate::metrics::BackupTimes;

/// The metrics of one object, from its status.
pub fn of(object: &DatabaseBackup) -> BackupTimes {
    let status = object.status.as_ref();
    let results = status.filter(|_| object.spec.verify.is_some()).into_iter().flat_map(|status| &status.verified);
    let logs = || status.into_iter().flat_map(|status| &status.databases).filter_map(|it| it.kept_log.as_ref());
    let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
    BackupTimes {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        success: status.and_then(|status| status.last_success.as_ref()).map(|time| time.0),
        log_kept: logs().map(|it| it.bytes).max(),
        log_room: logs().map(|it| it.bytes_until_lost).min(),
        verified: results.filter_map(|result| result.proven_at.as_ref()).map(|time| time.0).max(),
        // Where the newest backups could not be read, somebody has to look as well.
        overdue: conditions.any(|it| it.type_ == "BackupOverdue" && (it.status == "True" || it.reason == "ListingCut")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixtures::backup;
    use super::*;
    use crate::api::DatabaseBackupStatus;

    #[test]
    fn an_object_is_overdue_while_its_condition_says_so() {
        let mut object = backup();
        assert!(!of(&object).overdue, "it has no status yet");
        let mut says = |type_: &str, status: &str, reason: &str| {
            let condition = json!({
                "type": type_, "status": status, "reason": reason, "message": "",
                "lastTransitionTime": "2026-11-22T03:00:00Z",
            });
            let conditions = vec![serde_json::from_value(condition).expect("a condition")];
            object.status = Some(DatabaseBackupStatus { conditions, ..DatabaseBackupStatus::default() });
            of(&object).overdue
        };
        assert!(says("BackupOverdue", "True", "Overdue") && says("BackupOverdue", "Unknown", "ListingCut"));
        assert!(!says("BackupOverdue", "False", "UpToDate") && !says("BackupOverdue", "Unknown", "NotObserved"));
        assert!(!says("Ready", "True", "Scheduled"));
    }
}
