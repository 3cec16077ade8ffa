//! Creates, repairs and replaces the balancer itself.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::ManagedKeys;
use causeway_api::{MyIngress, MyIngressStatus};
use causeway_aws::ec2::Subnet;
use causeway_aws::elbv2::{IpAddressType, NewBalancer, Pairs};
use causeway_runtime::{Health, Plan};

use super::attributes::drifted;
use super::security::Groups;
use super::tags::stale;
use super::{ADOPTION_REFUSED, Scene, differing, listeners, serves, status};
use crate::action::{Action, BalancerAction};
use crate::members::key;
use crate::model::{Complaint, SubnetsModel, default_balancer_attribute};
use crate::observe::facts::{Adoption, Observed};
use crate::ownership::names::candidates;
use crate::ownership::{Owner, adoption_tag};
use crate::region::assets::Member;

/// A subnet must have at least this many free addresses for a balancer.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html#subnets-load-balancer>
const FREE_ADDRESSES: u32 = 8;

/// The balancer to keep: it has the right scheme, and of several it is the one that the status names.
pub fn current<'a>(object: &MyIngress, observed: &'a Observed) -> Option<&'a Member> {
    let recorded = object.status.as_ref().and_then(|status| status.alb.as_ref()).map(|alb| alb.arn.as_str());
    let scheme = observed.built.model.as_ref().map_or(object.spec.scheme, |model| model.balancer.scheme);
    let fitting = || observed.assets.balancers.values().filter(|member| member.balancer.scheme == Some(scheme));
    fitting().find(|member| Some(member.balancer.arn.as_str()) == recorded).or_else(|| fitting().next())
}

/// The check of a balancer that was just created. It comes before any change of the balancer.
pub fn verify(current: Option<&Member>) -> Option<Action> {
    let balancer = &current.filter(|member| !member.verified)?.balancer;
    let (arn, name) = (balancer.arn.clone(), balancer.name.clone());
    Some(Action::Balancer(BalancerAction::Verify { arn, name }))
}

/// Creates the balancer, or repairs it.
pub fn plan(
    object: &MyIngress,
    scene: &Scene,
    current: Option<&Member>,
    security: &Groups,
    plan: &mut Plan<Action, MyIngressStatus>,
) -> Result<(), Complaint> {
    let before = scene.observed.members.recorded();
    let known = object.status.as_ref().and_then(|status| status.managed.as_ref());
    plan.status.managed = recorded(scene, &before);
    plan.write_status_first = known != plan.status.managed.as_ref() && plan.status.managed.is_some();
    let held = scene.is_held();
    let Some(member) = current else {
        // A balancer that stays as it is is not replaced.
        return if held { Ok(()) } else { missing(scene, security, plan) };
    };
    let subnets = if held { member.balancer.subnets.clone() } else { subnets(scene, Some(member))? };
    plan.actions.extend(repairs(scene, member, subnets, security, &before).into_iter().map(Action::Balancer));
    Ok(())
}

/// The keys that are recorded before they are set. While the balancer stays as it is, none of its own is added.
fn recorded(scene: &Scene, before: &ManagedKeys) -> Option<ManagedKeys> {
    let listeners = listeners::exist(scene.observed, before.listeners);
    let mut keys = status::managed(scene.model, Some(before), listeners)?;
    if scene.is_held() {
        let before = before.clone();
        (keys.attributes, keys.web_acl, keys.capacity) = (before.attributes, before.web_acl, before.capacity);
    }
    (keys != ManagedKeys::default()).then_some(keys)
}

fn missing(scene: &Scene, security: &Groups, plan: &mut Plan<Action, MyIngressStatus>) -> Result<(), Complaint> {
    let (observed, wanted) = (scene.observed, &scene.model.balancer);
    if let Some(lost) = observed.disowned.as_ref().filter(|_| observed.assets.balancers.is_empty()) {
        return Err(Complaint {
            reason: "OwnershipLost",
            message: format!(
                "the tags causeway.example.com/cluster and /uid of load balancer {} no longer name this object, so it is \
                 left alone: put them back ({} and {}), or delete the balancer to have a new one",
                lost.name, observed.owner.cluster.name, observed.owner.uid
            ),
        });
    }
    if let Some((adoption, name)) = observed.adoption.as_ref().zip(wanted.adopt.as_ref()) {
        let tags = scene.tags(None);
        let (key, value) = adoption_tag(&observed.owner);
        let refusal = |message: String| Err(Complaint { reason: ADOPTION_REFUSED, message });
        return match adoption {
            Adoption::Agreed { arn } => {
                let action = BalancerAction::Adopt { arn: arn.clone(), name: name.clone(), tags };
                plan.actions.push(Action::Balancer(action));
                Ok(())
            }
            Adoption::Missing => {
                refusal(format!("spec.adopt: there is no load balancer {name} in this region: correct the name"))
            }
            Adoption::Refused => refusal(format!(
                "spec.adopt: load balancer {name} does not agree to be taken over: give it the tag {key} with the value {value}"
            )),
        };
    }
    let Groups::Are(security_groups) = security else { return Ok(()) };
    let subnets = subnets(scene, None)?;
    if let Some(name) = wanted.name.as_ref().filter(|name| observed.taken.contains(*name))
        && !observed.assets.balancers.values().any(|member| member.balancer.name == *name)
    {
        return Err(Complaint {
            reason: "NameTaken",
            message: format!(
                "spec.name: there is a load balancer {name} in this region that is not this object's: delete that one, or \
                 delete this object and create it again, with spec.adopt to take that one over, or with another spec.name"
            ),
        });
    }
    let names = candidates(&observed.owner, wanted.scheme, wanted.name.as_deref());
    let Some(name) = names.iter().find(|name| !observed.taken.contains(*name)).cloned() else {
        return Err(without_a_name(&observed.owner, &names));
    };
    if observed.assets.balancers.is_empty() {
        // The balancer that the status names no longer exists.
        plan.status.alb = None;
    } else {
        plan.health = Health::progressing("Replacing", "a new load balancer replaces the one of the other scheme");
    }
    plan.actions.push(Action::Balancer(BalancerAction::Create(NewBalancer {
        name,
        scheme: wanted.scheme,
        subnets,
        security_groups: security_groups.clone().unwrap_or_default(),
        ip_address_type: wanted.ip_address_type.unwrap_or(IpAddressType::Ipv4),
        tags: scene.tags(None),
    })));
    Ok(())
}

/// A group's balancer is called after the group, and not after an object.
fn without_a_name(owner: &Owner, names: &[String]) -> Complaint {
    let other = if owner.is_group() {
        "give all members another spec.group.name"
    } else {
        "create the object under another metadata.name"
    };
    let names = names.join(" ");
    Complaint {
        reason: "NameTaken",
        message: format!(
            "every name for the load balancer is taken in this region: see `aws elbv2 describe-load-balancers --names \
             {names}`. Delete one that is not needed, or {other}"
        ),
    }
}

fn repairs(
    scene: &Scene,
    member: &Member,
    subnets: BTreeSet<String>,
    security: &Groups,
    before: &ManagedKeys,
) -> Vec<BalancerAction> {
    let (wanted, balancer) = (&scene.model.balancer, &member.balancer);
    let arn = || balancer.arn.clone();
    let held = scene.is_held();
    let mut actions = Vec::new();
    if let Groups::Are(Some(groups)) = security
        && *groups != balancer.security_groups
    {
        actions.push(BalancerAction::SetSecurityGroups { arn: arn(), groups: groups.clone() });
    }
    let set_subnets = (subnets != balancer.subnets).then(|| BalancerAction::SetSubnets { arn: arn(), subnets });
    let to = wanted.ip_address_type.filter(|to| !held && Some(*to) != balancer.ip_address_type);
    let set_type = to.map(|to| BalancerAction::SetIpAddressType { arn: arn(), to });
    // As long as the balancer has IPv6 addresses, it may stand only in subnets with IPv6.
    let in_order = if to == Some(IpAddressType::Ipv4) { [set_type, set_subnets] } else { [set_subnets, set_type] };
    actions.extend(in_order.into_iter().flatten());
    let tags = scene.tags(None);
    let stale = stale(scene, &tags, &member.tags);
    if !stale.is_empty() {
        actions.push(BalancerAction::RemoveTags { arn: arn(), keys: stale });
    }
    let tags = differing(&tags, &member.tags);
    if !tags.is_empty() {
        actions.push(BalancerAction::AddTags { arn: arn(), tags });
    }
    let stays = |recorded: bool, by_holder: &dyn Fn(&ManagedKeys) -> bool| {
        held && (!recorded || holders_record(scene).is_some_and(by_holder))
    };
    if let Some(present) = &member.attributes {
        let default = |key: &str| default_balancer_attribute(key, wanted.scheme);
        let mut attributes = drifted(&attributes(&wanted.attributes, before, default), present, default);
        attributes.retain(|key, _| !stays(before.attributes.contains(key), &|it| it.attributes.contains(key)));
        if !attributes.is_empty() {
            actions.push(BalancerAction::SetAttributes { arn: arn(), attributes });
        }
    }
    if let Some(present) = &member.web_acl
        && *present != wanted.web_acl
        && (wanted.web_acl.is_some() || before.web_acl)
        && !stays(before.web_acl, &|it| it.web_acl)
    {
        actions.push(BalancerAction::SetWebAcl { arn: arn(), acl: wanted.web_acl.clone() });
    }
    // AWS reserves no capacity for a balancer that is still being set up.
    if let Some(present) = &member.capacity
        && serves(member)
        && *present != wanted.capacity
        && (wanted.capacity.is_some() || before.capacity)
        && !stays(before.capacity, &|it| it.capacity)
    {
        actions.push(BalancerAction::SetCapacity { arn: arn(), units: wanted.capacity });
    }
    actions
}

/// The record in the status of the member that decides about the balancer and cannot take part now. Settings that only
/// others have recorded were set without it, and are theirs to change.
fn holders_record<'a>(scene: &Scene<'a>) -> Option<&'a ManagedKeys> {
    let holder = scene.observed.built.held_by.as_ref()?;
    let object = scene.observed.members.present.iter().find(|object| key(object) == *holder)?;
    object.status.as_ref()?.managed.as_ref()
}

/// The attributes of the spec, and AWS's defaults for those that the spec set before.
fn attributes(wanted: &Pairs, before: &ManagedKeys, default: impl Fn(&str) -> Option<&'static str>) -> Pairs {
    let defaults = before.attributes.iter().filter_map(|key| Some((key.clone(), default(key)?.to_owned())));
    let mut all: Pairs = defaults.collect();
    all.extend(wanted.clone());
    all
}

/// The subnets of the balancer.
fn subnets(scene: &Scene, member: Option<&Member>) -> Result<BTreeSet<String>, Complaint> {
    match &scene.model.balancer.subnets {
        SubnetsModel::Ids(ids) => Ok(ids.clone()),
        SubnetsModel::Tagged { vpc, .. } => {
            let present = member.map(|member| member.balancer.subnets.clone()).unwrap_or_default();
            let has_ipv6 = |kind: Option<IpAddressType>| kind.is_some_and(|kind| kind != IpAddressType::Ipv4);
            let current = member.and_then(|member| member.balancer.ip_address_type);
            let ipv6 =
                Ipv6 { wanted: has_ipv6(scene.model.balancer.ip_address_type.or(current)), present: has_ipv6(current) };
            chosen(&scene.observed.subnets, vpc.as_deref(), &present, ipv6)
        }
    }
}

/// The IPv6 addresses of a balancer: wanted, and present.
#[derive(Clone, Copy, Default)]
struct Ipv6 {
    wanted: bool,
    present: bool,
}

/// One subnet in each zone: the one that the balancer already has, else the first by id that has enough free addresses.
/// A balancer with IPv6 addresses stands only in subnets that have some.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-subnets.html>
fn chosen(
    found: &[Subnet],
    vpc: Option<&str>,
    present: &BTreeSet<String>,
    ipv6: Ipv6,
) -> Result<BTreeSet<String>, Complaint> {
    let complaint = |message: String| Complaint { reason: "SubnetsNotFound", message };
    let fitting: Vec<&Subnet> = found.iter().filter(|subnet| vpc.is_none_or(|vpc| vpc == subnet.vpc)).collect();
    let vpcs: BTreeSet<&str> = fitting.iter().map(|subnet| subnet.vpc.as_str()).collect();
    if vpcs.len() > 1 {
        let vpcs: Vec<&str> = vpcs.into_iter().collect();
        return Err(complaint(format!(
            "spec.subnetSelector: the tags fit subnets of several VPCs ({}): choose one by spec.subnetSelector.vpcId",
            vpcs.join(", ")
        )));
    }
    let mut zones: BTreeMap<&str, Vec<&Subnet>> = BTreeMap::new();
    for subnet in &fitting {
        zones.entry(&subnet.zone).or_default().push(subnet);
    }
    let stands_in = |subnet: &Subnet| present.contains(&subnet.id);
    // AWS has checked the subnets of a balancer that has IPv6 addresses.
    let suits = |subnet: &Subnet| !ipv6.wanted || subnet.ipv6 || (ipv6.present && stands_in(subnet));
    let choice = |subnets: &Vec<&Subnet>| {
        let suitable = || subnets.iter().filter(|subnet| suits(subnet));
        let roomy = suitable().filter(|subnet| subnet.free_addresses >= FREE_ADDRESSES);
        let stays = suitable().find(|subnet| stands_in(subnet));
        // Where no other fits, it stays where it stands: AWS refuses only the type then, and all else goes on.
        let stands = || subnets.iter().find(|subnet| stands_in(subnet));
        stays.or_else(|| roomy.min_by_key(|subnet| &subnet.id)).or_else(stands).map(|subnet| subnet.id.clone())
    };
    let chosen: BTreeSet<String> = zones.values().filter_map(choice).collect();
    if chosen.len() < 2 {
        let without = fitting.iter().filter(|subnet| !suits(subnet)).count();
        let six = if ipv6.wanted { format!(" ({without} have no IPv6 CIDR block)") } else { String::new() };
        let and_six = if ipv6.wanted { " and an IPv6 CIDR block" } else { "" };
        return Err(complaint(format!(
            "spec.subnetSelector: {} of the {} subnets with these tags can be used{six}, and a load balancer needs two in \
             different availability zones with {FREE_ADDRESSES} free addresses{and_six} each: tag more subnets",
            chosen.len(),
            fitting.len()
        )));
    }
    Ok(chosen)
}

/// Deletes a balancer of the owner.
pub fn delete(observed: &Observed, member: &Member) -> Action {
    Action::Balancer(BalancerAction::Delete {
        owner: observed.owner.clone(),
        arn: member.balancer.arn.clone(),
        name: member.balancer.name.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(id: &str, zone: &str, free_addresses: u32) -> Subnet {
        let (id, vpc, zone, tags) = (id.into(), "vpc-1".into(), zone.into(), BTreeMap::new());
        Subnet { id, vpc, zone, free_addresses, ipv6: false, tags }
    }

    /// The choice for a balancer with IPv4 addresses that stands in these subnets.
    fn chosen(found: &[Subnet], present: &[&str]) -> Result<BTreeSet<String>, Complaint> {
        chosen_with(found, present, Ipv6::default())
    }

    fn chosen_with(found: &[Subnet], present: &[&str], ipv6: Ipv6) -> Result<BTreeSet<String>, Complaint> {
        super::chosen(found, None, &ids(present), ipv6)
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn one_roomy_subnet_of_each_zone_is_chosen() {
        let found = [subnet("b", "1", 7), subnet("c", "1", 8), subnet("a", "2", 100), subnet("d", "2", 100)];
        assert_eq!(chosen(&found, &[]).unwrap(), ids(&["a", "c"]));
    }

    #[test]
    fn a_balancer_stays_where_it_stands() {
        let found = [subnet("a", "1", 100), subnet("b", "1", 0), subnet("c", "2", 100)];
        assert_eq!(chosen(&found, &["b", "c"]).unwrap(), ids(&["b", "c"]));
    }

    #[test]
    fn one_zone_is_too_few_and_two_vpcs_too_many() {
        let few = chosen(&[subnet("a", "1", 100), subnet("b", "1", 100)], &[]).unwrap_err();
        assert!(few.message.contains("spec.subnetSelector"), "{few:?}");
        let other = Subnet { vpc: "vpc-2".into(), ..subnet("b", "2", 100) };
        let found = [subnet("a", "1", 100), other];
        assert!(chosen(&found, &[]).unwrap_err().message.contains("vpcId"));
    }

    #[test]
    fn a_balancer_with_ipv6_stands_only_in_subnets_with_ipv6() {
        let six = |id: &str, zone: &str| Subnet { ipv6: true, ..subnet(id, zone, 100) };
        let found = [subnet("a", "1", 100), six("b", "1"), six("c", "2"), subnet("d", "3", 100)];
        let new = Ipv6 { wanted: true, present: false };
        assert_eq!(chosen_with(&found, &[], new).unwrap(), ids(&["b", "c"]));
        let serving = Ipv6 { wanted: true, present: true };
        assert_eq!(chosen_with(&found, &["b", "c"], serving).unwrap(), ids(&["b", "c"]), "another zone is not for it");
        assert_eq!(chosen_with(&found, &["a", "c"], serving).unwrap(), ids(&["a", "c"]), "AWS let it stand there");
        assert_eq!(chosen_with(&found, &["a", "c"], new).unwrap(), ids(&["b", "c"]), "it moves within the zone");
        assert_eq!(chosen(&found, &["a", "c"]).unwrap(), ids(&["a", "c", "d"]), "IPv4 does anywhere");
        let stands = chosen_with(&found, &["b", "c", "d"], new).unwrap();
        assert_eq!(stands, ids(&["b", "c", "d"]), "AWS refuses the type, and nothing else waits");
        let message = chosen_with(&found[..2], &[], new).unwrap_err().message;
        assert!(message.contains("1 of the 2 subnets") && message.contains("(1 have no IPv6 CIDR block)"), "{message}");
    }
}
