//! The balancer's own security group.

use std::collections::BTreeSet;

use causeway_api::network::canonical;
use causeway_aws::ec2::{Permission, SecurityGroup, Source};

use super::swaps::swaps;
use super::tags::stale;
use super::{Scene, differing, entries, listeners, named, replacement};
use crate::action::{Action, SecurityAction};
use crate::model::{Complaint, SecurityModel, SubnetsModel, counted, everywhere, everywhere_by_ipv6, is_group_id};
use crate::ownership::names::security_group_name;
use crate::region::assets::{ListenerMember, Member};

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
    // A balancer that stays as it is keeps its groups. Only the inbound rules of our own group follow the listeners.
    let held = scene.is_held();
    match &scene.model.balancer.security {
        SecurityModel::Default => return Ok(Groups::Are(None)),
        SecurityModel::Given(_) if held => return Ok(Groups::Are(None)),
        SecurityModel::Given(groups) => return user_provided(scene, current, groups),
        SecurityModel::Managed { .. } => {}
    }
    let tags = scene.tags(None);
    let vpc = match vpc(scene, current) {
        Err(complaint) if !held => return Err(complaint),
        vpc => vpc.unwrap_or_default(),
    };
    // AWS lets a balancer have only security groups of its own VPC. One in another VPC is of a former balancer.
    // <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-update-security-groups.html>
    let Some(group) = scene.observed.assets.security_group_in(vpc) else {
        if held {
            return Ok(Groups::Are(None));
        }
        let vpc = vpc.to_owned();
        let name = security_group_name(&scene.observed.owner);
        actions.push(Action::Security(SecurityAction::Create { name, vpc, tags }));
        return Ok(Groups::Later);
    };
    let id = group.id.clone();
    let swaps = swaps(&group.ingress, &inbound(scene, group)).into_iter();
    actions.extend(swaps.map(|swap| Action::Security(swap.action(id.clone()))));
    outbound(scene, group, actions);
    let keys = stale(scene, &tags, &group.tags);
    if !keys.is_empty() {
        actions.push(Action::Security(SecurityAction::RemoveTags { id: group.id.clone(), keys }));
    }
    let tags = differing(&tags, &group.tags);
    if !tags.is_empty() {
        actions.push(Action::Security(SecurityAction::AddTags { id: group.id.clone(), tags }));
    }
    entries::plan(scene, group, actions);
    let groups = Some(BTreeSet::from([group.id.clone()]));
    Ok(Groups::Are(groups.filter(|_| !held)))
}

/// Lets all traffic out, as AWS does for a new group: without that the balancer reaches no target and no provider of
/// log-ins. Where the VPC has IPv6, AWS adds the second rule.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-update-security-groups.html>
fn outbound(scene: &Scene, group: &SecurityGroup, actions: &mut Vec<Action>) {
    let mut wanted = BTreeSet::from([everywhere()]);
    let has_ipv6 = || scene.model.groups.values().any(|it| it.backend.ipv6);
    if group.egress.contains(&everywhere_by_ipv6()) || has_ipv6() {
        wanted.insert(everywhere_by_ipv6());
    }
    let missing: BTreeSet<Permission> = wanted.difference(&group.egress).cloned().collect();
    let surplus: BTreeSet<Permission> = group.egress.difference(&wanted).cloned().collect();
    let id = || group.id.clone();
    if !missing.is_empty() {
        actions.push(Action::Security(SecurityAction::LetOut { id: id(), permissions: missing }));
    }
    if !surplus.is_empty() {
        actions.push(Action::Security(SecurityAction::KeepIn { id: id(), permissions: surplus }));
    }
}

/// The wanted inbound rules, and those of the present ones that stay for now. If the security group has no room for
/// both, the latter give way.
fn inbound(scene: &Scene, group: &SecurityGroup) -> BTreeSet<Permission> {
    let mut wanted = scene.model.inbound();
    wanted.retain(|it| group.ingress.contains(it) || !port(it).is_some_and(|port| is_narrowed(scene, group, port)));
    for kept in [of_frozen(scene, group), of_replaced(scene, group)] {
        let (four, six) = counted(wanted.union(&kept));
        if four.max(six) <= scene.observed.limits.security_group_rules {
            wanted.extend(kept);
        }
    }
    wanted
}

/// Inbound rules that a balancer of the other scheme needs, which serves until the new one has taken over and shares
/// its group. They are those on its ports.
fn of_replaced(scene: &Scene, group: &SecurityGroup) -> BTreeSet<Permission> {
    let listens = |port: u16| {
        let on_port = |it: &ListenerMember| it.listener.settings.port == port;
        let mut old = replacement::old(scene).filter(|it| it.balancer.security_groups.contains(&group.id));
        old.any(|it| it.listeners.as_ref().is_none_or(|listeners| listeners.values().any(on_port)))
    };
    group.ingress.iter().filter(|it| port(it).is_some_and(listens)).cloned().collect()
}

/// Inbound rules of members of the group's own namespace that cannot take part now: those on ports that only these
/// members have, and those for their networks and prefix lists on other ports.
fn of_frozen(scene: &Scene, group: &SecurityGroup) -> BTreeSet<Permission> {
    if scene.frozen_at_home().next().is_none() {
        return BTreeSet::new();
    }
    let everywhere = |source: &Source| {
        scene.frozen_at_home().map(|object| &object.spec).any(|spec| {
            let lists = &mut spec.inbound_prefix_lists.iter();
            spec.inbound_cidrs.iter().any(|cidr| is(source, cidr))
                || lists.any(|list| *source == Source::PrefixList(list.clone()))
        })
    };
    let balancers = || scene.observed.assets.balancers.values();
    let is_open = |port: u16| {
        let on_port = |it: &ListenerMember| it.listener.settings.port == port && listeners::is_kept(scene, it);
        balancers().any(|it| it.listeners.as_ref().is_none_or(|listeners| listeners.values().any(on_port)))
    };
    let stays = |permission: &&Permission| {
        let source = &permission.source;
        port(permission).is_some_and(|port| match scene.model.listeners.get(&port) {
            // Networks of a listener replace those of the balancer.
            Some(shared) => names(scene, port, source) || (shared.inbound.is_empty() && everywhere(source)),
            None => is_open(port),
        })
    };
    group.ingress.iter().filter(stays).cloned().collect()
}

/// Reports whether a listener in the spec of such a member names the network.
fn names(scene: &Scene, port: u16, source: &Source) -> bool {
    let listeners = scene.frozen_at_home().flat_map(|object| &object.spec.listeners);
    listeners.filter(|it| it.port == port).flat_map(|it| &it.inbound_cidrs).any(|cidr| is(source, cidr))
}

/// Reports whether such a member has let in networks of its own on the port, which replace those of the balancer.
fn is_narrowed(scene: &Scene, group: &SecurityGroup, on: u16) -> bool {
    let others = scene.model.listeners.get(&on).is_some_and(|listener| !listener.inbound.is_empty());
    !others && group.ingress.iter().any(|it| port(it) == Some(on) && names(scene, on, &it.source))
}

fn is(source: &Source, cidr: &str) -> bool {
    canonical(cidr).is_some_and(|network| *source == Source::Network(network))
}

/// The port that the rule is for, if that is a single one.
fn port(permission: &Permission) -> Option<u16> {
    permission.ports.filter(|ports| ports.from == ports.to).and_then(|ports| u16::try_from(ports.from).ok())
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
    known.map(String::as_str).ok_or_else(|| match scene.model.balancer.subnets {
        SubnetsModel::Tagged { .. } => Complaint {
            reason: "SubnetsNotFound",
            message: "spec.subnetSelector: no subnet of the operator's account and region has these tags, in that VPC: correct \
                      them, or tag two subnets in different availability zones"
                .into(),
        },
        SubnetsModel::Ids(_) => Complaint {
            reason: "SubnetNotFound",
            message: "spec.subnets: AWS knows none of them, so that the VPC of the security group is not known: use ids of \
                      subnets of the operator's account and region"
                .into(),
        },
    })
}

/// Reports whether a balancer of the owner is in the group's VPC. No other balancer can have the group.
pub fn is_needed(scene: &Scene, group: &SecurityGroup) -> bool {
    scene.observed.assets.balancers.values().any(|member| member.balancer.vpc == group.vpc)
}

/// Deletes the group once no member wants it, or once no balancer is left in its VPC. The rules that let it in are
/// removed before, but not while a balancer needs them that is being replaced, or to which AWS refuses to give other
/// groups.
pub fn clear(scene: &Scene, actions: &mut Vec<Action>) {
    let kept = |id: &String| {
        scene.observed.assets.balancers.values().any(|member| member.balancer.security_groups.contains(id))
    };
    let given = matches!(scene.model.balancer.security, SecurityModel::Given(_));
    let serves =
        |id: &String| (given && kept(id)) || replacement::old(scene).any(|it| it.balancer.security_groups.contains(id));
    for group in scene.observed.assets.security_groups.values().filter(|group| !serves(&group.id)) {
        entries::clear(scene, group, actions);
    }
    let managed = matches!(scene.model.balancer.security, SecurityModel::Managed { .. });
    // A balancer whose groups are left to AWS keeps ours, for it has no other.
    let let_in = |id: &String| {
        let owner = &scene.observed.owner;
        scene.observed.assets.entries_of(owner).any(|entry| entry.from == *id)
    };
    let stays = |group: &&SecurityGroup| kept(&group.id) || let_in(&group.id) || (managed && is_needed(scene, group));
    let groups = scene.observed.assets.security_groups.values();
    actions.extend(groups.filter(|group| !stays(group)).map(delete));
}

/// Deletes a security group.
pub fn delete(group: &SecurityGroup) -> Action {
    Action::Security(SecurityAction::Delete { id: group.id.clone(), name: group.name.clone() })
}
