//! What matters of pods and volume claims as Kubernetes has them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self as core, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::facts::{Claim, Pod, Voice};
use super::names::{self, CERTIFICATES, INCARNATION, REVISION, ROLE, SETTINGS};
use crate::api::Redis as Object;
use crate::controllers::pod_trouble;
use crate::controllers::revival;
use crate::controllers::unlabelled::Set;
use crate::runtime::lost_node;

/// A pod that was made less long ago is on its way.
const YOUNG_SECONDS: i64 = 20;

/// The pods of an object, by ordinal.
pub fn pods_of<'a>(object: &Object, pods: impl IntoIterator<Item = &'a core::Pod>) -> BTreeMap<i32, Pod> {
    let pods = pods.into_iter().filter(|pod| pod.labels().get(names::LABEL) == Some(&object.name_any()));
    pods.filter_map(|pod| Some((names::ordinal_of(object, &pod.name_any())?, facts_of(pod)))).collect()
}

/// Made so lately that what was seen of its claim may be older.
fn is_recent(time: &Time) -> bool {
    Timestamp::now().duration_since(time.0).as_secs() < YOUNG_SECONDS
}

/// What matters of a pod.
pub fn facts_of(pod: &core::Pod) -> Pod {
    let status = pod.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let container = status.container_statuses.iter().flatten().find(|container| container.name == names::CONTAINER);
    let state = container.and_then(|container| container.state.as_ref());
    let waits = state.is_some_and(|state| state.waiting.is_some());
    let last = container.filter(|_| waits).and_then(|container| container.last_state.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref()).or_else(|| last?.terminated.as_ref());
    let has_ended = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
    let (trouble, evidence) = pod_trouble::of(pod, names::CONTAINER);
    Pod {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        revision: pod.labels().get(REVISION).cloned().unwrap_or_default(),
        role: pod.labels().get(ROLE).cloned(),
        settings: pod.annotations().get(SETTINGS).cloned(),
        certificates: pod.annotations().get(CERTIFICATES).cloned(),
        // What has ended keeps its address, which may be another pod's by now.
        address: status.pod_ip.clone().filter(|_| !has_ended),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        controlled: pod.owner_references().iter().any(|owner| owner.controller == Some(true)),
        unlabelled: false,
        trouble,
        evidence,
        last_words: ended.and_then(|ended| ended.message.clone()),
        placed: pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
            && !pod.metadata.creation_timestamp.as_ref().is_some_and(is_recent),
        revival: revival::cause(pod, names::CONTAINER),
        lost_node: lost_node(pod),
        login: None,
        tls: None,
        voice: Voice::Gone,
        writes: None,
        drift: BTreeSet::new(),
    }
}

/// The volume claims of an object, by ordinal.
pub fn claims_of<'a>(
    object: &Object,
    claims: impl IntoIterator<Item = &'a PersistentVolumeClaim>,
) -> BTreeMap<i32, Claim> {
    let (name, peers) = (object.name_any(), names::peers(object));
    let set = Set { label: names::LABEL, name: &name, peers: &peers, container: names::CONTAINER };
    let claims = claims.into_iter().filter(|claim| set.has(claim.labels()));
    let facts = claims.map(|claim| facts_of_claim(object, claim));
    facts.filter_map(|facts| Some((names::ordinal_of(object, &facts.name)?, facts))).collect()
}

/// What matters of a volume claim.
pub fn facts_of_claim(object: &Object, claim: &PersistentVolumeClaim) -> Claim {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.clone());
    let size = requests.and_then(|requests| requests.get("storage").cloned());
    Claim {
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        ours: claim.labels().get(INCARNATION) == object.uid().as_ref(),
        unlabelled: false,
        terminating: claim.metadata.deletion_timestamp.is_some(),
        bound: claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some()),
        size: size.map_or_else(String::new, |it| it.0),
    }
}
