//! What a restore would do to its target.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a restore with `dryRun` would do.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreOutlook {
    /// What would become of the target, one entry for each sort of thing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RestoreChange>,

    /// Why it would be refused as it is, in a word such as `TargetNotEmpty`. Left out where it would not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What would become of one sort of thing.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreChange {
    /// What a restore would do with them.
    pub action: RestoreAction,
    /// What they are, such as `databases`, `tables`, `roles`, `keys` or `rows`.
    pub what: String,
    /// How many there are.
    pub count: i64,
    /// The first of them by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// What a restore would do with things.
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

/// What becomes of newer objects that depend on what is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnDependents {
    /// Nothing is restored; the message names them.
    #[default]
    Fail,
    /// They are dropped.
    Cascade,
}

impl OnDependents {
    /// Whether nothing is dropped.
    #[must_use]
    pub fn is_fail(&self) -> bool {
        *self == Self::Fail
    }
}
