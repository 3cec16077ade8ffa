//! A tenant with the rights of `edit` fills his namespace with objects as large as the API server takes. Nothing happens
//! until an operator starts: then it lists all of them.

use causeway_api::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};
use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, NamespaceResourceScope};
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::leadership::process::Process;
use crate::support::{Scene, is_thorough, wait_for};

/// The size of each object, in bytes: as much as the API server takes in annotations.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/>
const LARGE: usize = 255_000;
/// Objects that are created at the same time.
const AT_ONCE: usize = 12;
/// The chart's limit of memory, in KiB. A build without optimizations takes 40 MiB more than the one that the limit is for.
const LIMIT: u64 = 256 * 1024;

/// Objects of each of the 18 kinds: 720 of them are 184 MB, made in half a minute; in a thorough run, 3,600 are 918 MB.
fn many() -> usize {
    if is_thorough() { 200 } else { 40 }
}

/// Where an object has its bytes.
#[derive(Clone, Copy)]
enum Bulk {
    /// In a single annotation.
    Annotation,
    /// In fields of the kind.
    Fields,
}

/// A kind that an operator lists, with one of its objects.
struct Kind {
    resource: ApiResource,
    object: fn(Bulk) -> Value,
}

fn kind<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(object: fn(Bulk) -> Value) -> Kind {
    Kind { resource: ApiResource::erase::<K>(&()), object }
}

/// A container, large if asked.
fn container(bulk: Bulk) -> Value {
    match bulk {
        Bulk::Annotation => json!({ "name": "redis", "image": "none" }),
        Bulk::Fields => {
            json!({ "name": "redis", "image": "none", "env": [{ "name": "X", "value": "x".repeat(LARGE) }] })
        }
    }
}

fn pod(bulk: Bulk) -> Value {
    json!({ "restartPolicy": "Never", "nodeSelector": { "no": "node" }, "containers": [container(bulk)] })
}

fn template(bulk: Bulk) -> Value {
    json!({ "metadata": { "labels": { "a": "b" } }, "spec": pod(bulk) })
}

/// Every kind that an operator with all controllers watches in a namespace.
fn kinds() -> Vec<Kind> {
    vec![
        kind::<Service>(|_| json!({ "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } })),
        kind::<EndpointSlice>(|_| json!({ "addressType": "IPv4", "endpoints": [] })),
        kind::<Pod>(|bulk| json!({ "spec": pod(bulk) })),
        kind::<ConfigMap>(|bulk| match bulk {
            Bulk::Annotation => json!({}),
            Bulk::Fields => json!({ "data": { "x": "x".repeat(LARGE) } }),
        }),
        kind::<Secret>(|bulk| match bulk {
            Bulk::Annotation => json!({}),
            Bulk::Fields => json!({ "stringData": { "x": "x".repeat(LARGE) } }),
        }),
        kind::<PersistentVolumeClaim>(|_| {
            json!({ "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": { "requests": { "storage": "1Gi" } },
            } })
        }),
        kind::<ServiceAccount>(|_| json!({})),
        kind::<StatefulSet>(|bulk| {
            json!({ "spec": {
                "replicas": 0, "serviceName": "a", "selector": { "matchLabels": { "a": "b" } },
                "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [container(bulk)] } },
            } })
        }),
        kind::<PodDisruptionBudget>(|_| json!({ "spec": { "selector": { "matchLabels": { "a": "none" } } } })),
        kind::<NetworkPolicy>(|_| json!({ "spec": { "podSelector": { "matchLabels": { "a": "none" } } } })),
        kind::<Job>(|bulk| json!({ "spec": { "suspend": true, "template": template(bulk) } })),
        kind::<CronJob>(
            |bulk| json!({ "spec": { "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": { "spec": { "template": template(bulk) } } } }),
        ),
        kind::<MyApp>(|_| json!({ "spec": { "image": "none", "suspend": true } })),
        kind::<MyIngress>(|_| json!({ "spec": { "suspend": true, "subnets": ["subnet-a1", "subnet-b1"] } })),
        kind::<EtcdCluster>(|_| json!({ "spec": { "version": "3.5.9", "suspend": true } })),
        kind::<Redis>(|_| json!({ "spec": { "suspend": true } })),
        kind::<DatabaseBackup>(|_| json!({ "spec": { "schedule": "@yearly", "suspend": true } })),
        kind::<DatabaseRestore>(|_| {
            let from = json!({ "backup": "none", "source": "Redis/none" });
            json!({ "spec": { "from": from, "target": { "redis": { "name": "none" } } } })
        }),
    ]
}

/// Creates objects that have the labels of all our kinds.
async fn fill(scene: &Scene, kind: &Kind, many: usize) {
    let api: Api<DynamicObject> = Api::namespaced_with(scene.client.clone(), &scene.namespace, &kind.resource);
    let create = |number: usize| {
        let api = api.clone();
        async move {
            let bulk = if number.is_multiple_of(2) { Bulk::Annotation } else { Bulk::Fields };
            let mut object = (kind.object)(bulk);
            object["apiVersion"] = kind.resource.api_version.clone().into();
            object["kind"] = kind.resource.kind.clone().into();
            let is_small = object.to_string().len() < LARGE;
            object["metadata"] = json!({
                "name": format!("large-{number}"),
                "labels": {
                    "causeway.example.com/redis": format!("large-{number}"),
                    "causeway.example.com/etcd": format!("large-{number}"),
                    "causeway.example.com/backup": "x", "causeway.example.com/restore": "x",
                    "causeway.example.com/backups": "x", "causeway.example.com/app": "x",
                },
            });
            if is_small {
                object["metadata"]["annotations"] = json!({ "example.com/x": "x".repeat(LARGE) });
            }
            let object: DynamicObject = serde_json::from_value(object).expect("an object");
            let made = api.create(&PostParams::default(), &object).await;
            made.unwrap_or_else(|error| panic!("a {} is refused: {error}", kind.resource.kind));
        }
    };
    stream::iter((0..many).map(create)).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// Waits until the operator serves objects of another namespace, for which it needs all its lists.
async fn serves(scene: &Scene, name: &str) {
    scene.create::<Redis>(name, json!({ "replicas": 0 })).await;
    scene.create::<MyApp>(name, json!({ "image": "none", "suspend": true })).await;
    let look = || async {
        let redis = scene.api::<Redis>().get(name).await.expect("the object").status;
        let app = scene.api::<MyApp>().get(name).await.expect("the object").status;
        let ready = redis.iter().flat_map(|it| &it.conditions).any(|it| it.type_ == "Ready" && it.status == "True");
        (ready, app.is_some())
    };
    wait_for("a Redis that is ready, and a MyApp with a status", look, |seen| *seen == (true, true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_starts_beside_large_objects_of_every_kind() {
    let (scene, tenant) = (Scene::new("security-start").await, Scene::new("security-start-tenant").await);
    let namespaces = format!("{},{}", scene.namespace, tenant.namespace);
    let start = async |name| Process::start_with(&scene, name, &[("WATCH_NAMESPACE", &namespaces)]).await;
    let mut before = start("before").await;
    serves(&scene, "first").await;
    let small = before.memory_kib("VmHWM");
    before.signal("TERM");
    before.ended().await;
    for kind in kinds() {
        fill(&tenant, &kind, many()).await;
    }
    let after = start("after").await;
    serves(&scene, "second").await;
    let (peak, rests) = (after.memory_kib("VmHWM"), after.memory_kib("VmRSS"));
    let (kinds, bytes) = (kinds().len(), kinds().len() * many() * LARGE / 1_000_000);
    println!(
        "» an operator took {small} KiB at most without objects, and {peak} KiB ({rests} afterwards) beside {} of {kinds} \
         kinds with {bytes} MB",
        many() * kinds
    );
    assert!(peak < LIMIT, "{peak} KiB");
}
