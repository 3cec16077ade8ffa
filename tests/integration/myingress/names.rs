//! `<name>-alb` where AWS allows it and it is free; a name with a hash of the owner elsewhere.

use causeway_api::MyIngress;
use serde_json::json;

use super::bystander::{self, read_balancer};
use super::{created, ready, spec};
use crate::support::{Operator, Scene};

/// Reports whether a name ends in a hash of eight hexadecimal digits after this beginning.
fn is_hashed(name: &str, beginning: &str) -> bool {
    let hash = name.strip_prefix(beginning).and_then(|rest| rest.strip_prefix('-'));
    hash.is_some_and(|hash| hash.len() == 8 && hash.chars().all(|c| c.is_ascii_hexdigit()))
}

#[tokio::test]
async fn an_impossible_name_is_shortened_and_hashed() {
    let scene = Scene::new("names").await;
    let _operator = Operator::start(&scene).await;
    for (name, expected) in [
        ("a-name-of-just-28-characters", None),
        ("a-name-of-fully-29-characters", Some("a-name-of-fully-29-char")),
        ("dots.are.allowed.here", Some("dots-are-allowed-here")),
        ("internal-tool", Some("tool")),
    ] {
        let alb = created(&scene, name, spec(json!({}))).await;
        match expected {
            None => assert_eq!(alb.name, format!("{name}-alb")),
            Some(beginning) => assert!(is_hashed(&alb.name, beginning), "{name} became {}", alb.name),
        }
        assert!(alb.name.len() <= 32, "{}", alb.name);
    }
}

#[tokio::test]
async fn a_foreign_balancer_of_the_name_is_never_touched() {
    // With the same settings, AWS answers the create with the foreign balancer; with other settings, it refuses the
    // create.
    for subnets in [["subnet-abc", "subnet-def"], ["subnet-def", "subnet-ghi"]] {
        let scene = Scene::new("names").await;
        let foreign = bystander::create(&scene, "myapp-alb", &subnets, &[("team", "payments")]).await;
        let before = read_balancer(&scene, &foreign).await;
        let _operator = Operator::start(&scene).await;
        let alb = created(&scene, "myapp", spec(json!({}))).await;
        assert!(is_hashed(&alb.name, "myapp"), "{}", alb.name);
        assert_eq!(scene.balancers().await.len(), 2);
        scene.delete::<MyIngress>("myapp").await;
        scene.gone::<MyIngress>("myapp").await;
        assert_eq!(scene.balancers().await.len(), 1);
        assert_eq!(read_balancer(&scene, &foreign).await, before);
    }
}

#[tokio::test]
async fn a_new_foreign_balancer_is_never_touched() {
    for subnets in [["subnet-abc", "subnet-def"], ["subnet-def", "subnet-ghi"]] {
        let scene = Scene::new("names").await;
        let _operator = super::operator_without_sweeps(&scene).await;
        // The operator has read the region once this is ready, and does not read it again.
        created(&scene, "first", spec(json!({}))).await;
        let foreign = bystander::create(&scene, "myapp-alb", &subnets, &[("team", "payments")]).await;
        let before = read_balancer(&scene, &foreign).await;
        let alb = created(&scene, "myapp", spec(json!({}))).await;
        assert!(is_hashed(&alb.name, "myapp"), "{}", alb.name);
        scene.delete::<MyIngress>("myapp").await;
        scene.gone::<MyIngress>("myapp").await;
        assert_eq!(read_balancer(&scene, &foreign).await, before);
    }
}

#[tokio::test]
async fn a_recreated_object_gets_a_balancer_of_that_name() {
    let scene = Scene::new("names").await;
    let _operator = Operator::start(&scene).await;
    let before = created(&scene, "myapp", spec(json!({}))).await;
    scene.delete::<MyIngress>("myapp").await;
    scene.gone::<MyIngress>("myapp").await;
    let after = created(&scene, "myapp", spec(json!({}))).await;
    assert_eq!(after.name, before.name);
    assert_ne!(after.arn, before.arn);
    assert_eq!(scene.balancers().await.len(), 1);
}

#[tokio::test]
async fn the_name_stays_when_a_better_one_becomes_free() {
    let scene = Scene::new("names").await;
    let foreign = bystander::create(&scene, "myapp-alb", &["subnet-abc", "subnet-def"], &[]).await;
    let _operator = Operator::start(&scene).await;
    let before = created(&scene, "myapp", spec(json!({}))).await;
    bystander::delete(&scene, &foreign).await;
    super::two_sweeps(&scene).await;
    assert_eq!(ready(&scene, "myapp").await, before);
    assert_eq!(scene.balancers().await.len(), 1);
}
