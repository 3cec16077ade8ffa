//! The full example becomes what it says, and goes without a trace.

use causeway_api::MyIngress;
use serde_json::json;

use crate::support::{Account, Operator, Scene, full, wait_for};

#[tokio::test]
async fn the_full_example_becomes_what_it_says() {
    let scene = Scene::new("full").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    let facts = Account::of(&scene).await.facts(&scene);
    insta::assert_snapshot!(facts.0.into_iter().collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn the_full_example_tells_what_became_of_it() {
    let scene = Scene::new("full").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    let status = scene.api::<MyIngress>().get(full::NAME).await.unwrap().status.unwrap();
    let account = Account::of(&scene).await;
    let balancer = &account.0["balancers"]["shop-alb"];
    assert_eq!(balancer["arn"], status.alb.as_ref().unwrap().arn);
    assert_eq!(balancer["securityGroups"], json!([status.security_group]));
    let listeners: Vec<_> = status.listeners.iter().map(|it| (it.port, it.protocol.as_str(), it.rules)).collect();
    assert_eq!(listeners, [(80, "HTTP", 0), (443, "HTTPS", 6)]);
    let groups: Vec<_> = status.target_groups.iter().map(|it| (it.backend.as_str(), it.healthy, it.total)).collect();
    assert_eq!(groups, [("api", 1, 1), ("cart", 1, 1), ("shop", 1, 1)]);
    for (group, (_, target)) in status.target_groups.iter().zip(full::TARGETS) {
        assert_eq!(account.0["targetGroups"][&group.name]["targets"], json!({ target: "healthy" }));
    }
}

#[tokio::test]
async fn the_full_example_is_told_in_few_events() {
    let scene = Scene::new("full").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    let last = |events: &Vec<(String, String)>| events.iter().any(|(reason, _)| reason == "Active");
    let events = wait_for("the last event", || scene.events(full::NAME), last).await;
    println!("» events about the creation of the full example: {}", events.len());
    assert!(events.len() <= 16, "{events:#?}");
    let created = events.iter().filter(|(reason, _)| reason == "Created").flat_map(|(_, note)| note.split("; "));
    let rules = created.filter(|note| note.starts_with("Created rule ")).count();
    assert_eq!(rules, 6, "and nothing is left out: {events:#?}");
}

#[tokio::test]
async fn the_full_example_goes_without_a_trace() {
    let scene = Scene::new("full").await;
    let _operator = Operator::start(&scene).await;
    full::created(&scene).await;
    scene.delete::<MyIngress>(full::NAME).await;
    scene.gone::<MyIngress>(full::NAME).await;
    let after = Account::of(&scene).await;
    assert!(after.is_empty(), "{}", after.text());
}
