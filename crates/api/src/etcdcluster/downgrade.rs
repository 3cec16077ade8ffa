//! An etcd cluster that goes back to an earlier minor version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Progress of a downgrade to an earlier minor version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DowngradeStatus {
    /// The version that the members ran before, such as `3.6.16`. Pods that are created before all members are prepared
    /// run this version.
    pub from: String,

    /// The image of that version.
    pub image: String,

    /// All members have migrated their data to the format of the earlier minor version. From then on Causeway replaces
    /// the pods.
    #[serde(default)]
    pub prepared: bool,
}
