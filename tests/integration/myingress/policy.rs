//! The published IAM policy is enough for everything that the operator does, and for nothing with what belongs to others.

use causeway_api::MyIngress;
use serde_json::json;

use super::bystander;
use super::{created, ready, spec, stalled_by};
use crate::support::role::Session;
use crate::support::{Operator, Scene, wait_for};

#[tokio::test]
async fn the_published_policy_is_enough_for_a_whole_life() {
    let scene = Scene::new("policy").await;
    let session = Session::of(&scene, "operator").await;
    let sweep = std::time::Duration::from_secs(2);
    let _operator = Operator::start_with(&scene, Operator::client().await, session.config(&scene), sweep);
    let all = json!({
        "securityGroups": ["sg-web"],
        "attributes": { "idle_timeout.timeout_seconds": "120" },
        "tags": { "team": "payments" },
    });
    let alb = created(&scene, "app", spec(all)).await;
    // Every repair: tags, attributes, subnets, groups.
    bystander::add_tag(&scene, &alb.arn, "ManagedBy", "hand").await;
    bystander::set_attribute(&scene, &alb.arn, "idle_timeout.timeout_seconds", "30").await;
    bystander::set_subnets(&scene, &alb.arn, &["subnet-def", "subnet-ghi"]).await;
    bystander::set_security_groups(&scene, &alb.arn, &["sg-other"]).await;
    let repaired = |seen: &bystander::Seen| {
        seen.tags["ManagedBy"] == "causeway"
            && seen.attributes["idle_timeout.timeout_seconds"] == "120"
            && bystander::subnets(&seen.balancer) == ["subnet-abc", "subnet-def"]
            && seen.balancer.security_groups() == ["sg-web"]
    };
    wait_for("every repair", || bystander::read_balancer(&scene, &alb.arn), repaired).await;
    // Every change: tags removed, attributes reset, the balancer replaced.
    scene.edit::<MyIngress>("app", json!({ "tags": null, "attributes": null, "scheme": "internal" })).await;
    ready(&scene, "app").await;
    wait_for("the old balancer to be gone", || scene.balancers(), |balancers| balancers.len() == 1).await;
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    assert!(scene.balancers().await.is_empty());
    let calls = scene.emulator.journal().await.into_iter();
    let operators = calls.filter(|call| call.service == "elbv2" && call.principal.ends_with("/operator"));
    let refused: Vec<_> = operators.filter(|call| call.outcome.as_deref() == Some("AccessDenied")).collect();
    assert_eq!(refused, [], "nothing was tried that the policy does not allow");
}

#[tokio::test]
async fn the_published_policy_allows_nothing_with_what_belongs_to_others() {
    let scene = Scene::new("policy").await;
    let session = Session::of(&scene, "operator").await;
    let elb = aws_sdk_elasticloadbalancingv2::Client::new(&session.config(&scene));
    let another = [("causeway.example.com/cluster", "another"), ("ManagedBy", "causeway")];
    for (name, tags) in [("untagged", &[][..]), ("another", &another[..])] {
        let arn = bystander::create(&scene, name, &["subnet-abc", "subnet-def"], tags).await;
        let before = bystander::read_balancer(&scene, &arn).await;
        let deletion = elb.delete_load_balancer().load_balancer_arn(&arn).send().await;
        let denied = deletion.expect_err("it is denied").into_service_error();
        assert_eq!(denied.meta().code(), Some("AccessDenied"));
        let key = "causeway.example.com/cluster";
        let tag = aws_sdk_elasticloadbalancingv2::types::Tag::builder().key(key).value(&scene.namespace).build();
        let adoption = elb.add_tags().resource_arns(&arn).tags(tag).send().await;
        assert_eq!(adoption.expect_err("it is denied").into_service_error().meta().code(), Some("AccessDenied"));
        let subnets =
            elb.set_subnets().load_balancer_arn(&arn).subnets("subnet-def").subnets("subnet-ghi").send().await;
        assert_eq!(subnets.expect_err("it is denied").into_service_error().meta().code(), Some("AccessDenied"));
        assert_eq!(bystander::read_balancer(&scene, &arn).await, before);
    }
    let bare = elb.create_load_balancer().name("bare").subnets("subnet-abc").subnets("subnet-def").send().await;
    assert_eq!(bare.expect_err("it is denied").into_service_error().meta().code(), Some("AccessDenied"));
}

#[tokio::test]
async fn a_denial_is_told_in_awss_own_words_and_once() {
    let denied = [
        // AWS itself reads the security groups of the network when it makes a balancer.
        ("CreateLoadBalancer", "ec2:GetSecurityGroupsForVpc", json!({ "securityGroups": ["sg-web"] })),
        // It checks their quotas in the caller's name.
        ("CreateLoadBalancer", "ec2:ValidateSecurityGroupQuotasForInterface", json!({ "securityGroups": ["sg-web"] })),
        // EC2 adds details to its refusal that differ with every call.
        ("CreateSecurityGroup", "ec2:CreateSecurityGroup", json!({ "inboundCidrs": ["192.0.2.0/24"] })),
    ];
    for (operation, action, fields) in denied {
        let scene = Scene::new("policy").await;
        let session = Session::without(&scene, "operator", action).await;
        let sweep = std::time::Duration::from_secs(1);
        let _operator = Operator::start_with(&scene, Operator::client().await, session.config(&scene), sweep);
        scene.create::<MyIngress>("app", spec(fields)).await;
        let message = stalled_by(&scene, "app", "PermissionMissing").await;
        assert!(message.contains(&format!("{operation}: AWS denies it: ")), "{message}");
        let account = scene.emulator.account();
        let words = [
            format!(
                "User: arn:aws:sts::{account}:assumed-role/causeway is not authorized to perform: {action} on resource"
            ),
            format!("because no identity-based policy allows the {action} action"),
        ];
        assert!(words.iter().all(|it| message.contains(it)), "{message}");
        assert!(!message.contains("Encoded"), "{message}");
        let text = scene.api::<MyIngress>().get("app").await.expect("the object");
        let tries = || async {
            let calls = scene.emulator.journal().await.into_iter();
            calls.filter(|call| call.operation == operation && call.principal.ends_with("/operator")).count()
        };
        let before = tries().await;
        wait_for("three more tries", tries, |count| *count >= before + 3).await;
        let after = scene.api::<MyIngress>().get("app").await.expect("the object");
        assert_eq!(after.metadata.resource_version, text.metadata.resource_version, "no try writes the status again");
    }
}
