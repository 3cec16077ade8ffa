//! Balancers as plain data.

use std::collections::BTreeSet;

use causeway_api::myingress::Scheme;

use super::Pairs;

/// A balancer as AWS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// Amazon resource name; never reused.
    pub arn: String,
    /// Name, unique in region and account.
    pub name: String,
    /// The DNS name of the balancer.
    pub dns: String,
    /// Route 53 hosted zone of the DNS name.
    pub zone_id: Option<String>,
    /// Internal, or facing the internet; `None` for a scheme that this program does not know.
    pub scheme: Option<Scheme>,
    /// The state of the balancer.
    pub state: State,
    /// VPC that it stands in.
    pub vpc: String,
    /// IP address type; `None` for one that this program does not know.
    pub ip_address_type: Option<IpAddressType>,
    /// The ids of its subnets.
    pub subnets: BTreeSet<String>,
    /// The ids of its security groups.
    pub security_groups: BTreeSet<String>,
}

/// State of a balancer.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_LoadBalancerState.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// AWS is setting it up.
    Provisioning,
    /// It serves requests.
    Active,
    /// It serves requests without the resources to scale.
    ActiveImpaired,
    /// AWS could not set it up.
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
    /// IPv4 addresses only.
    #[default]
    Ipv4,
    /// IPv4 and IPv6 addresses.
    Dualstack,
    /// IPv6 addresses, and IPv4 ones only within the VPC.
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
    /// Internal, or facing the internet.
    pub scheme: Scheme,
    /// The addresses that clients use.
    pub ip_address_type: IpAddressType,
    /// The ids of its subnets.
    pub subnets: BTreeSet<String>,
    /// Security group ids; empty for the VPC's default.
    pub security_groups: BTreeSet<String>,
    /// Tags, set in the same call.
    pub tags: Pairs,
}
