//! The changes that a restore would make to its target.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Changes that a restore with `dryRun` reports and does not make.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreOutlook {
    /// Changes to the target, one entry for each action and type of object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RestoreChange>,

    /// Reason why the restore would be refused, as a word such as `TargetNotEmpty`. Left out if it would not be refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A change to one type of object.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreChange {
    /// Action of the restore on the objects: `Create`, `Replace`, `Drop` or `Keep`.
    pub action: RestoreAction,
    /// Type of the objects, such as `databases`, `tables`, `roles`, `keys` or `rows`.
    pub what: String,
    /// Number of the objects.
    pub count: i64,
    /// Names of the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// Action of a restore on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestoreAction {
    /// They are not there, and would be made.
    Create,
    /// They are there and in the backup, and would be replaced.
    Replace,
    /// They are there and not in the backup, and would be dropped.
    Drop,
    /// They are there, and would stay as they are.
    Keep,
}

/// Decides what happens to newer objects that depend on what is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDependents {
    /// Nothing is restored; the message names them.
    #[default]
    Fail,
    /// They are dropped.
    Cascade,
}

impl OnDependents {
    /// Reports whether nothing is dropped.
    #[must_use]
    pub fn is_fail(&self) -> bool {
        *self == Self::Fail
    }
}
