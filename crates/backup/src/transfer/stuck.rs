//! Finds out why no pod of a Job runs although the Job has not ended: Kubernetes says that only in events of the Job, or in the
//! pod's status.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio::time::timeout;

/// How long a Job may be without a pod that runs before that is told.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// How long to wait for the API server's answer to a dry run.
const DEADLINE: Duration = Duration::from_secs(2);
/// Characters of the words of Kubernetes.
const LONGEST: usize = 400;
/// The container of every pod with which its work ends. The others of ours end before it, or with the pod.
const LAST: &str = "causeway";
/// Reasons of a container that waits for something that does not come by itself.
const WAITING: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

/// Explains why no pod of a Job runs: a reason, and a sentence. `pods` are those of the Job.
pub async fn stuck(client: &Client, job: &Job, pods: &[Pod], now: Timestamp) -> Option<(&'static str, String)> {
    let made = job.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    if now.duration_since(made) < PATIENCE {
        return None;
    }
    if let Some(pod) = pods.last() {
        return waits(pod).or_else(|| injected_container(pod));
    }
    let namespace = job.namespace().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let answer = timeout(DEADLINE, api.create(&parameters, &pod_of(job))).await.ok()?;
    refused(&job.name_any(), answer.err()?)
}

/// Explains why a pod does not run that exists.
fn waits(pod: &Pod) -> Option<(&'static str, String)> {
    let (status, name) = (pod.status.as_ref()?, pod.name_any());
    let unscheduled = status.conditions.iter().flatten().find(|it| it.type_ == "PodScheduled" && it.status == "False");
    if let Some(condition) = unscheduled {
        let words = condition.message.as_deref().unwrap_or("no node takes it");
        return Some(("PodsUnscheduled", clipped(format!("no node takes pod {name}: {words}"))));
    }
    let waits = |it: &ContainerStatus| {
        let waiting = it.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| WAITING.contains(reason))?;
        let words = waiting.message.as_deref().unwrap_or("see kubectl describe pod");
        Some(format!("pod {name} does not start, because container {} has {reason}: {words}", it.name))
    };
    let mut containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    containers.find_map(waits).map(|words| ("PodsWaiting", clipped(words)))
}

/// Which container keeps a pod from ending that has done its work: nothing of ours, so something injected it.
fn injected_container(pod: &Pod) -> Option<(&'static str, String)> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    let state = |it: &ContainerStatus| it.state.clone().unwrap_or_default();
    containers.iter().find(|it| it.name == LAST && state(it).terminated.is_some())?;
    let other = containers.iter().find(|it| it.name != LAST && state(it).running.is_some())?;
    let words = format!(
        "pod {} has done its work, but does not end, because container {} runs, which something injected: let its injector add \
         native sidecars (restartPolicy: Always), or leave out the pods of Jobs",
        pod.name_any(),
        other.name
    );
    Some(("PodsHeld", clipped(words)))
}

/// Returns what the API server's answer to the dry run says. An answer about our own rights says nothing about the Job's pods.
fn refused(job: &str, error: kube::Error) -> Option<(&'static str, String)> {
    let kube::Error::Api(status) = error else { return None };
    let is_refusal = match status.code {
        403 => !status.message.contains("cannot create resource"),
        400 | 422 => !status.message.contains("does not support dry run"),
        500 => status.message.contains("webhook"),
        _ => false,
    };
    let words = format!("Kubernetes refuses the pods of Job {job} (FailedCreate): {}", status.message);
    is_refusal.then(|| ("PodsRefused", clipped(words)))
}

/// The pod as the controller of Jobs makes it, as far as it may be refused.
fn pod_of(job: &Job) -> Pod {
    let template = job.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    let name = Some(format!("{}-0", job.name_any()));
    let (labels, annotations) = (metadata.labels, metadata.annotations);
    Pod {
        metadata: ObjectMeta { name, labels, annotations, ..ObjectMeta::default() },
        spec: template.spec,
        status: None,
    }
}

fn clipped(text: String) -> String {
    if text.chars().count() <= LONGEST {
        return text;
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "back-restore-x" }, "status": status })).expect("a pod")
    }

    #[test]
    fn a_pod_that_does_not_start_says_why() {
        let unscheduled = json!({ "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available",
        }] });
        let (reason, words) = waits(&pod(&unscheduled)).expect("it waits");
        assert_eq!(
            (reason, words.as_str()),
            ("PodsUnscheduled", "no node takes pod back-restore-x: 0/1 nodes are available")
        );
        let state = |reason: &str| {
            let waiting = json!({ "waiting": { "reason": reason, "message": "not found" } });
            let container = json!({
                "name": "fetch", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": waiting,
            });
            waits(&pod(&json!({ "initContainerStatuses": [container] })))
        };
        let (reason, words) = state("ImagePullBackOff").expect("it waits");
        assert!(
            reason == "PodsWaiting" && words.contains("container fetch has ImagePullBackOff: not found"),
            "{words}"
        );
        assert_eq!(state("PodInitializing"), None);
    }

    #[test]
    fn a_container_that_was_injected_and_never_ends_is_named() {
        let container = |name: &str, state: Value| json!({ "name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state });
        let with = |ours: Value, theirs: Value| {
            injected_container(&pod(
                &json!({ "containerStatuses": [container("istio-proxy", theirs), container("causeway", ours)] }),
            ))
        };
        let (running, ended) = (json!({ "running": {} }), json!({ "terminated": { "exitCode": 0 } }));
        let (reason, words) = with(ended.clone(), running.clone()).expect("it is held");
        assert!(reason == "PodsHeld" && words.contains("container istio-proxy runs"), "{words}");
        assert_eq!(with(running.clone(), running), None);
        assert_eq!(with(ended.clone(), ended), None);
    }

    #[test]
    fn pods_that_a_quota_or_pod_security_refuses_are_told() {
        let refused = |code, message: &str| {
            let status = Status::failure(message, "Forbidden").with_code(code);
            refused("nightly-1", kube::Error::Api(Box::new(status)))
        };
        let (reason, words) =
            refused(403, "pods \"nightly-1-0\" is forbidden: exceeded quota: small").expect("refused");
        assert!(
            reason == "PodsRefused" && words.contains("FailedCreate") && words.contains("exceeded quota: small"),
            "{words}"
        );
        assert_eq!(refused(403, "pods is forbidden: User \"x\" cannot create resource \"pods\""), None);
        assert_eq!(refused(409, "exists"), None);
    }
}
