//! Edits that cannot be carried out leave a running cluster alone, and are reported with a message that names the
//! field.

use causeway_api::EtcdCluster;
use k8s_openapi::api::core::v1::{LimitRange, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::checker::Checker;
use super::{NAME, Stage, becomes, describe, pods, running, settled, spec, stalls, uids};
use crate::support::Operator;
use crate::support::backends::apply_service;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_edits_are_reported_while_members_run_on() {
    let scene = Stage::new("etcd-edits").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    for (flag, value, words) in [
        ("initial-cluster", "db-0=http://example.com", "remove it"),
        ("data-dir", "/tmp", "remove it"),
        ("quota-backend-byte", "1", "check its spelling"),
        ("quota-backend-bytes", "8Gi", "must be a whole number"),
        ("election-timeout", "100", "at least five times"),
    ] {
        scene.edit::<EtcdCluster>(NAME, json!({ "config": { (flag): value } })).await;
        let (_, message) = stalls(&scene, &format!("a message about {flag}")).await;
        assert!(message.contains(&format!("spec.config.{flag}")) && message.contains(words), "{message}");
        scene.edit::<EtcdCluster>(NAME, json!({ "config": { (flag): Value::Null } })).await;
    }
    // After an upgrade to 3.6 from such an early 3.5, members that were removed could come back.
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.6.16" })).await;
    let (_, message) = stalls(&scene, "a message about the upgrade").await;
    assert!(message.contains("spec.version") && message.contains("3.5.26"), "{message}");
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.9" })).await;
    settled(&scene, "the edits taken back").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    checker.goes_on("the edits taken back").await;
    checker.finish(&scene, "edits that cannot be carried out").await;
}

#[tokio::test]
async fn a_cluster_with_an_invalid_flag_does_not_begin() {
    let scene = Stage::new("etcd-edits").await;
    let _operator = Operator::start(&scene).await;
    let mut wrong = spec(1);
    wrong["config"] = json!({ "log-level": "loud" });
    scene.create::<EtcdCluster>(NAME, wrong).await;
    let (_, message) = stalls(&scene, "a message about the flag").await;
    assert!(message.contains("spec.config.log-level"), "{message}");
    assert!(pods(&scene).await.is_empty());
    scene.edit::<EtcdCluster>(NAME, json!({ "config": { "log-level": "warn" } })).await;
    settled(&scene, "the mistake corrected").await;
}

#[tokio::test]
async fn a_foreign_service_of_the_same_name_stays() {
    let scene = Stage::new("etcd-edits").await;
    let _operator = Operator::start(&scene).await;
    apply_service(&scene, NAME, json!({ "ports": [{ "name": "web", "port": 80 }] })).await;
    let version = |service: Service| (service.uid(), service.resource_version());
    let before = version(scene.api::<Service>().get(NAME).await.unwrap());
    scene.create::<EtcdCluster>(NAME, spec(1)).await;
    let (reason, message) = stalls(&scene, "a message about the name").await;
    assert_eq!(reason, "NameTaken");
    assert!(message.contains("Service") && message.contains(NAME), "{message}");
    assert_eq!(version(scene.api::<Service>().get(NAME).await.unwrap()), before, "it was not touched");
    // When the object goes, the Service stays.
    scene.delete::<EtcdCluster>(NAME).await;
    scene.gone::<EtcdCluster>(NAME).await;
    assert_eq!(version(scene.api::<Service>().get(NAME).await.unwrap()), before, "it was not touched");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_becomes_free_is_taken_by_itself() {
    let scene = Stage::new("etcd-edits").await;
    let _operator = Operator::start(&scene).await;
    apply_service(&scene, NAME, json!({ "ports": [{ "name": "web", "port": 80 }] })).await;
    scene.create::<EtcdCluster>(NAME, spec(1)).await;
    stalls(&scene, "a message about the name").await;
    scene.delete::<Service>(NAME).await;
    settled(&scene, "the cluster, now that the name is free").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_may_outgrow_a_given_limit_are_told_of() {
    let scene = Stage::new("etcd-edits").await;
    let _operator = Operator::start(&scene).await;
    let limits = json!({ "limits": [{ "type": "Container", "default": { "memory": "512Mi" } }] });
    scene.create::<LimitRange>("given", limits).await;
    let mut wanted = spec(1);
    wanted["resources"] = json!({ "requests": { "memory": "64Mi" } });
    running(&scene, wanted).await;
    let risk = |object: &EtcdCluster| describe(object, "MemoryRisk").filter(|(status, ..)| status == "True");
    let object = becomes(&scene, "the risk to be told", |object| risk(object).is_some()).await;
    let (_, _, message) = risk(&object).expect("just seen");
    for words in ["db-0", "2048 MiB", "512 MiB", "a LimitRange"] {
        assert!(message.contains(words), "{message}");
    }
    scene.edit::<EtcdCluster>(NAME, json!({ "config": { "quota-backend-bytes": "134217728" } })).await;
    becomes(&scene, "no risk", |object| risk(object).is_none()).await;
    settled(&scene, "the lower quota").await;
}
