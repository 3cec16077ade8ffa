//! Changes of target groups and targets.

use aws_sdk_elasticloadbalancingv2::types::{
    Matcher, ProtocolEnum, TargetDescription, TargetGroupAttribute, TargetTypeEnum,
};

use super::{Change, change, forwards_to, group, https, retag, rules_of, silent, tags_of};
use crate::support::{Scene, wait_for};

/// Deletes a backend's target group. It cannot be deleted while it is in use, so its rules go first; again if the
/// operator has put one back in between.
async fn delete_group(scene: &Scene, balancer: &str, backend: &str) {
    let (listener, group) = (https(scene, balancer).await, group(scene, backend).await);
    let look = || async {
        let forwarding = rules_of(scene, &listener).await.into_iter().filter(|rule| forwards_to(rule, &group));
        let forwarding: Vec<String> = forwarding.filter_map(|rule| rule.rule_arn).collect();
        for arn in forwarding {
            scene.elb.delete_rule().rule_arn(arn).send().await.expect("the deletion");
        }
        let deleted = scene.elb.delete_target_group().target_group_arn(&group).send().await;
        deleted.map(drop).map_err(|error| format!("{error:?}"))
    };
    wait_for("the target group to be deleted", look, Result::is_ok).await.expect("just seen");
}

pub const CHANGES: &[Change] = &[
    change("path and codes of a health check", "ModifyTargetGroup", "health_check", |scene, _| {
        Box::pin(async move {
            let call = scene.elb.modify_target_group().target_group_arn(group(scene, "shop").await);
            let call = call.health_check_path("/other").matcher(Matcher::builder().http_code("204").build());
            call.send().await.expect("the change");
        })
    }),
    change("protocol and port of a health check", "ModifyTargetGroup", "health_check", |scene, _| {
        Box::pin(async move {
            let call = scene.elb.modify_target_group().target_group_arn(group(scene, "shop").await);
            let call = call.health_check_protocol(ProtocolEnum::Https).health_check_port("9999");
            call.send().await.expect("the change");
        })
    }),
    change("times and thresholds of a health check", "ModifyTargetGroup", "health_check", |scene, _| {
        Box::pin(async move {
            let call = scene.elb.modify_target_group().target_group_arn(group(scene, "shop").await);
            let call = call.health_check_interval_seconds(60).health_check_timeout_seconds(30);
            let call = call.healthy_threshold_count(9).unhealthy_threshold_count(8);
            call.send().await.expect("the change");
        })
    }),
    change("attribute of a target group", "ModifyTargetGroupAttributes", "target_group_attribute", |scene, _| {
        Box::pin(async move {
            let key = "deregistration_delay.timeout_seconds";
            let attribute = TargetGroupAttribute::builder().key(key).value("1").build();
            let call = scene.elb.modify_target_group_attributes().target_group_arn(group(scene, "shop").await);
            call.attributes(attribute).send().await.expect("the change");
        })
    }),
    change("tag of a target group", "AddTags", "tag", |scene, _| {
        Box::pin(async move { retag(scene, &group(scene, "cart").await).await })
    }),
    silent("target, removed", "DeregisterTargets", |scene, _| {
        Box::pin(async move {
            let target = TargetDescription::builder().id("198.18.7.2").port(8080).build();
            let call = scene.elb.deregister_targets().target_group_arn(group(scene, "cart").await);
            call.targets(target).send().await.expect("the deregistration");
        })
    }),
    silent("target, added", "RegisterTargets", |scene, _| {
        Box::pin(async move {
            let target = TargetDescription::builder().id("198.18.9.9").port(80).build();
            let call = scene.elb.register_targets().target_group_arn(group(scene, "cart").await);
            call.targets(target).send().await.expect("the target");
        })
    }),
    change("target group with Causeway's tags, added", "CreateTargetGroup", "target_group", |scene, _| {
        Box::pin(async move {
            let tags = tags_of(scene, &group(scene, "shop").await).await;
            let call = scene.elb.create_target_group().name("added").target_type(TargetTypeEnum::Ip);
            let call = call.protocol(ProtocolEnum::Http).port(80).vpc_id("vpc-causeway").set_tags(Some(tags));
            call.send().await.expect("the target group");
        })
    }),
    change("target group, deleted", "DeleteTargetGroup", "target_group", |scene, balancer| {
        Box::pin(async move { delete_group(scene, balancer, "api").await })
    }),
];
