//! Subnets as plain data.

use crate::elbv2::Pairs;

/// A subnet of a VPC, as AWS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The id, such as `subnet-0123456789abcdef0`.
    pub id: String,
    /// Id of its VPC.
    pub vpc: String,
    /// Name of its availability zone, or of its local zone.
    pub zone: String,
    /// IPv4 addresses that are free.
    pub free_addresses: u32,
    /// True if it has IPv6 addresses, too.
    pub ipv6: bool,
    /// The tags by key.
    pub tags: Pairs,
}
