//! `MyIngress`: an AWS Application Load Balancer.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{DeletionPolicy, conditioned};

/// An Application Load Balancer in AWS.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "demo.rtfm.co.ua",
    version = "v1",
    kind = "MyIngress",
    plural = "myingresses",
    shortname = "mi",
    category = "causeway",
    namespaced,
    status = "MyIngressStatus",
    doc = "An AWS Application Load Balancer, called `<name>-alb` where that name is free and allowed.",
    printcolumn(name = "DNS", type_ = "string", json_path = ".status.alb.dns"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.alb.state"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#,
        priority = "1"
    ),
    printcolumn(name = "Name", type_ = "string", json_path = ".status.alb.name", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MyIngressSpec {
    /// Ids of the subnets that the balancer stands in: at least two, each in another availability zone.
    #[schemars(length(min = 2, max = 20), inner(length(max = 64)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^subnet-[0-9a-z]+$'))", "spec.subnets must be subnet ids such as subnet-0a1b2c3d"),
        validation = ("self.all(s, self.exists_one(t, t == s))", "spec.subnets must not name a subnet twice: remove the repeated id")
    )]
    pub subnets: Vec<String>,

    /// Where the balancer is reached from: `internet-facing` or `internal`. A change replaces the balancer:
    /// the new one is created and active before the old one is removed, and the DNS name changes.
    #[serde(default)]
    pub scheme: Scheme,

    /// Ids of the balancer's security groups. Left out, AWS gives it the default group of its VPC and Causeway
    /// leaves the groups alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(length(max = 64)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^sg-[0-9a-z]+$'))", "spec.securityGroups must be security group ids such as sg-0a1b2c3d"),
        validation = ("self.all(s, self.exists_one(t, t == s))", "spec.securityGroups must not name a group twice: remove the repeated id")
    )]
    pub security_groups: Vec<String>,

    /// Attributes of the balancer by AWS's own keys, for example `idle_timeout.timeout_seconds: "120"` or
    /// `deletion_protection.enabled: "true"`. A key that is removed here goes back to AWS's default.
    /// Keys: <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html>
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 40))]
    #[x_kube(
        validation = ("self.all(k, k.matches('^[a-zA-Z0-9._]+$') && k.size() <= 256)", "spec.attributes keys must be AWS attribute names such as idle_timeout.timeout_seconds"),
        validation = ("self.all(k, self[k].size() <= 1024)", "spec.attributes values must have at most 1024 characters")
    )]
    pub attributes: BTreeMap<String, String>,

    /// AWS tags of the balancer, beside those by which Causeway knows what is its own. Tags that others added
    /// are left alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 45, "additionalProperties" = { "type": "string", "maxLength": 256 }))]
    #[x_kube(
        validation = ("self.all(k, k.size() >= 1 && k.size() <= 128 && self[k].size() <= 256)", "spec.tags keys must have 1 to 128 characters and values at most 256"),
        validation = (r"self.all(k, k.matches('^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]*$'))", "spec.tags keys may have letters, digits, spaces and _ . : / = + - @, as AWS allows"),
        validation = (r"self.all(k, self[k].matches('^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]*$'))", "spec.tags values may have letters, digits, spaces and _ . : / = + - @, as AWS allows"),
        validation = ("self.all(k, !k.startsWith('aws:') && !k.startsWith('causeway.example.com/') && k != 'ManagedBy')", "spec.tags must not use ManagedBy or the prefixes aws: and causeway.example.com/: choose another key")
    )]
    pub tags: BTreeMap<String, String>,

    /// What happens to the balancer when this object is deleted: `Delete` removes it, `Retain` leaves it.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// Stops everything but deletion: the balancer is left as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}

/// Where a balancer is reached from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// From the internet.
    #[default]
    InternetFacing,
    /// From within the VPC.
    Internal,
}

impl Scheme {
    /// The name that AWS and the manifest use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InternetFacing => "internet-facing",
            Self::Internal => "internal",
        }
    }
}

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

/// Keys of maps in the spec that were set in AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedKeys {
    /// Tag keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Attribute keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
}

conditioned!(MyIngressStatus);
