//! Security groups as plain data.

use std::collections::BTreeSet;

use super::Permission;
use crate::elbv2::Pairs;

/// A security group of a VPC, as AWS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// The id, such as `sg-0123456789abcdef0`.
    pub id: String,
    /// Name, unique in its VPC.
    pub name: String,
    /// Id of its VPC.
    pub vpc: String,
    /// The tags by key.
    pub tags: Pairs,
    /// The rules that let traffic in.
    pub ingress: BTreeSet<Permission>,
    /// The rules that let traffic out.
    pub egress: BTreeSet<Permission>,
}
