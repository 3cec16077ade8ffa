//! Several objects share a balancer.

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::{answers, spec, stalled_by};
use crate::support::account::{target_groups, targets_if_there};
use crate::support::backends::{endpoints, service};
use crate::support::scene::is_ready;
use crate::support::{Account, Operator, Scene, wait_for};

/// A member that answers a host itself.
fn answering(host: &str, status: u16) -> Value {
    json!({
        "group": { "name": "site" },
        "listeners": [{ "port": 80, "rules": [{ "hosts": [host],
            "action": { "fixedResponse": { "statusCode": status } } }] }],
    })
}

/// The same, with the balancer's subnets and scheme as well.
fn standing(host: &str, status: u16) -> Value {
    spec(answering(host, status))
}

async fn answers_become(scene: &Scene, what: &str, wanted: &[(&str, &str)]) {
    let good = |seen: &Vec<(String, String)>| {
        seen.iter().map(|(host, status)| (host.as_str(), status.as_str())).collect::<Vec<_>>() == wanted
    };
    wait_for(what, || answers(scene), good).await;
}

#[tokio::test]
async fn the_last_member_takes_the_shared_balancer_along() {
    let scene = Scene::new("groups").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyIngress>("a", standing("a.example.com", 200)).await;
    let first = scene.ingress("a", "the first member to be ready", is_ready).await;
    scene.create::<MyIngress>("b", answering("b.example.com", 201)).await;
    let second = scene.ingress("b", "the second member to be ready", is_ready).await;
    let arn = |object: &MyIngress| object.status.clone().and_then(|status| status.alb).expect("a balancer").arn;
    assert_eq!(arn(&first), arn(&second), "one balancer");
    scene.create::<MyIngress>("c", answering("c.example.com", 202)).await;
    let three = [("a.example.com", "200"), ("b.example.com", "201"), ("c.example.com", "202")];
    answers_become(&scene, "all three members' rules", &three).await;
    scene.edit::<MyIngress>("b", answering("b.example.com", 404)).await;
    let edited = [("a.example.com", "200"), ("b.example.com", "404"), ("c.example.com", "202")];
    answers_become(&scene, "the edited rule", &edited).await;
    scene.delete::<MyIngress>("b").await;
    scene.gone::<MyIngress>("b").await;
    answers_become(&scene, "the others' rules", &[("a.example.com", "200"), ("c.example.com", "202")]).await;
    scene.delete::<MyIngress>("c").await;
    scene.gone::<MyIngress>("c").await;
    assert_eq!(scene.balancers().await.len(), 1);
    scene.delete::<MyIngress>("a").await;
    scene.gone::<MyIngress>("a").await;
    let after = Account::of(&scene).await;
    assert!(after.is_empty(), "{}", after.text());
}

#[tokio::test]
async fn another_member_leads_when_the_leader_goes() {
    let scene = Scene::new("groups").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyIngress>("a", standing("a.example.com", 200)).await;
    scene.ingress("a", "the leader to be ready", is_ready).await;
    scene.create::<MyIngress>("b", standing("b.example.com", 201)).await;
    scene.ingress("b", "the other member to be ready", is_ready).await;
    scene.delete::<MyIngress>("a").await;
    scene.gone::<MyIngress>("a").await;
    answers_become(&scene, "the other's rule alone", &[("b.example.com", "201")]).await;
    scene.edit::<MyIngress>("b", standing("b.example.com", 404)).await;
    answers_become(&scene, "the other's edit", &[("b.example.com", "404")]).await;
    scene.ingress("b", "the other member to be ready", is_ready).await;
}

#[tokio::test]
async fn a_bad_member_or_edit_is_left_out() {
    let scene = Scene::new("groups").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    scene.create::<MyIngress>("a", standing("a.example.com", 200)).await;
    scene.ingress("a", "the leader to be ready", is_ready).await;
    // The action names a backend that does not exist.
    let bad = json!({
        "group": { "name": "site" },
        "listeners": [{ "port": 80, "rules": [{ "hosts": ["b.example.com"],
            "action": { "forward": { "backends": [{ "name": "nowhere" }] } } }] }],
    });
    scene.create::<MyIngress>("b", bad.clone()).await;
    let stalled = |object: &MyIngress| crate::support::scene::stalled(object).is_some();
    scene.ingress("b", "the bad member to be reported", stalled).await;
    answers_become(&scene, "nothing of the bad member", &[("a.example.com", "200")]).await;
    scene.edit::<MyIngress>("a", standing("a.example.com", 404)).await;
    answers_become(&scene, "the good member to go on", &[("a.example.com", "404")]).await;
    scene.ingress("a", "the good member to be ready", is_ready).await;
    scene.edit::<MyIngress>("b", answering("b.example.com", 201)).await;
    answers_become(&scene, "the mended member", &[("a.example.com", "404"), ("b.example.com", "201")]).await;
    // Once it has something, a mistake does not take it away.
    scene.edit::<MyIngress>("b", bad).await;
    scene.ingress("b", "the bad edit to be reported", stalled).await;
    scene.edit::<MyIngress>("a", standing("a.example.com", 200)).await;
    answers_become(&scene, "what there was", &[("a.example.com", "200"), ("b.example.com", "201")]).await;
    scene.delete::<MyIngress>("b").await;
    scene.gone::<MyIngress>("b").await;
    answers_become(&scene, "nothing of the deleted member", &[("a.example.com", "200")]).await;
}

#[tokio::test]
async fn a_repeated_rule_is_reported_to_the_second_member() {
    let scene = Scene::new("groups").await;
    let _operator = Operator::start(&scene).await;
    let clash = |status: u16| {
        let mut object = answering("a.example.com", status);
        object["listeners"][0]["rules"][0]["priority"] = json!(7);
        object
    };
    scene.create::<MyIngress>("a", spec(clash(200))).await;
    scene.ingress("a", "the first member to be ready", is_ready).await;
    scene.create::<MyIngress>("b", clash(201)).await;
    let stalled = |object: &MyIngress| crate::support::scene::stalled(object).is_some();
    let object = scene.ingress("b", "the clash to be reported", stalled).await;
    let reason = crate::support::scene::stalled(&object).expect("a reason");
    let message = stalled_by(&scene, "b", &reason).await;
    assert!(message.contains("priority") && message.starts_with("spec.listeners[0].rules[0]"), "{reason}: {message}");
    answers_become(&scene, "the first member's rule alone", &[("a.example.com", "200")]).await;
}

#[tokio::test]
async fn the_only_anchor_goes_and_the_others_stay() {
    let scene = Scene::new("groups").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    scene.create::<MyIngress>("a", standing("a.example.com", 200)).await;
    scene.ingress("a", "the member with subnets to be ready", is_ready).await;
    let forwarding = json!({
        "group": { "name": "site" },
        "listeners": [{ "port": 80, "rules": [{ "hosts": ["b.example.com"],
            "action": { "forward": { "backends": [{ "name": "web" }] } } }] }],
        "backends": [{ "name": "web", "port": 80 }],
    });
    scene.create::<MyIngress>("b", forwarding).await;
    scene.ingress("b", "the other member to be ready", is_ready).await;
    scene.delete::<MyIngress>("a").await;
    scene.gone::<MyIngress>("a").await;
    stalled_by(&scene, "b", "SubnetsMissing").await;
    let groups = target_groups(&scene).await;
    let arn = groups[0].target_group_arn().expect("an ARN");
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.2"]).await;
    let staying = || async {
        let all = targets_if_there(&scene, arn).await.unwrap_or_default();
        all.into_iter().filter(|(_, state)| state != "draining").map(|(place, _)| place).collect::<Vec<_>>()
    };
    wait_for("the targets to follow", staying, |seen| *seen == ["198.18.7.2:8080"]).await;
    scene.edit::<MyIngress>("b", spec(json!({}))).await;
    scene.ingress("b", "the other member to be ready with subnets of its own", is_ready).await;
    assert_eq!(scene.balancers().await.len(), 1);
}

#[tokio::test]
async fn a_group_without_a_place_says_so() {
    let scene = Scene::new("groups").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyIngress>("b", answering("b.example.com", 201)).await;
    let message = stalled_by(&scene, "b", "SubnetsMissing").await;
    assert!(message.contains("subnets") && message.contains("subnetSelector"), "{message}");
    assert!(scene.balancers().await.is_empty());
}
