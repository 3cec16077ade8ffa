//! The security group of our own.

use std::collections::BTreeSet;

use super::swaps::swaps;
use super::tags::stale;
use super::{Scene, differing};
use crate::controllers::myingress::action::{Action, SecurityAction};
use crate::controllers::myingress::assets::Member;
use crate::controllers::myingress::model::{Complaint, SecurityModel};
use crate::controllers::myingress::names::security_group_name;
use crate::external::ec2::SecurityGroup;

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
    match &scene.model.balancer.security {
        SecurityModel::Default => return Ok(Groups::Are(None)),
        SecurityModel::Given(groups) => return Ok(Groups::Are(Some(groups.clone()))),
        SecurityModel::Managed { .. } => {}
    }
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
    let (id, wanted) = (group.id.clone(), scene.model.inbound());
    let swaps = swaps(&group.ingress, &wanted).into_iter();
    actions.extend(swaps.map(|swap| Action::Security(swap.action(id.clone()))));
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
