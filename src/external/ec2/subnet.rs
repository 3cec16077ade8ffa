//! Subnets as plain data.

use crate::external::elbv2::Pairs;

/// A subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Id.
    pub id: String,
    /// Id of its VPC.
    pub vpc: String,
    /// Name of its availability zone, or of its local zone.
    pub zone: String,
    /// IPv4 addresses that are free.
    pub free_addresses: u32,
    /// Whether it has IPv6 addresses, too.
    pub ipv6: bool,
    /// Tags.
    pub tags: Pairs,
}
