//! What is known of a restore.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RecoveredTo, RestoreOutlook};
use crate::api::common::conditioned;

/// What is known of a restore.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseRestoreStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How far it is.
    #[serde(default)]
    pub phase: RestorePhase,

    /// The backup that was chosen, such as `20261122T000500Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_id: Option<String>,

    /// The database that was backed up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,

    /// The Job that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,

    /// Keys that were brought back; rows of PostgreSQL, MySQL and MariaDB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<i64>,

    /// With `spec.pointInTime`: what the server came back from, and how far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_to: Option<RecoveredTo>,

    /// What the restore would do, with `dryRun`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<RestoreOutlook>,

    /// When the Job was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,

    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,

    /// Why it failed, in a word such as `TargetNotEmpty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// What happened, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// `Ready` is true once it succeeded; `Reconciling` while it is done, `Stalled` when it failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestorePhase {
    /// It is not begun.
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
    /// Whether nothing more will happen.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Planned)
    }
}

conditioned!(DatabaseRestoreStatus, []);
