//! Balancers as plain data.

use std::collections::BTreeSet;

use super::Pairs;
use crate::api::myingress::Scheme;

/// A balancer as AWS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// Amazon resource name; never reused.
    pub arn: String,
    /// Name, unique in region and account.
    pub name: String,
    /// DNS name.
    pub dns: String,
    /// Route 53 hosted zone of the DNS name.
    pub zone_id: Option<String>,
    /// Whether it faces the internet; `None` for a scheme that this program does not know.
    pub scheme: Option<Scheme>,
    /// State.
    pub state: State,
    /// VPC that it stands in.
    pub vpc: String,
    /// IP address type; `None` for one that this program does not know.
    pub ip_address_type: Option<IpAddressType>,
    /// Subnet ids.
    pub subnets: BTreeSet<String>,
    /// Security group ids.
    pub security_groups: BTreeSet<String>,
}

/// State of a balancer.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerState.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Being set up.
    Provisioning,
    /// Serving.
    Active,
    /// Serving without the resources to scale.
    ActiveImpaired,
    /// Could not be set up.
    Failed,
}

impl State {
    /// AWS's name of the state.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Active => "active",
            Self::ActiveImpaired => "active_impaired",
            Self::Failed => "failed",
        }
    }
}

/// IP address type: the addresses that clients use.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_SetIpAddressType.html>
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpAddressType {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv4 and IPv6.
    Dualstack,
    /// IPv6, and IPv4 only within the VPC.
    DualstackWithoutPublicIpv4,
}

impl IpAddressType {
    /// AWS's name of the type.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Dualstack => "dualstack",
            Self::DualstackWithoutPublicIpv4 => "dualstack-without-public-ipv4",
        }
    }
}

/// The settings of a new balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBalancer {
    /// Name, at most 32 characters.
    pub name: String,
    /// Whether it faces the internet.
    pub scheme: Scheme,
    /// IP address type.
    pub ip_address_type: IpAddressType,
    /// Subnet ids.
    pub subnets: BTreeSet<String>,
    /// Security group ids; empty for the VPC's default.
    pub security_groups: BTreeSet<String>,
    /// Tags, set in the same call.
    pub tags: Pairs,
}
