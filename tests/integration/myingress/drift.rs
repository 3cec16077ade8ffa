//! Changes of others in AWS are put back within one sweep; what is theirs stays.

use std::time::Instant;

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::bystander::{self, attributes, read_balancer, subnets};
use super::{changes, created, spec, two_sweeps};
use crate::support::scene::condition;
use crate::support::{Operator, Scene, wait_for};

/// A scene with an object that sets everything, its ARN, and a running operator.
async fn full() -> (Scene, Operator, String) {
    let scene = Scene::new("drift").await;
    let operator = Operator::start(&scene).await;
    let more: Value = json!({
        "securityGroups": ["sg-web"],
        "attributes": { "idle_timeout.timeout_seconds": "120" },
        "tags": { "team": "payments" },
    });
    let alb = created(&scene, "app", spec(more)).await;
    scene.emulator.clear_journal().await;
    (scene, operator, alb.arn)
}

fn tell(what: &str, begun: Instant) {
    println!("» {what} is repaired after {} ms with a sweep every 2 s", begun.elapsed().as_millis());
}

#[tokio::test]
async fn a_deleted_balancer_is_created_again() {
    let (scene, _operator, arn) = full().await;
    let begun = Instant::now();
    bystander::delete(&scene, &arn).await;
    let another = |object: &MyIngress| {
        let status = object.status.clone().unwrap_or_default();
        status.alb.is_some_and(|alb| alb.arn != arn)
            && condition(&status.conditions, "Ready").is_some_and(|(ready, ..)| ready == "True")
    };
    let object = scene.ingress("app", "another balancer", another).await;
    tell("a deleted balancer", begun);
    let after = read_balancer(&scene, &super::alb(&object).arn).await;
    assert_eq!(after.balancer.load_balancer_name(), Some("app-alb"));
    assert_eq!(after.attributes["idle_timeout.timeout_seconds"], "120", "attributes are set on the new one too");
    assert_eq!(scene.balancers().await.len(), 1);
}

#[tokio::test]
async fn changed_tags_are_put_back_and_foreign_ones_stay() {
    let (scene, _operator, arn) = full().await;
    let mut expected = scene.tags(&arn).await;
    expected.insert("cost-center".into(), "42".into());
    let begun = Instant::now();
    bystander::add_tag(&scene, &arn, "cost-center", "42").await;
    bystander::add_tag(&scene, &arn, "team", "pirates").await;
    bystander::add_tag(&scene, &arn, "ManagedBy", "hand").await;
    bystander::remove_tag(&scene, &arn, "causeway.example.com/name").await;
    bystander::remove_tag(&scene, &arn, "causeway.example.com/namespace").await;
    wait_for("the tags to be back", || scene.tags(&arn), |tags| *tags == expected).await;
    tell("a changed tag", begun);
    bystander::remove_tag(&scene, &arn, "team").await;
    wait_for("the tag to be back", || scene.tags(&arn), |tags| *tags == expected).await;
}

#[tokio::test]
async fn changed_attributes_are_put_back_and_others_stay() {
    let (scene, _operator, arn) = full().await;
    let begun = Instant::now();
    bystander::set_attribute(&scene, &arn, "client_keep_alive.seconds", "1800").await;
    bystander::set_attribute(&scene, &arn, "idle_timeout.timeout_seconds", "30").await;
    let look = || attributes(&scene, &arn);
    let after = wait_for("the attribute to be back", look, |it| it["idle_timeout.timeout_seconds"] == "120").await;
    tell("a changed attribute", begun);
    assert_eq!(after["client_keep_alive.seconds"], "1800");
}

#[tokio::test]
async fn changed_subnets_are_put_back() {
    let (scene, _operator, arn) = full().await;
    let begun = Instant::now();
    bystander::set_subnets(&scene, &arn, &["subnet-def", "subnet-ghi"]).await;
    let back = |balancers: &Vec<_>| subnets(&balancers[0]) == ["subnet-abc", "subnet-def"];
    let balancers = wait_for("the subnets to be back", || scene.balancers(), back).await;
    tell("a changed subnet", begun);
    assert_eq!(balancers[0].load_balancer_arn(), Some(arn.as_str()));
}

#[tokio::test]
async fn changed_security_groups_are_put_back() {
    let (scene, _operator, arn) = full().await;
    let begun = Instant::now();
    bystander::set_security_groups(&scene, &arn, &["sg-other", "sg-web"]).await;
    let back = |groups: &Vec<String>| *groups == ["sg-web"];
    let look = || async { scene.balancers().await[0].security_groups().to_vec() };
    wait_for("the security groups to be back", look, back).await;
    tell("a changed security group", begun);
}

#[tokio::test]
async fn what_the_spec_does_not_name_is_left_alone() {
    let scene = Scene::new("drift").await;
    let _operator = Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({}))).await;
    bystander::set_security_groups(&scene, &alb.arn, &["sg-other"]).await;
    bystander::set_attribute(&scene, &alb.arn, "idle_timeout.timeout_seconds", "30").await;
    bystander::add_tag(&scene, &alb.arn, "team", "payments").await;
    let before = read_balancer(&scene, &alb.arn).await;
    two_sweeps(&scene).await;
    assert_eq!(read_balancer(&scene, &alb.arn).await, before);
}

#[tokio::test]
async fn a_repair_makes_one_call_and_then_there_is_peace() {
    let (scene, _operator, arn) = full().await;
    bystander::add_tag(&scene, &arn, "team", "pirates").await;
    wait_for("the tag to be back", || scene.tags(&arn), |tags| tags["team"] == "payments").await;
    two_sweeps(&scene).await;
    assert_eq!(changes(&scene).await, ["AddTags", "AddTags"], "the bystander's and ours");
}

#[tokio::test]
async fn a_suspended_object_is_left_alone_until_it_goes_on() {
    let (scene, _operator, arn) = full().await;
    scene.edit::<MyIngress>("app", json!({ "suspend": true, "subnets": ["subnet-def", "subnet-ghi"] })).await;
    let suspended = |object: &MyIngress| {
        let status = object.status.clone().unwrap_or_default();
        condition(&status.conditions, "Ready").is_some_and(|(_, reason, _)| reason == "Suspended")
    };
    scene.ingress("app", "the object to be suspended", suspended).await;
    bystander::add_tag(&scene, &arn, "team", "pirates").await;
    two_sweeps(&scene).await;
    assert_eq!(changes(&scene).await, ["AddTags"], "only the bystander's");
    scene.edit::<MyIngress>("app", json!({ "suspend": false })).await;
    super::ready(&scene, "app").await;
    let after = read_balancer(&scene, &arn).await;
    assert_eq!((subnets(&after.balancer), after.tags["team"].as_str()), (vec!["subnet-def", "subnet-ghi"], "payments"));
}

#[tokio::test]
async fn a_suspended_object_can_be_deleted() {
    let (scene, _operator, _) = full().await;
    scene.edit::<MyIngress>("app", json!({ "suspend": true })).await;
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    assert!(scene.balancers().await.is_empty());
}
