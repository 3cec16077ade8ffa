//! The security group of our own.

use std::collections::BTreeSet;

use super::tags::stale;
use super::{Scene, differing};
use crate::controllers::myingress::action::{Action, SecurityAction};
use crate::controllers::myingress::assets::Member;
use crate::controllers::myingress::model::{Complaint, SecurityModel};
use crate::controllers::myingress::names::security_group_name;
use crate::external::ec2::{Permission, SecurityGroup, Source};

/// The security groups that the balancer is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// These; `None` leaves them to AWS.
    Are(Option<BTreeSet<String>>),
    /// The group must be made first.
    Later,
}

/// Makes the group, and lets in who may come in.
pub fn plan(scene: &Scene, current: Option<&Member>, actions: &mut Vec<Action>) -> Result<Groups, Complaint> {
    let cidrs = match &scene.model.balancer.security {
        SecurityModel::Default => return Ok(Groups::Are(None)),
        SecurityModel::Given(groups) => return Ok(Groups::Are(Some(groups.clone()))),
        SecurityModel::Managed { cidrs } => cidrs,
    };
    let tags = scene.tags(None);
    let Some(group) = scene.observed.assets.security_groups.values().next() else {
        let vpc = current.map(|member| &member.balancer.vpc);
        let Some(vpc) = vpc.or_else(|| scene.observed.subnets.first().map(|subnet| &subnet.vpc)) else {
            return Err(Complaint {
                reason: "SubnetNotFound",
                message:
                    "spec.subnets: AWS knows none of them, so that the VPC of the security group is not known: use \
                          ids of subnets of the operator's account and region"
                        .into(),
            });
        };
        let name = security_group_name(&scene.observed.owner);
        actions.push(Action::Security(SecurityAction::Create { name, vpc: vpc.clone(), tags }));
        return Ok(Groups::Later);
    };
    actions.extend(repairs(scene, group, cidrs).into_iter().map(Action::Security));
    let keys = stale(scene, &tags, &group.tags);
    if !keys.is_empty() {
        actions.push(Action::Security(SecurityAction::RemoveTags { id: group.id.clone(), keys }));
    }
    let tags = differing(&tags, &group.tags);
    if !tags.is_empty() {
        actions.push(Action::Security(SecurityAction::AddTags { id: group.id.clone(), tags }));
    }
    Ok(Groups::Are(Some(BTreeSet::from([group.id.clone()]))))
}

/// First let in who is missing, then lock out who is too many.
fn repairs(scene: &Scene, group: &SecurityGroup, cidrs: &BTreeSet<String>) -> Vec<SecurityAction> {
    let ports = scene.model.listeners.keys();
    let wanted: BTreeSet<Permission> =
        ports.flat_map(|port| cidrs.iter().map(|cidr| Permission::tcp(*port, Source::Network(cidr.clone())))).collect();
    let difference = |a: &BTreeSet<Permission>, b: &BTreeSet<Permission>| a.difference(b).cloned().collect();
    let missing: BTreeSet<Permission> = difference(&wanted, &group.ingress);
    let surplus: BTreeSet<Permission> = difference(&group.ingress, &wanted);
    let mut actions = Vec::new();
    if !missing.is_empty() {
        actions.push(SecurityAction::Authorize { id: group.id.clone(), permissions: missing });
    }
    if !surplus.is_empty() {
        actions.push(SecurityAction::Revoke { id: group.id.clone(), permissions: surplus });
    }
    actions
}

/// Deletes the group once nobody wants it.
pub fn clear(scene: &Scene, actions: &mut Vec<Action>) {
    if !matches!(scene.model.balancer.security, SecurityModel::Managed { .. }) {
        // A balancer whose groups are left to AWS keeps ours: it has no other.
        let kept = |id: &String| {
            scene.observed.assets.balancers.values().any(|member| member.balancer.security_groups.contains(id))
        };
        let groups = scene.observed.assets.security_groups.values();
        actions.extend(groups.filter(|group| !kept(&group.id)).map(delete));
    }
}

/// Deletes a security group.
pub fn delete(group: &SecurityGroup) -> Action {
    Action::Security(SecurityAction::Delete { id: group.id.clone(), name: group.name.clone() })
}
