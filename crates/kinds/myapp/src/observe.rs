//! Reads the pods of one object.

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, Resource, ResourceExt};

use causeway_api::MyApp;
use causeway_runtime::guardrails::Denial;
use causeway_runtime::list;
use causeway_runtime::manifest::is_controlled_by;

use super::Error;
use super::resources::{ADMITTED, REVISION, image_of, labels, selector};

/// The pods of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The first thing in the spec that policies forbid, if any.
    pub denied: Option<Denial>,
    /// Every pod that the object controls, by name.
    pub pods: Vec<ObservedPod>,
}

/// The facts about a pod that decisions depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a pod")]
pub struct ObservedPod {
    /// The name of the pod.
    pub name: String,
    /// Its uid, so that an action cannot hit a successor of the same name.
    pub uid: String,
    /// The revision it was made from; empty if that is not known.
    pub revision: String,
    /// The image it runs, if that was changed after it was created. A webhook may have changed it before.
    pub changed_image: Option<String>,
    /// True if it is ready to serve.
    pub ready: bool,
    /// True while it is being deleted.
    pub terminating: bool,
    /// True if all its containers ended for good.
    pub finished: bool,
    /// True if it lacks labels that we gave it.
    pub mislabelled: bool,
    /// The reason for which it cannot start, in the kubelet's or scheduler's word.
    pub trouble: Option<String>,
}

pub async fn observe(client: &Client, object: &MyApp) -> Result<Observed, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let is_ours = |pod: &Pod| is_controlled_by(pod, object);
    let pods = list(client, &namespace, &selector(object), is_ours).await.map_err(Error::List)?;
    let mut pods: Vec<ObservedPod> = pods.iter().map(|pod| observe_pod(pod, object)).collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Observed { pods, denied: None })
}

/// Reads from a pod of the object what decisions depend on.
pub fn observe_pod(pod: &Pod, object: &MyApp) -> ObservedPod {
    let status = pod.status.clone().unwrap_or_default();
    let condition = |type_: &str| status.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let waiting = status
        .container_statuses
        .iter()
        .flatten()
        .find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let unscheduled = condition("PodScheduled").filter(|scheduled| scheduled.status == "False");
    let admitted = pod.annotations().get(ADMITTED).unwrap_or(&object.spec.image);
    ObservedPod {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        revision: pod.annotations().get(REVISION).cloned().unwrap_or_default(),
        changed_image: image_of(pod).filter(|image| image != admitted).map(str::to_owned),
        ready: condition("Ready").is_some_and(|ready| ready.status == "True"),
        terminating: pod.meta().deletion_timestamp.is_some(),
        finished: matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")),
        mislabelled: labels(object).iter().any(|(key, value)| pod.labels().get(key) != Some(value)),
        trouble: waiting.or_else(|| unscheduled.and_then(|scheduled| scheduled.reason.clone())),
    }
}
