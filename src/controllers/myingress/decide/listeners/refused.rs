//! Rules that AWS refused, and what stays as it is because of them.

use std::collections::BTreeSet;

use super::Listener;
use crate::controllers::myingress::assets::{ListenerMember, RuleMember};
use crate::controllers::myingress::decide::forwarded_to;
use crate::controllers::myingress::model::{ListenerModel, RuleModel};
use crate::controllers::myingress::ownership::{ObjectKey, member_of};

impl Listener<'_> {
    /// The wanted listener without the rules that AWS refused and those that need a refused target group, and the
    /// members that these rules belong to; `None` where there are none.
    pub(super) fn without_refused(&self, member: &ListenerMember) -> Option<(ListenerModel, BTreeSet<ObjectKey>)> {
        let aside = &self.scene.aside;
        let groupless = |rule: &RuleModel| {
            let mut named = rule.settings.actions.iter().flat_map(forwarded_to);
            named.any(|name| !self.arns.contains_key(name.as_str()) && aside.holds_group(name))
        };
        let refused = |rule: &RuleModel, own: Option<&RuleMember>| {
            let held = self.rule(rule, own).is_some_and(|it| aside.holds_rule(&member.listener.arn, &it.settings));
            held || groupless(rule)
        };
        let all = self.wanted.rules.iter().zip(self.own(member));
        let (left_out, rules): (Vec<_>, Vec<_>) = all.partition(|(rule, own)| refused(rule, *own));
        let members: BTreeSet<ObjectKey> = left_out.into_iter().map(|(rule, _)| rule.member.clone()).collect();
        let rules: Vec<RuleModel> = rules.into_iter().map(|(rule, _)| rule.clone()).collect();
        (!members.is_empty()).then(|| (ListenerModel { rules, ..self.wanted.clone() }, members))
    }

    /// Our rules of these members that become none of the wanted rules. Rules of guests are left out, for they do not
    /// keep their positions.
    pub(super) fn unmatched(&self, member: &ListenerMember, of: &BTreeSet<ObjectKey>) -> BTreeSet<String> {
        let becoming = self.becoming(member);
        // Outside of a group no tag says which object a rule belongs to.
        let concerned = |rule: &RuleMember| {
            member_of(&rule.tags).is_none_or(|member| of.contains(&member) && !self.scene.is_guest(&member))
        };
        let ours = member.rules.iter().filter(|(arn, rule)| self.is_ours(rule) && !becoming.contains_key(arn.as_str()));
        ours.filter(|(_, rule)| concerned(rule)).map(|(arn, _)| arn.clone()).collect()
    }
}
