//! The status of a master and its replicas.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::conditioned;
use crate::databaserestore::Restored;

/// Observed state of the master and its replicas.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Summary of the state: `Creating`, `Restoring`, `Running`, `FailingOver`, `SwitchingOver`, `Updating`, `Degraded`
    /// or `Stalled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Name of the pod that was last made the master, such as `cache-0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,

    /// How many times a master was made. A pod that became the master in an earlier epoch is no longer the master.
    #[serde(default)]
    pub epoch: i64,

    /// Number of replicas that exist, without the master.
    #[serde(default)]
    pub replicas: i32,

    /// Number of replicas that follow the master and have all of its data.
    #[serde(default)]
    pub ready_replicas: i32,

    /// A hash of the last pods of which one has worked. Pods that are lost before one of the present spec has worked are made
    /// again as those were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub proven_revision: Option<String>,

    /// The size of the largest volume, such as `10Gi`: `spec.storage.size` cannot be less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub volume_size: Option<String>,

    /// Label selector of the pods, for the scale subresource and autoscalers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// The lowest version that a node runs, such as `7.0.15`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Where clients reach the master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,

    /// Replication ID of the master, by which Redis identifies a history of writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,

    /// The nodes, by name. Offset and lag are updated only when something else in the status changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub nodes: Vec<NodeStatus>,

    /// The failover or switchover in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,

    /// The last failover or switchover that was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failover: Option<LastFailover>,

    /// The last value of `spec.switchover.master` that was carried out, or that had no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_to: Option<String>,

    /// Since when there has been no master, and no replica that could take over without loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masterless_since: Option<Time>,

    /// Since when a node with data has answered while the one with all data has not: `spec.failover.dataLossTimeout` counts
    /// from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_since: Option<Time>,

    /// Progress of `spec.restoreFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,

    /// `Ready` and `Replicated` always; `Reconciling`, `Stalled` and `DataLost` only while abnormal; `Restored`
    /// only with `spec.restoreFrom`, `CertificatesValid` only with `spec.tls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Where clients reach the master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// DNS name of the Service, which resolves in the whole Kubernetes cluster.
    pub host: String,
    /// Port of the Service.
    pub port: i32,
    /// Scheme of URLs: `rediss` with TLS, `redis` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Secret with the certificate authorities that clients must trust, in key `ca.crt`; only with TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_secret_name: Option<String>,
    /// Address at which clients of Redis Sentinel ask for the master with the name of this object, such as
    /// `cache-sentinel.shop.svc:26379`; only with `spec.sentinel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Name of the node, which is also the name of its pod.
    pub name: String,
    /// `master`, `replica`, or `unknown` while it does not answer.
    pub role: String,
    /// The node is the master, or it follows the master and has all of its data.
    #[serde(default)]
    pub ready: bool,
    /// Replication offset of the node, in bytes.
    #[serde(default)]
    pub offset: i64,
    /// Number of keys in the node.
    #[serde(default)]
    pub keys: i64,
    /// Seconds since the node last heard from the master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<i64>,
    /// State of a replica's connection to the master: `up`, `syncing` or `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The node had all of the master's data when the master last answered: it can take over without loss.
    #[serde(default)]
    pub in_sync: bool,
}

/// A failover or switchover in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// The epoch that starts with it.
    pub epoch: i64,
    /// Name of the pod that was the master before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Name of the pod that becomes the master.
    pub target: String,
    /// Reason as a word.
    pub reason: String,
    /// The previous master hands over by itself, without loss.
    #[serde(default)]
    pub planned: bool,
    /// When Causeway decided on it.
    pub begun: Time,
}

impl Failover {
    /// Milliseconds from its beginning until `now`.
    pub fn duration_ms(&self, now: Timestamp) -> i64 {
        i64::try_from(now.duration_since(self.begun.0).as_millis()).unwrap_or(i64::MAX).max(0)
    }
}

/// A failover or switchover that was completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastFailover {
    /// The epoch that started with it.
    pub epoch: i64,
    /// Name of the pod that was the master before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Name of the pod that became the master.
    pub to: String,
    /// Reason as a word.
    pub reason: String,
    /// Milliseconds from the decision until the Service led to the new master.
    pub duration_ms: i64,
    /// When it was completed.
    pub at: Time,
    /// Pods that were the master until shortly before and to which clients may still be connected. Empty as soon as
    /// there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// When Causeway last closed the connections of clients that were still connected to the pods in `left`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Time>,
}

conditioned!(
    RedisStatus,
    [
        ("CertificatesValid", NormalTrue),
        ("DataLost", AbnormalTrue),
        ("EvictionsBlocked", AbnormalTrue),
        ("MemoryRisk", AbnormalTrue),
        ("NodeFailureRisk", AbnormalTrue),
        ("Replicated", NormalTrue),
        ("Restored", NormalTrue)
    ]
);
