//! The security group of our own.

use std::collections::BTreeSet;

use super::swaps::swaps;
use super::tags::stale;
use super::{Scene, differing, entries, named};
use crate::controllers::myingress::action::{Action, SecurityAction};
use crate::controllers::myingress::assets::Member;
use crate::controllers::myingress::model::{Complaint, SecurityModel, SubnetsModel, is_group_id};
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
        SecurityModel::Given(groups) => return given(scene, current, groups),
        SecurityModel::Managed { .. } => {}
    }
    let tags = scene.tags(None);
    let Some(group) = scene.observed.assets.security_groups.values().next() else {
        let vpc = vpc(scene, current)?.to_owned();
        let name = security_group_name(&scene.observed.owner);
        actions.push(Action::Security(SecurityAction::Create { name, vpc, tags }));
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
    entries::plan(scene, group, actions);
    Ok(Groups::Are(Some(BTreeSet::from([group.id.clone()]))))
}

/// The groups that the spec gives, by their ids.
fn given(scene: &Scene, current: Option<&Member>, groups: &BTreeSet<String>) -> Result<Groups, Complaint> {
    let id = |called: &String| {
        if is_group_id(called) {
            return Ok(called.clone());
        }
        let vpc = vpc(scene, current)?;
        Ok(named::group(called, "spec.securityGroups", &scene.observed.security_groups, vpc)?.id.clone())
    };
    Ok(Groups::Are(Some(groups.iter().map(id).collect::<Result<_, _>>()?)))
}

/// The VPC of the balancer, be it still to be made.
fn vpc<'a>(scene: &Scene<'a>, current: Option<&'a Member>) -> Result<&'a str, Complaint> {
    let wanted = match &scene.model.balancer.subnets {
        SubnetsModel::Tagged { vpc, .. } => vpc.as_ref(),
        SubnetsModel::Ids(_) => None,
    };
    let of_subnets = || {
        let mut vpcs = scene.observed.subnets.iter().map(|subnet| &subnet.vpc);
        vpcs.find(|vpc| wanted.is_none_or(|wanted| wanted == *vpc))
    };
    let known = current.map(|member| &member.balancer.vpc).or_else(of_subnets);
    known.map(String::as_str).ok_or_else(|| Complaint {
        reason: "SubnetNotFound",
        message:
            "spec.subnets: AWS knows none of them, so that the VPC of the security group is not known: use ids of \
                  subnets of the operator's account and region"
                .into(),
    })
}

/// Deletes the group once nobody wants it, and the rules that let it in before that.
pub fn clear(scene: &Scene, actions: &mut Vec<Action>) {
    for group in scene.observed.assets.security_groups.values() {
        entries::clear(scene, group, actions);
    }
    if !matches!(scene.model.balancer.security, SecurityModel::Managed { .. }) {
        // A balancer whose groups are left to AWS keeps ours: it has no other.
        let kept = |id: &String| {
            scene.observed.assets.balancers.values().any(|member| member.balancer.security_groups.contains(id))
        };
        let groups = scene.observed.assets.security_groups.values();
        let let_in = |id: &String| {
            let owner = &scene.observed.owner;
            entries::ours(&scene.observed.assets, owner).any(|entry| entry.from == *id)
        };
        actions.extend(groups.filter(|group| !kept(&group.id) && !let_in(&group.id)).map(delete));
    }
}

/// Deletes a security group.
pub fn delete(group: &SecurityGroup) -> Action {
    Action::Security(SecurityAction::Delete { id: group.id.clone(), name: group.name.clone() })
}
