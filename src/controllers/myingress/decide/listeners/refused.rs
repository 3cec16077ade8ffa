//! Rules that AWS refused, and what stays as it is because of them.

use std::collections::{BTreeMap, BTreeSet};

use super::Listener;
use crate::api::MyIngress;
use crate::controllers::myingress::assets::{ListenerMember, RuleMember};
use crate::controllers::myingress::members::key;
use crate::controllers::myingress::model::{ListenerModel, RuleModel};
use crate::controllers::myingress::ownership::{ObjectKey, member_of};
use crate::external::elbv2::RuleAction;

/// What is wanted without the rules that cannot be made now.
pub(super) struct Reduced {
    /// The listener without them.
    pub listener: ListenerModel,
    /// The members that they belong to.
    pub members: BTreeSet<ObjectKey>,
    /// Those of the members that lack a new rule: no present rule has its conditions.
    pub new: BTreeSet<ObjectKey>,
}

impl Listener<'_> {
    /// The wanted listener without the rules that AWS refused, those that need a refused target group, and those of a
    /// group's member whose priority is taken; `None` where there are none.
    pub(super) fn without_refused(&self, member: &ListenerMember) -> Option<Reduced> {
        let aside = &self.scene.aside;
        let groupless = |rule: &RuleModel| {
            let mut named = rule.settings.actions.iter().flat_map(RuleAction::forwarded_to);
            named.any(|name| !self.arns.contains_key(name.as_str()) && aside.holds_group(name))
        };
        let refused = |rule: &RuleModel, own: Option<&RuleMember>| {
            let held = self.rule(rule, own).is_some_and(|it| aside.holds_rule(&member.listener.arn, &it.settings));
            held || groupless(rule) || self.taken(rule, member).is_some()
        };
        let all = self.wanted.rules.iter().zip(self.own(member));
        let (left_out, rules): (Vec<_>, Vec<_>) = all.partition(|(rule, own)| refused(rule, *own));
        let members: BTreeSet<ObjectKey> = left_out.iter().map(|(rule, _)| rule.member.clone()).collect();
        let new = left_out.into_iter().filter(|(_, own)| own.is_none()).map(|(rule, _)| rule.member.clone()).collect();
        let rules: Vec<RuleModel> = rules.into_iter().map(|(rule, _)| rule.clone()).collect();
        (!members.is_empty()).then(|| Reduced {
            listener: ListenerModel { rules, ..self.wanted.clone() },
            members,
            new,
        })
    }

    /// The rule that has the priority of a wanted one and may not be changed. Outside of a group that is a complaint
    /// about the object, and nothing is done.
    fn taken<'m>(&self, rule: &RuleModel, member: &'m ListenerMember) -> Option<&'m RuleMember> {
        let wanted = rule.priority.filter(|_| self.scene.observed.members.grouped)?;
        member.rules.values().find(|it| it.rule.priority == wanted && !self.is_ours(it))
    }

    /// What keeps a rule of the object from having its priority.
    pub(super) fn trouble(&self, object: &ObjectKey, member: &ListenerMember) -> Option<String> {
        let mut own = self.wanted.rules.iter().filter(|rule| rule.member == *object);
        let (rule, by) = own.find_map(|rule| Some((rule, self.taken(rule, member)?)))?;
        let owns = self.scene.observed.owner.owns(&by.tags);
        let whose = if owns { "of a member that is left out" } else { "which Causeway does not own" };
        let RuleModel { field, priority, .. } = rule;
        let priority = priority.unwrap_or_default();
        Some(format!("{field}.priority: priority {priority} is taken by {}, {whose}: choose another one", by.rule.arn))
    }

    /// Whether the default action stays as it is while these members lack new rules. It may answer the requests that
    /// these rules are for, and a new one would answer them otherwise. What another member sets applies nevertheless.
    pub(super) fn default_waits_for(&self, lacking: &BTreeSet<ObjectKey>) -> bool {
        let observed = self.scene.observed;
        let sets = |object: &&MyIngress| {
            let mut listeners = object.spec.listeners.iter();
            !observed.built.complaints.contains_key(&key(object))
                && listeners.any(|it| it.port == self.port && it.default_action.is_some())
        };
        let setter = observed.members.active().into_iter().find(sets).map(key);
        let at_home = || lacking.iter().any(|member| !self.scene.is_guest(member));
        setter.map_or_else(at_home, |setter| lacking.contains(&setter))
    }

    /// Our rules of these members that become none of their wanted rules. If one became another member's, a broader
    /// rule might answer its requests. Rules of guests are left out, for they do not keep their positions.
    pub(super) fn unmatched(&self, member: &ListenerMember, of: &BTreeSet<ObjectKey>) -> BTreeSet<String> {
        let becoming = self.becoming(member);
        // Outside of a group no tag says which object a rule belongs to.
        let concerned = |rule: &RuleMember| {
            member_of(&rule.tags).is_none_or(|member| of.contains(&member) && !self.scene.is_guest(&member))
        };
        // One with the same conditions that asks for its number answers the same requests.
        let replaced = |RuleMember { rule, .. }: &RuleMember| {
            let mut wanted = self.wanted.rules.iter();
            wanted.any(|it| it.priority == Some(rule.priority) && it.settings.conditions == rule.settings.conditions)
        };
        let stays = |rule: &RuleMember| {
            self.is_ours(rule) && concerned(rule) && !self.becomes_own(rule, &becoming) && !replaced(rule)
        };
        member.rules.iter().filter(|(_, rule)| stays(rule)).map(|(arn, _)| arn.clone()).collect()
    }

    /// Whether the rule becomes a wanted rule of its own member.
    pub(super) fn becomes_own(&self, rule: &RuleMember, becoming: &BTreeMap<&str, usize>) -> bool {
        let wanted = becoming.get(rule.rule.arn.as_str()).map(|index| &self.wanted.rules[*index].member);
        // Outside of a group no tag says which object a rule belongs to.
        wanted.is_some_and(|wanted| member_of(&rule.tags).is_none_or(|member| member == *wanted))
    }
}
