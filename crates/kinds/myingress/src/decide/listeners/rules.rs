//! The rules of a listener: which existing rule becomes which wanted rule, and the steps to get there.

use std::collections::BTreeMap;

use causeway_aws::elbv2::{ListenerSettings, Pairs, RuleAction, RuleSettings};

use super::Listener;
use crate::action::ListenerAction;
use crate::decide::rules::{self, Present, Step, Wanted};
use crate::decide::secrets::{fingerprint_of, secret_tag, with_known_secret};
use crate::model::{Complaint, RuleModel};
use crate::ownership::member_of;
use crate::region::assets::{ListenerMember, RuleMember};

impl Listener<'_> {
    /// `room` is for how many rules the balancer has room beside its present ones.
    pub(super) fn steps(
        &self,
        member: &ListenerMember,
        settings: Option<&ListenerSettings>,
        room: usize,
    ) -> Result<Vec<Step>, Complaint> {
        let mut default = self.wanted.default_actions.iter().flat_map(RuleAction::forwarded_to);
        if default.any(|name| self.is_to_come(name)) {
            // A rule that is deleted may answer requests that the default action is for.
            return Ok(Vec::new());
        }
        let wanted = self.wanted.rules.iter().zip(self.own(member));
        let Some(rules) = wanted.map(|(rule, own)| self.rule(rule, own)).collect::<Option<Vec<_>>>() else {
            // A target group is missing; it is created first.
            return Ok(Vec::new());
        };
        let becoming = self.becoming(member);
        let present: Vec<Present> = member
            .rules
            .values()
            .map(|it| {
                let mut rule = it.rule.clone();
                if let Some(wanted) = becoming.get(rule.arn.as_str()).map(|index| &rules[*index]) {
                    with_known_secret(&mut rule.settings.actions, &it.tags, &wanted.tags, &wanted.settings.actions);
                }
                let (ours, held) = (self.is_ours(it), self.scene.observed.owner.owns(&it.tags));
                Present { rule, member: member_of(&it.tags), ours, held }
            })
            .collect();
        let differs = settings.is_some_and(|settings| self.differs(member, settings));
        let mut rules = rules;
        loop {
            let clash = match rules::plan(&rules, &present, differs, room) {
                Ok(steps) => return Ok(steps),
                Err(clash) => clash,
            };
            // If priorities run short, guests give way.
            if rules.last().is_some_and(|rule| rule.last) && rules[clash.index].last {
                rules.pop();
                continue;
            }
            let message = format!("{}.priority: {}", clash.key, clash.reason);
            return Err(Complaint { reason: "PriorityTaken", message });
        }
    }

    /// Reports whether a target group is to be created before the listener can name it.
    fn is_to_come(&self, name: &str) -> bool {
        !name.starts_with("arn:") && !self.arns.contains_key(name) && !self.scene.aside.holds_group(name)
    }

    /// The wanted rule that each of our rules becomes, as [`rules::plan`] matches them: one of the same member if there
    /// is one, and of several with the same conditions the first becomes the first.
    pub(super) fn becoming<'m>(&self, member: &'m ListenerMember) -> BTreeMap<&'m str, usize> {
        let mut ours: Vec<&RuleMember> = member.rules.values().filter(|rule| self.is_ours(rule)).collect();
        ours.sort_by_key(|rule| rule.rule.priority);
        let mut becoming = BTreeMap::new();
        let mut left: Vec<usize> = (0..self.wanted.rules.len()).collect();
        for of_any_member in [false, true] {
            left.retain(|index| {
                let wanted = &self.wanted.rules[*index];
                let fits = |rule: &&RuleMember| {
                    let suits = of_any_member || member_of(&rule.tags).as_ref() == Some(&wanted.member);
                    suits && rule.rule.settings.conditions == wanted.settings.conditions
                };
                let found = ours.iter().position(fits);
                if let Some(place) = found {
                    becoming.insert(ours.remove(place).rule.arn.as_str(), *index);
                }
                found.is_none()
            });
        }
        becoming
    }

    /// For each wanted rule, the rule of ours that becomes it.
    pub(super) fn own<'m>(&self, member: &'m ListenerMember) -> Vec<Option<&'m RuleMember>> {
        let mut own = vec![None; self.wanted.rules.len()];
        for (arn, index) in self.becoming(member) {
            own[index] = member.rules.get(arn);
        }
        own
    }

    /// The rule as it should be now, given the rule of ours that becomes it; `None` while a target group is missing.
    pub(super) fn rule(&self, rule: &RuleModel, own: Option<&RuleMember>) -> Option<Wanted> {
        let actions = self.step(rule, own)?;
        Some(Wanted {
            key: rule.field.clone(),
            priority: rule.priority,
            last: self.scene.is_guest(&rule.member),
            member: Some(rule.member.clone()),
            settings: RuleSettings { actions, ..rule.settings.clone() },
            tags: self.rule_tags(rule, own),
        })
    }

    pub(super) fn action(
        &self,
        member: &ListenerMember,
        step: Step,
        settings: Option<&ListenerSettings>,
    ) -> Option<ListenerAction> {
        let (balancer, listener, port) = (self.balancer.to_owned(), member.listener.arn.clone(), self.port);
        Some(match step {
            Step::Create { priority, settings, tags } => {
                ListenerAction::CreateRule { balancer, listener, port, priority, settings, tags }
            }
            Step::Modify { arn, settings } => ListenerAction::ModifyRule { balancer, listener, port, arn, settings },
            Step::SetPriorities(priorities) => ListenerAction::SetPriorities { balancer, listener, port, priorities },
            Step::SetDefault => ListenerAction::Modify { balancer, arn: listener, settings: settings?.clone() },
            Step::Delete { arn } => {
                let rule = member.rules.get(&arn)?;
                let of_guest = member_of(&rule.tags).is_some_and(|it| self.scene.is_guest(&it));
                let priority = rule.rule.priority;
                ListenerAction::DeleteRule { balancer, listener, port, arn, priority, of_guest }
            }
        })
    }

    /// The tags of a rule, given the rule of ours that becomes it. While its log-in is still the former one, so is the
    /// fingerprint of its client secret.
    pub(super) fn rule_tags(&self, rule: &RuleModel, own: Option<&RuleMember>) -> Pairs {
        let mut tags = self.scene.tags(Some(&rule.member));
        let actions = self.step(rule, own).unwrap_or_else(|| rule.settings.actions.clone());
        tags.extend(fingerprint_of(&self.scene.observed.owner, &actions).map(secret_tag));
        tags
    }

    pub(super) fn is_ours(&self, rule: &RuleMember) -> bool {
        let kept = self.kept.contains(&rule.rule.arn);
        self.scene.observed.owner.owns(&rule.tags) && !self.scene.is_frozen_at_home(&rule.tags) && !kept
    }
}
