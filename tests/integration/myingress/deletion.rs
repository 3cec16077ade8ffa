//! A deleted object takes its balancer along, unless its spec says otherwise. Nothing in its spec holds the deletion
//! up.

use causeway_api::MyIngress;
use kube::ResourceExt;
use serde_json::json;

use super::bystander::{self, read_balancer};
use super::{created, event, spec, stalled_by};
use crate::support::scene::condition;
use crate::support::{Operator, Scene, wait_for};

async fn deleted(scene: &Scene, name: &str) {
    scene.delete::<MyIngress>(name).await;
    scene.gone::<MyIngress>(name).await;
}

#[tokio::test]
async fn a_deleted_object_takes_its_balancer_along() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    let object = scene.api::<MyIngress>().get("app").await.unwrap();
    assert_eq!(object.finalizers(), ["causeway.example.com/load-balancer"]);
    deleted(&scene, "app").await;
    assert!(scene.balancers().await.is_empty());
    assert_eq!(event(&scene, "app", "Deleted").await, "Deleted load balancer app-alb");
}

#[tokio::test]
async fn a_balancer_that_is_gone_already_holds_nothing_up() {
    let scene = Scene::new("delete").await;
    let operator = Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({}))).await;
    operator.stop().await;
    bystander::delete(&scene, &alb.arn).await;
    let _operator = Operator::start(&scene).await;
    deleted(&scene, "app").await;
}

#[tokio::test]
async fn an_object_deleted_without_an_operator_takes_its_balancer_along() {
    let scene = Scene::new("delete").await;
    let operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    operator.stop().await;
    scene.delete::<MyIngress>("app").await;
    let _operator = Operator::start(&scene).await;
    scene.gone::<MyIngress>("app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn an_object_deleted_during_its_create_leaves_no_balancer() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    // AWS makes the balancer only after the operator has given the call up, and after the object's deletion.
    let late = json!({ "kind": "delay", "delay_ms": 7_000, "operation": "CreateLoadBalancer", "times": 1 });
    scene.emulator.fault(late).await;
    scene.create::<MyIngress>("app", spec(json!({}))).await;
    let create = || async {
        let calls = scene.emulator.journal().await;
        calls.into_iter().find(|call| call.operation == "CreateLoadBalancer")
    };
    wait_for("the create to be sent", create, Option::is_some).await;
    deleted(&scene, "app").await;
    wait_for("the create to end", create, |call| call.as_ref().is_some_and(|call| call.outcome.is_some())).await;
    wait_for("nothing to be left", || scene.balancers(), Vec::is_empty).await;
}

#[tokio::test]
async fn an_object_deleted_during_a_replacement_takes_both_balancers_along() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    scene.emulator.settings(json!({ "provisioning_seconds": 3600 })).await;
    scene.edit::<MyIngress>("app", json!({ "scheme": "internal" })).await;
    wait_for("the second balancer", || scene.balancers(), |balancers| balancers.len() == 2).await;
    deleted(&scene, "app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn a_deletion_in_the_grace_period_takes_both_balancers() {
    let scene = Scene::new("delete").await;
    let sweep = std::time::Duration::from_secs(2);
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), sweep);
    context.replacement_grace = std::time::Duration::from_hours(1);
    let _operator = Operator::start_in(context);
    let old = created(&scene, "app", spec(json!({}))).await;
    scene.edit::<MyIngress>("app", json!({ "scheme": "internal" })).await;
    let new = super::ready(&scene, "app").await;
    assert_ne!(new.arn, old.arn);
    assert_eq!(scene.balancers().await.len(), 2);
    deleted(&scene, "app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn deletion_protection_is_explained_and_deletion_resumes_without_it() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({}))).await;
    bystander::set_attribute(&scene, &alb.arn, "deletion_protection.enabled", "true").await;
    scene.delete::<MyIngress>("app").await;
    let message = stalled_by(&scene, "app", "DeletionProtected").await;
    assert!(message.contains("spec.deletionProtection") && message.contains("kubectl -n"), "{message}");
    assert_eq!(scene.balancers().await.len(), 1);
    bystander::set_attribute(&scene, &alb.arn, "deletion_protection.enabled", "false").await;
    scene.gone::<MyIngress>("app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn the_specs_deletion_protection_protects_until_lifted() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    let protection = |on: &str| json!({ "attributes": { "deletion_protection.enabled": on } });
    created(&scene, "app", spec(protection("true"))).await;
    scene.delete::<MyIngress>("app").await;
    stalled_by(&scene, "app", "DeletionProtected").await;
    assert_eq!(scene.balancers().await.len(), 1);
    scene.edit::<MyIngress>("app", protection("false")).await;
    scene.gone::<MyIngress>("app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn retain_leaves_the_balancer_as_it_is() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({ "deletionPolicy": "Retain" }))).await;
    let before = read_balancer(&scene, &alb.arn).await;
    deleted(&scene, "app").await;
    assert_eq!(read_balancer(&scene, &alb.arn).await, before);
    assert!(event(&scene, "app", "Retained").await.contains("app-alb"));
    // A new object of the same name is another owner.
    let second = created(&scene, "app", spec(json!({}))).await;
    assert_ne!(second.arn, alb.arn);
    assert_eq!(read_balancer(&scene, &alb.arn).await, before);
}

#[tokio::test]
async fn a_spec_that_became_invalid_does_not_hold_deletion_up() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    scene.edit::<MyIngress>("app", json!({ "subnets": ["subnet-abc", "subnet-unknown"] })).await;
    stalled_by(&scene, "app", "SubnetNotFound").await;
    deleted(&scene, "app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn an_object_that_never_got_a_balancer_can_be_deleted() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyIngress>("app", spec(json!({ "subnets": ["subnet-abc", "subnet-unknown"] }))).await;
    stalled_by(&scene, "app", "SubnetNotFound").await;
    deleted(&scene, "app").await;
}

#[tokio::test]
async fn deletion_resumes_once_its_permission_is_granted() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    scene.emulator.fault(json!({ "kind": "access_denied", "operation": "DeleteLoadBalancer" })).await;
    scene.delete::<MyIngress>("app").await;
    let message = stalled_by(&scene, "app", "PermissionMissing").await;
    assert!(message.contains("elasticloadbalancing:DeleteLoadBalancer"), "{message}");
    scene.emulator.no_faults().await;
    scene.gone::<MyIngress>("app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn another_finalizer_stays_and_ours_goes() {
    let scene = Scene::new("delete").await;
    let _operator = Operator::start(&scene).await;
    created(&scene, "app", spec(json!({}))).await;
    let api = scene.api::<MyIngress>();
    let mut object = api.get("app").await.unwrap();
    object.finalizers_mut().push("example.com/other".into());
    api.replace("app", &kube::api::PostParams::default(), &object).await.expect("the finalizer is accepted");
    scene.delete::<MyIngress>("app").await;
    let look = || async { api.get("app").await.expect("the object") };
    let only_other = |object: &MyIngress| object.finalizers() == ["example.com/other"];
    let object = wait_for("only the other finalizer to be left", look, only_other).await;
    assert!(scene.balancers().await.is_empty());
    assert_eq!(condition(&object.status.unwrap_or_default().conditions, "Stalled"), None);
}
