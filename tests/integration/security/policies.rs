//! A tenant's objects name what the platform team's policy does not allow: nothing is made, and what was made before
//! stays.

use std::fmt::Debug;
use std::time::Duration;

use causeway_api::causewaypolicy::CausewayPolicy;
use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseRestore, MyIngress, Redis};
use causeway_runtime::guardrails::Guardrails;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::tenant;
use crate::backup::stage::{NAME, Stage};
use crate::myingress::{ready, spec};
use crate::support::wait::wait_for;
use crate::support::{Operator, Scene};

/// Waits until the condition `Ready` has that reason; returns its message.
pub async fn says<K>(scene: &Scene, name: &str, reason: &str) -> String
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api = scene.api::<K>();
    let look = || async {
        let object = serde_json::to_value(api.get(name).await.expect("the object")).expect("JSON");
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = all.into_iter().find(|it| it["type"] == "Ready").unwrap_or_default();
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        (text("reason"), text("message"))
    };
    wait_for(&format!("{name} to say {reason}"), look, |(its, _)| its == reason).await.1
}

pub async fn makes<K>(tenant: &kube::Client, scene: &Scene, name: &str, spec: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(tenant.clone(), &scene.namespace);
    let object = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("the tenant may");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_keep_new_resources_out_and_existing_ones_stay() {
    let scene = Scene::new("security-policies").await;
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), Duration::from_secs(2));
    context.environment.guardrails = Guardrails::watch(&Operator::client().await);
    let _operator = Operator::start_in(context);
    let rules = json!([
        { "apiGroups": ["demo.rtfm.co.ua", "example.com"], "resources": ["*"], "verbs": ["create", "get", "patch"] },
    ]);
    tenant::may(&scene, "our-kinds", rules).await;
    let client = tenant::client(&scene).await;
    makes::<MyIngress>(&client, &scene, "before", spec(json!({}))).await;
    ready(&scene, "before").await;

    let policies = Api::<CausewayPolicy>::all(scene.client.clone());
    let name = scene.namespace.as_str();
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } },
        "schemes": ["internal"], "images": ["redis:*", "registry.example.com/*"], "buckets": ["backups-*"],
        "priorityClasses": [],
    } });
    let policy: CausewayPolicy = serde_json::from_value(policy).expect("a policy");
    Api::<CausewayPolicy>::all(client.clone())
        .create(&PostParams::default(), &policy)
        .await
        .expect_err("a tenant makes no policy");
    policies.create(&PostParams::default(), &policy).await.expect("the policy is taken");
    let words = says::<MyIngress>(&scene, "before", "PolicyDenied").await;
    for word in ["spec.scheme internet-facing", name, "spec.schemes", "allows internal"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    makes::<MyIngress>(&client, &scene, "after", spec(json!({}))).await;
    makes::<Redis>(&client, &scene, "evil", json!({ "replicas": 0, "image": "evil.example.org/redis:7" })).await;
    let class = json!({ "replicas": 0, "priorityClassName": "important" });
    makes::<Redis>(&client, &scene, "important", class).await;
    let server = json!({ "host": "db", "image": "evil.example.org/postgres", "authSecretName": "x" });
    makes::<DatabaseBackup>(
        &client,
        &scene,
        "copy",
        json!({ "schedule": "@daily", "source": { "postgresql": server } }),
    )
    .await;
    let stolen = json!({ "schedule": "@daily", "destination": { "bucket": "of-the-bank" } });
    makes::<DatabaseBackup>(&client, &scene, "stolen", stolen).await;
    says::<MyIngress>(&scene, "after", "PolicyDenied").await;
    assert!(says::<Redis>(&scene, "evil", "PolicyDenied").await.contains("spec.image evil.example.org/redis:7"));
    assert!(says::<Redis>(&scene, "important", "PolicyDenied").await.contains("spec.priorityClassName important"));
    let words = says::<DatabaseBackup>(&scene, "copy", "PolicyDenied").await;
    assert!(words.contains("spec.source.postgresql.image evil.example.org/postgres"), "{words}");
    assert!(says::<DatabaseBackup>(&scene, "stolen", "PolicyDenied").await.contains("of-the-bank"));
    let names: Vec<_> = scene.balancers().await.into_iter().filter_map(|it| it.load_balancer_name).collect();
    assert_eq!(names, ["before-alb"], "one stays, and no other is made");
    let all = ListParams::default();
    assert!(scene.api::<StatefulSet>().list(&all).await.expect("a list").items.is_empty());
    assert!(scene.api::<CronJob>().list(&all).await.expect("a list").items.is_empty());

    // An object that keeps to the policy gets what it asks for. Without the policy, every object does.
    scene.edit::<MyIngress>("after", json!({ "scheme": "internal" })).await;
    ready(&scene, "after").await;
    policies.delete(name, &DeleteParams::default()).await.expect("it is deleted");
    ready(&scene, "before").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_backup_is_loaded_into_a_server_of_a_denied_image() {
    const EVIL: &str = "evil.example.org/redis:7";
    let stage = Stage::new("security-scratch").await;
    let mut context = Operator::context(&stage, Operator::client().await, stage.aws.clone(), Duration::from_secs(2));
    context.environment.guardrails = Guardrails::watch(&Operator::client().await);
    let _operator = Operator::start_in(context);
    stage.redis("cache").await;
    stage.backed_up(json!({ "redis": { "name": "cache" } })).await;
    let policies = Api::<CausewayPolicy>::all(stage.client.clone());
    let name = stage.namespace.as_str();
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } }, "images": ["redis:*"],
    } });
    let policy: CausewayPolicy = serde_json::from_value(policy).expect("a policy");
    policies.create(&PostParams::default(), &policy).await.expect("the policy is taken");
    // The Redis that runs stays as it is. A verification and a restore would start a server of the image in its spec.
    stage.edit::<Redis>("cache", json!({ "image": EVIL })).await;
    says::<Redis>(&stage, "cache", "PolicyDenied").await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "verify": { "afterEach": true } })).await;
    let words = says::<DatabaseBackup>(&stage, NAME, "PolicyDenied").await;
    assert!(words.contains("spec.verify") && words.contains(EVIL) && words.contains(name), "{words}");
    let target = json!({ "redis": { "name": "cache" } });
    let spec = json!({ "from": { "backup": NAME }, "target": target, "force": true });
    stage.create::<DatabaseRestore>("back", spec).await;
    let api = stage.api::<DatabaseRestore>();
    let look = || async { api.get("back").await.expect("the object").status.unwrap_or_default() };
    let status = wait_for("the restore to end", look, |status| status.phase.is_final()).await;
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some("PolicyDenied")), "{status:?}");
    assert!(status.message.is_some_and(|it| it.contains(EVIL)));
    let jobs = stage.api::<Job>().list(&ListParams::default()).await.expect("Jobs").items;
    let runs_evil = |job: &Job| serde_json::to_string(job).expect("JSON").contains(EVIL);
    assert!(!jobs.iter().any(runs_evil), "{jobs:?}");
    policies.delete(name, &DeleteParams::default()).await.expect("it is deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_out_is_no_way_around_a_policy() {
    let scene = Scene::new("security-left-out").await;
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), Duration::from_secs(2));
    context.environment.guardrails = Guardrails::watch(&Operator::client().await);
    let _operator = Operator::start_in(context);
    let policies = Api::<CausewayPolicy>::all(scene.client.clone());
    let name = scene.namespace.as_str();
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } },
        "inboundCidrs": ["10.0.0.0/8"], "maxStorage": "1Gi", "podMetadata": ["team"], "serviceTypes": ["ClusterIP"],
    } });
    let policy: CausewayPolicy = serde_json::from_value(policy).expect("a policy");
    policies.create(&PostParams::default(), &policy).await.expect("the policy is taken");
    scene.create::<MyIngress>("web", spec(json!({}))).await;
    let words = says::<MyIngress>(&scene, "web", "PolicyDenied").await;
    assert!(words.contains("the VPC's default group") && words.contains("allows 10.0.0.0/8"), "{words}");
    assert!(scene.balancers().await.is_empty());
    scene.edit::<MyIngress>("web", json!({ "inboundCidrs": ["10.1.0.0/16"] })).await;
    ready(&scene, "web").await;

    let large = json!({ "replicas": 0, "storage": { "ephemeral": true, "size": "2Gi" } });
    scene.create::<Redis>("large", large).await;
    assert!(says::<Redis>(&scene, "large", "PolicyDenied").await.contains("spec.maxStorage"));
    let small = |fields: Value| {
        let mut spec = json!({ "replicas": 0, "storage": { "ephemeral": true, "size": "1Mi" } });
        spec.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
        spec
    };
    let injected = json!({ "podMetadata": { "annotations": { "injector.example.com/inject": "yes" } } });
    scene.delete::<Redis>("large").await;
    scene.create::<Redis>("injected", small(injected)).await;
    let words = says::<Redis>(&scene, "injected", "PolicyDenied").await;
    assert!(words.contains("key injector.example.com/inject"), "{words}");
    scene.create::<Redis>("public", small(json!({ "service": { "type": "LoadBalancer" } }))).await;
    assert!(says::<Redis>(&scene, "public", "PolicyDenied").await.contains("spec.service.type LoadBalancer"));
    assert!(scene.api::<StatefulSet>().list(&ListParams::default()).await.expect("a list").items.is_empty());
    policies.delete(name, &DeleteParams::default()).await.expect("it is deleted");
}
