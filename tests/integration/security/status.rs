//! Each user with the right can write a status. So nothing about data is decided by it, and users do not get that right.

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::tenant;
use crate::backup::stage::{NAME, NEVER, Stage, describe};
use crate::support::{Operator, Scene, wait_for};

/// Reports whether the API server allows this request of the tenant.
async fn may(client: &Client, namespace: &str, kind: (&str, &str), verb: &str, subresource: Option<&str>) -> bool {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(kind.0.into()),
                resource: Some(kind.1.into()),
                subresource: subresource.map(Into::into),
                namespace: Some(namespace.into()),
                verb: Some(verb.into()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = api.create(&PostParams::default(), &review).await.expect("an answer");
    answer.status.is_some_and(|status| status.allowed)
}

/// The spec of an example.
fn example(file: &str) -> Value {
    let path = format!("{}/../examples/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the file");
    serde_saphyr::from_str::<Value>(&text).expect("YAML")["spec"].clone()
}

/// Makes an object as the tenant, and tries to write its status.
async fn makes<K>(client: &Client, scene: &Scene, name: &str, spec: Value)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), &scene.namespace);
    let (group, kind) = (K::api_version(&()), K::kind(&()));
    let object = json!({ "apiVersion": group, "kind": kind, "metadata": { "name": name }, "spec": spec });
    let object: K = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
    let status = Patch::Merge(json!({ "status": { "observedGeneration": 7 } }));
    let refused =
        api.patch_status(name, &PatchParams::default(), &status).await.expect_err("a status is not for users");
    let kube::Error::Api(refused) = refused else { panic!("{kind}: {refused}") };
    assert_eq!(refused.code, 403, "{kind}: {}", refused.message);
    assert!(refused.message.contains("/status"), "{}", refused.message);
}

#[tokio::test]
async fn a_user_with_edit_makes_objects_and_writes_no_status() {
    let scene = Scene::new("security-users").await;
    let roles = tenant::roles_are_installed(&scene).await;
    for rule in roles.iter().flat_map(|role| role.rules.iter().flatten()) {
        let mut all = rule.resources.iter().flatten().chain(&rule.verbs).chain(rule.api_groups.iter().flatten());
        assert!(all.all(|it| !it.contains('/') && it != "*"), "{rule:?}");
    }
    let client = tenant::client(&scene).await;
    let kinds = [
        ("demo.rtfm.co.ua", "myapps"),
        ("demo.rtfm.co.ua", "myingresses"),
        ("mycompany.com", "etcdclusters"),
        ("example.com", "redises"),
        ("example.com", "databasebackups"),
        ("example.com", "databaserestores"),
    ];
    let namespace = scene.namespace.as_str();
    for kind in kinds {
        assert!(!may(&client, namespace, kind, "get", None).await, "{kind:?}: no right was granted yet");
    }
    tenant::is(&scene, "view").await;
    for kind in kinds {
        let allowed = || may(&client, namespace, kind, "get", None);
        wait_for(&format!("view to take in {kind:?}"), allowed, |allowed| *allowed).await;
        assert!(!may(&client, namespace, kind, "create", None).await, "{kind:?}");
    }
    tenant::is(&scene, "edit").await;
    for kind in kinds {
        let allowed = || may(&client, namespace, kind, "create", None);
        wait_for(&format!("edit to take in {kind:?}"), allowed, |allowed| *allowed).await;
        for (verb, subresource) in [("patch", "status"), ("update", "status"), ("update", "finalizers")] {
            assert!(!may(&client, namespace, kind, verb, Some(subresource)).await, "{verb} of {kind:?}/{subresource}");
        }
    }
    let suspended = json!({ "suspend": true });
    makes::<MyApp>(&client, &scene, "app", json!({ "image": "nginx", "banner": "b", "suspend": true })).await;
    makes::<MyIngress>(&client, &scene, "web", example("myingress.yaml")).await;
    makes::<EtcdCluster>(&client, &scene, "db", json!({ "version": "3.5.9" })).await;
    makes::<Redis>(&client, &scene, "cache", suspended).await;
    makes::<DatabaseBackup>(&client, &scene, NAME, json!({ "schedule": NEVER })).await;
    let restore = json!({ "from": { "backup": NAME }, "target": { "redis": { "name": "cache" } } });
    makes::<DatabaseRestore>(&client, &scene, "back", restore).await;
}

/// Keys of another user's backup in the same bucket.
const THEIRS: &str = "bank/nightly/5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_status_neither_restores_nor_deletes_foreign_backups() {
    let stage = Stage::new("security-status").await;
    let mut operator = Operator::start(&stage).await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "deletionPolicy": "Delete" })).await;
    stage.becomes("a bucket", |status| describe(status, "BucketReady").0 == "True").await;
    let id = "20261120T020000Z";
    let keys: Vec<String> =
        ["data", "manifest.json"].iter().map(|file| format!("{THEIRS}/redis-vault/{id}/{file}")).collect();
    for key in &keys {
        let body = aws_sdk_s3::primitives::ByteStream::from_static(b"{}");
        stage.s3.put_object().bucket(stage.bucket()).key(key).body(body).send().await.expect("an object");
    }
    let rules = json!([
        { "apiGroups": ["example.com"], "resources": ["databasebackups", "databasebackups/status"], "verbs": ["*"] },
    ]);
    tenant::may(&stage, "writes-status", rules).await;
    let api: Api<DatabaseBackup> = Api::namespaced(tenant::client(&stage).await, &stage.namespace);
    let forge = async || {
        let forged = json!({ "bucket": stage.bucket(), "prefix": THEIRS, "backups": 1 });
        let patch = Patch::Merge(json!({ "status": forged }));
        api.patch_status(NAME, &PatchParams::default(), &patch).await.expect("the tenant writes the status");
    };

    // The tenant forges the status while no operator runs that could put it right.
    operator.stop().await;
    forge().await;
    let target = json!({ "redisServer": { "address": "127.0.0.1:1" } });
    let spec = json!({ "from": { "backup": NAME }, "target": target });
    stage.create::<DatabaseRestore>("back", spec).await;
    operator = Operator::start(&stage).await;
    let restores = stage.api::<DatabaseRestore>();
    let look = || async { restores.get("back").await.expect("the object").status.unwrap_or_default() };
    let status = wait_for("a message about the restore", look, |status| status.message.is_some()).await;
    assert_eq!(status.phase, RestorePhase::Pending, "{status:?}");
    assert!(status.message.is_some_and(|text| text.contains("there is no complete backup yet")));
    assert!(stage.api::<Job>().list(&ListParams::default()).await.expect("Jobs").items.is_empty());
    let own = format!("{}/{NAME}/", stage.namespace);
    let is_right = |status: &causeway_api::DatabaseBackupStatus| {
        status.prefix.as_ref().is_some_and(|prefix| prefix.starts_with(&own)) && status.backups == 0
    };
    stage.becomes("a status that is put right", is_right).await;

    operator.stop().await;
    forge().await;
    stage.delete::<DatabaseBackup>(NAME).await;
    let _operator = Operator::start(&stage).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    assert_eq!(stage.keys(&stage.bucket()).await, keys, "the bank's backup is there");
}
