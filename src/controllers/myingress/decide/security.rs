//! The balancer's own security group.

use std::collections::BTreeSet;

use super::swaps::swaps;
use super::tags::stale;
use super::{Scene, differing, entries, listeners, named};
use crate::controllers::myingress::action::{Action, SecurityAction};
use crate::controllers::myingress::assets::{ListenerMember, Member};
use crate::controllers::myingress::model::{
    Complaint, SecurityModel, SubnetsModel, canonical_network, counted, is_group_id,
};
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

/// Creates the group, and allows the wanted inbound traffic.
pub fn plan(scene: &Scene, current: Option<&Member>, actions: &mut Vec<Action>) -> Result<Groups, Complaint> {
    match &scene.model.balancer.security {
        SecurityModel::Default => return Ok(Groups::Are(None)),
        SecurityModel::Given(groups) => return user_provided(scene, current, groups),
        SecurityModel::Managed { .. } => {}
    }
    let tags = scene.tags(None);
    let Some(group) = scene.observed.assets.security_groups.values().next() else {
        let vpc = vpc(scene, current)?.to_owned();
        let name = security_group_name(&scene.observed.owner);
        actions.push(Action::Security(SecurityAction::Create { name, vpc, tags }));
        return Ok(Groups::Later);
    };
    let (id, mut wanted) = (group.id.clone(), scene.model.inbound());
    wanted.extend(kept(scene, group, &wanted));
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

/// Inbound rules of members of the group's own namespace that cannot take part now: those on ports that only these
/// members have, and those for their own networks on other ports. If the security group has no room for both, these
/// rules give way to the wanted ones.
fn kept(scene: &Scene, group: &SecurityGroup, wanted: &BTreeSet<Permission>) -> BTreeSet<Permission> {
    if scene.frozen_at_home().next().is_none() {
        return BTreeSet::new();
    }
    let is_theirs = |port: u16, source: &Source| {
        let listeners = scene.frozen_at_home().flat_map(|object| &object.spec.listeners);
        let networks = listeners.filter(|it| it.port == port).flat_map(|it| &it.inbound_cidrs);
        networks.filter_map(|cidr| canonical_network(cidr)).any(|network| *source == Source::Network(network))
    };
    let balancers = || scene.observed.assets.balancers.values();
    let is_open = |port: u16| {
        let on_port = |it: &ListenerMember| it.listener.settings.port == port && listeners::is_kept(scene, it);
        balancers().any(|it| it.listeners.as_ref().is_none_or(|listeners| listeners.values().any(on_port)))
    };
    let stays = |permission: &&Permission| {
        let port =
            permission.ports.filter(|ports| ports.from == ports.to).and_then(|ports| u16::try_from(ports.from).ok());
        port.is_some_and(|port| {
            let is_shared = scene.model.listeners.contains_key(&port);
            if is_shared { is_theirs(port, &permission.source) } else { is_open(port) }
        })
    };
    let kept: BTreeSet<Permission> = group.ingress.iter().filter(stays).cloned().collect();
    let (four, six) = counted(wanted.union(&kept));
    if four.max(six) <= scene.observed.limits.security_group_rules { kept } else { BTreeSet::new() }
}

/// The ids of the security groups that the spec names.
fn user_provided(scene: &Scene, current: Option<&Member>, groups: &BTreeSet<String>) -> Result<Groups, Complaint> {
    let id = |called: &String| {
        if is_group_id(called) {
            return Ok(called.clone());
        }
        let vpc = vpc(scene, current)?;
        Ok(named::group(called, "spec.securityGroups", &scene.observed.security_groups, vpc)?.id.clone())
    };
    Ok(Groups::Are(Some(groups.iter().map(id).collect::<Result<_, _>>()?)))
}

/// The VPC of the balancer, even if the balancer is still to be created.
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

/// Deletes the group once nobody wants it. The rules that let it in are removed before.
pub fn clear(scene: &Scene, actions: &mut Vec<Action>) {
    for group in scene.observed.assets.security_groups.values() {
        entries::clear(scene, group, actions);
    }
    if !matches!(scene.model.balancer.security, SecurityModel::Managed { .. }) {
        // A balancer whose groups are left to AWS keeps ours, for it has no other.
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
