//! What is known of a master and its replicas.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::common::conditioned;
use crate::api::databaserestore::Restored;

/// What is known of a master and its replicas.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// In a word: `Creating`, `Restoring`, `Running`, `FailingOver`, `SwitchingOver`, `Updating`, `Degraded` or `Stalled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// Name of the pod that was made the master last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,

    /// How often a master was made. A master of an earlier epoch never stays one.
    #[serde(default)]
    pub epoch: i64,

    /// Replicas that there are, beside the master.
    #[serde(default)]
    pub replicas: i32,

    /// Replicas that have all data of the master and follow it.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Label selector of the pods, as autoscalers read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// The lowest version that a node runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Where clients reach the master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,

    /// The history of writes that the master goes on with, as Redis calls it: its replication ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<String>,

    /// The nodes, by name. Offset and lag are as they were when something else changed last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub nodes: Vec<NodeStatus>,

    /// The failover or switchover that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,

    /// The last one that was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failover: Option<LastFailover>,

    /// The last value of spec.switchover.master that was done, or was void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switched_to: Option<String>,

    /// Since when there has been neither a master nor a replica that could take over without loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masterless_since: Option<Time>,

    /// What became of `spec.restoreFrom`.
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
    /// Name of the Service, good in the whole cluster.
    pub host: String,
    /// Its port.
    pub port: i32,
    /// How URLs begin: `rediss` with TLS, `redis` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Secret with the authorities that clients trust, in key `ca.crt`; only with TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority_secret_name: Option<String>,
    /// Where clients of Redis Sentinel ask for the master of this object's name, such as `cache-sentinel.shop.svc:26379`; only
    /// with `spec.sentinel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Its name, which is its pod's.
    pub name: String,
    /// `master`, `replica`, or `unknown` while it does not answer.
    pub role: String,
    /// It is the master, or has all of its data and follows it.
    #[serde(default)]
    pub ready: bool,
    /// How far it is in the history of writes, in bytes.
    #[serde(default)]
    pub offset: i64,
    /// Keys that it holds.
    #[serde(default)]
    pub keys: i64,
    /// Seconds since it last heard of the master.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<i64>,
    /// A replica's way to the master: `up`, `syncing` or `down`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// It had all of the master's data when the master answered last: it may take over without loss.
    #[serde(default)]
    pub in_sync: bool,
}

/// A failover or switchover that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failover {
    /// The epoch that begins with it.
    pub epoch: i64,
    /// The master so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The master to be.
    pub target: String,
    /// Why, in a word.
    pub reason: String,
    /// The master so far hands over by itself, without loss.
    #[serde(default)]
    pub planned: bool,
    /// When it was decided.
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
    /// The epoch that began with it.
    pub epoch: i64,
    /// The master before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The master since.
    pub to: String,
    /// Why, in a word.
    pub reason: String,
    /// Milliseconds from the decision until the Service led to the new master.
    pub duration_ms: i64,
    /// When it was completed.
    pub at: Time,
    /// Pods that were the master until a moment ago: clients may still be with them. Empty as soon as none is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// When connections of clients that had stayed with these were closed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Time>,
}

conditioned!(RedisStatus, ["CertificatesValid", "DataLost", "NodeFailureRisk", "Replicated", "Restored"]);
