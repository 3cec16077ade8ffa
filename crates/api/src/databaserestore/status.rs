//! The status of a restore.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RecoveredTo, RestoreOutlook};
use crate::common::conditioned;

/// Observed state of the restore.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseRestoreStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Phase of the restore: `Pending`, `Fetching` (the backup is fetched and checked; the target is not changed yet),
    /// `Restoring` (the target is written), `Succeeded`, `Failed` (it is not tried again) or, with `spec.dryRun`,
    /// `Planned`.
    #[serde(default)]
    pub phase: RestorePhase,

    /// ID of the backup that was chosen, such as `20261122T000500Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_id: Option<String>,

    /// The database that was backed up, such as `Redis cache`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,

    /// Name of the Job that restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,

    /// Number of keys that were restored; rows for PostgreSQL, MySQL and MariaDB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<i64>,

    /// With `spec.pointInTime`: what the server was recovered from, and up to which instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_to: Option<RecoveredTo>,

    /// With `spec.dryRun`: what the restore would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<RestoreOutlook>,

    /// When the Job was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,

    /// When the restore ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,

    /// Reason why it failed, as a word such as `TargetNotEmpty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Outcome as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// `Ready` is `True` after the restore succeeded, `Reconciling` while it is in progress, and `Stalled` after it
    /// failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Phase of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestorePhase {
    /// The restore has not started.
    #[default]
    Pending,
    /// The backup is fetched and checked; the target is not touched yet.
    Fetching,
    /// The target is written.
    Restoring,
    /// It is done.
    Succeeded,
    /// It failed, and is not tried again.
    Failed,
    /// With `dryRun`: `status.outlook` says what it would do, and nothing was written.
    Planned,
}

impl RestorePhase {
    /// Reports whether nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Planned)
    }
}

conditioned!(DatabaseRestoreStatus, []);
