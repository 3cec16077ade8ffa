//! When backups went well last, for metrics. Pure.

use kube::ResourceExt;

use crate::api::DatabaseBackup;
use crate::metrics::BackupTimes;

/// When backups of an object went well last, as its status says.
pub fn of(object: &DatabaseBackup) -> BackupTimes {
    let status = object.status.as_ref();
    let results = status.filter(|_| object.spec.verify.is_some()).into_iter().flat_map(|status| &status.verified);
    BackupTimes {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        success: status.and_then(|status| status.last_success.as_ref()).map(|time| time.0),
        verified: results.filter_map(|result| result.proven_at.as_ref()).map(|time| time.0).max(),
    }
}
