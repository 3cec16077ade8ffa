//! A database is closed to other namespaces by default. A tenant who opens it sees it closed again.

use causeway_api::Redis;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::wait::wait_for;
use crate::support::{Operator, Scene};

const POLICY: &str = "cache-access";

/// Waits until the policy is as `good` says; returns it.
async fn policy(scene: &Scene, what: &str, good: fn(&Value) -> bool) -> Value {
    let api = scene.api::<NetworkPolicy>();
    let look = || async {
        let live = api.get_opt(POLICY).await.expect("an answer");
        live.map_or(Value::Null, |live| serde_json::to_value(live).expect("JSON"))
    };
    wait_for(what, look, good).await
}

/// Waits until the condition `Ready` has that reason; returns its message.
async fn says(scene: &Scene, name: &str, reason: &str) -> String {
    let api = scene.api::<Redis>();
    let look = || async {
        let status = api.get(name).await.expect("the object").status.unwrap_or_default();
        let ready = status.conditions.into_iter().find(|it| it.type_ == "Ready");
        ready.map_or_else(|| (String::new(), String::new()), |it| (it.reason, it.message))
    };
    wait_for(&format!("{name} to say {reason}"), look, |(its, _)| its == reason).await.1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn isolation_and_required_passwords_shut_a_database() {
    let scene = Scene::new("security-network").await;
    let operator = Operator::start(&scene).await;
    // Another controller already has a policy of such a name.
    let foreign = json!({ "metadata": { "name": "other-access" }, "spec": { "podSelector": {} } });
    let foreign: NetworkPolicy = serde_json::from_value(foreign).expect("a policy");
    let policies = scene.api::<NetworkPolicy>();
    let foreign = policies.create(&PostParams::default(), &foreign).await.expect("the policy is taken");
    for (name, spec) in [
        ("cache", json!({ "replicas": 0 })),
        ("other", json!({ "replicas": 0 })),
        ("vip", json!({ "replicas": 0, "priorityClassName": "system-node-critical" })),
    ] {
        scene.create::<Redis>(name, spec).await;
    }
    let shut = |live: &Value| live["spec"]["ingress"][0]["from"][0] == json!({ "podSelector": {} });
    policy(&scene, "a policy that lets the namespace in", shut).await;
    assert!(says(&scene, "other", "NameTaken").await.contains("NetworkPolicy other-access"));
    let words = says(&scene, "vip", "PriorityClassRefused").await;
    assert!(words.contains("spec.priorityClassName system-node-critical"), "{words}");
    let left = policies.get("other-access").await.expect("the policy");
    assert_eq!(left.resource_version(), foreign.resource_version(), "another controller's policy was touched");

    // A tenant who may write policies opens the database, and takes the policy away.
    let open = json!({ "spec": { "ingress": [{}] } });
    policies.patch(POLICY, &PatchParams::default(), &Patch::Merge(&open)).await.expect("the change is taken");
    policy(&scene, "the policy to be shut again", shut).await;
    let more = json!([{ "op": "add", "path": "/spec/ingress/0/from/0/namespaceSelector", "value": {} }]);
    let more = Patch::Json::<()>(serde_json::from_value(more).expect("a patch"));
    policies.patch(POLICY, &PatchParams::default(), &more).await.expect("the change is taken");
    policy(&scene, "the policy to be shut again to other namespaces", shut).await;
    policies.delete(POLICY, &DeleteParams::default()).await.expect("it is deleted");
    policy(&scene, "the policy to be back", shut).await;
    scene
        .edit::<Redis>(
            "cache",
            json!({ "allowedClients": [{ "namespaceSelector": { "matchLabels": { "team": "web" } } }] }),
        )
        .await;
    let named =
        |live: &Value| live["spec"]["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]["team"] == "web";
    policy(&scene, "the policy to name its clients", named).await;
    scene.edit::<Redis>("cache", json!({ "networkPolicy": "Disabled" })).await;
    policy(&scene, "the policy to go", Value::is_null).await;
    says(&scene, "cache", "Serving").await;
    operator.stop().await;

    // From now on the operator demands passwords.
    let pod = scene.api::<Pod>().get("cache-0").await.expect("its pod").uid();
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), Duration::from_secs(2));
    context.databases.require_auth = true;
    let _operator = Operator::start_in(context);
    scene.create::<Redis>("new", json!({ "replicas": 0 })).await;
    for name in ["new", "cache"] {
        assert!(says(&scene, name, "AuthRequired").await.contains("spec.auth.enabled must be true"));
    }
    assert_eq!(scene.api::<Pod>().get("cache-0").await.expect("its pod").uid(), pod, "what runs goes on");
    assert!(scene.api::<StatefulSet>().get_opt("new").await.expect("an answer").is_none(), "nothing is made");
}
