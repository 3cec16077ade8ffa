//! Target groups, and which backends their targets follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_api::MyIngress;
use causeway_api::myingress::Scheme;
use causeway_aws::elbv2::{GroupKind, HealthCheck, NewTargetGroup, Pairs, Protocol, RuleAction};

use super::attributes::drifted;
use super::followed::{backend_tag, remembered};
use super::tags::stale;
use super::{Scene, differing};
use crate::action::predicted::PredictedAws;
use crate::action::{Action, GroupAction};
use crate::members::{Members, key};
use crate::model::{GroupModel, Model, default_group_attributes};
use crate::observe::facts::Observed;
use crate::ownership::names::TargetGroupIdentity;
use crate::ownership::{Owner, member_of};
use crate::region::assets::{Assets, GroupMember, Member};
use crate::targets::{Backend, Binding, CheckPort, Endpoints, Wanted};

/// AWS's name of the time for which a target that is deregistered still answers requests in flight.
const DEREGISTRATION_DELAY: &str = "deregistration_delay.timeout_seconds";

/// Creates target groups and repairs them.
pub fn plan(scene: &Scene, current: &Member, actions: &mut Vec<Action>) {
    for (name, wanted) in &scene.model.groups {
        let mut tags = scene.tags(Some(&wanted.member));
        let kind = kind(wanted, current);
        let member = scene.observed.assets.group_named(name);
        let former = member.and_then(|member| former(scene, current, wanted, member));
        tags.extend([backend_tag(former.as_ref().unwrap_or(&wanted.backend))]);
        let health_check = health_check(scene, name, wanted, member.and_then(|it| it.group.health_check.as_ref()));
        let Some(member) = member else {
            let new = NewTargetGroup { name: name.clone(), kind, health_check, tags };
            actions.push(Action::Group(GroupAction::Create(new)));
            continue;
        };
        let (arn, name) = (|| member.group.arn.clone(), || name.clone());
        if member.group.health_check.as_ref() != Some(&health_check) {
            let check = health_check;
            actions.push(Action::Group(GroupAction::SetHealthCheck { arn: arn(), name: name(), kind, check }));
        }
        let defaults = default_group_attributes();
        let default = |key: &str| defaults.get(key).map(String::as_str);
        let attributes = member.attributes.as_ref().map(|present| drifted(&wanted.attributes, present, default));
        if let Some(attributes) = attributes.filter(|it| !it.is_empty()) {
            actions.push(Action::Group(GroupAction::SetAttributes { arn: arn(), name: name(), attributes }));
        }
        let keys = stale(scene, &tags, &member.tags);
        if !keys.is_empty() {
            actions.push(Action::Group(GroupAction::RemoveTags { arn: arn(), name: name(), keys }));
        }
        let tags = differing(&tags, &member.tags);
        if !tags.is_empty() {
            actions.push(Action::Group(GroupAction::AddTags { arn: arn(), name: name(), tags }));
        }
    }
}

/// Deletes target groups that are in another VPC than the balancer, because they were made for a former one. A listener
/// forwards only to target groups of its balancer's VPC, and a group cannot move. The group that takes its place has
/// the same name, so it cannot be created before.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/create-target-group.html>
pub fn misplaced(scene: &Scene, current: &Member) -> Vec<Action> {
    let observed = scene.observed;
    let elsewhere = observed.assets.groups.values().filter(|member| {
        scene.model.groups.contains_key(&member.group.name)
            && vpc(member).is_some_and(|vpc| vpc != current.balancer.vpc)
            && !member.group.balancers.iter().any(|arn| observed.assets.balancers.contains_key(arn))
    });
    elsewhere.map(|member| delete(observed, member)).collect()
}

/// The health check of a target group. The number of a named port comes from the cluster. While the cluster does not
/// say it, the number stays as it is.
fn health_check(scene: &Scene, name: &str, wanted: &GroupModel, present: Option<&HealthCheck>) -> HealthCheck {
    let mut check = wanted.health_check.clone();
    if wanted.backend.check.is_some() {
        let before = present.and_then(|it| it.port);
        check.port = match scene.observed.endpoints.get(name) {
            Some(Endpoints::Known(Wanted { check: CheckPort::Is(number), .. })) => Some(*number),
            Some(Endpoints::Known(Wanted { check: CheckPort::Differs(numbers), .. })) => {
                before.filter(|it| numbers.contains(it)).or_else(|| numbers.first().copied())
            }
            _ => before,
        };
    }
    check
}

/// Moves the actions that enable target stickiness behind the rule changes: where several groups share requests, AWS
/// requires group stickiness first. Actions that it would refuse even then wait: the rules enable group stickiness only
/// once all their groups are there and checked. Disabling both already happens in the reverse order.
pub fn stick_last(scene: &Scene, current: &Member, actions: &mut Vec<Action>) {
    let (late, mut sorted): (Vec<_>, Vec<_>) = actions.drain(..).partition(|action| made_sticky(action).is_some());
    if !late.is_empty() {
        let shared = shared_without_stickiness(scene, current, &sorted);
        sorted.extend(late.into_iter().filter(|action| made_sticky(action).is_none_or(|arn| !shared.contains(arn))));
    }
    *actions = sorted;
}

/// The group whose target stickiness the action enables.
fn made_sticky(action: &Action) -> Option<&String> {
    let Action::Group(GroupAction::SetAttributes { arn, attributes, .. }) = action else { return None };
    attributes.get("stickiness.enabled").filter(|it| *it == "true").map(|_| arn)
}

/// The groups that still share requests with others, in an action of ours without group stickiness, after these
/// changes. Whether AWS counts a group of weight 0 is not known, so each counts, as in the model.
fn shared_without_stickiness(scene: &Scene, current: &Member, actions: &[Action]) -> BTreeSet<String> {
    let owner = &scene.observed.owner;
    let mut after = scene.observed.assets.clone();
    let mut aws = PredictedAws::default();
    actions.iter().filter(|it| matches!(it, Action::Listener(_))).for_each(|it| aws.enter(&mut after, &[], it));
    let listeners = after.balancers.get(&current.balancer.arn).and_then(|member| member.listeners.as_ref());
    let listeners = listeners.into_iter().flat_map(BTreeMap::values);
    let all = listeners.flat_map(move |member| {
        let rules = member.rules.values().filter(move |rule| owner.owns(&rule.tags));
        let default = owner.owns(&member.tags).then_some(&member.listener.settings.default_actions);
        rules.map(|rule| &rule.rule.settings.actions).chain(default).flatten()
    });
    let wander = |action: &&RuleAction| match action {
        RuleAction::Forward { groups, stickiness } => groups.len() > 1 && stickiness.is_none(),
        _ => false,
    };
    all.filter(wander).flat_map(RuleAction::forwarded_to).cloned().collect()
}

fn kind(wanted: &GroupModel, current: &Member) -> GroupKind {
    GroupKind {
        vpc: current.balancer.vpc.clone(),
        target_type: wanted.target_type,
        protocol: wanted.protocol,
        version: wanted.version,
        // Every target is registered with a port of its own.
        port: match wanted.protocol {
            Protocol::Http => 80,
            Protocol::Https => 443,
        },
        ipv6: wanted.backend.ipv6,
        control_port: wanted.control_port,
    }
}

/// The bindings that can be made before anything else is known. So after a restart, targets wait neither for listeners
/// and rules to be read nor for a mistake in a spec to be corrected. Groups that no valid spec wants follow the backend
/// that their tag names.
pub fn bindings(model: Option<&Model>, members: &Members, owner: &Owner, assets: &Assets) -> Vec<Binding> {
    // After the last member at home, no member owns the rest in AWS.
    if members.is_deserted() {
        return Vec::new();
    }
    let groups = assets.groups.values().filter(|member| !stands_still(members, &member.tags));
    groups.filter_map(|member| first_binding(model, members, owner, member)).collect()
}

/// Returns the first binding of a target group after a restart: to the backend of the spec, and to the former one that
/// its tag names.
fn first_binding(model: Option<&Model>, members: &Members, owner: &Owner, member: &GroupMember) -> Option<Binding> {
    let before = remembered(owner, members.grouped, member);
    if let Some(wanted) = model.and_then(|model| binding(model, members, member)) {
        let former = before.filter(|before| is_another(before, &wanted.backend));
        return Some(Binding { former, ..wanted });
    }
    Some(Binding {
        group_arn: Some(member.group.arn.clone()),
        vpc: vpc(member),
        backend: before?,
        former: None,
        created: false,
        owners: members.all_keys(),
    })
}

fn binding(model: &Model, members: &Members, member: &GroupMember) -> Option<Binding> {
    let wanted = model.groups.get(&member.group.name)?;
    // Two members can find names of backends that make the names of their groups alike. Until the tags name the member,
    // the group may serve another one.
    if members.grouped && member_of(&member.tags).is_some_and(|it| it != wanted.member) {
        return None;
    }
    Some(Binding {
        group_arn: Some(member.group.arn.clone()),
        vpc: vpc(member),
        backend: wanted.backend.clone(),
        former: None,
        created: member.fresh,
        owners: members.all_keys(),
    })
}

/// Reports whether these are other ports of Services, or other nodes.
fn is_another(one: &Backend, other: &Backend) -> bool {
    let named = |it: &Backend| (it.namespace.clone(), it.service.clone(), it.port.clone(), it.nodes.clone());
    named(one) != named(other)
}

/// The backend that a target group followed before the spec named another one for it, while requests need its targets:
/// until a target of the new one is healthy. The group's tag names it until then.
pub fn former(scene: &Scene, current: &Member, wanted: &GroupModel, member: &GroupMember) -> Option<Backend> {
    let observed = scene.observed;
    if observed.members.grouped && member_of(&member.tags).is_some_and(|it| it != wanted.member) {
        return None;
    }
    let former = remembered(&observed.owner, observed.members.grouped, member);
    let former = former.filter(|former| is_another(former, &wanted.backend))?;
    let new = match observed.endpoints.get(&member.group.name) {
        Some(Endpoints::Known(wanted)) => wanted.targets.len(),
        _ => 0,
    };
    // Until it is bound to the new one, its own targets are those of the former one.
    let bound = observed.bound.iter().find(|it| it.group_arn.as_ref() == Some(&member.group.arn));
    let follows = new > 0 && bound.is_some_and(|it| !is_another(&it.backend, &wanted.backend));
    let needed = observed.summaries.get(&member.group.arn).is_none_or(|summary| {
        let serves = summary.healthy > 0 || !summary.known || summary.registered > 0 && new == 0;
        (summary.own == 0 || !follows) && serves
    });
    let used = current.listeners.is_none() || used_by(current).any(|arn| *arn == member.group.arn);
    (needed && used).then_some(former)
}

fn vpc(member: &GroupMember) -> Option<String> {
    member.group.kind.as_ref().map(|kind| kind.vpc.clone())
}

/// The bindings that remain when the object is suspended: those of the other members of its group.
pub fn bindings_without(object: &MyIngress, bound: &[Binding], assets: &Assets) -> Vec<Binding> {
    let member = key(object);
    let is_its =
        |arn: &String| assets.groups.get(arn).is_some_and(|group| member_of(&group.tags).as_ref() == Some(&member));
    let stays = |binding: &&Binding| object.spec.group.is_some() && !binding.group_arn.as_ref().is_some_and(is_its);
    bound.iter().filter(stays).cloned().collect()
}

/// Reports whether a group belongs to a suspended member, so that even its targets stay as they are.
fn stands_still(members: &Members, tags: &Pairs) -> bool {
    let member = member_of(tags);
    members.suspended().any(|suspended| !members.grouped || member.as_ref() == Some(&suspended))
}

/// Binds each existing group to its backend. Groups of members with a mistake stay bound as they are; those of
/// suspended members are not bound. Groups that no member wants any more stay bound while requests still go to them.
pub fn bind(scene: &Scene, current: &Member, actions: &mut Vec<Action>) {
    let observed = scene.observed;
    let used: BTreeSet<&String> = used_by(current).collect();
    let mut wanted: Vec<Binding> = Vec::new();
    for (arn, member) in &observed.assets.groups {
        if stands_still(&observed.members, &member.tags) {
            continue;
        }
        if let Some(binding) = binding(scene.model, &observed.members, member) {
            let group = scene.model.groups.get(&member.group.name);
            let former = group.and_then(|group| former(scene, current, group, member));
            wanted.push(Binding { former, ..binding });
        } else if let Some(backend) = replaced(scene, current, member) {
            let (group_arn, owners) = (Some(arn.clone()), observed.members.all_keys());
            wanted.push(Binding { group_arn, vpc: vpc(member), backend, former: None, created: false, owners });
        } else if stays(scene, member) || used.contains(arn) {
            wanted.extend(observed.bound.iter().find(|binding| binding.group_arn.as_ref() == Some(arn)).cloned());
        }
    }
    // Requests still go to a group whose tags another client changed. Targets that are gone must not stay in it.
    let taken: BTreeSet<&String> = observed.taken_groups.values().collect();
    let is_taken = |binding: &&Binding| binding.group_arn.as_ref().is_some_and(|arn| taken.contains(arn));
    wanted.extend(observed.bound.iter().filter(is_taken).cloned());
    let same = |(a, b): (&Binding, &Binding)| {
        // `created` is not compared: it matters only when a group is first bound.
        (&a.group_arn, &a.backend, &a.former, &a.owners) == (&b.group_arn, &b.backend, &b.former, &b.owners)
    };
    if wanted.len() != observed.bound.len() || !wanted.iter().zip(&observed.bound).all(same) {
        actions.push(Action::Bind(wanted));
    }
}

/// Stops following groups that no longer belong to the owner.
pub fn unbind_others(observed: &Observed, actions: &mut Vec<Action>) {
    let is_ours =
        |binding: &&Binding| binding.group_arn.as_ref().is_none_or(|arn| observed.assets.groups.contains_key(arn));
    let kept: Vec<Binding> = observed.bound.iter().filter(is_ours).cloned().collect();
    if kept.len() < observed.bound.len() {
        actions.push(Action::Bind(kept));
    }
}

/// The backend that a group of a balancer being replaced goes on following: the old balancer serves until the new one
/// takes over.
fn replaced(scene: &Scene, current: &Member, member: &GroupMember) -> Option<Backend> {
    let observed = scene.observed;
    let old = observed.assets.balancers.values().filter(|it| it.balancer.arn != current.balancer.arn);
    if !old.flat_map(used_by).any(|arn| *arn == member.group.arn) {
        return None;
    }
    let scheme = match scene.model.balancer.scheme {
        Scheme::InternetFacing => Scheme::Internal,
        Scheme::Internal => Scheme::InternetFacing,
    };
    let grouped = observed.members.grouped;
    let former = |wanted: &&GroupModel| {
        if grouped && member_of(&member.tags).as_ref() != Some(&wanted.member) {
            return false;
        }
        let identity = TargetGroupIdentity {
            owner: &observed.owner,
            member: &wanted.member,
            backend: &wanted.backend_name,
            scheme,
            target_type: wanted.target_type,
            protocol: wanted.protocol,
            version: wanted.version,
            ipv6: wanted.backend.ipv6,
            control_port: wanted.control_port,
        };
        identity.name() == member.group.name
    };
    // Edits apply to the new balancer.
    if let Some(tagged) = remembered(&observed.owner, grouped, member) {
        return Some(tagged);
    }
    let known = || observed.bound.iter().find(|it| it.group_arn.as_ref() == Some(&member.group.arn));
    let backend = scene.model.groups.values().find(former).map(|wanted| &wanted.backend);
    backend.or_else(|| known().map(|binding| &binding.backend)).cloned()
}

/// Deletes groups that no spec wants and nothing forwards to, once they are drained. Returns how soon the next one is.
pub fn clear(scene: &Scene, current: &Member, actions: &mut Vec<Action>) -> Option<Duration> {
    let used = used(scene.observed);
    // Before its listeners are read, the groups that a balancer forwards to are not known.
    let unread = |arn: &String| scene.observed.assets.balancers.get(arn).is_some_and(|it| it.listeners.is_none());
    let surplus = scene.observed.assets.groups.values().filter(|member| {
        !scene.model.groups.contains_key(&member.group.name)
            && !stays(scene, member)
            && !used.contains(&member.group.arn)
            && !member.group.balancers.iter().any(unread)
            // A group that another balancer of the owner uses is removed after that balancer.
            && member.group.balancers.iter().all(|arn| *arn == current.balancer.arn || !scene.observed.assets.balancers.contains_key(arn))
    });
    let (drained, draining): (Vec<&GroupMember>, Vec<&GroupMember>) =
        surplus.partition(|member| drains_for(scene, member).is_zero());
    actions.extend(drained.into_iter().map(|member| delete(scene.observed, member)));
    draining.into_iter().map(|member| drains_for(scene, member)).min()
}

/// How long a group that nothing forwards to any more still stays, with its targets. AWS spreads a changed rule within
/// seconds, and answers 503 where it still sends to a group that is gone; requests in flight end with the group as well.
/// So it stays for the grace period, and for its own deregistration delay where that is not AWS's default.
/// <https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/3739>
fn drains_for(scene: &Scene, member: &GroupMember) -> Duration {
    let Some(since) = scene.observed.idle.get(&member.group.arn) else { return Duration::ZERO };
    let own = member.attributes.as_ref().and_then(|attributes| attributes.get(DEREGISTRATION_DELAY));
    let own = own.filter(|delay| default_group_attributes().get(DEREGISTRATION_DELAY) != Some(*delay));
    let own = own.and_then(|delay| delay.parse().ok()).map(Duration::from_secs).unwrap_or_default();
    let passed = Duration::try_from(scene.now.duration_since(*since)).unwrap_or_default();
    own.max(scene.observed.replacement_grace).saturating_sub(passed)
}

fn stays(scene: &Scene, member: &GroupMember) -> bool {
    scene.is_frozen(&member.tags)
}

/// ARNs of the groups that something forwards to.
fn used(observed: &Observed) -> BTreeSet<String> {
    observed.assets.balancers.values().flat_map(used_by).cloned().collect()
}

fn used_by(member: &Member) -> impl Iterator<Item = &String> {
    let listeners = member.listeners.iter().flat_map(|listeners| listeners.values());
    let actions = listeners.flat_map(|member| {
        let rules = member.rules.values().flat_map(|rule| &rule.rule.settings.actions);
        member.listener.settings.default_actions.iter().chain(rules)
    });
    actions.flat_map(RuleAction::forwarded_to)
}

/// Deletes a target group of the owner.
pub fn delete(observed: &Observed, member: &GroupMember) -> Action {
    Action::Group(GroupAction::Delete {
        owner: observed.owner.clone(),
        arn: member.group.arn.clone(),
        name: member.group.name.clone(),
    })
}
