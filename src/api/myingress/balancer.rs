//! Where a balancer stands and whom it serves.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Kind of addresses that clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IpAddressType {
    /// IPv4.
    Ipv4,
    /// IPv4 and IPv6.
    Dualstack,
    /// IPv6, and IPv4 only within the VPC.
    DualstackWithoutPublicIpv4,
}

/// Finds subnets by their tags.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSelector {
    /// Tags that a subnet must have, each with one of the values; an empty list of values means any value.
    /// For example `kubernetes.io/role/elb: ["1"]`.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 10))]
    #[x_kube(validation = ("self.all(k, k.size() >= 1 && k.size() <= 128 && self[k].size() <= 20)", "spec.subnetSelector.tags keys must have 1 to 128 characters and at most 20 values"))]
    pub tags: BTreeMap<String, Vec<String>>,

    /// VPC that the subnets must belong to; needed only where the tags fit subnets of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = ("self.matches('^vpc-[0-9a-z]+$')", "spec.subnetSelector.vpcId must be a VPC id such as vpc-0a1b2c3d"))]
    pub vpc_id: Option<String>,
}

/// Where access logs go.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogs {
    /// S3 bucket, in the balancer's region, that lets Elastic Load Balancing write.
    #[schemars(length(min = 3, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')", "spec.accessLogs.bucket must be a bucket name: lower case letters, digits, dots and hyphens"))]
    pub bucket: String,

    /// Prefix of the logs' keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = ("self.matches('^[a-zA-Z0-9/_.=-]*$') && !self.startsWith('/') && !self.endsWith('/') && !self.contains('AWSLogs')", "spec.accessLogs.prefix must not begin or end with a slash nor contain AWSLogs"))]
    pub prefix: Option<String>,
}

/// A balancer that several objects share.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.__namespace__) || !has(self.allowedNamespaces)", "spec.group.allowedNamespaces is for members of the group's own namespace: leave out spec.group.namespace"))]
pub struct GroupSpec {
    /// The group's name, also the name of its balancer: `<name>-alb`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')", "spec.group.name must be lower case letters, digits and hyphens"))]
    pub name: String,

    /// Namespace that the group belongs to; this object's own unless given. A member there must list this object's
    /// namespace in `allowedNamespaces`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,

    /// Other namespaces whose objects may join the group, for example `["shop", "cart"]`; `*` for all. None unless given. They
    /// bring rules and backends, behind those of the group's own namespace, and may set nothing that all members share.
    /// Taken out again, their rules go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = ("self.all(n, n == '*' || n.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'))", "spec.group.allowedNamespaces must be names of namespaces (lower case letters, digits and hyphens, no spaces) or *"))]
    #[schemars(length(max = 100), inner(length(max = 63)))]
    pub allowed_namespaces: Vec<String>,

    /// Place of this member among those of its namespace, 0 unless given; among equals the older object is first. Rules of an
    /// earlier member are evaluated first, except where they have a priority. Members of other namespaces than the group's
    /// own come after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub order: Option<u16>,
}
