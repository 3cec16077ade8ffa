//! Reads what the pods of a Job reported.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, ResourceExt};

use super::{Error, list};
use crate::jobs::{End, in_words, last_words, report_of};
use crate::report::Outcome;

/// The pods of a Job, by its name and uid, ordered by creation.
pub async fn pods(client: &Client, object: &impl ResourceExt, name: &str, uid: &str) -> Result<Vec<Pod>, Error> {
    let selector = format!("batch.kubernetes.io/job-name={name}");
    let mut pods: Vec<Pod> = list(client, object, &selector, "pods").await?;
    pods.retain(|pod| is_of(pod, uid));
    pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    Ok(pods)
}

/// Reports whether a pod belongs to the Job with that uid. Any user can set a label, so the owner decides.
pub fn is_of(pod: &Pod, uid: &str) -> bool {
    let kind = <Job as k8s_openapi::Resource>::KIND;
    let is_owner = |owner: &OwnerReference| owner.controller == Some(true) && owner.kind == kind && owner.uid == uid;
    pod.owner_references().iter().any(is_owner)
}

/// Replaces Kubernetes' message about a failed Job by what its pods reported.
pub fn explain(end: Option<&mut End>, pods: &[Pod]) {
    let message = pods.iter().rev().find_map(last_words).and_then(|words| in_words(&words));
    if let (Some(message), Some(failure)) = (message, end.and_then(|end| end.failure.as_mut())) {
        *failure = message;
    }
}

/// Returns the report of the last pod that failed; `None` while none did.
pub fn last_try(pods: &[Pod]) -> Option<String> {
    let (reason, message) = pods.iter().rev().find_map(last_words).and_then(|words| in_words(&words))?;
    Some(format!("{reason}: {message}"))
}

/// The result in the newest report. Reports of a restore or verification have one result.
pub fn outcome(pods: &[Pod]) -> Option<Outcome> {
    pods.iter().rev().find_map(report_of)?.results.into_iter().next()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_alone_ties_a_pod_to_no_job() {
        let pod = |kind: &str, uid: &str| -> Pod {
            let owner = json!({ "apiVersion": "batch/v1", "kind": kind, "name": "j", "uid": uid, "controller": true });
            serde_json::from_value(json!({ "metadata": { "ownerReferences": [owner] } })).expect("a pod")
        };
        assert!(is_of(&pod("Job", "u"), "u"));
        assert!(!is_of(&pod("Job", "v"), "u") && !is_of(&pod("ReplicaSet", "u"), "u") && !is_of(&Pod::default(), "u"));
    }
}
