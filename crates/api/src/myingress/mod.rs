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
    validation = ("!has(self.spec.adopt) || (has(oldSelf.spec.adopt) && self.spec.adopt == oldSelf.spec.adopt) || !has(self.status) || !has(self.status.alb)", "spec.adopt cannot be set or changed while the object has a load balancer: delete this object and create it again with spec.adopt"),
    doc = "An AWS Application Load Balancer, called `<name>-alb` where that name is free and allowed.",
    printcolumn(name = "DNS", type_ = "string", json_path = ".status.alb.dns"),
    printcolumn(name = "AWS", type_ = "string", json_path = ".status.alb.state"),
    printcolumn(name = "Targets", type_ = "string", json_path = ".status.targets"),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Status", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Warning", type_ = "string", json_path = ".status.warning"),
    printcolumn(name = "Name", type_ = "string", json_path = ".status.alb.name", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = ("has(self.subnets) != has(self.subnetSelector) || (has(self.group) && !has(self.subnets))", "spec needs subnets or subnetSelector, and not both"),
    validation = ("!has(self.securityGroups) || !has(self.inboundCidrs)", "spec.inboundCidrs makes a security group of its own: leave out spec.securityGroups, or leave out spec.inboundCidrs"),
    validation = ("!has(self.securityGroups) || !has(self.inboundPrefixLists)", "spec.inboundPrefixLists makes a security group of its own: leave out spec.securityGroups, or leave out spec.inboundPrefixLists"),
    validation = ("!has(self.targetSecurityGroups) || has(self.inboundCidrs) || has(self.inboundPrefixLists) || has(self.group)", "spec.targetSecurityGroups allows traffic from the security group that is made for spec.inboundCidrs or spec.inboundPrefixLists: set one of these"),
    validation = ("!has(self.attributes) || ((!has(self.idleTimeout) || !('idle_timeout.timeout_seconds' in self.attributes)) && (!has(self.deletionProtection) || !('deletion_protection.enabled' in self.attributes)) && (!has(self.http2) || !('routing.http2.enabled' in self.attributes)) && (!has(self.dropInvalidHeaders) || !('routing.http.drop_invalid_header_fields.enabled' in self.attributes)) && (!has(self.accessLogs) || !('access_logs.s3.enabled' in self.attributes)))", "spec.attributes sets what a field of spec also sets (idleTimeout, deletionProtection, http2, dropInvalidHeaders or accessLogs): keep one of the two"),
    validation = ("has(self.group) == has(oldSelf.group) && (!has(self.group) || (self.group.name == oldSelf.group.name && has(self.group.__namespace__) == has(oldSelf.group.__namespace__) && (!has(self.group.__namespace__) || self.group.__namespace__ == oldSelf.group.__namespace__)))", "spec.group cannot change, because the load balancer belongs to the group: delete this object and create it again"),
    validation = ("self.scheme != 'internal' || !has(self.ipAddressType) || self.ipAddressType != 'dualstack-without-public-ipv4'", "spec.ipAddressType dualstack-without-public-ipv4 is for scheme internet-facing: use dualstack, or change scheme"),
    validation = ("!has(self.adopt) || !has(self.group)", "spec.adopt is for a balancer of one object: leave out spec.group"),
    validation = ("!has(self.name) || !has(self.group)", "spec.name is for a balancer of one object: a group's balancer is called after spec.group.name"),
    validation = ("!has(self.name) || !has(self.adopt)", "spec.name is for a new balancer: leave it out, for the adopted one keeps its name"),
    validation = ("has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)", "spec.name cannot change, because AWS cannot rename a load balancer: delete this object and create it again")
)]
pub struct MyIngressSpec {
    /// Name of the load balancer in AWS, for example `shop-public`: 1 to 32 letters, digits and hyphens, not starting
    /// with `internal-`. Left out, `<metadata.name>-alb`. It cannot change later. A load balancer that replaces another
    /// one (see `scheme`) gets a name with a hash, because the other one still has this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(
        validation = ("self.matches('^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$')", "spec.name may have letters, digits and hyphens, and neither begins nor ends with a hyphen"),
        validation = ("!self.startsWith('internal-')", "spec.name must not begin with internal-, which AWS keeps for itself")
    )]
    pub name: Option<String>,

    /// Ids of the load balancer's subnets, for example `subnet-0a1b2c3d`: at least two, each in another availability
    /// zone. Give either this or `subnetSelector`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 2, max = 20), inner(length(max = 64)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^subnet-[0-9a-z]+$'))", "spec.subnets must be subnet ids such as subnet-0a1b2c3d"),
        merge_strategy = ListMerge::Set
    )]
    pub subnets: Vec<String>,

    /// Selects the subnets by their tags instead, for example `{ "tags": { "kubernetes.io/role/elb": ["1"] } }`: one in
    /// each availability zone, with at least 8 free addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_selector: Option<SubnetSelector>,

    /// From where clients reach the load balancer: `internet-facing` (the default), or `internal` for clients in the
    /// VPC. A change replaces the load balancer: the new one is created and active before the old one is deleted, and
    /// the DNS name changes.
    #[serde(default)]
    pub scheme: Scheme,

    /// Type of addresses that clients use: `ipv4`, `dualstack`, or `dualstack-without-public-ipv4` (internet-facing
    /// only). A change does not replace the load balancer. Left out, the type stays as it is, and a new load balancer
    /// gets AWS's default, `ipv4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_address_type: Option<IpAddressType>,

    /// Security groups of the load balancer, by id, for example `sg-0a1b2c3d`, or by name, for example `edge`. The name
    /// is the value of the group's tag `Name`, not its group name, and exactly one group of the load balancer's VPC
    /// must have it. Left out, and without `inboundCidrs`, AWS gives the load balancer the default group of its VPC,
    /// and Causeway does not change its groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), inner(length(min = 1, max = 256)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^sg-[0-9a-z]+$') || !s.startsWith('sg-'))", "spec.securityGroups must be security group ids such as sg-0a1b2c3d, or values of their tag Name"),
        merge_strategy = ListMerge::Set
    )]
    pub security_groups: Vec<String>,

    /// Security groups of the pods or nodes that receive the requests, by id or by the value of their tag `Name`, for
    /// example `sg-0a1b2c3d`. Causeway adds a rule to them that allows traffic from the load balancer on all TCP ports,
    /// and removes it with the load balancer. This needs `inboundCidrs` or `inboundPrefixLists`, because the rule
    /// allows traffic from the security group that Causeway creates for these. Each group needs the tag
    /// `causeway.example.com/let-in` with the name of the Kubernetes cluster as its value, by which its owner permits
    /// this. Left out, no rule is added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(min = 1, max = 256)))]
    #[x_kube(
        validation = ("self.all(s, s.matches('^sg-[0-9a-z]+$') || !s.startsWith('sg-'))", "spec.targetSecurityGroups must be security group ids such as sg-0a1b2c3d, or values of their tag Name"),
        merge_strategy = ListMerge::Set
    )]
    pub target_security_groups: Vec<String>,

    /// Networks from which traffic is allowed on the ports of the listeners, for example `0.0.0.0/0`. Causeway creates
    /// a security group for the load balancer that allows this traffic; its id is in `status.securityGroup`. Allow
    /// traffic from that group in the security groups of your pods or nodes, or use `targetSecurityGroups`. In a group
    /// of objects, traffic is allowed from the networks of all members. Left out, none is created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 40), inner(length(max = 43)))]
    #[x_kube(
        validation = ("self.all(s, isCIDR(s))", "spec.inboundCidrs must be networks such as 0.0.0.0/0 or 2001:db8::/32"),
        merge_strategy = ListMerge::Set
    )]
    pub inbound_cidrs: Vec<String>,

    /// Ids of prefix lists from which the security group of `inboundCidrs` allows traffic, in addition to
    /// `inboundCidrs` or instead of it, for example `pl-3b927c52` (the addresses of `CloudFront` in us-east-1). In
    /// AWS's quota of rules, a list counts as its maximum number of entries. Left out, none.
    /// <https://docs.aws.amazon.com/vpc/latest/userguide/managed-prefix-lists.html>
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 20), inner(length(max = 64)))]
    #[x_kube(
        validation = ("self.all(p, p.matches('^pl-[0-9a-z]+$'))", "spec.inboundPrefixLists must be prefix list ids such as pl-0a1b2c3d"),
        merge_strategy = ListMerge::Set
    )]
    pub inbound_prefix_lists: Vec<String>,

    /// Ports on which the load balancer accepts requests, for example `[{ "port": 443 }]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["port".into()]))]
    pub listeners: Vec<ListenerSpec>,

    /// Services to which requests are forwarded, for example `[{ "name": "shop", "port": 80 }]`. Actions refer to them
    /// by name. Causeway creates no target group for a backend that no action names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub backends: Vec<BackendSpec>,

    /// Shares one load balancer with the other `MyIngress` objects of the same group, for example `{ "name": "shop" }`.
    /// The first member with subnets decides where the load balancer is and which settings it has. Every member adds
    /// its listeners, rules, backends and tags; a member of a namespace other than the group's own adds only rules and
    /// backends. A member that conflicts with others is left out, and its status says why; the others continue to work.
    /// Left out, the object has a load balancer of its own. It cannot change later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupSpec>,

    /// Name of an existing load balancer that this object takes over, for example `shop-public`. It needs the tag
    /// `causeway.example.com/adopt` with the value `<cluster>/<namespace>/<name>` of this object, by which its owner in
    /// AWS permits this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = ("self.matches('^[a-zA-Z0-9-]+$')", "spec.adopt must be the name of a load balancer: letters, digits and hyphens"))]
    pub adopt: Option<String>,

    /// How long a connection may be idle before it is closed, for example `2m`: 1s to 4000s. Left out, AWS's default,
    /// 60s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = ("duration(self) >= duration('1s') && duration(self) <= duration('4000s')", "spec.idleTimeout must be 1s to 4000s, such as 60s"))]
    pub idle_timeout: Option<Duration>,

    /// Prevents the deletion of the load balancer in AWS by any client, including Causeway. Left out, AWS's default, `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// Allows clients to use HTTP/2. Left out, AWS's default, `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<bool>,

    /// Removes headers with invalid names from requests instead of passing them on. Left out, AWS's default, `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_invalid_headers: Option<bool>,

    /// Writes access logs to S3, for example `{ "bucket": "logs-team-a" }`. Left out, none are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_logs: Option<AccessLogs>,

    /// ARN of a web ACL (AWS WAF) that protects the load balancer, for example
    /// `arn:aws:wafv2:eu-west-1:111122223333:regional/webacl/shop/0a1b2c3d`. If you remove it, the load balancer has no
    /// web ACL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = ("self.matches('^arn:[^:]+:wafv2:[^:]+:[0-9]{12}:regional/webacl/[^/]+/[^/]+$')", "spec.wafAclArn must be the ARN of a regional web ACL, arn:aws:wafv2:REGION:ACCOUNT:regional/webacl/NAME/ID"))]
    pub waf_acl_arn: Option<String>,

    /// Number of capacity units that AWS reserves for the load balancer, for example `500`. Left out, none.
    /// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/capacity-unit-reservation.html>
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1_000_000))]
    pub minimum_capacity_units: Option<u32>,

    /// Attributes of the load balancer, by AWS's own keys, for example `idle_timeout.timeout_seconds: "120"` or
    /// `deletion_protection.enabled: "true"`. A key that you remove goes back to AWS's default; only the bucket of logs
    /// and keys that are newer than this version of Causeway stay as they are.
    /// Keys: <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerAttribute.html>
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 40))]
    #[x_kube(
        validation = ("self.all(k, k.matches('^[a-zA-Z0-9._]+$') && k.size() <= 256)", "spec.attributes keys must be AWS attribute names such as idle_timeout.timeout_seconds"),
        validation = ("self.all(k, self[k].size() <= 1024)", "spec.attributes values must have at most 1024 characters")
    )]
    pub attributes: BTreeMap<String, String>,

    /// AWS tags of the load balancer, for example `team: shop`, in addition to the tags by which Causeway identifies
    /// what it owns. Causeway does not change tags that others added.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 44, "additionalProperties" = { "type": "string", "maxLength": 256 }))]
    #[x_kube(
        validation = ("self.all(k, k.size() >= 1 && k.size() <= 128 && self[k].size() <= 256)", "spec.tags keys must have 1 to 128 characters and values at most 256"),
        validation = (r"self.all(k, k.matches('^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]*$'))", "spec.tags keys may have letters, digits, spaces and _ . : / = + - @, as AWS allows"),
        validation = (r"self.all(k, self[k].matches('^[\\p{L}\\p{Z}\\p{N}_.:/=+@-]*$'))", "spec.tags values may have letters, digits, spaces and _ . : / = + - @, as AWS allows"),
        validation = ("self.all(k, !k.startsWith('aws:') && !k.startsWith('causeway.example.com/') && k != 'ManagedBy')", "spec.tags must not use ManagedBy or the prefixes aws: and causeway.example.com/: choose another key")
    )]
    pub tags: BTreeMap<String, String>,

    /// Decides what happens to the load balancer when this object is deleted: `Delete` (the default) deletes it, `Retain` keeps
    /// it.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// Stops all changes except deletion; `false` unless given. The load balancer stays as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
}
