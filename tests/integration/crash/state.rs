//! The state of a scene, without what differs from run to run: two states that should be the same are equal.

use aws_sdk_elasticloadbalancingv2::types::LoadBalancer;
use causeway_api::{DatabaseBackup, DatabaseRestore, EtcdCluster, MyApp, MyIngress, Redis};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::buckets;
use super::children::{self, children};
use crate::etcd::bystander;
use crate::redis::{ROLE_LABEL, nodes};
use crate::support::account::without_randomness;
use crate::support::{Account, Scene};

/// Every object of a scene and everything of its account, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(String);

impl State {
    /// Reads the present state.
    pub async fn read(scene: &Scene) -> Self {
        let balancers = scene.balancers().await;
        let mut words = vec![
            (scene.namespace.clone(), "<namespace>".to_owned()),
            (scene.emulator.account().to_owned(), "<account>".to_owned()),
        ];
        words.extend(balancers.iter().flat_map(random_words));
        let (ingresses, apps) =
            (objects::<MyIngress>(scene, &mut words).await, objects::<MyApp>(scene, &mut words).await);
        let clusters = objects::<EtcdCluster>(scene, &mut words).await;
        let members = if clusters.is_empty() { None } else { bystander::members(scene).await };
        let sets = objects::<Redis>(scene, &mut words).await;
        let backups = objects::<DatabaseBackup>(scene, &mut words).await;
        let restores = objects::<DatabaseRestore>(scene, &mut words).await;
        let observed = json!({
            "MyIngress": ingresses,
            "MyApp": apps,
            "EtcdCluster": clusters.into_iter().map(children::cluster).collect::<Vec<_>>(),
            "members of etcd and whether they learn": members,
            "Redis": sets.into_iter().map(children::set).collect::<Vec<_>>(),
            "nodes of Redis": nodes::roles(scene).await,
            "DatabaseBackup": backups.into_iter().map(buckets::timeless).collect::<Vec<_>>(),
            "DatabaseRestore": restores.into_iter().map(buckets::timeless).collect::<Vec<_>>(),
            "buckets": buckets::buckets(scene).await,
            "Secrets of etcd": children::secrets(scene).await,
            "children": children(scene, &mut words).await,
            "Pod": objects::<Pod>(scene, &mut words).await.into_iter().filter(stays).map(pod).collect::<Vec<_>>(),
            "account": Account::of(scene).await.facts(scene).0,
        });
        let mut text = serde_json::to_string_pretty(&observed).expect("a text");
        // ARNs and DNS names contain other words: the longest go first.
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        for (word, placeholder) in words.iter().filter(|(word, _)| !word.is_empty()) {
            text = text.replace(word, placeholder);
        }
        Self(buckets::without_ids(&without_randomness(&text)))
    }

    /// The lines by which another state differs.
    pub fn diff(&self, other: &Self) -> String {
        let only = |sign: &str, mine: &str, theirs: &str| {
            let lines = mine.lines().filter(|line| !theirs.lines().any(|there| there == *line));
            lines.map(|line| [sign, " ", line, "\n"].concat()).collect::<String>()
        };
        format!("{}{}the whole state: {}", only("-", &self.0, &other.0), only("+", &other.0, &self.0), other.0)
    }
}

/// The words of a balancer that are random, or hashed from something random.
fn random_words(balancer: &LoadBalancer) -> Vec<(String, String)> {
    let name = balancer.load_balancer_name().unwrap_or_default();
    let stable = stable_name(name);
    vec![
        (balancer.load_balancer_arn().unwrap_or_default().to_owned(), format!("<arn of {stable}>")),
        (balancer.dns_name().unwrap_or_default().to_owned(), format!("<dns of {stable}>")),
        (if name == stable { String::new() } else { name.to_owned() }, stable),
    ]
}

/// The name without the hash of the owner's uid.
fn stable_name(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((short, hash)) if hash.len() == 8 && hash.chars().all(|c| c.is_ascii_hexdigit()) => {
            format!("{short}-<hash>")
        }
        _ => name.to_owned(),
    }
}

/// Objects without what the cluster makes up; their uids are added to `words`.
pub async fn objects<K>(scene: &Scene, words: &mut Vec<(String, String)>) -> Vec<Value>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let list = scene.api::<K>().list(&ListParams::default()).await.expect("a list");
    let mut objects = Vec::new();
    for object in list.items {
        let name = object.name_any();
        words.push((object.uid().unwrap_or_default(), format!("<uid of {name}>")));
        let whole = serde_json::to_value(&object).expect("JSON");
        let mut status = whole["status"].clone();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition.as_object_mut().expect("a condition").remove("lastTransitionTime");
        }
        objects.push(json!({
            "name": name,
            "labels": whole["metadata"]["labels"],
            "annotations": whole["metadata"]["annotations"],
            "finalizers": whole["metadata"]["finalizers"],
            "owners": object.owner_references().iter().map(|owner| &owner.uid).collect::<Vec<_>>(),
            "goingAway": object.meta().deletion_timestamp.is_some(),
            "spec": whole["spec"],
            "status": status,
        }));
    }
    objects
}

/// Returns true if the pod belongs to no Job: pods of Jobs have random names, and go away at some time.
fn stays(pod: &Value) -> bool {
    pod["labels"]["batch.kubernetes.io/job-name"].is_null()
}

/// A pod without what scheduler and kubelet make up.
fn pod(mut object: Value) -> Value {
    let ready = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    object["status"] = json!({ "phase": object["status"]["phase"], "ready": ready });
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    if let Some(labels) = object["labels"].as_object_mut() {
        // Made up by the StatefulSet controller.
        labels.remove("controller-revision-hash");
        // Which pod is the master is up to chance. `children::set` keeps how many masters there are.
        labels.remove(ROLE_LABEL);
    }
    object
}
