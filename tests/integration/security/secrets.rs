//! A tenant who may write our objects, but not read Secrets, names another user's Secret and the tenant's own server
//! or image. The Secret goes there only if its labels agree.

use causeway_api::{DatabaseBackup, DatabaseRestore, EtcdCluster, Redis};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::tenant;
use crate::backup::stage::{NAME, NEVER, Stage, describe};
use crate::support::wait::wait_for;
use crate::support::{Operator, Scene};

/// Name of the Secret that is not the tenant's.
const VICTIM: &str = "billing-auth";
const LABEL: &str = "causeway.example.com/usable-by";

/// A tenant who may write objects of ours, but not read Secrets; and the Secret that the tenant is after.
async fn attacker(scene: &Scene) -> Client {
    let rules = json!([
        { "apiGroups": ["example.com"], "resources": ["databasebackups", "databaserestores", "redises"], "verbs": ["create"] },
        { "apiGroups": ["mycompany.com"], "resources": ["etcdclusters"], "verbs": ["create"] },
    ]);
    tenant::may(scene, "our-kinds", rules).await;
    relabel(scene, None).await;
    let client = tenant::client(scene).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &scene.namespace);
    secrets.get(VICTIM).await.expect_err("the tenant may not read it");
    client
}

async fn relabel(scene: &Scene, usable_by: Option<&str>) {
    let labels = usable_by.map_or_else(|| json!({}), |kinds| json!({ LABEL: kinds }));
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": VICTIM, "labels": labels },
        "stringData": { "username": "root", "password": "hunter2" },
    });
    let force = PatchParams::apply("test").force();
    scene.api::<Secret>().patch(VICTIM, &force, &Patch::Apply(&object)).await.expect("the Secret is taken");
}

async fn makes<K>(client: &Client, scene: &Scene, name: &str, spec: Value)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &scene.namespace);
    let object = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("the tenant may");
}

/// Waits until the condition `Ready` has that reason; returns its message.
async fn says<K>(scene: &Scene, name: &str, reason: &str) -> String
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api = scene.api::<K>();
    let look = || async {
        let object = serde_json::to_value(api.get(name).await.expect("the object")).expect("JSON");
        let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = all.into_iter().find(|it| it["type"] == "Ready").unwrap_or_default();
        (
            ready["reason"].as_str().unwrap_or_default().to_owned(),
            ready["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    wait_for(&format!("{name} to say {reason}"), look, |(its, _)| its == reason).await.1
}

/// Returns true if a running or scheduled pod has the Secret.
async fn is_given_away(scene: &Scene) -> bool {
    let every = ListParams::default();
    let schedules = scene.api::<CronJob>().list(&every).await.expect("a list").items;
    let jobs = scene.api::<Job>().list(&every).await.expect("a list").items;
    let pods = scene.api::<Pod>().list(&every).await.expect("a list").items;
    let all = serde_json::to_string(&(schedules, jobs, pods)).expect("JSON");
    all.contains(VICTIM)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_gets_a_secret_only_where_it_agrees() {
    let stage = Stage::new("security-secrets").await;
    let _operator = Operator::start(&stage).await;
    let client = attacker(&stage).await;
    let server = json!({ "address": "attacker.example.com:6379", "authSecretName": VICTIM });
    let spec = json!({ "schedule": NEVER, "source": { "redisServer": server } });
    makes::<DatabaseBackup>(&client, &stage, NAME, spec).await;
    let message = says::<DatabaseBackup>(&stage, NAME, "SecretNotShared").await;
    let command = format!("kubectl -n {} label secret {VICTIM} {LABEL}=databasebackup", stage.namespace);
    assert!(
        message.contains("Redis attacker.example.com:6379 is not backed up") && message.contains(&command),
        "{message}"
    );
    let image = json!({ "host": "db", "image": "registry.example.com/evil:1", "authSecretName": VICTIM });
    let spec = json!({ "schedule": NEVER, "source": { "postgresql": image } });
    makes::<DatabaseBackup>(&client, &stage, "by-image", spec).await;
    says::<DatabaseBackup>(&stage, "by-image", "SecretNotShared").await;
    let target = json!({ "from": { "backup": NAME }, "target": { "redisServer": server } });
    makes::<DatabaseRestore>(&client, &stage, "back", target).await;
    let message = says::<DatabaseRestore>(&stage, "back", "SecretNotShared").await;
    assert!(message.contains(&format!("{LABEL}=databaserestore")), "{message}");
    assert!(!is_given_away(&stage).await);

    // The owner of the Secret agrees, and takes that back.
    relabel(&stage, Some("redis.databasebackup")).await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "startingDeadline": "601s" })).await;
    stage.becomes("the schedule", |status| describe(status, "Ready").1 == "Scheduled").await;
    assert!(is_given_away(&stage).await);
    relabel(&stage, Some("redis")).await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "startingDeadline": "602s" })).await;
    says::<DatabaseBackup>(&stage, NAME, "SecretNotShared").await;
    wait_for("the schedule to let go of it", || is_given_away(&stage), |given| !given).await;
    let schedule = stage.api::<CronJob>().get(NAME).await.expect("the CronJob").spec.expect("a spec");
    assert_eq!(schedule.suspend, Some(true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_gets_only_secrets_that_are_shared_with_it() {
    let stage = Stage::new("security-secrets").await;
    let _operator = Operator::start(&stage).await;
    let client = attacker(&stage).await;
    // By the object's name: the Secret has the name that a Redis of this name would give to its own Secret.
    makes::<Redis>(&client, &stage, "billing", json!({ "replicas": 0, "auth": { "enabled": true } })).await;
    let message = says::<Redis>(&stage, "billing", "SecretNotShared").await;
    assert!(message.contains(&format!("label secret {VICTIM} {LABEL}=redis")), "{message}");
    let of_it = json!({ "schedule": NEVER, "source": { "redis": { "name": "billing" } } });
    makes::<DatabaseBackup>(&client, &stage, NAME, of_it).await;
    says::<DatabaseBackup>(&stage, NAME, "SecretNotShared").await;
    // By a field of the spec.
    let named = json!({ "replicas": 0, "auth": { "enabled": true, "secretName": VICTIM } });
    makes::<Redis>(&client, &stage, "named", named).await;
    says::<Redis>(&stage, "named", "SecretNotShared").await;
    let named = json!({ "version": "3.5.9", "replicas": 1, "auth": { "enabled": true, "secretName": VICTIM } });
    makes::<EtcdCluster>(&client, &stage, "db", named).await;
    says::<EtcdCluster>(&stage, "db", "SecretNotShared").await;
    let tls = json!({ "replicas": 0, "tls": { "secretName": VICTIM } });
    makes::<Redis>(&client, &stage, "tls", tls).await;
    let message = says::<Redis>(&stage, "tls", "SecretInvalid").await;
    assert!(message.contains("does not agree"), "{message}");
    assert!(!is_given_away(&stage).await);
    let copies = stage.api::<Secret>().list(&ListParams::default()).await.expect("a list").items;
    let secrets: Vec<_> = copies.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
    assert!(!secrets.iter().any(|it| it.ends_with("-users") || it.ends_with("-root")), "{secrets:?}");
    // A Redis that may use its own Secret is backed up.
    makes::<Redis>(&client, &stage, "own", json!({ "replicas": 0, "auth": { "enabled": true } })).await;
    let of_it = json!({ "schedule": NEVER, "source": { "redis": { "name": "own" } } });
    makes::<DatabaseBackup>(&client, &stage, "of-own", of_it).await;
    says::<DatabaseBackup>(&stage, "of-own", "Scheduled").await;
    // But an object that names this Secret with a server of the tenant's does not get it.
    let server = json!({ "address": "attacker.example.com:6379", "authSecretName": "own-auth" });
    let spec = json!({ "schedule": NEVER, "source": { "redisServer": server } });
    makes::<DatabaseBackup>(&client, &stage, "elsewhere", spec).await;
    says::<DatabaseBackup>(&stage, "elsewhere", "SecretNotShared").await;
}
