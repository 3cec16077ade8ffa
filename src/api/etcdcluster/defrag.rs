//! When an etcd cluster gives back space that it does not use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Defragmentation by schedule: one member at a time, the leader last, and only while all members are well.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Defrag {
    /// When it begins, as a cron schedule of five fields in UTC, such as `0 3 * * *`. What could not begin within an
    /// hour waits for the next time.
    #[schemars(length(min = 1, max = 128))]
    pub schedule: String,

    /// A member is defragmented only where so many percent of its database are unused, and at least 16 MiB: 1 to 99.
    #[serde(default = "a_fifth")]
    #[schemars(range(min = 1, max = 99))]
    pub threshold_percent: i32,
}

/// How far the schedule was followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefragStatus {
    /// The schedule that is followed.
    pub schedule: String,

    /// What was due until then is over: done, not needed, or too late.
    pub done_until: Time,

    /// Members that had their turn since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,

    /// When a member was defragmented last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_defragmented: Option<Time>,
}

fn a_fifth() -> i32 {
    20
}
