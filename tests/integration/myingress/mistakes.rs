//! A mistake in a spec changes nothing in AWS, is told with its field, and harms no other member of a group.

use causeway_api::MyIngress;
use causeway_aws::ec2::Parameters;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{answers, created, operator_without_sweeps, ready, spec, stalled_by};
use crate::support::backends::{endpoints, service};
use crate::support::scene::{condition, is_ready};
use crate::support::{Account, Operator, Scene, wait_for};

const UNKNOWN: &str = "targetgroup/legacy/0123456789abcdef";

/// A rule that answers for the host with this code.
fn rule(host: &str, status: u16) -> Value {
    json!({ "hosts": [host], "action": { "fixedResponse": { "statusCode": status } } })
}

/// A rule that forwards the host to that target group.
fn forwarding(host: &str, arn: &str) -> Value {
    json!({ "hosts": [host], "action": { "forward": { "targetGroups": [{ "arn": arn }] } } })
}

fn member(rules: &Value) -> Value {
    json!({ "group": { "name": "site" }, "listeners": [{ "port": 80, "rules": rules }] })
}

/// Calls that changed something in AWS, in order.
async fn changes(scene: &Scene) -> Vec<String> {
    let calls = scene.emulator.journal().await.into_iter().map(|call| call.operation);
    calls.filter(|it| !["Describe", "Get", "List"].iter().any(|read| it.starts_with(read))).collect()
}

/// Makes a target group as another client would; returns its ARN.
async fn target_group(scene: &Scene, name: &str) -> String {
    let vpc = scene.ec2("DescribeSubnets", Parameters::default().add("SubnetId.1", "subnet-abc")).await;
    let vpc = vpc.items("subnetSet").next().and_then(|it| it.value("vpcId")).expect("a VPC");
    let call = scene.elb.create_target_group().name(name).port(80).vpc_id(vpc);
    let call = call.protocol(aws_sdk_elasticloadbalancingv2::types::ProtocolEnum::Http);
    let made = call.send().await.expect("a target group").target_groups.unwrap_or_default();
    made.into_iter().next().and_then(|group| group.target_group_arn).expect("an ARN")
}

#[tokio::test]
async fn a_wrong_port_stops_the_edit_until_it_exists() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    let served = |port: u16, rules: Value| {
        let action = json!({ "forward": { "backends": [{ "name": "web" }] } });
        json!({
            "backends": [{ "name": "web", "port": port }],
            "listeners": [{ "port": 80, "defaultAction": action, "rules": rules }],
        })
    };
    created(&scene, "app", spec(served(80, json!([rule("a.example.com", 201)])))).await;
    let before = Account::of(&scene).await.facts(&scene);
    scene.emulator.clear_journal().await;
    let mut edit = served(81, json!([rule("b.example.com", 202)]));
    edit["tags"] = json!({ "team": "blue" });
    scene.edit::<MyIngress>("app", edit).await;
    let message = stalled_by(&scene, "app", "PortNotFound").await;
    assert!(message.starts_with("spec.backends[0].port: Service web has no such port"), "{message}");
    assert_eq!(changes(&scene).await, Vec::<String>::new());
    assert_eq!(before.diff(&Account::of(&scene).await.facts(&scene)), "");
    service(&scene, "web", &[("", 81)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    ready(&scene, "app").await;
    assert_eq!(answers(&scene).await, [("b.example.com".to_owned(), "202".to_owned())]);
}

#[tokio::test]
async fn a_new_object_with_a_wrong_port_makes_nothing() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    let action = json!({ "forward": { "backends": [{ "name": "web" }] } });
    let listeners = json!([{ "port": 80, "defaultAction": action }]);
    let object = spec(json!({ "backends": [{ "name": "web", "port": 81 }], "listeners": listeners }));
    scene.create::<MyIngress>("app", object).await;
    stalled_by(&scene, "app", "PortNotFound").await;
    assert_eq!(changes(&scene).await, Vec::<String>::new());
    scene.edit::<MyIngress>("app", json!({ "backends": [{ "name": "web", "port": 80 }] })).await;
    ready(&scene, "app").await;
}

#[tokio::test]
async fn an_unknown_target_group_stalls_only_its_member() {
    let scene = Scene::new("mistakes").await;
    let _operator = Operator::start(&scene).await;
    let unknown = format!("arn:aws:elasticloadbalancing:us-east-1:{}:{UNKNOWN}", scene.emulator.account());
    created(&scene, "home", spec(member(&json!([rule("home.example.com", 201)])))).await;
    scene
        .create::<MyIngress>(
            "wrong",
            member(&json!([rule("w.example.com", 202), forwarding("x.example.com", &unknown)])),
        )
        .await;
    let message = stalled_by(&scene, "wrong", "TargetGroupNotFound").await;
    let field =
        format!("spec.listeners[0].rules[1].action.forward.targetGroups[0].arn: AWS knows no target group {unknown}");
    assert!(message.starts_with(&field), "{message}");
    created(&scene, "other", member(&json!([rule("other.example.com", 203)]))).await;
    let hosts: Vec<String> = answers(&scene).await.into_iter().map(|(host, _)| host).collect();
    assert_eq!(hosts, ["home.example.com", "other.example.com"]);
    let (refused, allowed) = super::refused_during_sweeps(&scene, 4).await;
    assert!(refused <= allowed, "{refused} refused calls");
    let legacy = target_group(&scene, "legacy").await;
    scene.edit::<MyIngress>("wrong", member(&json!([forwarding("x.example.com", &legacy)]))).await;
    ready(&scene, "wrong").await;
}

#[tokio::test]
async fn a_vanished_target_group_is_a_mistake() {
    let scene = Scene::new("mistakes").await;
    let legacy = target_group(&scene, "legacy").await;
    let _operator = operator_without_sweeps(&scene).await;
    created(&scene, "home", spec(member(&json!([rule("home.example.com", 201)])))).await;
    created(&scene, "other", member(&json!([rule("other.example.com", 202)]))).await;
    scene.elb.delete_target_group().target_group_arn(&legacy).send().await.expect("the deletion");
    scene.edit::<MyIngress>("other", member(&json!([forwarding("x.example.com", &legacy)]))).await;
    let message = stalled_by(&scene, "other", "TargetGroupNotFound").await;
    assert!(
        message.starts_with("spec.listeners[0].rules[0].action.forward.targetGroups[0].arn")
            && message.contains(&legacy),
        "{message}"
    );
    scene.edit::<MyIngress>("home", member(&json!([rule("home.example.com", 203)]))).await;
    ready(&scene, "home").await;
}

#[tokio::test]
async fn an_unknown_prefix_list_is_reported_to_its_member() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    let list = Parameters::default().add("PrefixListName", "offices").add("MaxEntries", "1");
    let made = scene.ec2("CreateManagedPrefixList", list.add("AddressFamily", "IPv4")).await;
    let known = made.child("prefixList").and_then(|it| it.value("prefixListId")).expect("an id");
    let member = |lists: &[&str]| json!({ "group": { "name": "site" }, "listeners": [{ "port": 80 }], "inboundPrefixLists": lists });
    created(&scene, "home", spec(member(&[&known]))).await;
    scene.create::<MyIngress>("wrong", member(&["pl-0123456789abcdef0"])).await;
    let message = stalled_by(&scene, "wrong", "InboundInvalid").await;
    assert!(
        message.starts_with("spec.inboundPrefixLists[0]: AWS refuses it") && message.contains("pl-0123456789abcdef0"),
        "{message}"
    );
    scene.ingress("home", "home to stay ready", is_ready).await;
}

#[tokio::test]
async fn a_new_balancer_is_adopted_without_a_sweep() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    // The region has been read once another object is ready.
    created(&scene, "first", spec(json!({}))).await;
    let foreign = super::bystander::create(&scene, "old-web", &["subnet-abc", "subnet-def"], &[]).await;
    scene.create::<MyIngress>("app", spec(json!({ "adopt": "old-web" }))).await;
    let message = stalled_by(&scene, "app", "AdoptionRefused").await;
    assert!(message.contains("give it the tag") && !message.contains("correct the name"), "{message}");
    assert!(scene.tags(&foreign).await.is_empty(), "it is left alone");

    // An object that has its balancer would ignore the field.
    let patch = Patch::Merge(json!({ "spec": { "adopt": "old-web" } }));
    let refusal =
        scene.api::<MyIngress>().patch("first", &PatchParams::default(), &patch).await.expect_err("a refusal");
    assert!(refusal.to_string().contains("spec.adopt cannot be set or changed"), "{refusal}");
    scene.edit::<MyIngress>("app", json!({ "adopt": "other-web" })).await;
    stalled_by(&scene, "app", "AdoptionRefused").await;
}

#[tokio::test]
async fn a_refusal_is_reported_with_the_outcome_of_the_rest() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    let edit = json!({ "tags": { "team": "blue" }, "attributes": { "no.such.key": "1" } });
    scene.edit::<MyIngress>("app", edit).await;
    let message = stalled_by(&scene, "app", "AttributesInvalid").await;
    assert!(message.ends_with("Everything else is in AWS as the spec says"), "{message}");
}

#[tokio::test]
async fn wrong_clocks_and_credentials_name_the_fix_and_recover() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    for (code, reason, words) in [
        ("RequestExpired", "ClockSkewed", "correct the clock"),
        ("ExpiredToken", "CredentialsInvalid", "renew its keys"),
    ] {
        let fault = json!({ "kind": "error", "service": "elbv2", "code": code, "message": "no", "status": 403 });
        scene.emulator.fault(fault).await;
        scene.edit::<MyIngress>("app", json!({ "tags": { "team": reason } })).await;
        let message = stalled_by(&scene, "app", reason).await;
        assert!(message.contains(words) && message.contains(code), "{message}");
        scene.emulator.no_faults().await;
        ready(&scene, "app").await;
    }
}

/// Waits until the status has this warning.
async fn warned(scene: &Scene, warning: Option<&str>) -> String {
    let has = |object: &MyIngress| {
        is_ready(object) && object.status.as_ref().is_some_and(|status| status.warning.as_deref() == warning)
    };
    let object = scene.ingress("app", &format!("the warning {warning:?}"), has).await;
    condition(&object.status.unwrap().conditions, "Ready").expect("Ready").2
}

#[tokio::test]
async fn an_unreachable_balancer_is_reported_until_clients_reach_it() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    assert!(warned(&scene, Some("NoListeners")).await.contains("spec.listeners has no port"));
    scene.has_warning("app", "NoListeners").await;
    scene.edit::<MyIngress>("app", json!({ "listeners": [{ "port": 80 }] })).await;
    let message = warned(&scene, Some("NothingLetIn")).await;
    assert!(message.contains("No client can connect on port 80") && message.contains("spec.inboundCidrs"), "{message}");
    scene.has_warning("app", "NothingLetIn").await;
    scene.edit::<MyIngress>("app", json!({ "inboundCidrs": ["0.0.0.0/0"] })).await;
    assert_eq!(warned(&scene, None).await, "the load balancer is active");

    let rules = json!([rule("a.example.com", 404), rule("a.example.com", 410)]);
    scene.edit::<MyIngress>("app", json!({ "listeners": [{ "port": 80, "rules": rules }] })).await;
    let message = warned(&scene, Some("RuleShadowed")).await;
    assert!(message.contains("spec.listeners[0].rules[1] gets no request on port 80"), "{message}");
    scene.has_warning("app", "RuleShadowed").await;
}

#[tokio::test]
async fn a_service_that_comes_after_its_object_completes_it() {
    let scene = Scene::new("mistakes").await;
    let _operator = operator_without_sweeps(&scene).await;
    let action = json!({ "forward": { "backends": [{ "name": "web" }] } });
    let listeners = json!([{ "port": 80, "defaultAction": action }]);
    let object = spec(json!({ "backends": [{ "name": "web", "port": 80 }], "listeners": listeners }));
    scene.create::<MyIngress>("app", object).await;
    stalled_by(&scene, "app", "ServiceNotFound").await;
    let made = || async { scene.balancers().await.len() };
    wait_for("the balancer", made, |count| *count == 1).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    ready(&scene, "app").await;
}
