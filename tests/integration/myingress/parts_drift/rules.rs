//! Changes of rules.

use aws_sdk_elasticloadbalancingv2::types::{RuleCondition, RulePriorityPair};

use super::{Change, change, gone_action, https, retag, rule, tags_of};

pub const CHANGES: &[Change] = &[
    change("conditions of a rule", "ModifyRule", "rule", |scene, balancer| {
        Box::pin(async move {
            let other = RuleCondition::builder().field("path-pattern").values("/other").build();
            let call = scene.elb.modify_rule().rule_arn(rule(scene, balancer, 1).await);
            call.conditions(other).send().await.expect("the change");
        })
    }),
    change("actions of a rule", "ModifyRule", "rule", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.modify_rule().rule_arn(rule(scene, balancer, 0).await);
            call.actions(gone_action()).send().await.expect("the change");
        })
    }),
    change("rewrites of a rule", "ModifyRule", "rule", |scene, balancer| {
        Box::pin(async move {
            let call = scene.elb.modify_rule().rule_arn(rule(scene, balancer, 5).await);
            call.reset_transforms(true).send().await.expect("the change");
        })
    }),
    change("priority of a rule", "SetRulePriorities", "rule", |scene, balancer| {
        Box::pin(async move {
            let last = RulePriorityPair::builder().rule_arn(rule(scene, balancer, 2).await).priority(40_000).build();
            scene.elb.set_rule_priorities().rule_priorities(last).send().await.expect("the priority");
        })
    }),
    change("tag of a rule", "AddTags", "tag", |scene, balancer| {
        Box::pin(async move { retag(scene, &rule(scene, balancer, 2).await).await })
    }),
    change("rule with Causeway's tags, added", "CreateRule", "rule", |scene, balancer| {
        Box::pin(async move {
            let tags = tags_of(scene, &rule(scene, balancer, 0).await).await;
            let other = RuleCondition::builder().field("path-pattern").values("/other").build();
            let call = scene.elb.create_rule().listener_arn(https(scene, balancer).await).priority(5);
            call.conditions(other).actions(gone_action()).set_tags(Some(tags)).send().await.expect("the rule");
        })
    }),
    change("rule, deleted", "DeleteRule", "rule", |scene, balancer| {
        Box::pin(async move {
            let arn = rule(scene, balancer, 3).await;
            scene.elb.delete_rule().rule_arn(arn).send().await.expect("the deletion");
        })
    }),
];
