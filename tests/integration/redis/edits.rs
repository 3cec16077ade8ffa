//! Input that cannot be carried out is refused, or reported with a message that names the field. A running set is left
//! alone.

use std::time::Instant;

use causeway_api::Redis;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::checker::{Checker, Promise};
use super::{NAME, Stage, becomes, describe, patient, pods, running, settled, spec, stalls, uids};
use crate::support::backends::apply_service;
use crate::support::{Operator, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_edits_are_reported_while_nodes_run_on() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    for (directive, value) in [
        ("replicaof", "example.com 6379"),
        ("dir", "/tmp"),
        ("requirepass", "secret"),
        ("port", "7000"),
        ("maxmemory-polcy", "allkeys-lru"),
        ("maxmemory", "much"),
    ] {
        scene.edit::<Redis>(NAME, json!({ "config": { (directive): value } })).await;
        let (_, message) = stalls(&scene, &format!("a message about {directive}")).await;
        assert!(message.contains(&format!("spec.config.{directive}")), "{message}");
        assert!(!message.contains("secret"), "{message}");
        scene.edit::<Redis>(NAME, json!({ "config": { (directive): Value::Null } })).await;
    }
    settled(&scene, "the edits taken back").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    checker.goes_on("the edits taken back").await;
    checker.finish("edits that cannot be carried out", Promise::Everything).await;
}

#[tokio::test]
async fn what_can_never_be_is_refused_at_once() {
    let scene = Stage::new("redis-edits").await;
    for (spec, words) in [
        (json!({ "replicas": 21 }), "spec.replicas"),
        (json!({ "replicas": -1 }), "spec.replicas"),
        (json!({ "version": "6.2.7" }), "spec.version"),
        (json!({ "storage": { "size": "much" } }), "spec.storage.size"),
        (
            json!({ "storage": { "size": "10m" } }),
            "spec.storage.size: 10m is less than 1Mi: m is thousandths of a byte",
        ),
        (json!({ "exporter": { "resources": { "limits": { "memory": "64m" } } } }), "64M or 64Mi is meant"),
        (json!({ "config": { "maxmemory": "1gb\nreplicaof example.com 6379" } }), "spec.config"),
        (json!({ "config": { "Max Memory": "1gb" } }), "spec.config"),
        (json!({ "auth": { "secretName": "mine" } }), "spec.auth"),
    ] {
        let refused = scene.try_create::<Redis>(NAME, spec.clone()).await.expect_err(&format!("{spec} is refused"));
        assert!(refused.to_string().contains(words), "{spec}: {refused}");
    }
    scene.create::<Redis>(NAME, json!({ "storage": { "size": "2Gi" }, "suspend": true })).await;
    let smaller = scene.try_create::<Redis>(NAME, json!({ "storage": { "size": "1Gi" }, "suspend": true })).await;
    assert!(smaller.expect_err("volumes do not shrink").to_string().contains("spec.storage.size"));
}

#[tokio::test]
async fn a_growth_that_cannot_be_is_taken_back() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    scene.edit::<Redis>(NAME, json!({ "storage": { "size": "9Pi" } })).await;
    let (reason, message) = stalls(&scene, "a message about the volumes").await;
    assert!(reason == "VolumeCannotGrow" && message.contains("status.volumeSize"), "{reason}: {message}");
    let size = scene.api::<Redis>().get(NAME).await.expect("the object").status.and_then(|status| status.volume_size);
    scene.edit::<Redis>(NAME, json!({ "storage": { "size": size.expect("the size of the volumes") } })).await;
    settled(&scene, "the growth taken back").await;
}

#[tokio::test]
async fn a_set_with_an_invalid_directive_does_not_begin() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    let mut wrong = spec(1);
    wrong["config"] = json!({ "slaveof": "example.com 6379" });
    scene.create::<Redis>(NAME, wrong).await;
    let (_, message) = stalls(&scene, "a message about the directive").await;
    assert!(message.contains("spec.config.slaveof"), "{message}");
    assert!(pods(&scene).await.is_empty());
    scene.edit::<Redis>(NAME, json!({ "config": { "slaveof": null } })).await;
    settled(&scene, "the mistake corrected").await;
}

#[tokio::test]
async fn a_foreign_service_of_the_same_name_stays() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    apply_service(&scene, NAME, json!({ "ports": [{ "name": "web", "port": 80 }] })).await;
    let version = |service: Service| (service.uid(), service.resource_version());
    let before = version(scene.api::<Service>().get(NAME).await.unwrap());
    scene.create::<Redis>(NAME, spec(0)).await;
    let (reason, message) = stalls(&scene, "a message about the name").await;
    assert_eq!(reason, "NameTaken");
    assert!(message.contains("Service") && message.contains(NAME), "{message}");
    assert_eq!(version(scene.api::<Service>().get(NAME).await.unwrap()), before, "it was not touched");
    scene.delete::<Service>(NAME).await;
    settled(&scene, "the set, now that the name is free").await;
}

/// The controller of the `StatefulSet` would try again less and less often, in the end after a quarter of an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_made_once_it_is_accepted() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    let quota: ResourceQuota = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "none" }, "spec": { "hard": { "pods": "0" } },
    }))
    .expect("a quota");
    let quotas = scene.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &quota).await.expect("the quota is taken");
    let look = || async { quotas.get("none").await.expect("the quota").status.and_then(|status| status.hard) };
    wait_for("the quota to be in force", look, Option::is_some).await;
    scene.create::<Redis>(NAME, spec(0)).await;
    let is_reported = |object: &Redis| {
        describe(object, "Ready")
            .is_some_and(|(_, reason, message)| reason == "PodRefused" && message.contains("exceeded quota"))
    };
    becomes(&scene, "the refusal to be reported", is_reported).await;
    // After so many tries, that controller waits for more than half a minute: 5 ms, doubled with each try.
    let set = scene.api::<StatefulSet>().get(NAME).await.expect("the set");
    scene.has_repeated_event(&set.uid().unwrap_or_default(), "FailedCreate", 13).await;
    let begun = Instant::now();
    scene.delete::<ResourceQuota>("none").await;
    scene.has_event(NAME, "PodAccepted", "cache-0").await;
    settled(&scene, "the node").await;
    super::took("a pod that is refused no longer serves", begun);
}

/// The quota has room for what there was. As soon as it has room for the edit, that is followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_node_returns_as_it_was() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    for replicas in [0, 1] {
        let limited = |limit: &str| json!({ "limits": { "memory": limit } });
        let mut first = spec(replicas);
        first["resources"] = limited("128Mi");
        running(&scene, first).await;
        let used = 128 * (replicas + 1) + 40;
        let hard = json!({ "hard": { "limits.memory": format!("{used}Mi") } });
        scene.create::<ResourceQuota>("memory", hard).await;
        let quotas = scene.api::<ResourceQuota>();
        let look = || async { quotas.get("memory").await.expect("the quota").status.and_then(|status| status.used) };
        wait_for("the quota to be in force", look, Option::is_some).await;
        let begun = Instant::now();
        scene.edit::<Redis>(NAME, json!({ "resources": limited("256Mi") })).await;
        let (reason, message) = stalls(&scene, "the spec that worked").await;
        assert_eq!(reason, "BroughtBack", "{message}");
        for words in ["exceeded quota", "spec.resources", "rollout restart statefulset/cache"] {
            assert!(message.contains(words), "{message}");
        }
        let look = || async { scene.api::<Redis>().get(NAME).await.expect("the object").status.unwrap_or_default() };
        wait_for("all nodes", look, |status| status.master.is_some() && status.ready_replicas == replicas).await;
        super::took("a node that was refused serves as it was", begun);
        scene.delete::<ResourceQuota>("memory").await;
        settled(&scene, "the edit, which is not refused any more").await;
        scene.delete::<Redis>(NAME).await;
        wait_for("no pods", || async { pods(&scene).await.len() }, |count| *count == 0).await;
    }
}

/// The apiserver restores a name that is left out from the deprecated field that mirrors it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_service_account_is_reported() {
    let scene = Stage::new("redis-edits").await;
    let agrees = json!({ "metadata": { "annotations": { "causeway.example.com/service-accounts": "absent" } } });
    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    namespaces.patch(&scene.namespace, &PatchParams::default(), &Patch::Merge(agrees)).await.expect("an annotation");
    let _operator = Operator::start(&scene).await;
    scene.create::<Redis>(NAME, json!({ "replicas": 0, "serviceAccountName": "absent" })).await;
    let is_reported = |object: &Redis| {
        describe(object, "Ready")
            .is_some_and(|(_, reason, message)| reason == "PodRefused" && message.contains("absent"))
    };
    becomes(&scene, "the missing account to be reported", is_reported).await;
    scene.edit::<Redis>(NAME, json!({ "serviceAccountName": null })).await;
    settled(&scene, "the node").await;
    let set = scene.api::<StatefulSet>().get(NAME).await.expect("the set");
    let template = set.spec.and_then(|spec| spec.template.spec).expect("a template");
    assert_eq!(template.service_account_name.as_deref(), Some("default"));
    for pod in pods(&scene).await {
        let account = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
        assert_eq!(account, Some("default"), "{}", pod.name_any());
    }
}

/// The command of the condition is the one that helps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_budget_is_told_with_the_command_that_helps() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let team = json!({ "key": "app.kubernetes.io/managed-by", "operator": "Exists" });
    let theirs = json!({ "maxUnavailable": 1, "selector": { "matchExpressions": [team] } });
    scene.create::<PodDisruptionBudget>("all", theirs).await;
    let blocked = |object: &Redis| describe(object, "EvictionsBlocked").filter(|(status, ..)| status == "True");
    let object = becomes(&scene, "both budgets to be named", |object| blocked(object).is_some()).await;
    let (_, reason, message) = blocked(&object).expect("just seen");
    assert!(reason == "TwoBudgets" && message.contains("PodDisruptionBudget cache"), "{message}");
    let command = format!("kubectl -n {} patch poddisruptionbudget all --type=merge -p '", scene.namespace);
    let patch = message.split_once(&command).and_then(|(_, rest)| rest.split_once('\'')).expect("the command").0;
    let patch: serde_json::Value = serde_json::from_str(patch).expect("JSON");
    let budgets = scene.api::<PodDisruptionBudget>();
    budgets.patch("all", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("the patch is accepted");
    becomes(&scene, "evictions to be possible", |object| blocked(object).is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_may_outgrow_a_given_limit_are_told_of() {
    let scene = Stage::new("redis-edits").await;
    let _operator = Operator::start(&scene).await;
    let limits = json!({ "limits": [{ "type": "Container", "default": { "memory": "256Mi" } }] });
    scene.create::<LimitRange>("given", limits).await;
    let mut wanted = spec(0);
    wanted["resources"] = json!({ "requests": { "memory": "64Mi" } });
    wanted["config"] = json!({ "maxmemory": "1gb" });
    running(&scene, wanted).await;
    let risk = |object: &Redis| describe(object, "MemoryRisk").filter(|(status, ..)| status == "True");
    let object = becomes(&scene, "the risk to be told", |object| risk(object).is_some()).await;
    let (_, _, message) = risk(&object).expect("just seen");
    for words in ["cache-0", "1024 MiB", "256 MiB", "a LimitRange", "192mb"] {
        assert!(message.contains(words), "{message}");
    }
    scene.edit::<Redis>(NAME, json!({ "config": { "maxmemory": "192mb" } })).await;
    becomes(&scene, "no risk", |object| risk(object).is_none()).await;
    settled(&scene, "the lower bound").await;
}
