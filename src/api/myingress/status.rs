//! What is known of a balancer and its parts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::common::conditioned;

/// What is known of the balancer.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MyIngressStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The balancer that serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alb: Option<AlbStatus>,

    /// The balancer that `alb` has taken over from. It goes on serving for a while, for clients that still have its
    /// address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<ReplacedStatus>,

    /// Healthy targets of all backends, and how many there are: `5/6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<String>,

    /// The listeners, by port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub listeners: Vec<ListenerStatus>,

    /// The target groups, by backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_groups: Vec<TargetGroupStatus>,

    /// Id of the security group that was made for the balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_group: Option<String>,

    /// Keys that the spec set on the balancer, kept so that a key removed from the spec is removed in AWS too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedKeys>,

    /// `Ready` always; `Reconciling` and `Stalled` only while abnormal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A balancer as AWS describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlbStatus {
    /// DNS name under which the balancer is reached.
    pub dns: String,
    /// Amazon resource name.
    pub arn: String,
    /// Name in AWS.
    pub name: String,
    /// State in AWS: `provisioning`, `active`, `active_impaired` or `failed`.
    pub state: String,
    /// Route 53 hosted zone of the DNS name, for alias records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A balancer that another one has taken over from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedStatus {
    /// DNS name under which the balancer was reached.
    pub dns: String,
    /// Amazon resource name.
    pub arn: String,
    /// Name in AWS.
    pub name: String,
    /// When the other one took over.
    pub since: Time,
}

/// A listener as AWS describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Port.
    pub port: u16,
    /// `HTTP` or `HTTPS`.
    pub protocol: String,
    /// Amazon resource name.
    pub arn: String,
    /// Rules of this object.
    pub rules: u16,
}

/// A target group and the health of its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetGroupStatus {
    /// Name of the backend in the spec.
    pub backend: String,
    /// Name in AWS.
    pub name: String,
    /// Amazon resource name.
    pub arn: String,
    /// Targets that get requests.
    pub healthy: u32,
    /// Targets that are registered.
    pub total: u32,
    /// What keeps targets from being healthy or registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Keys of maps in the spec that were set in AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for a part of its own")]
#[serde(rename_all = "camelCase")]
pub struct ManagedKeys {
    /// Tag keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Attribute keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// Attributes of listeners were set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listener_attributes: bool,
    /// A web ACL was associated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub web_acl: bool,
    /// A security group was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub security_group: bool,
    /// Capacity was reserved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub capacity: bool,
}

conditioned!(MyIngressStatus, ["TargetsHealthy"]);
