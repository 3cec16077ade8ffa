//! Security groups as plain data.

use std::collections::BTreeSet;

use super::Permission;
use crate::external::elbv2::Pairs;

/// A security group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Id.
    pub id: String,
    /// Name, unique in its VPC.
    pub name: String,
    /// Id of its VPC.
    pub vpc: String,
    /// Tags.
    pub tags: Pairs,
    /// The rules that let traffic in.
    pub ingress: BTreeSet<Permission>,
    /// The rules that let traffic out.
    pub egress: BTreeSet<Permission>,
}
