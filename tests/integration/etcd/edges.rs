//! Rare cases: an object that is suspended, volumes that cannot grow, Secrets that may not be read.

use std::time::Duration;

use causeway_api::EtcdCluster;
use causeway_runtime::clients;
use causeway_runtime::metrics::Metrics;
use http::{HeaderName, HeaderValue};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Config};
use serde_json::{Value, json};

use super::{NAME, Stage, WAIT_TIMEOUT, becomes, describe, ours, running, settled, spec, stalls, uids};
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

/// Reports whether the object is suspended, and its newest generation was observed.
fn is_suspended(object: &EtcdCluster) -> bool {
    let seen = object.status.as_ref().and_then(|status| status.observed_generation);
    seen == object.metadata.generation && describe(object, "Ready").is_some_and(|(_, reason, _)| reason == "Suspended")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspended_cluster_is_not_changed() {
    let scene = Stage::new("etcd-suspend").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    let before = uids(&scene).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "suspend": true, "replicas": 3, "version": "3.5.35" })).await;
    becomes(&scene, "the suspended object", is_suspended).await;
    let is_unknown = |object: &EtcdCluster| describe(object, "Quorate").is_some_and(|(status, ..)| status == "Unknown");
    becomes(&scene, "a majority that is not known", is_unknown).await;
    scene.delete::<ConfigMap>(NAME).await;
    // Each edit is observed, but nothing is done.
    for cpu in ["11m", "12m", "13m"] {
        scene.edit::<EtcdCluster>(NAME, json!({ "resources": { "requests": { "cpu": cpu } } })).await;
        becomes(&scene, "the edit of the suspended object", is_suspended).await;
        assert!(scene.api::<ConfigMap>().get_opt(NAME).await.expect("an answer").is_none(), "a child came back");
        assert_eq!(uids(&scene).await, before, "pods were changed");
    }
    scene.edit::<EtcdCluster>(NAME, json!({ "suspend": false })).await;
    settled(&scene, "all that was asked for meanwhile").await;
}

/// Returns the sizes that the volume claims ask for.
async fn asked_sizes(scene: &Scene) -> Vec<String> {
    let claims = scene.api::<PersistentVolumeClaim>().list(&ours()).await.expect("claims").items;
    let size = |claim: PersistentVolumeClaim| Some(claim.spec?.resources?.requests?.get("storage")?.0.clone());
    claims.into_iter().filter_map(size).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn volumes_grow_where_their_class_allows_it() {
    let scene = Stage::new("etcd-growth").await;
    let _operator = Operator::start(&scene).await;
    let classes: Api<StorageClass> = Api::all(scene.client.clone());
    let mut class = classes.get("standard").await.expect("the class of the cluster");
    class.metadata = kube::api::ObjectMeta { name: Some(scene.namespace.clone()), ..Default::default() };
    classes.create(&PostParams::default(), &class).await.expect("a class");
    let mut wanted = spec(1);
    wanted["storage"] = json!({ "className": scene.namespace });
    running(&scene, wanted).await;
    let before = uids(&scene).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "storageSize": "2Gi" })).await;
    let (reason, message) = stalls(&scene, "a message about the volume").await;
    println!("»   {message}");
    assert_eq!(reason, "VolumeCannotGrow");
    assert!(message.contains("spec.storage.size") && message.contains("allowVolumeExpansion"), "{message}");
    // Everything else goes on.
    scene.delete::<ConfigMap>(NAME).await;
    let look = || async { scene.api::<ConfigMap>().get_opt(NAME).await.expect("an answer").is_some() };
    wait_within(WAIT_TIMEOUT, "the ConfigMap again", look, |there| *there).await;
    let patch = Patch::Merge(json!({ "allowVolumeExpansion": true }));
    classes.patch(&scene.namespace, &PatchParams::default(), &patch).await.expect("the class can grow volumes");
    settled(&scene, "a larger volume").await;
    assert_eq!(asked_sizes(&scene).await, ["2Gi"]);
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
    classes.delete(&scene.namespace, &DeleteParams::default()).await.expect("the class goes");
}

/// Lets a user do that in the scene's namespace.
async fn allow(scene: &Scene, name: &str, rules: Value) {
    let group = "rbac.authorization.k8s.io";
    let role: Role = serde_json::from_value(json!({ "metadata": { "name": name }, "rules": rules })).expect("a role");
    scene.api::<Role>().create(&PostParams::default(), &role).await.expect("the role is taken");
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "Role", "name": name },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": "operator" }],
    }))
    .expect("a binding");
    scene.api::<RoleBinding>().create(&PostParams::default(), &binding).await.expect("the binding is taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_to_read_secrets_is_named() {
    let scene = Stage::new("etcd-denied").await;
    let all = ["pods", "services", "configmaps", "persistentvolumeclaims", "events"];
    let groups = [
        "apps",
        "policy",
        "batch",
        "events.k8s.io",
        "networking.k8s.io",
        "mycompany.com",
        "example.com",
        "demo.rtfm.co.ua",
    ];
    let rules = json!([
        { "apiGroups": [""], "resources": all, "verbs": ["*"] },
        { "apiGroups": groups, "resources": ["*"], "verbs": ["*"] },
    ]);
    allow(&scene, "all-but-secrets", rules).await;
    let mut config = Config::infer().await.expect("a cluster");
    config.headers.push((HeaderName::from_static("impersonate-user"), HeaderValue::from_static("operator")));
    let client = clients::kubernetes(config, &Metrics::new()).expect("a client");
    let _operator = Operator::start_with(&scene, client, scene.aws.clone(), Duration::from_secs(2));
    running(&scene, spec(1)).await;
    let before = uids(&scene).await;
    for (field, wanted) in [("auth", json!({ "enabled": true })), ("tls", json!({ "client": {} }))] {
        scene.edit::<EtcdCluster>(NAME, json!({ (field): wanted })).await;
        let (reason, message) = stalls(&scene, "a message about the right").await;
        assert_eq!(reason, "SecretsDenied");
        let text = message.contains(&format!("spec.{field}")) && message.contains("causeway-database-secrets");
        assert!(text, "{message}");
        assert_eq!(uids(&scene).await, before, "no pod was touched");
        scene.edit::<EtcdCluster>(NAME, json!({ (field): Value::Null })).await;
        settled(&scene, "the field taken back").await;
    }
    scene.edit::<EtcdCluster>(NAME, json!({ "auth": { "enabled": true } })).await;
    stalls(&scene, "a message about the right").await;
    // As deploy/base/clusterrole-database-secrets.yaml has it.
    allow(
        &scene,
        "secrets",
        json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch"] }]),
    )
    .await;
    let object = settled(&scene, "authentication, as soon as it may be").await;
    assert!(describe(&object, "AuthEnabled").is_some_and(|(status, ..)| status == "True"), "{:?}", object.status);
}
