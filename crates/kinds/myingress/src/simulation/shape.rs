//! The resources of an owner in AWS, without what may differ between two ways to get there: ARNs, names with a hash,
//! numbers.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::myingress::Scheme;
use causeway_aws::ec2::Permission;
use causeway_aws::elbv2::{Condition, GroupKind, HealthCheck, ListenerSettings, Pairs, RuleAction, Transform};

use super::aws;
use super::drift::FOREIGN_TAG;
use crate::model::{Model, SecurityModel, SubnetsModel, everywhere_by_ipv6};
use crate::ownership::Owner;
use crate::region::assets::{Assets, ListenerMember};

/// The owner's resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub balancers: Vec<BalancerShape>,
    pub groups: BTreeMap<String, (Option<GroupKind>, Option<HealthCheck>, Pairs, Pairs)>,
    /// With inbound and outbound rules, and tags.
    pub security_groups: Vec<(String, BTreeSet<Permission>, BTreeSet<Permission>, Pairs)>,
    /// Security groups that let ours in, and the descriptions of the rules.
    pub let_in_by: BTreeSet<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BalancerShape {
    pub scheme: Option<Scheme>,
    /// Subnets by id, or their zones if the operator chose them.
    pub subnets: BTreeSet<String>,
    /// Security groups by id, or by name if they are ours.
    pub security_groups: BTreeSet<String>,
    pub tags: Pairs,
    pub attributes: Pairs,
    pub web_acl: Option<String>,
    pub capacity: Option<u32>,
    pub listeners: BTreeMap<u16, ListenerShape>,
}

/// Conditions, rewrites, actions and tags.
type RuleShape = (BTreeSet<Condition>, Vec<Transform>, Vec<RuleAction>, Pairs);

#[derive(Clone, Debug, PartialEq)]
pub struct ListenerShape {
    pub settings: ListenerSettings,
    pub certificates: BTreeSet<String>,
    pub attributes: Pairs,
    pub tags: Pairs,
    /// Rules in the order of their evaluation.
    pub rules: Vec<RuleShape>,
}

impl Shape {
    /// The shape of an owner with this model. What the model leaves to AWS does not count.
    pub fn new(owner: &Owner, assets: &Assets, model: Option<&Model>) -> Self {
        let own = assets.owned_by(owner);
        let named = |actions: &[RuleAction]| actions.iter().map(|action| by_name(action, &own)).collect::<Vec<_>>();
        let left_to_aws = model.is_some_and(|it| it.balancer.security == SecurityModel::Default);
        let chosen = model.is_some_and(|it| matches!(it.balancer.subnets, SubnetsModel::Tagged { .. }));
        let relevant = |tags: &Pairs| -> Pairs {
            let ours = tags.iter().filter(|(key, _)| *key != FOREIGN_TAG);
            ours.map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let security_group = |id: &String| own.security_groups.get(id).map_or(id, |group| &group.name).clone();
        let listener = |member: &ListenerMember| {
            let mut rules: Vec<_> = member.rules.values().filter(|rule| owner.owns(&rule.tags)).collect();
            rules.sort_by_key(|rule| rule.rule.priority);
            let settings = |rule: &&crate::region::assets::RuleMember| {
                let settings = &rule.rule.settings;
                let actions = named(&settings.actions);
                (settings.conditions.clone(), settings.transforms.clone(), actions, relevant(&rule.tags))
            };
            let present = &member.listener.settings;
            let policy_left = model
                .and_then(|model| model.listeners.get(&present.port))
                .is_some_and(|listener| listener.ssl_policy.is_none());
            let shape = ListenerShape {
                settings: ListenerSettings {
                    default_actions: named(&present.default_actions),
                    ssl_policy: present.ssl_policy.clone().filter(|_| !policy_left),
                    ..present.clone()
                },
                certificates: member.certificates.clone(),
                attributes: member.attributes.clone().unwrap_or_default(),
                tags: relevant(&member.tags),
                rules: rules.iter().map(settings).collect(),
            };
            (present.port, shape)
        };
        let balancers = own.balancers.values().map(|member| BalancerShape {
            scheme: member.balancer.scheme,
            subnets: if chosen {
                // The balancer keeps its subnets, one in each zone, so only zones are compared.
                aws::subnets()
                    .into_iter()
                    .filter(|it| member.balancer.subnets.contains(&it.id))
                    .map(|it| it.zone)
                    .collect()
            } else {
                member.balancer.subnets.clone()
            },
            security_groups: if left_to_aws {
                BTreeSet::new()
            } else {
                member.balancer.security_groups.iter().map(security_group).collect()
            },
            tags: relevant(&member.tags),
            attributes: in_force(member.attributes.as_ref()),
            web_acl: member.web_acl.clone().flatten(),
            capacity: member.capacity.flatten(),
            listeners: {
                let ours = member.listeners.iter().flat_map(|it| it.values()).filter(|it| owner.owns(&it.tags));
                ours.map(listener).collect()
            },
        });
        let groups = own.groups.values().map(|member| {
            let group = &member.group;
            let attributes = in_force(member.attributes.as_ref());
            let shape = (group.kind.clone(), group.health_check.clone(), attributes, relevant(&member.tags));
            (group.name.clone(), shape)
        });
        let security_groups = own.security_groups.values().filter(|_| !left_to_aws);
        let entries = own.entries.iter().filter(|_| !left_to_aws);
        Self {
            let_in_by: entries.map(|entry| (entry.group.clone(), entry.description.clone())).collect(),
            balancers: balancers.collect(),
            groups: groups.collect(),
            security_groups: security_groups
                .map(|group| {
                    // One that AWS or a former spec has added stays.
                    let egress = group.egress.iter().filter(|it| **it != everywhere_by_ipv6()).cloned().collect();
                    (group.name.clone(), group.ingress.clone(), egress, relevant(&group.tags))
                })
                .collect(),
        }
    }
}

/// The attributes without those that have no default to go back to, where nothing uses them.
fn in_force(attributes: Option<&Pairs>) -> Pairs {
    let mut attributes = attributes.cloned().unwrap_or_default();
    for (key, switch, on) in [
        ("access_logs.s3.bucket", "access_logs.s3.enabled", "true"),
        ("stickiness.app_cookie.cookie_name", "stickiness.type", "app_cookie"),
    ] {
        if attributes.get(switch).map(String::as_str) != Some(on) {
            attributes.remove(key);
        }
    }
    attributes
}

fn by_name(action: &RuleAction, assets: &Assets) -> RuleAction {
    match action {
        RuleAction::Forward { groups, stickiness } => {
            let name = |arn: &String| assets.groups.get(arn).map_or(arn, |member| &member.group.name).clone();
            let groups = groups.iter().map(|(arn, weight)| (name(arn), *weight)).collect();
            RuleAction::Forward { groups, stickiness: *stickiness }
        }
        other => other.clone(),
    }
}

/// Fails with the lines that differ.
pub fn assert_same(found: &Shape, expected: &Shape) {
    let (found, expected) = (format!("{found:#?}"), format!("{expected:#?}"));
    let missing = expected.lines().filter(|line| !found.contains(line));
    let surplus = found.lines().filter(|line| !expected.contains(line));
    let differing: Vec<String> =
        missing.map(|line| format!("missing: {line}")).chain(surplus.map(|line| format!("surplus: {line}"))).collect();
    assert!(found == expected, "{}\n{found}", differing.join("\n"));
}

/// Everything that belongs to none of these owners: whole resources, and single listeners and rules on balancers of
/// these owners.
pub fn foreign(owners: &[Owner], assets: &Assets) -> (Assets, Vec<(String, String)>) {
    let theirs = |tags: &Pairs| !owners.iter().any(|owner| owner.owns(tags));
    let mut whole = assets.clone();
    whole.balancers.retain(|_, member| theirs(&member.tags));
    whole.groups.retain(|_, member| theirs(&member.tags));
    whole.security_groups.retain(|_, group| theirs(&group.tags));
    whole.entries.retain(|entry| assets.security_groups.get(&entry.from).is_none_or(|group| theirs(&group.tags)));
    let mut parts = Vec::new();
    for member in assets.balancers.values().filter(|member| !theirs(&member.tags)) {
        for (arn, listener) in member.listeners.iter().flatten() {
            if theirs(&listener.tags) {
                parts.push((arn.clone(), format!("{listener:?}")));
            }
            let rules = listener.rules.iter().filter(|(_, rule)| theirs(&rule.tags));
            parts.extend(rules.map(|(arn, rule)| (arn.clone(), format!("{rule:?}"))));
        }
    }
    (whole, parts)
}
