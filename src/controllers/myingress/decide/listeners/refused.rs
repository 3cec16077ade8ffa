//! Rules that AWS refused, and what stays as it is because of them.

use std::collections::BTreeSet;

use super::{Listener, forwarded_to};
use crate::controllers::myingress::assets::{ListenerMember, RuleMember};
use crate::controllers::myingress::model::{ListenerModel, RuleModel};

impl Listener<'_> {
    /// What is wanted without the rules that AWS refused, and those that need a target group that it refused; `None` where
    /// there are none.
    pub(super) fn without_refused(&self, member: &ListenerMember) -> Option<ListenerModel> {
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
        let rules: Vec<RuleModel> =
            all.filter(|(rule, own)| !refused(rule, *own)).map(|(rule, _)| rule.clone()).collect();
        (rules.len() < self.wanted.rules.len()).then(|| ListenerModel { rules, ..self.wanted.clone() })
    }

    /// Our rules that become none of those that are wanted.
    pub(super) fn unmatched(&self, member: &ListenerMember) -> BTreeSet<String> {
        let becoming = self.becoming(member);
        let ours = member.rules.iter().filter(|(arn, rule)| self.is_ours(rule) && !becoming.contains_key(arn.as_str()));
        ours.map(|(arn, _)| arn.clone()).collect()
    }
}
