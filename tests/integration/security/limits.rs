//! A tenant makes more than the limits allow, databases without a password where the namespace demands one, and other
//! objects where a policy cannot be read.

use std::time::Duration;

use causeway_api::causewaypolicy::CausewayPolicy;
use causeway_api::{MyApp, Redis};
use causeway_runtime::guardrails::Guardrails;
use causeway_runtime::leader::Fence;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::policies::{makes, says};
use super::tenant;
use crate::support::{Operator, Scene, wait_for};

/// A Redis of so many nodes, whose pods find no place to run.
fn redis(nodes: u8) -> Value {
    json!({ "replicas": nodes - 1, "nodeSelector": { "nowhere": "yes" }, "storage": { "size": "1Gi" } })
}

async fn sets(scene: &Scene) -> Vec<String> {
    let sets = scene.api::<StatefulSet>().list(&ListParams::default()).await.expect("StatefulSets");
    sets.items.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn limits_and_demands_hold_and_a_broken_policy_allows_nothing() {
    let scene = Scene::new("security-limits").await;
    let name = scene.namespace.as_str();
    let policies = Api::<CausewayPolicy>::all(scene.client.clone());
    let selector = json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "namespaceSelector": selector, "maxObjects": { "MyApp": 1 }, "maxStorage": "3Gi",
    } });
    let policy = serde_json::from_value(policy).expect("a policy");
    policies.create(&PostParams::default(), &policy).await.expect("the policy is taken");
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), Duration::from_mins(5));
    context.environment.guardrails = Guardrails::watch_and_report(&Operator::client().await, Fence::always_open());
    let _operator = Operator::start_in(context);
    let rules = json!([
        { "apiGroups": ["demo.rtfm.co.ua", "example.com"], "resources": ["*"], "verbs": ["create", "get", "patch", "delete"] },
    ]);
    tenant::may(&scene, "our-kinds", rules).await;
    let client = tenant::client(&scene).await;

    let app = || json!({ "image": "a", "banner": "b", "replicas": 0 });
    makes::<MyApp>(&client, &scene, "a", app()).await;
    makes::<MyApp>(&client, &scene, "b", app()).await;
    let words = says::<MyApp>(&scene, "b", "PolicyDenied").await;
    for word in ["MyApp number 2", name, "spec.maxObjects.MyApp", "allows 1"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    makes::<Redis>(&client, &scene, "kept", redis(2)).await;
    wait_for("the first Redis", || sets(&scene), |sets| *sets == ["kept"]).await;
    makes::<Redis>(&client, &scene, "large", redis(2)).await;
    let words = says::<Redis>(&scene, "large", "PolicyDenied").await;
    for word in ["volumes of 2Gi", "ask for 4Gi", "spec.maxStorage", "allows 3Gi"] {
        assert!(words.contains(word), "{word}: {words}");
    }

    // A smaller limit stops nothing that exists, and a deleted object makes room for others.
    let patch = |spec: Value| {
        let policies = policies.clone();
        async move {
            let patch = json!({ "spec": spec });
            policies.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("the policy is taken");
        }
    };
    patch(json!({ "maxStorage": "1Gi" })).await;
    says::<Redis>(&scene, "kept", "PolicyDenied").await;
    assert_eq!(sets(&scene).await, ["kept"]);
    Api::<MyApp>::namespaced(client.clone(), name).delete("a", &DeleteParams::default()).await.expect("the tenant may");
    says::<MyApp>(&scene, "b", "AllPodsReady").await;

    // The namespace demands passwords, although a part of the annotation is misspelt. A tenant cannot change the
    // annotation.
    let demands = json!({ "metadata": { "annotations": { "causeway.example.com/require": "auth,tsl" } } });
    let merge = PatchParams::default();
    let stranger = Api::<Namespace>::all(client.clone());
    stranger.patch(name, &merge, &Patch::Merge(&demands)).await.expect_err("a tenant changes no namespace");
    let namespaces = Api::<Namespace>::all(scene.client.clone());
    namespaces.patch(name, &merge, &Patch::Merge(&demands)).await.expect("the annotation is taken");
    let words = says::<Redis>(&scene, "large", "AuthRequired").await;
    for word in ["spec.auth.enabled", "causeway.example.com/require", "auth,tsl", name, "its value must be"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    assert_eq!(sets(&scene).await, ["kept"]);

    // The schema accepts a selector that Kubernetes does not.
    let broken = json!({ "matchExpressions": [{ "key": "tenant", "operator": "In" }] });
    patch(json!({ "namespaceSelector": broken, "maxObjects": { "MyApp": 9 } })).await;
    let look = || async {
        let policy = policies.get(name).await.expect("the policy");
        let conditions = policy.status.unwrap_or_default().conditions;
        conditions.into_iter().find(|it| it.type_ == "Ready").map(|it| (it.status, it.reason, it.message))
    };
    let found =
        wait_for("the policy's Ready to be False", look, |it| it.as_ref().is_some_and(|it| it.0 == "False")).await;
    let (_, reason, message) = found.expect("a condition");
    assert_eq!(reason, "Unreadable");
    assert!(message.contains("spec.namespaceSelector.matchExpressions[0]: operator In needs values"), "{message}");
    makes::<MyApp>(&client, &scene, "c", app()).await;
    assert!(says::<MyApp>(&scene, "c", "PolicyDenied").await.contains("cannot be read"));
    patch(json!({ "namespaceSelector": { "matchExpressions": null } })).await;
    wait_for("the policy to be in force", look, |it| it.as_ref().is_some_and(|it| it.1 == "InForce")).await;
    says::<MyApp>(&scene, "c", "AllPodsReady").await;
    policies.delete(name, &DeleteParams::default()).await.expect("it is deleted");
}
