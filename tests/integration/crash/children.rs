//! Reads the children of objects other than pods, without the values that the cluster makes up.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::buckets;
use crate::support::Scene;
use crate::{etcd, redis};

/// Labels of children of backups and restores.
const OF_BACKUPS: [&str; 3] =
    ["causeway.example.com/backup", "causeway.example.com/backups", "causeway.example.com/restore"];

/// Annotation of the volume claims of nodes of a `Redis` that were the master.
const EPOCH: &str = "causeway.example.com/epoch";

/// The children of a scene by kind; a kind without any is left out. Their uids are added to `words`.
pub async fn children(scene: &Scene, words: &mut Vec<(String, String)>) -> Value {
    let kinds = [
        ("StatefulSet", of_kind::<StatefulSet>(scene, words).await),
        ("ConfigMap", of_kind::<ConfigMap>(scene, words).await),
        ("Service", of_kind::<Service>(scene, words).await),
        ("PodDisruptionBudget", of_kind::<PodDisruptionBudget>(scene, words).await),
        ("PersistentVolumeClaim", of_kind::<PersistentVolumeClaim>(scene, words).await),
        ("CronJob", of_kind::<CronJob>(scene, words).await.into_iter().map(buckets::child).collect()),
        ("Job", of_kind::<Job>(scene, words).await.into_iter().map(buckets::child).collect()),
        ("ServiceAccount", of_kind::<ServiceAccount>(scene, words).await.into_iter().map(buckets::child).collect()),
    ];
    let some = kinds.into_iter().filter(|(_, objects)| !objects.is_empty());
    Value::Object(some.map(|(kind, objects)| (kind.to_owned(), Value::Array(objects))).collect())
}

/// The Secrets of `EtcdClusters`, each with its keys, but without values: these differ in every run.
pub async fn secrets(scene: &Scene) -> Map<String, Value> {
    let ours = ListParams::default().labels(etcd::LABEL);
    let list = scene.api::<Secret>().list(&ours).await.expect("a list");
    let keys = |secret: &Secret| secret.data.iter().flat_map(|data| data.keys().cloned()).collect::<Vec<_>>();
    list.items.iter().map(|secret| (secret.name_any(), keys(secret).into())).collect()
}

async fn of_kind<K>(scene: &Scene, words: &mut Vec<(String, String)>) -> Vec<Value>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let list = scene.api::<K>().list(&ListParams::default()).await.expect("a list");
    let ours = |object: &&K| {
        [etcd::LABEL, redis::LABEL].iter().chain(&OF_BACKUPS).any(|label| object.labels().contains_key(*label))
    };
    list.items.iter().filter(ours).map(|object| child(object, words)).collect()
}

fn child<K>(object: &K, words: &mut Vec<(String, String)>) -> Value
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let name = object.meta().name.clone().unwrap_or_default();
    words.push((object.meta().uid.clone().unwrap_or_default(), format!("<uid of {} {name}>", K::kind(&()))));
    let mut whole = serde_json::to_value(object).expect("JSON");
    for made_up in ["clusterIP", "clusterIPs", "volumeName"] {
        if let Some(spec) = whole["spec"].as_object_mut() {
            spec.remove(made_up);
        }
    }
    let owners: Vec<&Value> =
        whole["metadata"]["ownerReferences"].as_array().into_iter().flatten().map(|owner| &owner["uid"]).collect();
    json!({
        "name": name,
        "labels": whole["metadata"]["labels"],
        "annotations": annotations(&whole["metadata"]["annotations"]),
        "owners": owners,
        "goingAway": object.meta().deletion_timestamp.is_some(),
        "spec": whole["spec"],
        "data": whole["data"],
    })
}

/// Annotations without those that the cluster makes, and without the epochs of masters, which are up to chance.
fn annotations(all: &Value) -> Map<String, Value> {
    let is_ours = |key: &str| !key.contains("kubernetes.io/") && key != EPOCH;
    let ours = all.as_object().into_iter().flatten().filter(|(key, _)| is_ours(key));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// An `EtcdCluster` without what chance decides: its leader, the IDs of members, and the messages of conditions.
pub fn cluster(mut object: Value) -> Value {
    let status = &mut object["status"];
    if let Some(status) = status.as_object_mut() {
        status.remove("leader");
    }
    for member in status["members"].as_array_mut().into_iter().flatten() {
        let member = member.as_object_mut().expect("a member");
        member.remove("isLeader");
        member.remove("id");
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().expect("a condition").remove("message");
    }
    object
}

/// A `Redis` without what chance and time decide: which node is the master after a failover, how much was written, how
/// long it took, and the messages of conditions.
pub fn set(mut object: Value) -> Value {
    let status = &mut object["status"];
    if let Some(status) = status.as_object_mut() {
        for chance in ["master", "epoch", "history", "lastFailover", "switchedTo"] {
            status.remove(chance);
        }
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("switchover");
    }
    let status = &mut object["status"];
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let count = |role: &str| nodes.clone().filter(|node| node["role"] == role && node["ready"] == true).count();
    let roles = json!({ "masters": count("master"), "replicas": count("replica") });
    if let Some(status) = status.as_object_mut() {
        status.insert("nodes".to_owned(), roles);
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().expect("a condition").remove("message");
    }
    object
}
