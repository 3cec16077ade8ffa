//! Decides what to do when an object has been deleted. An invalid spec never blocks it.

use super::{balancer, groups, security};
use crate::api::{DeletionPolicy, MyIngress};
use crate::controllers::myingress::action::{Action, BalancerAction, ListenerAction};
use crate::controllers::myingress::assets::{GroupMember, Member};
use crate::controllers::myingress::facts::Observed;
use crate::controllers::myingress::members::key;
use crate::controllers::myingress::model::{DELETION_PROTECTION, nothing_here, unprotects};
use crate::controllers::myingress::ownership::member_tag;
use crate::external::elbv2::{ListenerSettings, Pairs, RuleAction};
use crate::runtime::{ActionEvent, Removal};

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
    if !observed.bound.is_empty() {
        removal.actions.push(Action::Bind(Vec::new()));
    }
    if object.spec.deletion_policy == DeletionPolicy::Retain {
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
    removal.actions.extend(observed.assets.groups.values().map(|member| groups::delete(observed, member)));
    // AWS does not delete a security group that a rule of another group refers to.
    removal.actions.extend(observed.assets.entries_of(&observed.owner).map(Action::shut_out));
    removal.actions.extend(observed.assets.security_groups.values().map(security::delete));
    removal
}

/// Whether the balancer stays in AWS although its last object is deleted.
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
    removal.actions.extend(mine.into_iter().map(|member| groups::delete(observed, member)));
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
