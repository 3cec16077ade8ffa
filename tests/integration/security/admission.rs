//! Somebody has the operator's own service account, whose role may create pods: none of them gets the attacker a node.

use causeway::api::Redis;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::wait::wait_for;
use crate::support::{Operator, Scene};

/// A file of `deploy/base`, changed to an operator in the scene's namespace.
fn shipped(scene: &Scene, file: &str) -> Vec<Value> {
    let path = format!("{}/deploy/base/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the file");
    let text = text.replace(":causeway-system:", &format!(":{}:", scene.namespace));
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).expect("YAML")).collect()
}

/// Installs the policy, and the role for the scene's namespace alone, under the scene's name.
async fn install(scene: &Scene) {
    let named = |mut object: Value| {
        object["metadata"]["name"] = scene.namespace.as_str().into();
        object
    };
    let [policy, mut binding] = shipped(scene, "admissionpolicy.yaml").try_into().expect("a policy and its binding");
    binding["spec"]["policyName"] = scene.namespace.as_str().into();
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(named(policy)).expect("a policy");
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(named(binding)).expect("a binding");
    Api::all(scene.client.clone()).create(&PostParams::default(), &policy).await.expect("the policy is taken");
    Api::all(scene.client.clone()).create(&PostParams::default(), &binding).await.expect("the binding is taken");
    let role = shipped(scene, "clusterrole.yaml").swap_remove(0);
    let role: ClusterRole = serde_json::from_value(named(role)).expect("a ClusterRole");
    Api::all(scene.client.clone()).create(&PostParams::default(), &role).await.expect("the role is taken");
    let bound = json!({
        "metadata": { "name": "causeway" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": scene.namespace },
        "subjects": [{ "kind": "ServiceAccount", "name": "causeway", "namespace": scene.namespace }],
    });
    let bound: RoleBinding = serde_json::from_value(bound).expect("a RoleBinding");
    scene.api::<RoleBinding>().create(&PostParams::default(), &bound).await.expect("the binding is taken");
}

/// Deletes the cluster-scoped objects: they are not deleted with the namespace.
async fn tidy(scene: &Scene) {
    let (name, how) = (scene.namespace.as_str(), DeleteParams::default());
    let client = || scene.client.clone();
    Api::<ValidatingAdmissionPolicyBinding>::all(client()).delete(name, &how).await.expect("tidy");
    Api::<ValidatingAdmissionPolicy>::all(client()).delete(name, &how).await.expect("tidy");
    Api::<ClusterRole>::all(client()).delete(name, &how).await.expect("tidy");
}

/// The cluster as the operator's account sees it.
async fn impersonated(scene: &Scene) -> Client {
    let mut config = Config::infer().await.expect("a cluster");
    config.auth_info.impersonate = Some(format!("system:serviceaccount:{}:causeway", scene.namespace));
    let groups = ["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()];
    config.auth_info.impersonate_groups = Some(groups.to_vec());
    Client::try_from(config).expect("a client")
}

/// An object of that kind with that pod, which an object of ours controls unless `owner` says otherwise.
fn with_pod(kind: &str, pod: &Value, owner: &Value) -> (ApiResource, Value) {
    let labels = json!({ "app": "x" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pod });
    let (gvk, spec) = match kind {
        "Pod" => (GroupVersionKind::gvk("", "v1", kind), pod.clone()),
        "StatefulSet" => (
            GroupVersionKind::gvk("apps", "v1", kind),
            json!({ "selector": { "matchLabels": labels }, "serviceName": "x", "template": template }),
        ),
        "Job" => (GroupVersionKind::gvk("batch", "v1", kind), json!({ "template": template })),
        _ => (
            GroupVersionKind::gvk("batch", "v1", kind),
            json!({ "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template } } }),
        ),
    };
    let resource = ApiResource::from_gvk(&gvk);
    let metadata = json!({ "generateName": "attack-", "ownerReferences": owner });
    (resource, json!({ "apiVersion": gvk.api_version(), "kind": kind, "metadata": metadata, "spec": spec }))
}

/// The apiserver's refusal of its creation; `None` if it was created. The policy does not judge dry runs, so it is created for
/// real, and deleted at once.
async fn refusal(scene: &Scene, client: &Client, (resource, object): (ApiResource, Value)) -> Option<String> {
    let made = create(scene, client, &PostParams::default(), (&resource, object)).await;
    let name = match made {
        Ok(made) => made.name_any(),
        Err(message) => return Some(message),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(scene.client.clone(), &scene.namespace, &resource);
    match api.delete(&name, &DeleteParams::background()).await {
        Ok(_) => {}
        // The garbage collector was faster: the owner does not exist.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{name} is not deleted: {error}"),
    }
    None
}

/// Creates it, or returns the apiserver's message.
async fn create(
    scene: &Scene,
    client: &Client,
    how: &PostParams,
    (resource, object): (&ApiResource, Value),
) -> Result<DynamicObject, String> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &scene.namespace, resource);
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    match api.create(how, &object).await {
        Ok(made) => Ok(made),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => panic!("no answer: {error}"),
    }
}

/// A pod that is never scheduled, so what an attack creates never runs.
fn pod(more: &Value) -> Value {
    let gates = json!([{ "name": "example.com/never" }]);
    let mut pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "a", "image": "nginx" }], "schedulingGates": gates });
    for (key, value) in more.as_object().expect("fields") {
        pod[key] = value.clone();
    }
    pod
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_account_makes_no_pod_that_gets_it_a_node_and_does_its_work() {
    let scene = Scene::new("security-admission").await;
    install(&scene).await;
    let client = impersonated(&scene).await;
    let owner = |group: &str, kind: &str| json!([{ "apiVersion": group, "kind": kind, "name": "cache", "uid": "5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11", "controller": true }]);
    let ours = owner("example.com/v1", "Redis");
    let context =
        |context: Value| json!({ "containers": [{ "name": "a", "image": "nginx", "securityContext": context }] });
    let host_path = pod(&json!({ "volumes": [{ "name": "node", "hostPath": { "path": "/" } }] }));
    // A policy takes effect within seconds.
    let look = || refusal(&scene, &client, with_pod("Pod", &host_path, &ours));
    let refused = |words: &Option<String>| words.as_ref().is_some_and(|words| words.contains("hostPath"));
    wait_for("the policy to take effect", look, refused).await;

    for kind in ["Pod", "StatefulSet", "Job", "CronJob"] {
        let spec = |more: &Value| {
            let mut spec = pod(more);
            if kind == "StatefulSet" {
                spec["restartPolicy"] = json!("Always");
            }
            spec
        };
        let attempt = async |more: Value, owner: &Value| {
            refusal(&scene, &client, with_pod(kind, &spec(&more), owner)).await.unwrap_or_default()
        };
        assert_eq!(attempt(json!({}), &ours).await, "", "{kind}: what the operator makes is let pass");
        for (more, words) in [
            (json!({ "volumes": [{ "name": "node", "hostPath": { "path": "/" } }] }), "hostPath"),
            (json!({ "hostNetwork": true }), "hostNetwork"),
            (json!({ "hostPID": true }), "hostPID"),
            (json!({ "hostIPC": true }), "hostIPC"),
            (context(json!({ "privileged": true })), "privileged"),
            (context(json!({ "capabilities": { "add": ["SYS_ADMIN"] } })), "capabilities"),
            (
                json!({ "initContainers": [{ "name": "b", "image": "nginx", "securityContext": { "privileged": true } }] }),
                "privileged",
            ),
        ] {
            let said = attempt(more.clone(), &ours).await;
            assert!(said.contains("the operator makes no") && said.contains(words), "{kind} with {more}: {said}");
        }
        for owner in [json!(null), json!([]), owner("apps/v1", "ReplicaSet")] {
            let said = attempt(json!({}), &owner).await;
            assert!(said.contains("controls"), "{kind} of {owner}: {said}");
        }
    }
    // A dry run makes nothing: by it the operator asks why a pod is missing, also where an injector adds capabilities.
    let injected = pod(&context(json!({ "capabilities": { "add": ["NET_ADMIN"] } })));
    let (resource, object) = with_pod("Pod", &injected, &ours);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let answer = create(&scene, &client, &dry_run, (&resource, object.clone())).await;
    assert!(answer.is_ok(), "{answer:?}");
    let said = refusal(&scene, &client, (resource, object)).await.unwrap_or_default();
    assert!(said.contains("capabilities"), "{said}");
    // The policy applies to no other account.
    assert_eq!(refusal(&scene, &scene.client, with_pod("Pod", &host_path, &json!([]))).await, None);

    // The operator works as that account, with the role that is shipped.
    let _operator = Operator::start_with(&scene, client.clone(), scene.aws.clone(), Duration::from_secs(2));
    scene.create::<Redis>("cache", json!({ "replicas": 0 })).await;
    let look = || async { scene.api::<Redis>().get("cache").await.expect("the object").status.unwrap_or_default() };
    let ready = |status: &causeway::api::RedisStatus| {
        status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    wait_for("a Redis that the account made", look, ready).await;
    // The account may label a pod of its set, but not take the pod away from the set.
    let pods: Api<Pod> = Api::namespaced(client, &scene.namespace);
    let label = Patch::Merge(json!({ "metadata": { "labels": { "x": "y" } } }));
    pods.patch("cache-0", &PatchParams::default(), &label).await.expect("a label is let pass");
    let image = Patch::Merge(json!({ "metadata": { "ownerReferences": [] } }));
    let refused = pods.patch("cache-0", &PatchParams::default(), &image).await.expect_err("the pod stays its set's");
    assert!(refused.to_string().contains("controls"), "{refused}");
    assert_eq!(scene.api::<Pod>().get("cache-0").await.expect("the pod").owner_references().len(), 1);
    tidy(&scene).await;
}
