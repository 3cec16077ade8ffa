//! Reports in the status of each policy whether it is in force.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};
use tracing::warn;

use causeway_api::causewaypolicy::{CausewayPolicy, CausewayPolicyStatus};
use causeway_api::common::FIELD_MANAGER;

use super::problems::read;
use crate::leader::Fence;
use crate::{Health, merge_conditions};

/// A status that could not be written is tried again after this time. A status that another operator has changed stays for as
/// long.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// Writes the status of every policy that it receives, once this process leads.
pub async fn tell(client: Client, fence: Fence, mut policies: UnboundedReceiver<DynamicObject>) {
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<CausewayPolicy>(&()));
    fence.wait_until_open().await;
    let mut unwritten: HashMap<String, DynamicObject> = HashMap::new();
    let mut last_reported: HashMap<String, Instant> = HashMap::new();
    loop {
        tokio::select! {
            policy = policies.recv() => match policy {
                Some(policy) => drop(unwritten.insert(policy.name_any(), policy)),
                None => return,
            },
            () = sleep(RETRY_INTERVAL), if !unwritten.is_empty() => {}
        }
        last_reported.retain(|_, at| at.elapsed() < RETRY_INTERVAL);
        let mut failed = HashMap::new();
        for (name, policy) in unwritten.drain() {
            let Some(status) = status(&policy, Timestamp::now()) else { continue };
            // An operator of another version may read the same policy otherwise. They must not answer each other at once.
            let is_contested = policy.data["status"]["observedGeneration"].as_i64() == policy.metadata.generation;
            if is_contested && last_reported.contains_key(&name) {
                failed.insert(name, policy);
                continue;
            }
            // The uid makes the patch fail if the policy was replaced by another one of the same name.
            let patch = json!({
                "apiVersion": "demo.rtfm.co.ua/v1", "kind": "CausewayPolicy", "metadata": { "name": name, "uid": policy.uid() },
                "status": status,
            });
            let how = PatchParams::apply(FIELD_MANAGER).force();
            match api.patch_status(&name, &how, &Patch::Apply(&patch)).await {
                Ok(_) => {
                    last_reported.insert(name, Instant::now());
                }
                // The policy was deleted or replaced.
                Err(kube::Error::Api(problem)) if matches!(problem.code, 404 | 409) => {}
                Err(problem) => {
                    warn!(name, %problem, "the status of a CausewayPolicy cannot be written");
                    failed.insert(name, policy);
                }
            }
        }
        unwritten = failed;
    }
}

/// Returns the status that a policy should have, if it says something else than the present one. Other words for the
/// same are no reason to write: operators of two versions would correct each other for ever.
fn status(policy: &DynamicObject, now: Timestamp) -> Option<CausewayPolicyStatus> {
    let text = "objects in the selected namespaces may use only what this policy lists";
    let health = match read(&policy.data["spec"]) {
        Ok(_) => Health::ready("InForce", text),
        Err(why) => {
            let message =
                format!("{why}. Until it is corrected, nothing new is created in the namespaces that it may apply to");
            Health::stalled("Unreadable", message)
        }
    };
    let before: CausewayPolicyStatus = serde_json::from_value(policy.data["status"].clone()).unwrap_or_default();
    let ours = |it: &Condition| matches!(it.type_.as_str(), "Ready" | "Reconciling" | "Stalled");
    let known: Vec<Condition> = before.conditions.iter().filter(|it| ours(it)).cloned().collect();
    let generation = policy.metadata.generation;
    let conditions = merge_conditions(&known, &health, &[], generation, now);
    let status = CausewayPolicyStatus { observed_generation: generation, conditions };
    let is_new =
        without_messages(&known) != without_messages(&status.conditions) || before.observed_generation != generation;
    is_new.then_some(status)
}

/// Conditions without their messages.
fn without_messages(conditions: &[Condition]) -> BTreeSet<(&str, &str, &str)> {
    conditions.iter().map(|it| (it.type_.as_str(), it.status.as_str(), it.reason.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use tokio::sync::mpsc::unbounded_channel;
    use tower::service_fn;

    use super::*;

    #[test]
    fn a_policy_reports_once_that_it_is_in_force() {
        let policy = |spec: serde_json::Value, status: serde_json::Value| -> DynamicObject {
            serde_json::from_value(
                json!({ "metadata": { "name": "p", "generation": 2 }, "spec": spec, "status": status }),
            )
            .unwrap()
        };
        let now = Timestamp::UNIX_EPOCH;
        for (spec, ready, reason, words) in [
            (json!({ "namespaceSelector": {} }), "True", "InForce", "may use only what this policy lists"),
            (json!({ "namespaceSelector": {}, "images": 7 }), "False", "Unreadable", "spec.images: invalid type"),
        ] {
            let first = status(&policy(spec.clone(), json!(null)), now).unwrap();
            let condition = first.conditions.iter().find(|it| it.type_ == "Ready").unwrap();
            assert_eq!((condition.status.as_str(), condition.reason.as_str()), (ready, reason));
            assert!(condition.message.contains(words), "{}", condition.message);
            assert_eq!(first.observed_generation, Some(2));
            assert_eq!(status(&policy(spec, json!(first)), now + Duration::from_secs(9)), None);
        }
    }

    #[test]
    fn another_versions_words_stay_until_the_policy_changes() {
        let policy = |generation: i64, status: &CausewayPolicyStatus| -> DynamicObject {
            let metadata = json!({ "name": "p", "generation": generation });
            let spec = json!({ "namespaceSelector": {}, "images": 7 });
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
        };
        let now = Timestamp::UNIX_EPOCH;
        let mut other = status(&policy(2, &CausewayPolicyStatus::default()), now).unwrap();
        for condition in &mut other.conditions {
            condition.message = "in the words of another version".into();
        }
        other.conditions.reverse();
        assert_eq!(status(&policy(2, &other), now), None);
        let ours = status(&policy(3, &other), now).expect("the policy is another one");
        assert!(ours.conditions.iter().all(|it| it.message.contains("spec.images")), "{ours:?}");
        other.conditions[0].reason = "Else".into();
        assert!(status(&policy(2, &other), now).is_some(), "this is no matter of words");
    }

    #[tokio::test(start_paused = true)]
    async fn another_versions_verdict_is_not_answered_at_once() {
        let contested = json!({
            "apiVersion": "demo.rtfm.co.ua/v1", "kind": "CausewayPolicy", "metadata": { "name": "p", "generation": 2 },
            "spec": { "namespaceSelector": {} }, "status": { "observedGeneration": 2 },
        });
        let (written, answer) = (Arc::new(AtomicUsize::new(0)), contested.clone());
        let counter = written.clone();
        let apiserver = move |_: Request<Body>| {
            counter.fetch_add(1, Ordering::SeqCst);
            let answer = Response::new(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, kube::Error>(answer) }
        };
        let (sender, receiver) = unbounded_channel();
        tokio::spawn(tell(Client::new(service_fn(apiserver), "default"), Fence::always_open(), receiver));
        let mut counts = Vec::new();
        for pause in [1, 1, 1, 40] {
            sender.send(serde_json::from_value(contested.clone()).unwrap()).unwrap();
            sleep(Duration::from_secs(pause)).await;
            counts.push(written.load(Ordering::SeqCst));
        }
        assert_eq!(counts, [1, 1, 1, 2]);
    }
}
