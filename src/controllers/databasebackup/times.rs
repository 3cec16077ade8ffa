//! When backups last succeeded, and how much log servers keep for them, for metrics. Pure.

use kube::ResourceExt;

use crate::api::DatabaseBackup;
use crate::metrics::BackupTimes;

/// The times and sizes for one object, from its status.
pub fn of(object: &DatabaseBackup) -> BackupTimes {
    let status = object.status.as_ref();
    let results = status.filter(|_| object.spec.verify.is_some()).into_iter().flat_map(|status| &status.verified);
    let logs = || status.into_iter().flat_map(|status| &status.databases).filter_map(|it| it.kept_log.as_ref());
    BackupTimes {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        success: status.and_then(|status| status.last_success.as_ref()).map(|time| time.0),
        log_kept: logs().map(|it| it.bytes).max(),
        log_room: logs().map(|it| it.bytes_until_lost).min(),
        verified: results.filter_map(|result| result.proven_at.as_ref()).map(|time| time.0).max(),
    }
}
