//! Only what carries our cluster's and the object's own tags is ever changed or deleted.

use std::time::Duration;

use causeway_api::MyIngress;
use kube::ResourceExt;
use serde_json::json;

use super::bystander::{self, read_balancer};
use super::{changes, created, ready, spec, stalled_by, two_sweeps};
use crate::support::account::target_groups;
use crate::support::backends::{endpoints, service};
use crate::support::{Operator, Scene};

const CLUSTER: &str = "causeway.example.com/cluster";
const SWEEP: Duration = Duration::from_secs(2);
const UID: &str = "causeway.example.com/uid";

#[tokio::test]
async fn a_balancer_without_our_tags_is_left_alone() {
    for key in [CLUSTER, UID] {
        let scene = Scene::new("owner").await;
        let _operator = Operator::start(&scene).await;
        let alb = created(&scene, "app", spec(json!({}))).await;
        let value = scene.tags(&alb.arn).await[key].clone();
        bystander::remove_tag(&scene, &alb.arn, key).await;
        let message = stalled_by(&scene, "app", "OwnershipLost").await;
        assert!(message.contains("app-alb") && message.contains(&value), "{message}");
        scene.emulator.clear_journal().await;
        let before = read_balancer(&scene, &alb.arn).await;
        // An edit does not change this.
        scene.edit::<MyIngress>("app", json!({ "subnets": ["subnet-def", "subnet-ghi"] })).await;
        two_sweeps(&scene).await;
        assert_eq!(read_balancer(&scene, &alb.arn).await, before);
        assert_eq!(changes(&scene).await, [""; 0]);

        bystander::add_tag(&scene, &alb.arn, key, &value).await;
        assert_eq!(ready(&scene, "app").await, alb);
    }
}

#[tokio::test]
async fn a_balancer_without_our_tags_survives_the_deletion() {
    let scene = Scene::new("owner").await;
    let _operator = super::operator_without_sweeps(&scene).await;
    let alb = created(&scene, "app", spec(json!({}))).await;
    // No sweep shows this change to the operator: the deletion itself must check the tags.
    bystander::add_tag(&scene, &alb.arn, UID, "another-owner").await;
    let before = read_balancer(&scene, &alb.arn).await;
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    assert_eq!(read_balancer(&scene, &alb.arn).await, before);
}

#[tokio::test]
async fn a_deleted_object_names_the_lost_balancer() {
    let scene = Scene::new("owner").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "shop", &[("http", 80)]).await;
    endpoints(&scene, "shop", &[("http", 80)], &["10.0.0.1"]).await;
    let listeners = json!([{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "shop" }] } } }]);
    let more = json!({ "listeners": listeners, "backends": [{ "name": "shop", "port": 80 }] });
    let alb = created(&scene, "app", spec(more)).await;
    two_sweeps(&scene).await;
    bystander::remove_tag(&scene, &alb.arn, UID).await;
    stalled_by(&scene, "app", "OwnershipLost").await;
    scene.delete::<MyIngress>("app").await;
    let says = |object: &MyIngress| {
        let conditions = object.status.iter().flat_map(|status| &status.conditions);
        conditions
            .filter(|it| it.type_ == "Ready")
            .any(|it| it.reason == "OwnershipLost" && it.message.contains("target group"))
    };
    let object = scene.ingress("app", "a message about the target group that the balancer uses", says).await;
    assert!(
        object.status.is_some_and(|it| it.targets.is_none() && it.listeners.is_empty()),
        "nothing that it has lost"
    );
    scene.emulator.clear_journal().await;
    two_sweeps(&scene).await;
    assert_eq!(changes(&scene).await, [""; 0]);
    bystander::delete(&scene, &alb.arn).await;
    scene.gone::<MyIngress>("app").await;
    assert!(target_groups(&scene).await.is_empty());
}

#[tokio::test]
async fn a_lost_balancer_that_is_deleted_is_replaced() {
    let scene = Scene::new("owner").await;
    let _operator = Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({}))).await;
    bystander::remove_tag(&scene, &alb.arn, UID).await;
    stalled_by(&scene, "app", "OwnershipLost").await;
    bystander::delete(&scene, &alb.arn).await;
    assert_ne!(ready(&scene, "app").await.arn, alb.arn);
}

#[tokio::test]
async fn another_clusters_balancer_is_never_touched_despite_equal_uid() {
    let scene = Scene::new("owner").await;
    let operator = Operator::start(&scene).await;
    let object = scene.create::<MyIngress>("app", spec(json!({}))).await;
    ready(&scene, "app").await;
    operator.stop().await;
    let uid = object.uid().unwrap();
    let tags = [
        (CLUSTER, "another"),
        (UID, uid.as_str()),
        ("causeway.example.com/namespace", scene.namespace.as_str()),
        ("causeway.example.com/name", "app"),
        ("ManagedBy", "causeway"),
    ];
    let theirs = bystander::create(&scene, "theirs", &["subnet-abc", "subnet-def"], &tags).await;
    let before = read_balancer(&scene, &theirs).await;
    let _operator = Operator::start(&scene).await;
    scene.edit::<MyIngress>("app", json!({ "subnets": ["subnet-def", "subnet-ghi"] })).await;
    ready(&scene, "app").await;
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    assert_eq!(read_balancer(&scene, &theirs).await, before);
    assert_eq!(scene.balancers().await.len(), 1);
}

#[tokio::test]
async fn namesake_objects_in_two_namespaces_have_separate_balancers() {
    let (scene, other) = (Scene::new("owner").await, Scene::new("owner").await);
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), SWEEP);
    context.environment.namespaces.push(other.namespace.clone());
    let _operator = Operator::start_in(context);
    scene.create::<MyIngress>("app", spec(json!({}))).await;
    other.create::<MyIngress>("app", spec(json!({}))).await;
    let (first, second) = (ready(&scene, "app").await, ready(&other, "app").await);
    assert_ne!((&first.arn, &first.name, &first.dns), (&second.arn, &second.name, &second.dns));
    assert_eq!(scene.balancers().await.len(), 2);
    let before = read_balancer(&scene, &second.arn).await;
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    assert_eq!(read_balancer(&scene, &second.arn).await, before);
    other.delete::<MyIngress>("app").await;
    other.gone::<MyIngress>("app").await;
    assert!(scene.balancers().await.is_empty());
}

#[tokio::test]
async fn two_clusters_of_one_account_do_not_interfere() {
    let (scene, other) = (Scene::new("owner").await, Scene::new("owner").await);
    let _operator = Operator::start(&scene).await;
    // The other cluster (another name in the tags) works in the same account.
    let _neighbour = Operator::start_with(&other, Operator::client().await, scene.aws.clone(), SWEEP);
    scene.create::<MyIngress>("app", spec(json!({}))).await;
    other.create::<MyIngress>("app", spec(json!({}))).await;
    let (first, second) = (ready(&scene, "app").await, ready(&other, "app").await);
    assert_ne!(first.arn, second.arn);
    let before = read_balancer(&scene, &second.arn).await;
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    two_sweeps(&scene).await;
    assert_eq!(read_balancer(&scene, &second.arn).await, before);
}

#[tokio::test]
async fn namesake_clusters_in_different_accounts_do_not_interfere() {
    let (scene, other) = (Scene::new("owner").await, Scene::new("owner").await);
    let _operator = Operator::start(&scene).await;
    let mut context = Operator::context(&other, Operator::client().await, other.aws.clone(), SWEEP);
    context.cluster.name.clone_from(&scene.namespace);
    let _neighbour = Operator::start_in(context);
    let first = created(&scene, "app", spec(json!({}))).await;
    let second = created(&other, "app", spec(json!({}))).await;
    assert_eq!((first.name.as_str(), second.name.as_str()), ("app-alb", "app-alb"));
    scene.delete::<MyIngress>("app").await;
    scene.gone::<MyIngress>("app").await;
    assert_eq!((scene.balancers().await.len(), other.balancers().await.len()), (0, 1));
}
