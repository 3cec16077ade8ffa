//! Calls about rules of listeners.

use std::collections::BTreeMap;

use aws_sdk_elasticloadbalancingv2::types as aws;

use super::actions_wire;
use super::conditions::Condition;
use super::pages::{PAGE, next_marker};
use super::rule::{Rule, RuleSettings};
use super::transforms::Transform;
use super::{Elbv2, Outcome, Pairs};

impl Elbv2 {
    /// The rules of a listener, without its default rule.
    pub async fn rules(&self, listener_arn: &str) -> Outcome<Vec<Rule>> {
        let mut rules = Vec::new();
        let mut marker = None;
        loop {
            let call = self.client.describe_rules().listener_arn(listener_arn).page_size(PAGE).set_marker(marker);
            let page = self.caller.call_again("DescribeRules", || call.clone().send()).await?;
            rules.extend(page.rules.unwrap_or_default().into_iter().filter_map(Rule::from_aws));
            marker = next_marker(page.next_marker);
            if marker.is_none() {
                return Ok(rules);
            }
        }
    }

    /// Creates a rule; the priority must be free.
    pub async fn create_rule(
        &self,
        listener_arn: &str,
        priority: u16,
        settings: &RuleSettings,
        tags: &Pairs,
    ) -> Outcome<Rule> {
        let call = self
            .client
            .create_rule()
            .listener_arn(listener_arn)
            .priority(priority.into())
            .set_conditions(Some(settings.conditions()))
            .set_transforms(settings.transforms())
            .set_actions(Some(actions_wire::to_aws(&settings.actions)))
            .set_tags(Some(super::tags::list(tags)));
        let answer = self.caller.call_again("CreateRule", || call.clone().send()).await?;
        self.first_result("CreateRule", answer.rules, Rule::from_aws)
    }

    /// Makes a rule do exactly this; its priority stays.
    pub async fn modify_rule(&self, arn: &str, settings: &RuleSettings) -> Outcome<Rule> {
        let transforms = settings.transforms();
        let call = self
            .client
            .modify_rule()
            .rule_arn(arn)
            .set_conditions(Some(settings.conditions()))
            .set_actions(Some(actions_wire::to_aws(&settings.actions)))
            // AWS keeps transforms that a change leaves out.
            .set_reset_transforms(transforms.is_none().then_some(true))
            .set_transforms(transforms);
        let answer = self.caller.call_again("ModifyRule", || call.clone().send()).await?;
        self.first_result("ModifyRule", answer.rules, Rule::from_aws)
    }

    /// Gives rules of one listener other priorities, all at once, so they can change places.
    pub async fn set_rule_priorities(&self, priorities: &BTreeMap<String, u16>) -> Outcome<()> {
        let pairs = priorities
            .iter()
            .map(|(arn, &priority)| aws::RulePriorityPair::builder().rule_arn(arn).priority(priority.into()).build());
        let call = self.client.set_rule_priorities().set_rule_priorities(Some(pairs.collect()));
        self.caller.call_again("SetRulePriorities", || call.clone().send()).await.map(drop)
    }

    /// Deletes a rule; deleting one that is gone succeeds.
    pub async fn delete_rule(&self, arn: &str) -> Outcome<()> {
        let call = self.client.delete_rule().rule_arn(arn);
        self.accept_gone(arn, self.caller.call_again("DeleteRule", || call.clone().send()).await).await
    }
}

impl Rule {
    /// Converts from AWS's form; `None` for a default rule.
    fn from_aws(rule: aws::Rule) -> Option<Self> {
        Some(Self {
            arn: rule.rule_arn?,
            // The default rule has the word `default` instead of a number.
            priority: rule.priority?.parse().ok()?,
            settings: RuleSettings {
                conditions: rule.conditions.unwrap_or_default().into_iter().map(Condition::from_aws).collect(),
                transforms: Transform::from_aws(rule.transforms.unwrap_or_default()),
                actions: actions_wire::from_aws(rule.actions.unwrap_or_default()),
            },
        })
    }
}

impl RuleSettings {
    fn conditions(&self) -> Vec<aws::RuleCondition> {
        self.conditions.iter().map(Condition::to_aws).collect()
    }

    fn transforms(&self) -> Option<Vec<aws::RuleTransform>> {
        (!self.transforms.is_empty()).then(|| self.transforms.iter().map(Transform::to_aws).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::elbv2::actions_wire::tests::{any_actions, without_secrets};
    use crate::elbv2::conditions::Match;
    use crate::elbv2::conditions::tests::any_condition;
    use crate::elbv2::transforms::tests::any_transforms;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    fn describe(rule: &RuleSettings) -> aws::Rule {
        aws::Rule::builder()
            .rule_arn("arn")
            .priority("7")
            .set_conditions(Some(rule.conditions()))
            .set_transforms(rule.transforms())
            .set_actions(Some(actions_wire::to_aws(&rule.actions)))
            .build()
    }

    proptest! {
        #[test]
        fn what_was_written_reads_back_equal(
            conditions in btree_set(any_condition(), 1..5),
            transforms in any_transforms(),
            actions in any_actions(),
        ) {
            let settings = RuleSettings { conditions, transforms, actions };
            let read = Rule::from_aws(describe(&settings)).unwrap();
            let settings = RuleSettings { actions: without_secrets(settings.actions), ..settings };
            prop_assert_eq!(read, Rule { arn: "arn".into(), priority: 7, settings });
        }
    }

    #[test]
    fn two_conditions_of_one_kind_survive() {
        let header = |name: &str| Condition::Header {
            name: name.into(),
            values: Match::Wildcards(BTreeSet::from(["1".to_owned()])),
        };
        let conditions = BTreeSet::from([header("X-A"), header("X-B")]);
        let settings = RuleSettings { conditions: conditions.clone(), transforms: Vec::new(), actions: Vec::new() };
        assert_eq!(Rule::from_aws(describe(&settings)).unwrap().settings.conditions, conditions);
    }

    #[test]
    fn the_default_rule_is_none_of_the_rules() {
        let default = aws::Rule::builder().rule_arn("arn").priority("default").is_default(true).build();
        assert_eq!(Rule::from_aws(default), None);
    }
}
