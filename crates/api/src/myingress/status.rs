//! The status of a balancer and its parts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::conditioned;

/// Observed state of the load balancer.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MyIngressStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The load balancer that serves requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alb: Option<AlbStatus>,

    /// The load balancer that `alb` has replaced. It continues to serve for a while, for clients that still use its
    /// address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<ReplacedStatus>,

    /// Number of healthy targets and of all targets, of all backends, such as `5/6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<String>,

    /// The listeners, by port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub listeners: Vec<ListenerStatus>,

    /// The target groups, by backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_groups: Vec<TargetGroupStatus>,

    /// Id of the security group that Causeway created for the load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_group: Option<String>,

    /// Reason why no client can connect although `Ready` is true: `NoListeners`, or `NothingLetIn` by the security groups; or
    /// `RuleShadowed`, if one of this object's rules gets no request. Left out if all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,

    /// Keys that the spec has set on the load balancer. If something is removed from the spec, Causeway also removes it in AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedKeys>,

    /// `Ready` always; `Reconciling` and `Stalled` only while abnormal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// A load balancer as AWS describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlbStatus {
    /// DNS name of the load balancer.
    pub dns: String,
    /// ARN of the load balancer.
    pub arn: String,
    /// Name in AWS.
    pub name: String,
    /// State in AWS: `provisioning`, `active`, `active_impaired` or `failed`.
    pub state: String,
    /// Route 53 hosted zone of the DNS name, for alias records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A load balancer that was replaced by another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedStatus {
    /// DNS name of the load balancer.
    pub dns: String,
    /// ARN of the load balancer.
    pub arn: String,
    /// Name in AWS.
    pub name: String,
    /// When it was replaced.
    pub since: Time,
}

/// A listener as AWS describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListenerStatus {
    /// Port of the listener.
    pub port: u16,
    /// `HTTP` or `HTTPS`.
    pub protocol: String,
    /// ARN of the listener.
    pub arn: String,
    /// Number of rules of this object.
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
    /// ARN of the target group.
    pub arn: String,
    /// Number of targets that receive requests.
    pub healthy: u32,
    /// Number of registered targets.
    pub total: u32,
    /// Reason why targets are not healthy or not registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Keys that the spec has set in AWS.
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
    /// Listeners were made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listeners: bool,
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

conditioned!(MyIngressStatus, [("TargetsHealthy", NormalTrue)]);
