//! The status of an etcd cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::auth::AuthStatus;
use super::defrag::DefragStatus;
use super::downgrade::DowngradeStatus;
use crate::common::conditioned;
use crate::databaserestore::Restored;

/// Observed state of the cluster and its members.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Number of pods that exist.
    #[serde(default)]
    pub replicas: i32,

    /// Number of members that answer, have a leader and vote.
    #[serde(default)]
    pub ready_replicas: i32,

    /// Number of members in etcd's own member list, including learners.
    #[serde(default)]
    pub member_count: i32,

    /// The lowest version that a member runs, such as `3.5.9`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,

    /// ID of the cluster, in hexadecimal. Once it is known, Causeway never bootstraps the cluster again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// Name of the member that is the leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,

    /// `spec.recovery.token` of the last recovery that was completed, or that had no effect because a majority
    /// answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<String>,

    /// Reports whether revisions were skipped in that recovery; left out if it had no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_revisions: Option<RecoveredRevisions>,

    /// Progress of `spec.restoreFrom`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Restored>,

    /// The Secret with the password that Causeway logs in with. It is set before clients must log in, and removed after
    /// they no longer have to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthStatus>,

    /// Progress of a downgrade to an earlier minor version; left out while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downgrade: Option<DowngradeStatus>,

    /// Progress of `spec.defrag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defrag: Option<DefragStatus>,

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

    /// The members, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub members: Vec<MemberStatus>,

    /// Members that others added to the cluster.
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

/// Reports whether a recovered cluster continues with revisions that were never used before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecoveredRevisions {
    /// The cluster's revisions start above all earlier ones, and all earlier revisions count as compacted.
    #[serde(default)]
    pub skipped: bool,
    /// Reason why revisions were not skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Name of the member, which is also the name of its pod.
    pub name: String,
    /// ID of the member, in hexadecimal as etcdctl prints it.
    pub id: String,
    /// The version that the member runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The member answers and has a leader.
    #[serde(default)]
    pub is_healthy: bool,
    /// The member is a learner: it does not vote yet.
    #[serde(default)]
    pub is_learner: bool,
    /// The member is the leader.
    #[serde(default)]
    pub is_leader: bool,
}

/// A member that Causeway did not add.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnknownMember {
    /// ID of the member, in hexadecimal as etcdctl prints it.
    pub id: String,
    /// Name of the member; left out before it has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// URLs under which the other members reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer_urls: Vec<String>,
    /// The member has run.
    #[serde(default)]
    pub has_started: bool,
    /// The member is a learner: it does not vote.
    #[serde(default)]
    pub is_learner: bool,
}

conditioned!(
    EtcdClusterStatus,
    [
        ("Alarm", AbnormalTrue),
        ("AllMembersReady", NormalTrue),
        ("AuthEnabled", NormalTrue),
        ("BackupReady", NormalTrue),
        ("CertificatesValid", NormalTrue),
        ("EvictionsBlocked", AbnormalTrue),
        ("MemoryRisk", AbnormalTrue),
        ("NodeFailureRisk", AbnormalTrue),
        ("Quorate", NormalTrue),
        ("Restored", NormalTrue),
        ("RevisionsSkipped", NormalTrue)
    ]
);
