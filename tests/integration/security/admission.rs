//! An attacker has the operator's own service account, whose role may create pods: none of them gets him a node, or the
//! rights of another account.

use causeway_api::Redis;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

use crate::support::wait::wait_for;
use crate::support::{Operator, Scene};

/// A file of `deploy/base`, changed to an operator whose account is in the scene's namespace, and whose own namespace is
/// another one.
fn shipped(scene: &Scene, file: &str) -> Vec<Value> {
    let path = format!("{}/../deploy/base/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the file");
    let text = text.replace(":causeway-system:", &format!(":{}:", scene.namespace));
    let text = text.replace("\"causeway-system\"", &format!("\"{}\"", own(scene)));
    let text = text.replace("'[]'", &format!("'[\"{}\"]'", listed_namespace(scene)));
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).expect("YAML")).collect()
}

/// The operator's own namespace.
fn own(scene: &Scene) -> String {
    format!("{}-own", scene.namespace)
}

/// A namespace that the platform team closed.
fn listed_namespace(scene: &Scene) -> String {
    format!("{}-named", scene.namespace)
}

/// Installs the policies, and the role in the namespaces of the test, under the scene's name.
async fn install(scene: &Scene) {
    let named_after = |mut object: Value| {
        for field in ["/metadata/name", "/spec/policyName"] {
            if let Some(name) = object.pointer_mut(field) {
                *name = name.as_str().expect("a name").replacen("causeway", &scene.namespace, 1).into();
            }
        }
        object
    };
    let client = || scene.client.clone();
    for object in shipped(scene, "admissionpolicy.yaml") {
        let is_policy = object["kind"] == "ValidatingAdmissionPolicy";
        let object = named_after(object);
        if is_policy {
            let policy: ValidatingAdmissionPolicy = serde_json::from_value(object).expect("a policy");
            Api::all(client()).create(&PostParams::default(), &policy).await.expect("the policy is taken");
        } else {
            let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(object).expect("a binding");
            Api::all(client()).create(&PostParams::default(), &binding).await.expect("the binding is taken");
        }
    }
    let role = shipped(scene, "clusterrole.yaml").swap_remove(0);
    let role: ClusterRole = serde_json::from_value(named_after(role)).expect("a ClusterRole");
    Api::all(client()).create(&PostParams::default(), &role).await.expect("the role is taken");
    for namespace in [own(scene), listed_namespace(scene)] {
        let namespace: Namespace =
            serde_json::from_value(json!({ "metadata": { "name": namespace } })).expect("a Namespace");
        Api::all(client()).create(&PostParams::default(), &namespace).await.expect("a namespace");
    }
    let bound = json!({
        "metadata": { "name": scene.namespace },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": scene.namespace },
        "subjects": [{ "kind": "ServiceAccount", "name": "causeway", "namespace": scene.namespace }],
    });
    let bound: RoleBinding = serde_json::from_value(bound).expect("a RoleBinding");
    for namespace in [scene.namespace.as_str(), "kube-system", &own(scene), &listed_namespace(scene)] {
        let api = Api::<RoleBinding>::namespaced(client(), namespace);
        api.create(&PostParams::default(), &bound).await.expect("the binding is taken");
    }
}

/// The cluster as the operator's account sees it, once both policies are in force: each takes effect by itself within seconds.
async fn guarded(scene: &Scene) -> Client {
    install(scene).await;
    let client = impersonated(scene).await;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let host_path = pod(&json!({ "volumes": [{ "name": "node", "hostPath": { "path": "/" } }] }));
    let (jobs, job) = with_pod("Job", &host_path, &owner("example.com/v1", "Redis"));
    let maps = ApiResource::erase::<ConfigMap>(&());
    let map = json!({ "metadata": { "generateName": "attack-" } });
    for (what, namespace, resource, object, words) in [
        ("pods", scene.namespace.as_str(), jobs, job, "hostPath"),
        ("namespaces", "kube-system", maps, map, "no configmaps in namespace"),
    ] {
        let look = || async {
            create(&client, namespace, &dry_run, (&resource, object.clone())).await.err().unwrap_or_default()
        };
        wait_for(&format!("the policy about {what} to take effect"), look, |said| said.contains(words)).await;
    }
    client
}

/// Deletes what is not deleted with the namespace.
async fn tidy(scene: &Scene) {
    let (name, how) = (scene.namespace.as_str(), DeleteParams::default());
    let client = || scene.client.clone();
    for name in [name, &format!("{name}-children")] {
        Api::<ValidatingAdmissionPolicyBinding>::all(client()).delete(name, &how).await.expect("tidy");
        Api::<ValidatingAdmissionPolicy>::all(client()).delete(name, &how).await.expect("tidy");
    }
    Api::<ClusterRole>::all(client()).delete(name, &how).await.expect("tidy");
    Api::<RoleBinding>::namespaced(client(), "kube-system").delete(name, &how).await.expect("tidy");
    for namespace in [own(scene), listed_namespace(scene)] {
        Api::<Namespace>::all(client()).delete(&namespace, &how).await.expect("tidy");
    }
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
        "Job" => (GroupVersionKind::gvk("batch", "v1", kind), json!({ "suspend": true, "template": template })),
        _ => (
            GroupVersionKind::gvk("batch", "v1", kind),
            json!({ "suspend": true, "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template } } }),
        ),
    };
    let resource = ApiResource::from_gvk(&gvk);
    let metadata = json!({ "generateName": "attack-", "ownerReferences": owner });
    (resource, json!({ "apiVersion": gvk.api_version(), "kind": kind, "metadata": metadata, "spec": spec }))
}

/// The apiserver's refusal of its creation in that namespace; `None` if it was created. The policy does not judge dry runs of
/// pods, so it is created for real, and deleted at once.
async fn refusal_in(
    scene: &Scene,
    namespace: &str,
    client: &Client,
    (resource, object): (ApiResource, Value),
) -> Option<String> {
    let made = create(client, namespace, &PostParams::default(), (&resource, object)).await;
    let name = match made {
        Ok(made) => made.name_any(),
        Err(message) => return Some(message),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(scene.client.clone(), namespace, &resource);
    match api.delete(&name, &DeleteParams::background()).await {
        Ok(_) => {}
        // The garbage collector was faster: the owner does not exist.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{name} is not deleted: {error}"),
    }
    None
}

/// The same in the scene's namespace.
async fn refusal(scene: &Scene, client: &Client, object: (ApiResource, Value)) -> Option<String> {
    refusal_in(scene, &scene.namespace, client, object).await
}

/// Creates it, or returns the apiserver's message.
async fn create(
    client: &Client,
    namespace: &str,
    how: &PostParams,
    (resource, object): (&ApiResource, Value),
) -> Result<DynamicObject, String> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    match api.create(how, &object).await {
        Ok(made) => Ok(made),
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => panic!("no answer: {error}"),
    }
}

/// A pod as the operator makes it, with a gate: it is never scheduled, so what an attack creates never runs.
fn pod(more: &Value) -> Value {
    let mut pod = json!({
        "restartPolicy": "Never", "automountServiceAccountToken": false,
        "securityContext": { "runAsNonRoot": true, "runAsUser": 999, "seccompProfile": { "type": "RuntimeDefault" } },
        "schedulingGates": [{ "name": "example.com/never" }],
        "containers": [container(&json!({}))],
    });
    overlay(&mut pod, more);
    pod
}

fn container(context: &Value) -> Value {
    let mut all = json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } });
    overlay(&mut all, context);
    json!({ "name": "a", "image": "nginx", "securityContext": all })
}

/// Sets these fields, down to the last one.
fn overlay(value: &mut Value, more: &Value) {
    match (value, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (key, more) in more {
                overlay(fields.entry(key).or_insert(Value::Null), more);
            }
        }
        (value, more) => *value = more.clone(),
    }
}

/// An owner reference to an object of that kind.
fn owner(group: &str, kind: &str) -> Value {
    json!([{ "apiVersion": group, "kind": kind, "name": "cache", "uid": "5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11", "controller": true }])
}

/// Fields of a pod that give it more than pods of the operator have, with a word of the refusal.
fn attacks() -> Vec<(Value, &'static str)> {
    let volume = |source: Value| {
        let mut volume = json!({ "name": "v" });
        overlay(&mut volume, &source);
        json!({ "volumes": [volume] })
    };
    let token = |audience: Value| {
        let mut source = json!({ "serviceAccountToken": { "path": "token" } });
        overlay(&mut source["serviceAccountToken"], &audience);
        volume(json!({ "projected": { "sources": [source] } }))
    };
    let context = |context: Value| json!({ "containers": [container(&context)] });
    let whole = |context: Value| json!({ "securityContext": context });
    let mut beside = container(&json!({ "privileged": true, "allowPrivilegeEscalation": true }));
    beside["name"] = json!("b");
    let mut port = container(&json!({}));
    let mut probe = container(&json!({}));
    probe["livenessProbe"] = json!({ "httpGet": { "host": "169.254.169.254", "port": 80 } });
    port["ports"] = json!([{ "containerPort": 80, "hostPort": 8080 }]);
    vec![
        (volume(json!({ "hostPath": { "path": "/" } })), "hostPath"),
        (volume(json!({ "flexVolume": { "driver": "example.com/x" } })), "volumes"),
        (volume(json!({ "csi": { "driver": "csi.example.com" } })), "volumes"),
        (volume(json!({ "nfs": { "server": "10.0.0.1", "path": "/" } })), "volumes"),
        (volume(json!({ "persistentVolumeClaim": { "claimName": "another" } })), "volumes"),
        (
            volume(json!({ "ephemeral": { "volumeClaimTemplate": { "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } },
            } } } })),
            "volumes",
        ),
        (token(json!({})), "token"),
        (token(json!({ "audience": "https://kubernetes.default.svc" })), "token"),
        (json!({ "automountServiceAccountToken": true }), "automountServiceAccountToken"),
        (json!({ "automountServiceAccountToken": null }), "automountServiceAccountToken"),
        (json!({ "serviceAccountName": "powerful" }), "serviceAccountName powerful"),
        (json!({ "serviceAccount": "powerful" }), "serviceAccountName powerful"),
        (json!({ "hostNetwork": true }), "hostNetwork"),
        (json!({ "hostPID": true }), "hostPID"),
        (json!({ "hostIPC": true }), "hostIPC"),
        (json!({ "containers": [port] }), "hostPort"),
        (json!({ "containers": [probe] }), "host of a probe"),
        (json!({ "nodeName": "node-1", "schedulingGates": null }), "nodeName"),
        (json!({ "runtimeClassName": "another" }), "runtimeClassName"),
        (context(json!({ "privileged": true, "allowPrivilegeEscalation": true })), "privileged"),
        (context(json!({ "allowPrivilegeEscalation": true })), "allowPrivilegeEscalation"),
        (context(json!({ "capabilities": { "add": ["NET_ADMIN"] } })), "capabilities"),
        (context(json!({ "capabilities": { "drop": [] } })), "capabilities"),
        (context(json!({ "runAsUser": 0 })), "root"),
        (context(json!({ "runAsNonRoot": false })), "root"),
        (whole(json!({ "runAsNonRoot": null })), "root"),
        (context(json!({ "seccompProfile": { "type": "Unconfined" } })), "seccompProfile"),
        (whole(json!({ "seccompProfile": { "type": "Unconfined" } })), "seccompProfile"),
        (whole(json!({ "seccompProfile": null })), "seccompProfile"),
        (context(json!({ "appArmorProfile": { "type": "Unconfined" } })), "appArmorProfile"),
        (whole(json!({ "appArmorProfile": { "type": "Unconfined" } })), "appArmorProfile"),
        (context(json!({ "seLinuxOptions": { "type": "spc_t" } })), "seLinuxOptions"),
        (json!({ "hostUsers": false, "containers": [container(&json!({ "procMount": "Unmasked" }))] }), "procMount"),
        (whole(json!({ "sysctls": [{ "name": "kernel.shm_rmid_forced", "value": "1" }] })), "sysctls"),
        (json!({ "initContainers": [beside] }), "privileged"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_account_makes_no_privileged_pod() {
    let scene = Scene::new("security-admission").await;
    let client = guarded(&scene).await;
    let ours = owner("example.com/v1", "Redis");
    let powerful: ServiceAccount =
        serde_json::from_value(json!({ "metadata": { "name": "powerful" } })).expect("an account");
    scene.api::<ServiceAccount>().create(&PostParams::default(), &powerful).await.expect("an account");
    let host_path = pod(&json!({ "volumes": [{ "name": "node", "hostPath": { "path": "/" } }] }));
    let said = refusal(&scene, &client, with_pod("Pod", &host_path, &ours)).await.unwrap_or_default();
    assert!(said.contains("hostPath"), "{said}");

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
        let account = json!({ "serviceAccountName": "causeway-backup" });
        if kind != "Pod" {
            assert_eq!(attempt(account, &ours).await, "", "{kind}: the account of Jobs is let pass");
        }
        // Of a pod with a RuntimeClass that does not exist, the API server says so first.
        for (more, words) in attacks().into_iter().filter(|(_, words)| kind != "Pod" || *words != "runtimeClassName") {
            let said = attempt(more.clone(), &ours).await;
            assert!(said.contains("the operator makes no") && said.contains(words), "{kind} with {more}: {said}");
        }
        for owner in [json!(null), json!([]), owner("apps/v1", "ReplicaSet")] {
            let said = attempt(json!({}), &owner).await;
            assert!(said.contains("controls"), "{kind} of {owner}: {said}");
        }
        for namespace in ["kube-system", &own(&scene), &listed_namespace(&scene)] {
            let said = refusal_in(&scene, namespace, &client, with_pod(kind, &spec(&json!({})), &ours)).await;
            let said = said.unwrap_or_default();
            assert!(said.contains(&format!("in namespace {namespace}")), "{kind} in {namespace}: {said}");
        }
    }
    runtimes_and_claims(&scene, &client, &ours).await;
    // A dry run makes nothing: by it the operator asks why a pod is missing, also where an injector adds capabilities.
    let injected = pod(&json!({ "containers": [container(&json!({ "capabilities": { "add": ["NET_ADMIN"] } }))] }));
    let (resource, object) = with_pod("Pod", &injected, &ours);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let answer = create(&client, &scene.namespace, &dry_run, (&resource, object.clone())).await;
    assert!(answer.is_ok(), "{answer:?}");
    let said = refusal(&scene, &client, (resource, object)).await.unwrap_or_default();
    assert!(said.contains("capabilities"), "{said}");
    // The policy applies to no other account.
    assert_eq!(refusal(&scene, &scene.client, with_pod("Pod", &host_path, &json!([]))).await, None);

    works(&scene, client).await;
    tidy(&scene).await;
}

/// Settings that pods do not have: annotations for the node's runtime, and the volumes of a StatefulSet.
async fn runtimes_and_claims(scene: &Scene, client: &Client, ours: &Value) {
    for key in ["container.apparmor.security.beta.kubernetes.io/a", "io.kubernetes.cri-o.userns-mode", "run.oci.hooks"]
    {
        let (resource, mut object) = with_pod("Job", &pod(&json!({})), ours);
        object["spec"]["template"]["metadata"]["annotations"] = json!({ (key): "unconfined" });
        let said = refusal(scene, client, (resource, object)).await.unwrap_or_default();
        assert!(said.contains("the operator makes no pods with"), "{key}: {said}");
    }
    for (claim, is_taken) in [(json!({}), true), (json!({ "volumeName": "of-another" }), false)] {
        let (resource, mut object) = with_pod("StatefulSet", &pod(&json!({ "restartPolicy": "Always" })), ours);
        let mut spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        overlay(&mut spec, &claim);
        object["spec"]["replicas"] = json!(0);
        object["spec"]["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" }, "spec": spec }]);
        let said = refusal(scene, client, (resource, object)).await.unwrap_or_default();
        assert_eq!(said.is_empty(), is_taken, "{claim}: {said}");
    }
}

/// The operator works as that account, with the role that is shipped.
async fn works(scene: &Scene, client: Client) {
    let _operator = Operator::start_with(scene, client.clone(), scene.aws.clone(), Duration::from_secs(2));
    scene.create::<Redis>("cache", json!({ "replicas": 0 })).await;
    let look = |name: &'static str| async move {
        scene.api::<Redis>().get(name).await.expect("the object").status.unwrap_or_default()
    };
    let ready = |status: &causeway_api::RedisStatus| {
        status.conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    wait_for("a Redis that the account made", || look("cache"), ready).await;
    // A Namespace agrees to an account by its annotation, and the object says how.
    scene.create::<Redis>("named", json!({ "replicas": 0, "serviceAccountName": "powerful" })).await;
    let refused = |status: &causeway_api::RedisStatus| {
        status.conditions.iter().any(|it| it.message.contains("causeway.example.com/service-accounts=powerful"))
    };
    wait_for("the account to be refused", || look("named"), refused).await;
    let agrees =
        json!({ "metadata": { "annotations": { "causeway.example.com/service-accounts": "other, powerful" } } });
    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    namespaces.patch(&scene.namespace, &PatchParams::default(), &Patch::Merge(agrees)).await.expect("an annotation");
    wait_for("a Redis with an account that agrees", || look("named"), ready).await;
    // A set that would be refused is not deleted to make it again.
    let sets = scene.api::<StatefulSet>();
    let before = sets.get("named").await.expect("the set").uid();
    let forgets = json!({ "metadata": { "annotations": { "causeway.example.com/service-accounts": null } } });
    namespaces.patch(&scene.namespace, &PatchParams::default(), &Patch::Merge(forgets)).await.expect("no annotation");
    scene.edit::<Redis>("named", json!({ "storage": { "size": "2Gi" } })).await;
    wait_for("the larger set to be refused", || look("named"), refused).await;
    assert_eq!(sets.get("named").await.expect("the set stays").uid(), before);
    // The account may label a pod of its set, but not take the pod away from the set.
    let pods: Api<Pod> = Api::namespaced(client.clone(), &scene.namespace);
    let label = Patch::Merge(json!({ "metadata": { "labels": { "x": "y" } } }));
    pods.patch("cache-0", &PatchParams::default(), &label).await.expect("a label is let pass");
    let image = Patch::Merge(json!({ "metadata": { "ownerReferences": [] } }));
    let refused = pods.patch("cache-0", &PatchParams::default(), &image).await.expect_err("the pod stays its set's");
    assert!(refused.to_string().contains("controls"), "{refused}");
    assert_eq!(scene.api::<Pod>().get("cache-0").await.expect("the pod").owner_references().len(), 1);
}

/// Objects of others, also after the account made itself their owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_account_takes_no_foreign_object_or_service_account() {
    let scene = Scene::new("security-takes").await;
    let client = guarded(&scene).await;
    let ours = owner("example.com/v1", "DatabaseBackup");
    let never = json!({ "restartPolicy": "Always", "nodeSelector": { "example.com/never": "true" } });
    let (_, mut set) = with_pod("StatefulSet", &pod(&never), &json!([]));
    set["metadata"] = json!({ "name": "of-another" });
    let set: StatefulSet = serde_json::from_value(set).expect("a StatefulSet");
    scene.api::<StatefulSet>().create(&PostParams::default(), &set).await.expect("of another owner");
    let sets: Api<StatefulSet> = Api::namespaced(client.clone(), &scene.namespace);
    let patch = async |body: Value, params: PatchParams| {
        let answer = sets.patch("of-another", &params, &Patch::Merge(body)).await;
        answer.map_or_else(|refused| refused.to_string(), |_| String::new())
    };
    let taken = json!({ "metadata": { "ownerReferences": ours }, "spec": { "replicas": 2 } });
    for body in [&taken, &json!({ "metadata": { "ownerReferences": ours } })] {
        let said = patch(body.clone(), PatchParams::default()).await;
        assert!(said.contains("controls"), "{said}");
    }
    let deleted = sets.delete("of-another", &DeleteParams::default()).await.expect_err("it stays");
    assert!(deleted.to_string().contains("controls"), "{deleted}");

    // A child of a database that lost its owner is taken back.
    let label = json!({ "metadata": { "labels": { "causeway.example.com/redis": "cache" } } });
    scene
        .api::<StatefulSet>()
        .patch("of-another", &PatchParams::default(), &Patch::Merge(label))
        .await
        .expect("a label");
    let dry_run = PatchParams { dry_run: true, ..PatchParams::default() };
    assert_eq!(patch(taken, dry_run).await, "");
    let deleted = sets.delete("of-another", &DeleteParams::default()).await.expect_err("it stays before that");
    assert!(deleted.to_string().contains("controls"), "{deleted}");

    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &scene.namespace);
    let annotated = Patch::Merge(json!({ "metadata": { "annotations": { "eks.amazonaws.com/role-arn": "arn:a" } } }));
    let refused = accounts.patch("default", &PatchParams::default(), &annotated).await.expect_err("it stays");
    assert!(refused.to_string().contains("no service account but causeway-backup"), "{refused}");
    let map = json!({ "metadata": { "name": "aws-auth" }, "data": { "mapRoles": "[]" } });
    let map: ConfigMap = serde_json::from_value(map).expect("a ConfigMap");
    for namespace in ["kube-system", &listed_namespace(&scene)] {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let refused = maps.create(&PostParams::default(), &map).await.expect_err("no ConfigMap there");
        assert!(refused.to_string().contains(&format!("no configmaps in namespace {namespace}")), "{refused}");
    }
    let service = json!({ "metadata": { "name": "of-another", "ownerReferences": ours }, "spec": {
        "ports": [{ "port": 443 }], "externalIPs": ["203.0.113.7"],
    } });
    let service: Service = serde_json::from_value(service).expect("a Service");
    let services: Api<Service> = Api::namespaced(client.clone(), &scene.namespace);
    let refused = services.create(&PostParams::default(), &service).await.expect_err("no such address");
    assert!(refused.to_string().contains("externalIPs"), "{refused}");
    // It keeps its records in its own namespace.
    let maps: Api<ConfigMap> = Api::namespaced(client, &own(&scene));
    maps.create(&PostParams::default(), &map).await.expect("a record");
    tidy(&scene).await;
}
