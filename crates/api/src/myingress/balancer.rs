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

/// Selects subnets by their tags.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetSelector {
    /// Tags that a subnet must have, each with one of the given values; an empty list means any value. For example
    /// `kubernetes.io/role/elb: ["1"]`.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 10))]
    #[x_kube(validation = ("self.all(k, k.size() >= 1 && k.size() <= 128 && self[k].size() <= 20)", "spec.subnetSelector.tags keys must have 1 to 128 characters and at most 20 values"))]
    pub tags: BTreeMap<String, Vec<String>>,

    /// VPC that the subnets must belong to, for example `vpc-0a1b2c3d`. Required only if the tags match subnets of
    /// several VPCs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = ("self.matches('^vpc-[0-9a-z]+$')", "spec.subnetSelector.vpcId must be a VPC id such as vpc-0a1b2c3d"))]
    pub vpc_id: Option<String>,
}

/// Where access logs go.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessLogs {
    /// S3 bucket in the balancer's region, for example `logs-team-a`. Its policy must allow Elastic Load Balancing to
    /// write.
    #[schemars(length(min = 3, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')", "spec.accessLogs.bucket must be a bucket name: lower case letters, digits, dots and hyphens"))]
    pub bucket: String,

    /// Prefix of the keys of the logs, for example `shop/alb`. Left out, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = ("self.matches('^[a-zA-Z0-9/_.=-]*$') && !self.startsWith('/') && !self.endsWith('/') && !self.contains('AWSLogs')", "spec.accessLogs.prefix must not begin or end with a slash nor contain AWSLogs"))]
    pub prefix: Option<String>,
}

/// A load balancer that several objects share.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("!has(self.__namespace__) || !has(self.allowedNamespaces)", "spec.group.allowedNamespaces is for members of the group's own namespace: leave out spec.group.namespace"))]
pub struct GroupSpec {
    /// Name of the group, for example `shop`. Its load balancer is named `<name>-alb`.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = ("self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$')", "spec.group.name must be lower case letters, digits and hyphens"))]
    pub name: String,

    /// Namespace that the group belongs to, for example `shop`. A member in that namespace must list this object's
    /// namespace in `allowedNamespaces`. Left out, this object's own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,

    /// Other namespaces whose objects may join the group, for example `["shop", "cart"]`; `*` allows all. Left out,
    /// none. Objects of other namespaces add rules and backends. Their rules come after those of the group's own
    /// namespace, and they cannot set anything that all members share. If you remove a namespace, the rules of its
    /// objects are removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = ("self.all(n, n == '*' || n.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?$'))", "spec.group.allowedNamespaces must be names of namespaces (lower case letters, digits and hyphens, no spaces) or *"))]
    #[schemars(length(max = 100), inner(length(max = 63)))]
    pub allowed_namespaces: Vec<String>,

    /// Position of this member among the members of its namespace, for example `10`; 0 unless given. With the same
    /// position the older object comes first. Rules of an earlier member are evaluated first, unless they have a
    /// `priority`. Members of namespaces other than the group's own always come last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub order: Option<u16>,
}
