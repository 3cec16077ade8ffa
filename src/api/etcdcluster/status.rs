//! What is known of an etcd cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::auth::AuthStatus;
use super::defrag::DefragStatus;
use super::downgrade::DowngradeStatus;
use crate::api::common::conditioned;
use crate::api::databaserestore::Restored;

/// What is known of the cluster and its members.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Pods that exist.
    #[serde(default)]
    pub replicas: i32,

    /// Members that answer, have a leader and vote.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Members as etcd itself counts them, learners included.
    #[serde(default)]
    pub member_count: i32,

    /// The lowest version that a member runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,

    /// ID of the cluster, in hexadecimal. Once it is known, the cluster is never begun anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// Name of the leading member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,

    /// Token of the last recovery that was done, or was void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<String>,

    /// What became of revisions at that recovery; none where it was void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_revisions: Option<RecoveredRevisions>,

    /// What became of `spec.restoreFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,

    /// Where the password is by which Causeway logs in; from before clients must log in until they need not any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthStatus>,

    /// How far members are on their way back to an earlier minor version; none while they are not on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgrade: Option<DowngradeStatus>,

    /// How far `spec.defrag` was followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defrag: Option<DefragStatus>,

    /// Label selector of the pods, as autoscalers read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// The members, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub members: Vec<MemberStatus>,

    /// Members that somebody else added to the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["id".into()]))]
    pub unknown_members: Vec<UnknownMember>,

    /// `Ready`, `Quorate` and `AllMembersReady` always; `Reconciling`, `Stalled` and `Alarm` only while abnormal;
    /// `AuthEnabled` only with `spec.auth`, `Restored` only with `spec.restoreFrom`, `RevisionsSkipped` only after a
    /// recovery.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Whether a cluster that was begun anew gives revisions that were never given before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveredRevisions {
    /// Its revisions begin above all that were ever given, and what was before counts as compacted.
    #[serde(default)]
    pub skipped: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its name, which is its pod's.
    pub name: String,
    /// Its ID, in hexadecimal as etcdctl prints it.
    pub id: String,
    /// The version it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// It answers and has a leader.
    #[serde(default)]
    pub is_healthy: bool,
    /// It does not vote yet.
    #[serde(default)]
    pub is_learner: bool,
    /// It leads.
    #[serde(default)]
    pub is_leader: bool,
}

/// A member that Causeway did not add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnknownMember {
    /// Its ID, in hexadecimal as etcdctl prints it.
    pub id: String,
    /// Its name; none before it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where its peers are told to reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer_urls: Vec<String>,
    /// It has run.
    #[serde(default)]
    pub has_started: bool,
    /// It does not vote.
    #[serde(default)]
    pub is_learner: bool,
}

conditioned!(
    EtcdClusterStatus,
    [
        "Alarm",
        "AllMembersReady",
        "AuthEnabled",
        "BackupReady",
        "CertificatesValid",
        "NodeFailureRisk",
        "Quorate",
        "Restored",
        "RevisionsSkipped"
    ]
);
