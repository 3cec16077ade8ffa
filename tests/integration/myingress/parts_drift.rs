//! Every part of a balancer that somebody else changes or removes is put back within a sweep.

use std::pin::Pin;
use std::time::Instant;

use aws_sdk_elasticloadbalancingv2::types::{
    Action, ActionTypeEnum, Certificate, FixedResponseActionConfig, ForwardActionConfig, ListenerAttribute, Rule,
    RuleCondition, RulePriorityPair, Tag, TargetDescription, TargetGroupAttribute,
};
use causeway::external::ec2::Parameters;
use serde_json::json;

use super::two_sweeps;
use crate::support::account::{becomes, listeners, rules, target_groups};
use crate::support::certificates::{EXAMPLE_COM, EXAMPLE_ORG, import};
use crate::support::{Account, Operator, Scene, full, wait_for};

/// What somebody does to the balancer with that ARN.
type Deed = for<'a> fn(&'a Scene, &'a str) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Does each deed to the full example, and waits until all is as it was.
async fn each_is_undone(deeds: &[(&str, Deed)]) {
    let scene = Scene::new("drift").await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    import(&scene, EXAMPLE_COM).await;
    import(&scene, EXAMPLE_ORG).await;
    let _operator = Operator::start(&scene).await;
    let arn = full::created(&scene).await;
    let good = Account::of(&scene).await.facts(&scene);
    for (words, deed) in deeds {
        deed(&scene, &arn).await;
        let begun = Instant::now();
        becomes(&scene, words, &good).await;
        println!("» drift repaired, sweep of 2 s: {words}, {} ms", begun.elapsed().as_millis());
    }
    two_sweeps(&scene).await;
    assert_eq!(good.diff(&Account::of(&scene).await.facts(&scene)), "", "and so it stays");
}

pub async fn https(scene: &Scene, balancer: &str) -> String {
    listeners(scene, balancer).await[&443].listener_arn.clone().expect("an ARN")
}

pub async fn rule(scene: &Scene, balancer: &str, index: usize) -> String {
    rules(scene, &https(scene, balancer).await).await[index].rule_arn.clone().expect("an ARN")
}

pub async fn group(scene: &Scene, backend: &str) -> String {
    let groups = target_groups(scene).await.into_iter();
    let mut named =
        groups.filter(|it| it.target_group_name().is_some_and(|name| name.starts_with(&format!("shop-{backend}"))));
    named.next().and_then(|group| group.target_group_arn).expect("the group")
}

/// Deletes a backend's target group. It cannot be deleted while it is in use, so its rules go first; again if the
/// operator has put one back in between.
async fn delete_group(scene: &Scene, balancer: &str, backend: &str) {
    let (listener, group) = (https(scene, balancer).await, group(scene, backend).await);
    let look = || async {
        let forwarding = rules(scene, &listener).await.into_iter().filter(|rule| forwards_to(rule, &group));
        let forwarding: Vec<String> = forwarding.filter_map(|rule| rule.rule_arn).collect();
        for arn in forwarding {
            scene.elb.delete_rule().rule_arn(arn).send().await.expect("the deletion");
        }
        let deleted = scene.elb.delete_target_group().target_group_arn(&group).send().await;
        deleted.map(drop).map_err(|error| format!("{error:?}"))
    };
    wait_for("the target group to be deleted", look, Result::is_ok).await.expect("just seen");
}

fn forwards_to(rule: &Rule, group: &str) -> bool {
    let configurations = rule.actions().iter().filter_map(Action::forward_config);
    configurations.flat_map(ForwardActionConfig::target_groups).any(|it| it.target_group_arn() == Some(group))
}

pub fn gone() -> Action {
    let response = FixedResponseActionConfig::builder().status_code("418").build();
    Action::builder().r#type(ActionTypeEnum::FixedResponse).fixed_response_config(response).build()
}

pub async fn retag(scene: &Scene, arn: &str) {
    let tag = Tag::builder().key("team").value("pirates").build();
    scene.elb.add_tags().resource_arns(arn).tags(tag).send().await.expect("the tag");
}

#[tokio::test]
async fn listeners_are_put_back() {
    each_is_undone(&[
        ("a listener deleted", |scene, balancer| {
            Box::pin(async {
                let arn = https(scene, balancer).await;
                scene.elb.delete_listener().listener_arn(arn).send().await.expect("the deletion");
            })
        }),
        ("a default action changed", |scene, balancer| {
            Box::pin(async {
                let arn = https(scene, balancer).await;
                scene.elb.modify_listener().listener_arn(arn).default_actions(gone()).send().await.expect("the change");
            })
        }),
        ("a TLS policy changed", |scene, balancer| {
            Box::pin(async {
                let call = scene.elb.modify_listener().listener_arn(https(scene, balancer).await);
                call.ssl_policy("ELBSecurityPolicy-TLS13-1-3-2021-06").send().await.expect("the change");
            })
        }),
        ("a port changed", |scene, balancer| {
            Box::pin(async {
                let arn = https(scene, balancer).await;
                scene.elb.modify_listener().listener_arn(arn).port(8443).send().await.expect("the change");
            })
        }),
        ("a header changed", |scene, balancer| {
            Box::pin(async {
                let key = "routing.http.response.strict_transport_security.header_value";
                let attribute = ListenerAttribute::builder().key(key).value("max-age=1").build();
                let call = scene.elb.modify_listener_attributes().listener_arn(https(scene, balancer).await);
                call.attributes(attribute).send().await.expect("the change");
            })
        }),
        ("a certificate too many", |scene, balancer| {
            Box::pin(async {
                let all = scene.acm().list_certificates().send().await.expect("certificates");
                let all = all.certificate_summary_list.unwrap_or_default().into_iter();
                let org = all.filter(|it| it.domain_name() == Some("example.org")).find_map(|it| it.certificate_arn);
                let certificate = Certificate::builder().set_certificate_arn(org).build();
                let call = scene.elb.add_listener_certificates().listener_arn(https(scene, balancer).await);
                call.certificates(certificate).send().await.expect("the certificate");
            })
        }),
        ("a listener's tag", |scene, balancer| Box::pin(async { retag(scene, &https(scene, balancer).await).await })),
    ])
    .await;
}

#[tokio::test]
async fn rules_are_put_back() {
    each_is_undone(&[
        ("a rule deleted", |scene, balancer| {
            Box::pin(async {
                let arn = rule(scene, balancer, 3).await;
                scene.elb.delete_rule().rule_arn(arn).send().await.expect("the deletion");
            })
        }),
        ("a rule's action changed", |scene, balancer| {
            Box::pin(async {
                let arn = rule(scene, balancer, 0).await;
                scene.elb.modify_rule().rule_arn(arn).actions(gone()).send().await.expect("the change");
            })
        }),
        ("a rule's condition changed", |scene, balancer| {
            Box::pin(async {
                let other = RuleCondition::builder().field("path-pattern").values("/other").build();
                let arn = rule(scene, balancer, 1).await;
                scene.elb.modify_rule().rule_arn(arn).conditions(other).send().await.expect("the change");
            })
        }),
        ("a rewrite removed", |scene, balancer| {
            Box::pin(async {
                let arn = rule(scene, balancer, 5).await;
                scene.elb.modify_rule().rule_arn(arn).reset_transforms(true).send().await.expect("the change");
            })
        }),
        ("a rule of ours twice", |scene, balancer| {
            Box::pin(async {
                let arn = rule(scene, balancer, 0).await;
                let tags = scene.tags(&arn).await.into_iter();
                let tags = tags.map(|(key, value)| Tag::builder().key(key).value(value).build()).collect();
                let other = RuleCondition::builder().field("path-pattern").values("/other").build();
                let call = scene.elb.create_rule().listener_arn(https(scene, balancer).await).priority(5);
                call.conditions(other).actions(gone()).set_tags(Some(tags)).send().await.expect("the rule");
            })
        }),
        ("a rule's tag", |scene, balancer| Box::pin(async { retag(scene, &rule(scene, balancer, 2).await).await })),
    ])
    .await;
}

#[tokio::test]
async fn a_changed_order_of_rules_is_put_back() {
    let scene = Scene::new("drift").await;
    let _operator = Operator::start(&scene).await;
    let arn = full::created(&scene).await;
    let listener = https(&scene, &arn).await;
    let order = || async { rules(&scene, &listener).await.into_iter().map(|rule| rule.rule_arn).collect::<Vec<_>>() };
    let before = order().await;
    let reversed = (1..).zip(before.iter().take(6).rev());
    let pairs: Vec<RulePriorityPair> = reversed
        .map(|(priority, arn)| RulePriorityPair::builder().priority(priority).set_rule_arn(arn.clone()).build())
        .collect();
    scene.elb.set_rule_priorities().set_rule_priorities(Some(pairs)).send().await.expect("the order");
    wait_for("the order to be as it was", order, |now| *now == before).await;
}

#[tokio::test]
async fn target_groups_are_put_back() {
    each_is_undone(&[
        ("a target group deleted", |scene, balancer| Box::pin(async { delete_group(scene, balancer, "api").await })),
        ("an attribute", |scene, _| {
            Box::pin(async {
                let key = "deregistration_delay.timeout_seconds";
                let attribute = TargetGroupAttribute::builder().key(key).value("1").build();
                let call = scene.elb.modify_target_group_attributes().target_group_arn(group(scene, "shop").await);
                call.attributes(attribute).send().await.expect("the change");
            })
        }),
        ("a health check", |scene, _| {
            Box::pin(async {
                let call = scene.elb.modify_target_group().target_group_arn(group(scene, "shop").await);
                call.health_check_path("/other").send().await.expect("the change");
            })
        }),
        ("a target group's tag", |scene, _| Box::pin(async { retag(scene, &group(scene, "cart").await).await })),
        ("a target deregistered", |scene, _| {
            Box::pin(async {
                let target = TargetDescription::builder().id("198.18.7.2").port(8080).build();
                let call = scene.elb.deregister_targets().target_group_arn(group(scene, "cart").await);
                call.targets(target).send().await.expect("the deregistration");
            })
        }),
        ("a foreign target", |scene, _| {
            Box::pin(async {
                let target = TargetDescription::builder().id("198.18.9.9").port(80).build();
                let call = scene.elb.register_targets().target_group_arn(group(scene, "cart").await);
                call.targets(target).send().await.expect("the target");
            })
        }),
    ])
    .await;
}

#[tokio::test]
async fn the_security_group_and_the_balancer_are_put_back() {
    each_is_undone(&[
        ("a network let in", |scene, balancer| {
            Box::pin(async { ingress(scene, balancer, "192.0.2.0/24", 22, true).await })
        }),
        ("a network locked out", |scene, balancer| {
            Box::pin(async { ingress(scene, balancer, "0.0.0.0/0", 443, false).await })
        }),
        ("a security group's tag", |scene, balancer| {
            Box::pin(async {
                let tagged = Parameters::default().with("ResourceId.1", security_group(scene, balancer).await);
                let tagged = tagged.with("Tag.1.Key", "team").with("Tag.1.Value", "pirates");
                scene.ec2("CreateTags", tagged).await;
            })
        }),
        ("another security group", |scene, balancer| {
            Box::pin(async { super::bystander::set_security_groups(scene, balancer, &["sg-other"]).await })
        }),
        ("the balancer deleted", |scene, balancer| Box::pin(async { super::bystander::delete(scene, balancer).await })),
    ])
    .await;
}

async fn security_group(scene: &Scene, balancer: &str) -> String {
    super::bystander::seen(scene, balancer).await.balancer.security_groups()[0].clone()
}

pub async fn ingress(scene: &Scene, balancer: &str, cidr: &str, port: i32, let_in: bool) {
    let permission = Parameters::default()
        .with("GroupId", security_group(scene, balancer).await)
        .with("IpPermissions.1.IpProtocol", "tcp")
        .with("IpPermissions.1.FromPort", port.to_string())
        .with("IpPermissions.1.ToPort", port.to_string())
        .with("IpPermissions.1.IpRanges.1.CidrIp", cidr);
    let action = if let_in { "AuthorizeSecurityGroupIngress" } else { "RevokeSecurityGroupIngress" };
    scene.ec2(action, permission).await;
}
