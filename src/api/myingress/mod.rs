//! `MyIngress`: an AWS Application Load Balancer.

mod backends;
mod balancer;
#[cfg(test)]
mod lbc;
mod listeners;
mod rules;
mod status;

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::Duration;
use super::common::DeletionPolicy;

pub use backends::{
    Algorithm, BackendProtocol, BackendSpec, BackendTargetType, BackendVersion, HealthCheckSpec, StickinessSpec,
    StickinessType,
};
pub use balancer::{AccessLogs, GroupSpec, IpAddressType, Scheme, SubnetSelector};
pub use listeners::{ListenerProtocol, ListenerSpec, MutualAuthenticationMode, MutualAuthenticationSpec};
pub use rules::{
    ActionSpec, CognitoSpec, FixedResponseSpec, ForwardSpec, HeaderMatch, JwtClaimFormat, JwtClaimSpec, JwtSpec,
    OidcSpec, PathMatch, PathType, QueryMatch, RedirectSpec, RewriteSpec, RuleSpec, SessionSpec, Substitution,
    UnauthenticatedRequests, WeightedBackend, WeightedTargetGroup,
};
pub use status::{AlbStatus, ListenerStatus, ManagedKeys, MyIngressStatus, ReplacedStatus, TargetGroupStatus};

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
    printcolumn(name = "Targets", type_ = "string", json_path = ".status.targets"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Name", type_ = "string", json_path = ".status.alb.name", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.subnets) != has(self.subnetSelector) || (has(self.group) && !has(self.subnets))", "spec needs subnets or subnetSelector, and not both"),
    validation = ("!has(self.securityGroups) || !has(self.inboundCidrs)", "spec.inboundCidrs makes a security group of its own: leave out spec.securityGroups, or leave out spec.inboundCidrs"),
    validation = ("!has(self.securityGroups) || !has(self.inboundPrefixLists)", "spec.inboundPrefixLists makes a security group of its own: leave out spec.securityGroups, or leave out spec.inboundPrefixLists"),
    validation = ("!has(self.targetSecurityGroups) || has(self.inboundCidrs) || has(self.inboundPrefixLists) || has(self.group)", "spec.targetSecurityGroups lets in the security group that is made for spec.inboundCidrs or spec.inboundPrefixLists: set one of these"),
    validation = ("!has(self.attributes) || ((!has(self.idleTimeout) || !('idle_timeout.timeout_seconds' in self.attributes)) && (!has(self.deletionProtection) || !('deletion_protection.enabled' in self.attributes)) && (!has(self.http2) || !('routing.http2.enabled' in self.attributes)) && (!has(self.dropInvalidHeaders) || !('routing.http.drop_invalid_header_fields.enabled' in self.attributes)) && (!has(self.accessLogs) || !('access_logs.s3.enabled' in self.attributes)))", "spec.attributes says again what a field of spec says (idleTimeout, deletionProtection, http2, dropInvalidHeaders or accessLogs): keep one of the two"),
    validation = ("has(self.group) == has(oldSelf.group) && (!has(self.group) || (self.group.name == oldSelf.group.name && has(self.group.__namespace__) == has(oldSelf.group.__namespace__) && (!has(self.group.__namespace__) || self.group.__namespace__ == oldSelf.group.__namespace__)))", "spec.group cannot change, for the balancer belongs to the group: delete this object and create it anew"),
    validation = ("!has(self.adopt) || !has(self.group)", "spec.adopt is for a balancer of one object: leave out spec.group"),
    validation = ("!has(self.name) || !has(self.group)", "spec.name is for a balancer of one object: a group's balancer is called after spec.group.name"),
    validation = ("!has(self.name) || !has(self.adopt)", "spec.name is for a new balancer: leave it out, for the adopted one keeps its name"),
    validation = ("has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)", "spec.name cannot change, for AWS cannot rename a load balancer: delete this object and create it anew")
)]
pub struct MyIngressSpec {
    /// Name of the balancer in AWS, for example `shop-public`: 1 to 32 letters, digits and hyphens, not beginning with
    /// `internal-`. `<metadata.name>-alb` unless given. It cannot change later. A balancer that replaces another one (see
    /// `scheme`) gets a name with a hash, for the other one still has this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = ("self.matches('^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$')", "spec.name may have letters, digits and hyphens, and neither begins nor ends with a hyphen"),
        validation = ("!self.startsWith('internal-')", "spec.name must not begin with internal-, which AWS keeps for itself")
    )]
    pub name: Option<String>,

    /// Ids of the subnets that the balancer stands in: at least two, each in another availability zone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 2, max = 20), inner(length(max = 64)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^subnet-[0-9a-z]+$'))", "spec.subnets must be subnet ids such as subnet-0a1b2c3d"),
        merge_strategy = ListMerge::Set
    )]
    pub subnets: Vec<String>,

    /// Finds the subnets by their tags instead: one in each availability zone, with at least 8 free addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_selector: Option<SubnetSelector>,

    /// Where the balancer is reached from: `internet-facing` (the default) or `internal`. A change replaces the balancer:
    /// the new one is created and active before the old one is removed, and the DNS name changes.
    #[serde(default)]
    pub scheme: Scheme,

    /// Kind of addresses that clients use: `ipv4`, `dualstack`, or `dualstack-without-public-ipv4` (internet-facing only). A
    /// change is made in place. Left out, it stays as it is, and a new balancer gets AWS's default, `ipv4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address_type: Option<IpAddressType>,

    /// The balancer's security groups, by id, for example `sg-0a1b2c3d`, or by name, which is the value of the group's tag
    /// `Name` (not its group name), for example `edge`. One group of the balancer's VPC must have that name. Left out, and
    /// without `inboundCidrs`, AWS gives the balancer the default group of its VPC and Causeway leaves the groups alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(length(min = 1, max = 256)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^sg-[0-9a-z]+$') || !s.startsWith('sg-'))", "spec.securityGroups must be security group ids such as sg-0a1b2c3d, or values of their tag Name"),
        merge_strategy = ListMerge::Set
    )]
    pub security_groups: Vec<String>,

    /// Security groups of the pods or nodes that requests go to, by id or by the value of their tag `Name`: Causeway lets
    /// the balancer in to them on all TCP ports, and takes that rule away with the balancer. Needs `inboundCidrs` or
    /// `inboundPrefixLists`, for it is the security group made for these that is let in. The owner of each group agrees by a
    /// tag `causeway.example.com/let-in` with the name of the cluster as its value. Left out, no rule is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(min = 1, max = 256)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^sg-[0-9a-z]+$') || !s.startsWith('sg-'))", "spec.targetSecurityGroups must be security group ids such as sg-0a1b2c3d, or values of their tag Name"),
        merge_strategy = ListMerge::Set
    )]
    pub target_security_groups: Vec<String>,

    /// Makes a security group for the balancer that lets these networks in on the ports of the listeners, for example
    /// `0.0.0.0/0`. Let the group in to your pods or nodes; its id is in `status.securityGroup`. In a group of
    /// objects the networks of all members are let in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 40), inner(length(max = 43)))]
    #[x_kube(
        validation = ("self.all(s, isCIDR(s))", "spec.inboundCidrs must be networks such as 0.0.0.0/0 or 2001:db8::/32"),
        merge_strategy = ListMerge::Set
    )]
    pub inbound_cidrs: Vec<String>,

    /// Ids of prefix lists whose networks `inboundCidrs`' security group lets in as well, or alone, for example
    /// `pl-3b927c52` (the addresses of `CloudFront` in us-east-1). At AWS a list counts as many rules as it may have entries.
    /// <https://docs.aws.amazon.com/vpc/latest/userguide/managed-prefix-lists.html>
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20), inner(length(max = 64)))]
    #[x_kube(
        validation = ("self.all(p, p.matches('^pl-[0-9a-z]+$'))", "spec.inboundPrefixLists must be prefix list ids such as pl-0a1b2c3d"),
        merge_strategy = ListMerge::Set
    )]
    pub inbound_prefix_lists: Vec<String>,

    /// Ports that the balancer answers on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub listeners: Vec<ListenerSpec>,

    /// Services that requests are forwarded to; actions call them by name. One that no action names is not made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<BackendSpec>,

    /// Shares one balancer with the other `MyIngress` objects of the same group. The first member with subnets says
    /// where the balancer stands and what it is like; every member adds its listeners, rules, backends and tags, and one of
    /// another namespace than the group's only rules and backends. A member that does not fit is left out and says why; the
    /// others go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSpec>,

    /// Name of a balancer that exists and is to become this object's. Its owner in AWS agrees by a tag
    /// `causeway.example.com/adopt` with the value `<cluster>/<namespace>/<name>` of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = ("self.matches('^[a-zA-Z0-9-]+$')", "spec.adopt must be the name of a load balancer: letters, digits and hyphens"))]
    pub adopt: Option<String>,

    /// How long a connection may be idle before it is closed, for example `2m`: 1s to 4000s. AWS's default is 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('4000s')", "spec.idleTimeout must be 1s to 4000s, such as 60s"))]
    pub idle_timeout: Option<Duration>,

    /// Keeps anybody, Causeway too, from deleting the balancer in AWS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// Whether clients may speak HTTP/2; AWS's default is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<bool>,

    /// Removes headers with invalid names instead of handing them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_invalid_headers: Option<bool>,

    /// Writes access logs to S3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_logs: Option<AccessLogs>,

    /// ARN of a web ACL (AWS WAF) that guards the balancer. Taken out again, the balancer is left without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = ("self.matches('^arn:[^:]+:wafv2:[^:]+:[0-9]{12}:regional/webacl/[^/]+/[^/]+$')", "spec.wafAclArn must be the ARN of a regional web ACL, arn:aws:wafv2:REGION:ACCOUNT:regional/webacl/NAME/ID"))]
    pub waf_acl_arn: Option<String>,

    /// Capacity units that AWS reserves for the balancer.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/capacity-unit-reservation.html>
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1_000_000))]
    pub minimum_capacity_units: Option<u32>,

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
    #[schemars(extend("maxProperties" = 44, "additionalProperties" = { "type": "string", "maxLength": 256 }))]
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
