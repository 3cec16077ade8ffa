//! Rules that cannot be made now, because AWS refused them or they wait for targets, and what stays as it is because of
//! them.

use std::collections::{BTreeMap, BTreeSet};

use causeway_api::MyIngress;
use causeway_aws::elbv2::RuleAction;

use super::{Listener, shifts};
use crate::decide::rules::Wanted;
use crate::members::key;
use crate::model::{ListenerModel, RuleModel};
use crate::ownership::{ObjectKey, member_of};
use crate::region::assets::{ListenerMember, RuleMember};

/// The wanted listener without the rules that cannot be made now.
pub(super) struct Reduced {
    /// The listener without them.
    pub listener: ListenerModel,
    /// The rules that were left out.
    left_out: Vec<RuleModel>,
    /// The members that the rules belong to that were left out.
    pub members: BTreeSet<ObjectKey>,
    /// Those of the members that lack a new rule: no present rule has its conditions.
    pub new: BTreeSet<ObjectKey>,
    /// Present rules of the group's own namespace that stay as they are.
    pub kept: BTreeSet<String>,
}

impl Reduced {
    /// Reports whether a rule of that member with the conditions of this one was left out.
    fn lacks(&self, member: &ObjectKey, rule: &RuleMember) -> bool {
        let same = |it: &RuleModel| it.member == *member && it.settings.conditions == rule.rule.settings.conditions;
        self.left_out.iter().any(same)
    }
}

impl Listener<'_> {
    /// The wanted listener without the rules that AWS refused, those that need a refused target group, new ones that wait
    /// for targets, and those of a group's member whose priority is taken; `None` where there are none, and nothing waits.
    fn without_refused(&self, member: &ListenerMember) -> Option<Reduced> {
        let aside = &self.scene.aside;
        let groupless = |rule: &RuleModel| {
            let mut named = rule.settings.actions.iter().flat_map(RuleAction::forwarded_to);
            named.any(|name| !self.arns.contains_key(name.as_str()) && aside.holds_group(name))
        };
        let refused = |rule: &RuleModel, own: Option<&RuleMember>| {
            let held = self.rule(rule, own).is_some_and(|it| aside.holds_rule(&member.listener.arn, &it.settings));
            let waits = own.is_none() && self.waiting.of_rule(rule).is_some();
            held || waits || groupless(rule) || self.priority_holder(rule, member).is_some()
        };
        let all = self.wanted.rules.iter().zip(self.own(member));
        let (left_out, rules): (Vec<_>, Vec<_>) = all.partition(|(rule, own)| refused(rule, *own));
        let mut members: BTreeSet<ObjectKey> = left_out.iter().map(|(rule, _)| rule.member.clone()).collect();
        members.extend(self.waiting.members().cloned());
        members.extend(self.waiting.of_default().and_then(|_| self.setter()));
        let lacks = left_out.iter().filter(|(_, own)| own.is_none());
        let new = lacks.map(|(rule, _)| rule.member.clone()).collect();
        let left_out = left_out.iter().map(|(rule, _)| (*rule).clone()).collect();
        let rules: Vec<RuleModel> = rules.into_iter().map(|(rule, _)| rule.clone()).collect();
        let listener = ListenerModel { rules, ..self.wanted.clone() };
        (!members.is_empty()).then(|| Reduced { listener, left_out, members, new, kept: BTreeSet::new() })
    }

    /// The wanted listener without the rules that cannot be made now, and what stays because of them; `None` where all
    /// can be made. A rule that asks for the number of one that stays cannot be made either.
    pub(super) fn reduced(&self, member: &ListenerMember) -> Option<Reduced> {
        let mut reduced = self.without_refused(member)?;
        loop {
            reduced.kept = self.with(&reduced.listener).unmatched(member, &reduced);
            let numbers: BTreeSet<u16> =
                reduced.kept.iter().filter_map(|arn| member.rules.get(arn)).map(|it| it.rule.priority).collect();
            let clashes = |rule: &RuleModel| rule.priority.is_some_and(|priority| numbers.contains(&priority));
            let clashing: Vec<RuleModel> = reduced.listener.rules.extract_if(.., |rule| clashes(rule)).collect();
            if clashing.is_empty() {
                return Some(reduced);
            }
            let is_new = |rule: &&RuleModel| {
                let mut own = member.rules.values().filter(|it| self.is_ours(it));
                !own.any(|it| it.rule.settings.conditions == rule.settings.conditions)
            };
            reduced.new.extend(clashing.iter().filter(is_new).map(|rule| rule.member.clone()));
            reduced.members.extend(clashing.iter().map(|rule| rule.member.clone()));
            reduced.left_out.extend(clashing);
        }
    }

    /// The rule that has the priority of a wanted one and may not be changed. Outside of a group that is a complaint
    /// about the object, and nothing is done.
    fn priority_holder<'m>(&self, rule: &RuleModel, member: &'m ListenerMember) -> Option<&'m RuleMember> {
        let wanted = rule.priority.filter(|_| self.scene.observed.members.grouped)?;
        member.rules.values().find(|it| it.rule.priority == wanted && !self.is_ours(it))
    }

    /// Explains what keeps a rule of the object from having its priority. If a rule of its own stays because of
    /// something refused, that is reported instead.
    pub(super) fn trouble(&self, object: &ObjectKey, member: &ListenerMember) -> Option<String> {
        let is_own = |it: &RuleMember| self.kept.contains(&it.rule.arn) && member_of(&it.tags).as_ref() == Some(object);
        let mut own = self.wanted.rules.iter().filter(|rule| rule.member == *object);
        let (rule, by) =
            own.find_map(|rule| Some((rule, self.priority_holder(rule, member).filter(|by| !is_own(by))?)))?;
        let owns = self.scene.observed.owner.owns(&by.tags);
        let whose = if owns { "of a member that is left out" } else { "which Causeway does not own" };
        let RuleModel { field, priority, .. } = rule;
        let priority = priority.unwrap_or_default();
        Some(format!("{field}.priority: priority {priority} is taken by {}, {whose}: choose another one", by.rule.arn))
    }

    /// Reports whether the default action stays as it is while these members lack new rules. It may answer the requests
    /// that these rules are for, and a new one would answer them otherwise. What another member sets applies
    /// nevertheless.
    pub(super) fn default_waits_for(&self, lacking: &BTreeSet<ObjectKey>) -> bool {
        let at_home = || lacking.iter().any(|member| !self.scene.is_guest(member));
        self.setter().map_or_else(at_home, |setter| lacking.contains(&setter))
    }

    /// The member that sets the default action.
    pub(super) fn setter(&self) -> Option<ObjectKey> {
        let observed = self.scene.observed;
        let sets = |object: &&MyIngress| {
            let mut listeners = object.spec.listeners.iter();
            !observed.built.complaints.contains_key(&key(object))
                && listeners.any(|it| it.port == self.port && it.default_action.is_some())
        };
        observed.members.active().into_iter().find(sets).map(key)
    }

    /// Our rules at home that stay because something of their members was left out. Rules of guests do not keep their
    /// positions (see `with_guests`).
    fn unmatched(&self, member: &ListenerMember, reduced: &Reduced) -> BTreeSet<String> {
        let becoming = self.becoming(member);
        // Outside of a group no tag says which object a rule belongs to.
        let concerned = |rule: &RuleMember| {
            member_of(&rule.tags)
                .is_none_or(|member| reduced.members.contains(&member) && !self.scene.is_guest(&member))
        };
        // One with the same conditions that asks for its number answers the same requests. It comes only if the rule's own
        // member does not want these conditions any more.
        let replaced = |it: &RuleMember| {
            let (priority, conditions) = (Some(it.rule.priority), &it.rule.settings.conditions);
            let mut wanted = self.wanted.rules.iter();
            wanted.any(|it| it.priority == priority && it.settings.conditions == *conditions)
                && !member_of(&it.tags).is_some_and(|member| reduced.lacks(&member, it))
        };
        let stays = |rule: &RuleMember| {
            self.is_ours(rule) && concerned(rule) && self.stays(rule, &becoming, reduced) && !replaced(rule)
        };
        member.rules.iter().filter(|(_, rule)| stays(rule)).map(|(arn, _)| arn.clone()).collect()
    }

    /// Reports whether a rule of a member of which something was left out stays as it is. It becomes another member's
    /// only if its own member does not want its conditions any more: otherwise a broader rule of that member might
    /// answer its requests, perhaps without its log-in.
    pub(super) fn stays(&self, rule: &RuleMember, becoming: &BTreeMap<&str, usize>, reduced: &Reduced) -> bool {
        let Some(wanted) = becoming.get(rule.rule.arn.as_str()).map(|index| &self.wanted.rules[*index].member) else {
            return true;
        };
        // Outside of a group no tag says which object a rule belongs to.
        let other = member_of(&rule.tags).filter(|member| member != wanted);
        other.is_some_and(|member| reduced.lacks(&member, rule)) && !self.is_anothers(rule, becoming)
    }

    /// Reports whether the rule was made another member's already, all but its tags: where the quota has no room,
    /// present rules are changed into new ones, and a process may end in between.
    pub(super) fn is_anothers(&self, rule: &RuleMember, becoming: &BTreeMap<&str, usize>) -> bool {
        let Some(wanted) = becoming.get(rule.rule.arn.as_str()).map(|index| &self.wanted.rules[*index]) else {
            return false;
        };
        let is_there = |wanted: Wanted| shifts::are_same(&wanted.settings.actions, &rule.rule.settings.actions);
        let other = member_of(&rule.tags).is_some_and(|member| member != wanted.member);
        other && self.rule(wanted, Some(rule)).is_some_and(is_there)
    }
}
