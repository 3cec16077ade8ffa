//! The published IAM policy is enough for the whole life of the full example.

use std::time::Duration;

use aws_sdk_wafv2::types::{AllowAction, DefaultAction, Scope, VisibilityConfig};
use causeway_api::MyIngress;
use serde_json::json;

use super::bystander;
use crate::support::account::{becomes, target_groups};
use crate::support::certificates::{EXAMPLE_COM_RENEWED, EXAMPLE_ORG, import};
use crate::support::role::Session;
use crate::support::{Account, Operator, Scene, full, wait_for};

/// Creates a regional web ACL of that name that lets every request in; returns its ARN.
pub async fn web_acl(scene: &Scene, name: &str) -> String {
    let seen = VisibilityConfig::builder().sampled_requests_enabled(false).cloud_watch_metrics_enabled(false);
    let call = scene.waf().create_web_acl().name(name).scope(Scope::Regional);
    let call = call.default_action(DefaultAction::builder().allow(AllowAction::builder().build()).build());
    let call = call.visibility_config(seen.metric_name(name).build().expect("complete"));
    call.send().await.expect("a web ACL").summary.and_then(|it| it.arn).expect("an ARN")
}

#[tokio::test]
async fn the_published_policy_is_enough_for_the_full_example() {
    let scene = Scene::new("policy").await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    let session = Session::of(&scene, "operator").await;
    let client = Operator::client().await;
    let _operator = Operator::start_with(&scene, client, session.config(&scene), Duration::from_secs(2));
    full::created(&scene).await;
    let (org, renewed) = (import(&scene, EXAMPLE_ORG).await, import(&scene, EXAMPLE_COM_RENEWED).await);

    // Every part changed.
    let mut spec = full::spec(&scene);
    spec["subnets"] = json!(["subnet-abc", "subnet-def", "subnet-ghi"]);
    spec["ipAddressType"] = json!("dualstack");
    spec["inboundCidrs"] = json!(["192.0.2.0/24", "198.51.100.0/24"]);
    spec["idleTimeout"] = json!("30s");
    spec["wafAclArn"] = json!(web_acl(&scene, "shop").await);
    spec["minimumCapacityUnits"] = json!(500);
    spec["tags"] = json!({ "team": "storefront", "cost": "1" });
    spec["backends"][0]["healthCheck"]["path"] = json!("/alive");
    spec["backends"][1]["protocol"] = json!("HTTPS");
    spec["listeners"][0]["port"] = json!(8080);
    spec["listeners"][1]["certificateArns"] = json!([renewed, org]);
    spec["listeners"][1]["attributes"] = json!({ "routing.http.response.server.enabled": "false" });
    full::rules(&mut spec).reverse();
    full::rules(&mut spec)[1]["action"]["authenticateCognito"]["domain"] = json!("staff");
    // The fingerprint of the secret is removed together with the log-in.
    full::rules(&mut spec)[2]["action"].as_object_mut().unwrap().remove("authenticateOidc").expect("a log-in");
    full::rules(&mut spec).remove(3);
    full::replace(&scene, full::NAME, &spec).await;
    let arn = full::complete(&scene).await;
    // The replaced target group is deleted last, after the object is ready. Only then the account is in the state that
    // it must return to below.
    let replaced = || target_groups(&scene);
    wait_for("the replaced target group to be gone", replaced, |groups| groups.len() == full::TARGETS.len()).await;
    let edited = Account::of(&scene).await;
    assert_eq!(edited.0["balancers"]["shop-alb"]["webAcl"], spec["wafAclArn"]);
    assert_eq!(edited.0["balancers"]["shop-alb"]["capacity"], 500);

    // Another client changes every part.
    let edited = edited.facts(&scene);
    scene.waf().disassociate_web_acl().resource_arn(&arn).send().await.expect("no web ACL");
    bystander::set_attribute(&scene, &arn, "idle_timeout.timeout_seconds", "300").await;
    bystander::add_tag(&scene, &arn, "team", "pirates").await;
    for group in target_groups(&scene).await {
        bystander::add_tag(&scene, group.target_group_arn().expect("an ARN"), "team", "pirates").await;
    }
    for (port, listener) in crate::support::account::listeners(&scene, &arn).await {
        let listener = listener.listener_arn.expect("an ARN");
        bystander::add_tag(&scene, &listener, "team", "pirates").await;
        if port == 443 {
            let rules = crate::support::account::rules(&scene, &listener).await;
            let rule = rules[0].rule_arn().expect("an ARN");
            scene.elb.delete_rule().rule_arn(rule).send().await.expect("the deletion");
        }
    }
    becomes(&scene, "every repair", &edited).await;

    // Every edit undone.
    full::replace(&scene, full::NAME, &full::spec(&scene)).await;
    full::complete(&scene).await;
    let plain = Account::of(&scene).await;
    assert_eq!(plain.0["balancers"]["shop-alb"]["webAcl"], json!(null));
    assert_eq!(plain.0["balancers"]["shop-alb"]["capacity"], json!(null));
    scene.delete::<MyIngress>(full::NAME).await;
    scene.gone::<MyIngress>(full::NAME).await;
    let after = Account::of(&scene).await;
    assert!(after.is_empty(), "{}", after.text());

    let calls = scene.emulator.journal().await.into_iter();
    let operators = calls.filter(|call| call.principal.ends_with("/operator"));
    let denied = |outcome: &str| outcome.contains("Denied") || outcome == "UnauthorizedOperation";
    let refused: Vec<_> = operators.filter(|call| call.outcome.as_deref().is_some_and(denied)).collect();
    assert_eq!(refused, [], "nothing was tried that the policy does not allow");
}
