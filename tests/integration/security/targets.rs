//! A tenant who may write `EndpointSlices` has the tenant's balancer forward to what belongs to others: their pods,
//! nodes, the metadata service.

use std::time::Duration;

use causeway_api::MyIngress;
use causeway_api::causewaypolicy::CausewayPolicy;
use causeway_runtime::guardrails::Guardrails;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::tenant;
use crate::myingress::{ready, spec};
use crate::support::account::{target_groups, targets_if_there};
use crate::support::backends::service;
use crate::support::scene::condition;
use crate::support::{Operator, Scene, wait_for};

/// A pod that no node runs, with an address.
async fn pod(scene: &Scene, name: &str, address: &str) {
    let spec = json!({ "schedulerName": "none", "containers": [{ "name": "a", "image": "a" }] });
    scene.create::<Pod>(name, spec).await;
    let status = json!({ "status": { "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }] } });
    let pods = scene.api::<Pod>();
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.expect("the status is taken");
}

/// Waits until exactly these are targets of the only group.
async fn targets(scene: &Scene, wanted: &[&str]) {
    let look = || async {
        let groups = target_groups(scene).await;
        let seen = targets_if_there(scene, groups.first()?.target_group_arn()?).await?;
        let staying = seen.into_iter().filter(|(_, state)| state != "draining");
        Some(staying.map(|(place, _)| place).collect::<Vec<_>>())
    };
    let is_good = |seen: &Option<Vec<String>>| seen.as_ref().is_some_and(|seen| seen == wanted);
    wait_for(&format!("the targets {wanted:?}"), look, is_good).await;
}

#[tokio::test]
async fn addresses_outside_the_namespace_need_a_policy_to_be_targets() {
    let scene = Scene::new("security-targets").await;
    let mut context = Operator::context(&scene, Operator::client().await, scene.aws.clone(), Duration::from_secs(2));
    context.environment.guardrails = Guardrails::watch(&Operator::client().await);
    let _operator = Operator::start_in(context);
    let rules = json!([
        { "apiGroups": ["demo.rtfm.co.ua"], "resources": ["myingresses"], "verbs": ["create", "get", "patch"] },
        { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["create", "get", "patch"] },
        { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices/restricted"], "verbs": ["create"] },
    ]);
    tenant::may(&scene, "slices", rules).await;
    let client = tenant::client(&scene).await;
    pod(&scene, "own", "198.18.7.1").await;
    service(&scene, "web", &[("", 80)]).await;

    let of_pod = |address: &str, namespace: &str, pod: &str| {
        json!({
            "addresses": [address], "conditions": { "ready": true },
            "targetRef": { "kind": "Pod", "namespace": namespace, "name": pod },
        })
    };
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "mine", "labels": { "kubernetes.io/service-name": "web" } },
        "ports": [{ "name": "", "port": 8080, "protocol": "TCP" }],
        "endpoints": [
            of_pod("198.18.7.1", &scene.namespace, "own"),
            // The address of another tenant's pod under the name of an own pod, another tenant's pod by its own name,
            // and a database outside of the cluster.
            of_pod("198.18.9.1", &scene.namespace, "own"),
            of_pod("198.18.9.2", "bank", "vault"),
            { "addresses": ["198.18.9.3"], "conditions": { "ready": true } },
        ],
    });
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &scene.namespace);
    slices.patch("mine", &PatchParams::apply("tenant"), &Patch::Apply(&slice)).await.expect("the tenant may");
    let forward = json!({ "forward": { "backends": [{ "name": "web" }] } });
    let spec: Value = spec(json!({
        "listeners": [{ "port": 80, "defaultAction": forward }], "backends": [{ "name": "web", "port": 80 }],
    }));
    let object = serde_json::from_value(json!({ "metadata": { "name": "app" }, "spec": spec })).expect("an object");
    let ingresses: Api<MyIngress> = Api::namespaced(client, &scene.namespace);
    ingresses.create(&PostParams::default(), &object).await.expect("the tenant may");

    let refusal = |object: &MyIngress| {
        let stalled = condition(&object.status.clone().unwrap_or_default().conditions, "Stalled")?;
        (stalled.1 == "TargetRefused").then_some(stalled.2)
    };
    // Before the operator knows the pod, it refuses that target as well.
    let refused = |object: &MyIngress| refusal(object).is_some_and(|it| it.contains("198.18.9.1 (and 2 more)"));
    let object = scene.ingress("app", "the three others to be refused", refused).await;
    let message = refusal(&object).unwrap_or_default();
    for word in ["spec.backends[0].service", "EndpointSlice mine", "spec.targetAddresses"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    targets(&scene, &["198.18.7.1:8080"]).await;

    let name = scene.namespace.as_str();
    let policies = Api::<CausewayPolicy>::all(scene.client.clone());
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": name } },
        "targetAddresses": ["198.18.9.0/24"],
    } });
    let policy = serde_json::from_value(policy).expect("a policy");
    policies.create(&PostParams::default(), &policy).await.expect("the policy is taken");
    targets(&scene, &["198.18.7.1:8080", "198.18.9.1:8080", "198.18.9.2:8080", "198.18.9.3:8080"]).await;
    ready(&scene, "app").await;

    // Without the policy, only the status of a pod says which addresses are the tenant's.
    policies.delete(name, &DeleteParams::default()).await.expect("it is deleted");
    pod(&scene, "other", "198.18.9.2").await;
    targets(&scene, &["198.18.7.1:8080"]).await;
    scene.delete::<Pod>("own").await;
    targets(&scene, &[]).await;
}
