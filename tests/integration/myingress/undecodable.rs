//! An object that cannot be decoded is reported, left as it is, and harms no other object.

use std::time::Duration;

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::{created, ready, spec, stalled_by};
use crate::support::backends::{endpoints, service};
use crate::support::rewriting::rewriting;
use crate::support::{Account, Operator, Scene, full, wait_for};

/// A port in whose place the operator reads a number that does not fit into its type.
const PORT: u16 = 64_321;

/// An operator that cannot decode objects with that port.
async fn operator(scene: &Scene) -> Operator {
    let client = rewriting(Operator::client().await, "myingresses", "64321", "2147483648");
    Operator::start_with(scene, client, scene.aws.clone(), Duration::from_secs(2))
}

fn forwarding(port: u16) -> Value {
    spec(json!({
        "backends": [{ "name": "web", "service": "web", "port": port }],
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "web" }] } } }],
    }))
}

#[tokio::test]
async fn an_undecodable_object_hurts_no_other() {
    let scene = Scene::new("undecodable").await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    let operator = operator(&scene).await;
    created(&scene, "before", forwarding(80)).await;
    scene.create::<MyIngress>("bad", forwarding(PORT)).await;
    let message = stalled_by(&scene, "bad", "Undecodable").await;
    assert!(message.starts_with("spec.backends[0].port: "), "{message}");
    // The others go on, old ones and new ones, and so does a new process.
    scene.edit::<MyIngress>("before", json!({ "tags": { "team": "blue" } })).await;
    ready(&scene, "before").await;
    created(&scene, "after", forwarding(80)).await;
    let text = operator.metrics.encode().expect("metrics");
    assert!(text.contains(r#"causeway_undecodable_objects{kind="MyIngress"} 1"#), "{text}");
    operator.stop().await;
    let _operator = self::operator(&scene).await;
    created(&scene, "later", forwarding(80)).await;
    // Corrected, it becomes what it says.
    scene.edit::<MyIngress>("bad", forwarding(80)).await;
    ready(&scene, "bad").await;
    // Spoilt again, it keeps what it has, and goes when it is deleted.
    scene.edit::<MyIngress>("bad", forwarding(PORT)).await;
    stalled_by(&scene, "bad", "Undecodable").await;
    assert_eq!(scene.balancers().await.len(), 4);
    scene.delete::<MyIngress>("bad").await;
    scene.gone::<MyIngress>("bad").await;
    assert_eq!(scene.balancers().await.len(), 3);
}

#[tokio::test]
async fn an_undecodable_member_keeps_its_rules_and_balancer() {
    let scene = Scene::new("undecodable").await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    let _operator = operator(&scene).await;
    let member = |host: &str, port: u16| {
        json!({
            "group": { "name": "site" },
            "backends": [{ "name": "web", "service": "web", "port": port }],
            "listeners": [{ "port": 80, "rules": [{ "hosts": [host],
                "action": { "forward": { "backends": [{ "name": "web" }] } } }] }],
        })
    };
    created(&scene, "home", spec(member("home.example.com", 80))).await;
    created(&scene, "bad", member("bad.example.com", 80)).await;
    for name in ["home", "bad"] {
        scene.ingress(name, &format!("{name} to have healthy targets"), full::is_complete).await;
    }
    let before = Account::of(&scene).await;
    scene.edit::<MyIngress>("bad", member("bad.example.com", PORT)).await;
    stalled_by(&scene, "bad", "Undecodable").await;
    ready(&scene, "home").await;
    assert_eq!(Account::of(&scene).await.facts(&scene), before.facts(&scene));
    scene.delete::<MyIngress>("home").await;
    scene.gone::<MyIngress>("home").await;
    let text = || async { Account::of(&scene).await.text() };
    let left = |text: &String| !text.contains("home.example.com") && text.contains("bad.example.com");
    wait_for("only the rule of the member that stays", text, left).await;
    scene.delete::<MyIngress>("bad").await;
    scene.gone::<MyIngress>("bad").await;
    assert!(scene.balancers().await.is_empty());
}
