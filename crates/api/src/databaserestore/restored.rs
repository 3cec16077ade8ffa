//! The record that a database keeps of the backup that it began with.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Outcome of `spec.restoreFrom` of a database.
///
/// It is what keeps a backup from being brought back twice: only the [`DatabaseRestore`](super::DatabaseRestore) of this
/// uid may begin, and none is made after one that may have done something.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// Name of the DatabaseBackup, or the bucket, such as `s3://causeway-prod-111122223333-eu-west-1`.
    pub backup: String,
    /// Progress: `Running`, `Succeeded` (the backup is never restored again), `Failed` (delete the DatabaseRestore to
    /// try again) or `Skipped` (the volumes already held data, so nothing is restored).
    #[serde(default)]
    pub outcome: RestoreOutcome,
    /// ID of the backup, such as `20261122T000500Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// UID of the DatabaseRestore that restores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// When the restore ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// Progress of the restore of a new database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestoreOutcome {
    /// The DatabaseRestore may begin, or has begun.
    #[default]
    Running,
    /// The backup is in the database, and is never brought back again.
    Succeeded,
    /// It failed. Another is made when the DatabaseRestore is deleted.
    Failed,
    /// The database began with data on volumes that it found: nothing is brought back.
    Skipped,
}

impl Restored {
    /// Reports whether nothing more will be done, whatever becomes of the DatabaseRestore.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.outcome, RestoreOutcome::Succeeded | RestoreOutcome::Skipped)
    }
}
