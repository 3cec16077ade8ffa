//! When an etcd cluster gives back space that it does not use.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Scheduled defragmentation: one member at a time, the leader last, and only while all members are healthy.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Defrag {
    /// When defragmentation starts: a cron schedule of five fields in UTC, such as `0 3 * * *`. If it cannot start
    /// within an hour, it waits for the next scheduled time.
    #[schemars(length(min = 1, max = 128))]
    pub schedule: String,

    /// A member is defragmented only if at least this percentage of its database is unused, and at least 16 MiB: 1 to
    /// 99, 20 unless given.
    #[serde(default = "a_fifth")]
    #[schemars(range(min = 1, max = 99))]
    pub threshold_percent: i32,
}

/// Progress of scheduled defragmentation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefragStatus {
    /// The schedule that the other fields belong to.
    pub schedule: String,

    /// All runs that were due until this time are finished: done, not needed, or missed.
    pub done_until: Time,

    /// Members that had their turn since `doneUntil`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,

    /// When a member was last defragmented.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_defragmented: Option<Time>,
}

fn a_fifth() -> i32 {
    20
}
