//! An etcd cluster that goes back to an earlier minor version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far members are on their way back to an earlier minor version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DowngradeStatus {
    /// The version that members ran before, such as `3.6.16`. Pods are made of it until all members are prepared.
    pub from: String,

    /// The image of that version.
    pub image: String,

    /// All members have written their data as the earlier minor version reads them: from then on pods are replaced.
    #[serde(default)]
    pub prepared: bool,
}
