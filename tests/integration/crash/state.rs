//! The world of a scene, without what differs from run to run: two worlds that should be the same are equal.

use aws_sdk_elasticloadbalancingv2::types::{LoadBalancer, LoadBalancerSchemeEnum};
use causeway::api::{MyApp, MyIngress};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::support::Scene;

/// Every object and every balancer of a scene, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(String);

impl State {
    /// The world as it is now.
    pub async fn of(scene: &Scene) -> Self {
        let balancers = scene.balancers().await;
        let mut words = vec![
            (scene.namespace.clone(), "<namespace>".to_owned()),
            (scene.emulator.account().to_owned(), "<account>".to_owned()),
        ];
        words.extend(balancers.iter().flat_map(random_words));
        let mut described = Vec::new();
        for balancer in &balancers {
            described.push(describe(scene, balancer).await);
        }
        described.sort_by_key(ToString::to_string);
        let (ingresses, apps) =
            (objects::<MyIngress>(scene, &mut words).await, objects::<MyApp>(scene, &mut words).await);
        if ingresses.is_empty() {
            // What was retained names an owner that is gone.
            let uids = described.iter().filter_map(|balancer| balancer["tags"]["causeway.example.com/uid"].as_str());
            words.extend(uids.map(|uid| (uid.to_owned(), "<uid of nobody>".to_owned())));
        }
        let world = json!({
            "MyIngress": ingresses,
            "MyApp": apps,
            "Pod": objects::<Pod>(scene, &mut words).await.into_iter().map(pod).collect::<Vec<_>>(),
            "balancers": described,
        });
        let mut text = serde_json::to_string_pretty(&world).expect("a text");
        // ARNs and DNS names contain other words: the longest go first.
        words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        for (word, placeholder) in words.iter().filter(|(word, _)| !word.is_empty()) {
            text = text.replace(word, placeholder);
        }
        Self(text)
    }

    /// The lines by which another world differs.
    pub fn diff(&self, other: &Self) -> String {
        let only = |sign: &str, mine: &str, theirs: &str| {
            let lines = mine.lines().filter(|line| !theirs.lines().any(|there| there == *line));
            lines.map(|line| [sign, " ", line, "\n"].concat()).collect::<String>()
        };
        format!("{}{}the whole world now: {}", only("-", &self.0, &other.0), only("+", &other.0, &self.0), other.0)
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

async fn describe(scene: &Scene, balancer: &LoadBalancer) -> Value {
    let arn = balancer.load_balancer_arn().unwrap_or_default();
    let answer = scene.elb.describe_load_balancer_attributes().load_balancer_arn(arn).send().await;
    let attributes = answer.expect("attributes").attributes.unwrap_or_default().into_iter();
    let attributes: Map<String, Value> =
        attributes.map(|one| (one.key.unwrap_or_default(), json!(one.value.unwrap_or_default()))).collect();
    let mut subnets: Vec<_> = balancer.availability_zones().iter().filter_map(|zone| zone.subnet_id()).collect();
    subnets.sort_unstable();
    let mut groups = balancer.security_groups().to_vec();
    groups.sort_unstable();
    // A default group has a random id.
    groups.retain(|group| ["sg-web", "sg-other"].contains(&group.as_str()));
    json!({
        "name": balancer.load_balancer_name(),
        "arn": arn,
        "scheme": balancer.scheme().map(LoadBalancerSchemeEnum::as_str),
        "subnets": subnets,
        "securityGroups": groups,
        "tags": scene.tags(arn).await,
        "attributes": attributes,
    })
}

/// Objects without what the cluster makes up; their uids are added to `words`.
async fn objects<K>(scene: &Scene, words: &mut Vec<(String, String)>) -> Vec<Value>
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
    object
}
