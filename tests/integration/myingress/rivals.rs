//! Two Kubernetes clusters that were given one `CLUSTER_NAME`, in one account and region.

use std::time::Duration;

use causeway_api::MyIngress;
use serde_json::{Value, json};

use super::bystander::{self, read_balancer};
use super::{created, ready, spec, stalled_by, two_sweeps};
use crate::support::account::becomes;
use crate::support::emulator::Call;
use crate::support::role::Session;
use crate::support::{Account, Operator, Scene, full, wait_for};

const CLUSTER_UID: &str = "causeway.example.com/cluster-uid";
const SWEEP: Duration = Duration::from_secs(2);
const REASON: &str = "ClusterNameShared";

/// An operator of a cluster of the scene's name with this uid, that serves the namespace of `served` in the scene's account.
async fn operator_of(uid: Option<&str>, scene: &Scene, served: &Scene) -> Operator {
    operator_as(uid, scene, served, scene.aws.clone()).await
}

async fn operator_as(uid: Option<&str>, scene: &Scene, served: &Scene, aws: aws_config::SdkConfig) -> Operator {
    let mut context = Operator::context(served, Operator::client().await, aws, SWEEP);
    context.cluster.name.clone_from(&scene.namespace);
    context.cluster.uid = uid.map(str::to_owned);
    Operator::start_in(context)
}

/// Calls that changed anything, of any service.
async fn writes(scene: &Scene) -> Vec<String> {
    let reads = |operation: &str| ["Describe", "Get", "List"].iter().any(|read| operation.starts_with(read));
    let calls = scene.emulator.journal().await.into_iter();
    calls.map(|call| call.operation).filter(|operation| !reads(operation)).collect()
}

/// Waits until an operator counts so many other clusters of its name.
async fn counts(operator: &Operator, rivals: u32) {
    let line = format!("causeway_cluster_name_rivals {rivals}\n");
    let metrics = || async { operator.metrics.encode().expect("a text") };
    wait_for(&line, metrics, |text| text.contains(&line)).await;
}

fn in_a_group(more: Value) -> Value {
    let mut spec = spec(more);
    spec["group"] = json!({ "name": "shared" });
    spec
}

#[tokio::test]
async fn the_second_cluster_of_a_name_explains_its_idleness() {
    let scene = Scene::new("rivals").await;
    let first = operator_of(Some("uid-of-the-first"), &scene, &scene).await;
    // The tags and names of the group are the same in both clusters, those of the object without a group are not.
    let alb = created(&scene, "member", in_a_group(json!({}))).await;
    first.stop().await;
    scene.create::<MyIngress>("alone", spec(json!({}))).await;
    let before = Account::of(&scene).await;
    scene.emulator.clear_journal().await;

    let second = operator_of(Some("uid-of-the-second"), &scene, &scene).await;
    for name in ["member", "alone"] {
        let message = stalled_by(&scene, name, REASON).await;
        let words = ["uid-of-the-first", "uid-of-the-second", "another CLUSTER_NAME", scene.namespace.as_str()];
        assert!(words.iter().all(|it| message.contains(it)), "{message}");
    }
    counts(&second, 1).await;
    scene.edit::<MyIngress>("member", json!({ "subnets": ["subnet-def", "subnet-ghi"] })).await;
    two_sweeps(&scene).await;
    for name in ["member", "alone"] {
        scene.delete::<MyIngress>(name).await;
        scene.gone::<MyIngress>(name).await;
    }
    two_sweeps(&scene).await;
    assert_eq!(writes(&scene).await, [""; 0]);
    assert_eq!(Account::of(&scene).await, before);

    // Once the first cluster's balancer is gone, the second may make its own.
    bystander::delete(&scene, &alb.arn).await;
    counts(&second, 0).await;
    created(&scene, "alone", spec(json!({}))).await;
}

#[tokio::test]
async fn established_namesake_clusters_report_each_other_and_go_on() {
    let (scene, other) = (Scene::new("rivals").await, Scene::new("rivals").await);
    // This object is from before clusters were distinguished by their uids.
    let before = operator_of(None, &scene, &other).await;
    let theirs = created(&other, "app", spec(json!({}))).await;
    before.stop().await;
    assert_eq!(scene.tags(&theirs.arn).await.get(CLUSTER_UID), None);

    let first = operator_of(Some("uid-of-the-first"), &scene, &scene).await;
    let ours = created(&scene, "app", spec(json!({}))).await;
    let second = operator_of(Some("uid-of-the-second"), &scene, &other).await;
    let is_marked = |tags: &std::collections::BTreeMap<String, String>| tags.contains_key(CLUSTER_UID);
    let tags = wait_for("its balancer to be taken over", || scene.tags(&theirs.arn), is_marked).await;
    assert_eq!(tags[CLUSTER_UID], "uid-of-the-second");
    counts(&first, 1).await;
    counts(&second, 1).await;

    // Each goes on with what it has, and leaves the other's alone.
    let untouched = read_balancer(&scene, &ours.arn).await;
    other.edit::<MyIngress>("app", json!({ "subnets": ["subnet-def", "subnet-ghi"] })).await;
    assert_eq!(ready(&other, "app").await.arn, theirs.arn);
    other.delete::<MyIngress>("app").await;
    other.gone::<MyIngress>("app").await;
    assert_eq!(read_balancer(&scene, &ours.arn).await, untouched);
    counts(&first, 0).await;
}

#[tokio::test]
async fn resources_without_cluster_uid_are_adopted_within_the_policy() {
    let scene = Scene::new("rivals").await;
    scene.emulator.settings(json!({ "draining_scale": 0 })).await;
    let session = Session::of(&scene, "operator").await;
    let before = operator_as(None, &scene, &scene, session.config(&scene)).await;
    let arn = full::created(&scene).await;
    before.stop().await;
    let unmarked = Account::of(&scene).await;
    assert!(!unmarked.text().contains(CLUSTER_UID));
    scene.emulator.clear_journal().await;

    let operator = operator_as(Some("uid-of-the-first"), &scene, &scene, session.config(&scene)).await;
    let is_whole = |account: &Account| {
        let text = account.text();
        text.matches(CLUSTER_UID).count() == text.matches("causeway.example.com/uid").count()
    };
    let marked = wait_for("every part to be marked", || Account::of(&scene), is_whole).await;
    assert_eq!(full::complete(&scene).await, arn);
    two_sweeps(&scene).await;
    let tagging = ["AddTags", "CreateTags"];
    let writes = writes(&scene).await;
    assert!(writes.iter().all(|it| tagging.contains(&it.as_str())), "{writes:?}");
    operator.stop().await;
    // A call that was under way when the operator stopped has no outcome.
    let is_refused = |call: &Call| call.outcome.as_deref().is_some_and(|outcome| outcome != "OK");
    let refused = scene.emulator.journal().await.into_iter().filter(is_refused);
    assert_eq!(refused.collect::<Vec<_>>(), []);

    // The owner cannot change any more: not even the operator's role may replace or remove the tag.
    let elb = aws_sdk_elasticloadbalancingv2::Client::new(&session.config(&scene));
    let tag = aws_sdk_elasticloadbalancingv2::types::Tag::builder().key(CLUSTER_UID).value("uid-of-the-second").build();
    let theft = elb.add_tags().resource_arns(&arn).tags(tag).send().await.expect_err("it is denied");
    assert_eq!(theft.into_service_error().meta().code(), Some("AccessDenied"));
    let loss = elb.remove_tags().resource_arns(&arn).tag_keys(CLUSTER_UID).send().await.expect_err("it is denied");
    assert_eq!(loss.into_service_error().meta().code(), Some("AccessDenied"));
    becomes(&scene, "nothing", &marked.facts(&scene)).await;
}
