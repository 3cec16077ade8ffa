//! Decides what to do when an object has been deleted. An invalid spec never blocks it.

use causeway_api::{DeletionPolicy, MyIngress};
use causeway_aws::elbv2::{ListenerSettings, Pairs, RuleAction};
use causeway_runtime::{ActionEvent, Cause, Removal};

use super::{balancer, groups, security};
use crate::action::{Action, BalancerAction, ListenerAction};
use crate::members::key;
use crate::model::{DELETION_PROTECTION, nothing_here, unprotects};
use crate::observe::facts::Observed;
use crate::ownership::member_tag;
use crate::region::assets::{GroupMember, Member};

/// How to clean up after a deleted object.
pub fn decide_removal(object: &MyIngress, observed: &Observed) -> Removal<Action> {
    let mut removal = Removal { actions: Vec::new(), final_event: None };
    if let Some(lost) = &observed.disowned {
        let note = format!("Left load balancer {} in AWS: its tags no longer name this object", lost.name);
        removal.final_event = Some(ActionEvent::normal("LeftAlone", note));
    }
    if !observed.members.is_deserted() {
        // Other members still need the balancer. Only the parts of this member are removed.
        leave(object, observed, &mut removal);
        return removal;
    }
    if observed.members.is_guest(&key(object)) {
        // The last member at home has decided what becomes of the balancer, with all that is on it.
        return removal;
    }
    let unbind = (!observed.bound.is_empty()).then(|| Action::Bind(Vec::new()));
    if object.spec.deletion_policy == DeletionPolicy::Retain {
        removal.actions.extend(unbind);
        let balancers = observed.assets.balancers.values();
        let names: Vec<&str> = balancers.map(|member| member.balancer.name.as_str()).collect();
        let note = format!("Left load balancer {} in AWS, as spec.deletionPolicy says", names.join(", "));
        removal.final_event = (!names.is_empty()).then(|| ActionEvent::normal("Retained", note));
        return removal;
    }
    let unprotect = unprotects(&object.spec);
    for member in observed.assets.balancers.values() {
        let protected = member.attributes.as_ref().and_then(|attributes| attributes.get(DELETION_PROTECTION));
        if unprotect && protected.map(String::as_str) == Some("true") {
            removal.actions.push(Action::Balancer(BalancerAction::SetAttributes {
                arn: member.balancer.arn.clone(),
                attributes: Pairs::from([(DELETION_PROTECTION.into(), "false".into())]),
            }));
        }
        removal.actions.push(balancer::delete(observed, member));
    }
    // While AWS refuses to delete a balancer, such as a protected one, its targets follow their pods.
    removal.actions.extend(unbind);
    let free = observed.assets.groups.values().filter(|member| user(observed, member).is_none());
    removal.actions.extend(free.map(|member| groups::delete(observed, member)));
    if observed.disowned.is_some() {
        // A balancer that is not ours any more has the security group as long as it is there.
        return removal;
    }
    // AWS does not delete a security group that a rule of another group refers to.
    removal.actions.extend(observed.assets.entries_of(&observed.owner).map(Action::shut_out));
    removal.actions.extend(observed.assets.security_groups.values().map(security::delete));
    removal
}

/// Reports whether the balancer stays in AWS although its last object is deleted.
pub fn retains(object: &MyIngress, observed: &Observed) -> bool {
    object.metadata.deletion_timestamp.is_some()
        && observed.members.is_deserted()
        && !observed.members.is_guest(&key(object))
        && object.spec.deletion_policy == DeletionPolicy::Retain
}

/// Removes the rules of one member, then its target groups. A default action that forwards to one of these groups is
/// replaced as well, for there may be no other member that could change it.
fn leave(object: &MyIngress, observed: &Observed, removal: &mut Removal<Action>) {
    let (tag, value) = member_tag(&key(object));
    let is_mine = |tags: &Pairs| observed.owner.owns(tags) && tags.get(&tag) == Some(&value);
    let of_guest = observed.members.is_guest(&key(object));
    for member in observed.assets.balancers.values() {
        removal.actions.extend(rules_of(member, of_guest, &is_mine).map(Action::Listener));
        removal.actions.extend(defaults_of(member, observed, &is_mine).map(Action::Listener));
    }
    let mine: Vec<&GroupMember> = observed.assets.groups.values().filter(|member| is_mine(&member.tags)).collect();
    let left = |arn: &String| !mine.iter().any(|member| member.group.arn == *arn);
    if !mine.is_empty() {
        let bound =
            observed.bound.iter().filter(|binding| binding.group_arn.as_ref().is_none_or(left)).cloned().collect();
        removal.actions.push(Action::Bind(bound));
    }
    let free = mine.into_iter().filter(|member| user(observed, member).is_none());
    removal.actions.extend(free.map(|member| groups::delete(observed, member)));
}

/// The balancer that is not the owner's any more, if it forwards to this target group. AWS does not delete the group
/// before that ends.
fn user<'a>(observed: &'a Observed, member: &GroupMember) -> Option<&'a String> {
    let lost = &observed.disowned.as_ref()?.arn;
    member.group.balancers.contains(lost).then_some(lost)
}

/// Returns the resource in AWS that another owner must release before the rest of a deleted object can be removed.
pub fn removal_waits_for(object: &MyIngress, observed: &Observed) -> Option<Cause> {
    let deserted = observed.members.is_deserted();
    if retains(object, observed) || deserted && observed.members.is_guest(&key(object)) {
        return None;
    }
    let (tag, value) = member_tag(&key(object));
    let concerned = |member: &&GroupMember| deserted || member.tags.get(&tag) == Some(&value);
    let groups = observed.assets.groups.values().filter(concerned);
    let mut used =
        groups.filter_map(|member| Some((format!("target group {}", member.group.name), user(observed, member)?)));
    let lost = observed.disowned.as_ref().filter(|_| deserted);
    let kept = || observed.assets.security_groups.values().next().zip(lost);
    let (part, balancer) = used.next().or_else(|| {
        let (group, lost) = kept()?;
        Some((format!("security group {} ({})", group.name, group.id), &lost.arn))
    })?;
    let (cluster, uid) = (&observed.owner.cluster.name, &observed.owner.uid);
    Some(Cause {
        reason: "OwnershipLost",
        message: format!(
            "{part} is in use by load balancer {balancer}, whose tags causeway.example.com/cluster and /uid do not name this \
             object, so it is left alone, and AWS deletes nothing that it uses: delete it (aws elbv2 delete-load-balancer \
             --load-balancer-arn {balancer}), or put its tags back ({cluster} and {uid}) to have it deleted"
        ),
    })
}

fn rules_of(
    member: &Member,
    of_guest: bool,
    is_mine: &impl Fn(&Pairs) -> bool,
) -> impl Iterator<Item = ListenerAction> {
    let listeners = member.listeners.iter().flat_map(|listeners| listeners.values());
    listeners.flat_map(move |listener| {
        let mut mine: Vec<_> = listener.rules.values().filter(|rule| is_mine(&rule.tags)).collect();
        // The last rule is deleted first, so no request falls through to another of these rules.
        mine.sort_by_key(|rule| std::cmp::Reverse(rule.rule.priority));
        mine.into_iter().map(move |rule| ListenerAction::DeleteRule {
            balancer: member.balancer.arn.clone(),
            listener: listener.listener.arn.clone(),
            port: listener.listener.settings.port,
            arn: rule.rule.arn.clone(),
            priority: rule.rule.priority,
            of_guest,
        })
    })
}

fn defaults_of(
    member: &Member,
    observed: &Observed,
    is_mine: &impl Fn(&Pairs) -> bool,
) -> impl Iterator<Item = ListenerAction> {
    let mine = |arn: &String| observed.assets.groups.get(arn).is_some_and(|group| is_mine(&group.tags));
    let listeners = member.listeners.iter().flat_map(|listeners| listeners.values());
    listeners.filter_map(move |it| {
        let present = &it.listener.settings;
        let forwards = present.default_actions.iter().flat_map(RuleAction::forwarded_to).any(mine);
        (forwards && observed.owner.owns(&it.tags)).then(|| ListenerAction::Modify {
            balancer: member.balancer.arn.clone(),
            arn: it.listener.arn.clone(),
            settings: ListenerSettings { default_actions: nothing_here(), ..present.clone() },
        })
    })
}
