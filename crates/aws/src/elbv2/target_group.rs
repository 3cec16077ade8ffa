//! Target groups as plain data.

use std::collections::BTreeSet;

use super::Pairs;
use super::listener::Protocol;

/// A target group as AWS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroup {
    /// The ARN of the target group.
    pub arn: String,
    /// Name, unique in region and account.
    pub name: String,
    /// Its kind; `None` for a group that this program cannot use for an Application Load Balancer.
    pub kind: Option<GroupKind>,
    /// The health check of its targets; `None` if the kind is `None`.
    pub health_check: Option<HealthCheck>,
    /// ARNs of the balancers that use it: one at most.
    pub balancers: BTreeSet<String>,
}

/// The settings of a target group that cannot change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupKind {
    /// VPC of the targets.
    pub vpc: String,
    /// The type of the targets: addresses or instances.
    pub target_type: TargetType,
    /// Protocol of requests to them.
    pub protocol: Protocol,
    /// The version of that protocol.
    pub version: ProtocolVersion,
    /// Port of targets that are registered without one.
    pub port: u16,
    /// `true` for IPv6 addresses.
    pub ipv6: bool,
    /// Port on which targets tell the balancer how many requests they take (target optimizer).
    pub control_port: Option<u16>,
}

/// The type of the targets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetType {
    /// IP addresses.
    Ip,
    /// Instances of EC2.
    Instance,
}

/// Version of the protocol that targets speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolVersion {
    /// HTTP/1.1, the default.
    Http1,
    /// HTTP/2 without gRPC.
    Http2,
    /// gRPC over HTTP/2.
    Grpc,
}

/// The health check of targets.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Protocol of the checks.
    pub protocol: Protocol,
    /// Port; `None` for the traffic port of the target.
    pub port: Option<u16>,
    /// Path, or for gRPC the method.
    pub path: String,
    /// The time between checks, in seconds.
    pub interval: u16,
    /// The time that a check may take, in seconds.
    pub timeout: u16,
    /// Passed checks after which a target is healthy.
    pub healthy: u8,
    /// Failed checks after which a target is unhealthy.
    pub unhealthy: u8,
    /// Codes that pass, as AWS writes them: `200`, `200,204` or `200-299`; gRPC codes for gRPC.
    pub codes: String,
}

/// The settings of a new target group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTargetGroup {
    /// Name, at most 32 characters.
    pub name: String,
    /// The settings that cannot change later.
    pub kind: GroupKind,
    /// The health check of its targets.
    pub health_check: HealthCheck,
    /// Tags, set in the same call.
    pub tags: Pairs,
}
