//! Reports in the status of each policy whether it is in force.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;
use tracing::warn;

use super::problems::read;
use crate::api::causewaypolicy::{CausewayPolicy, CausewayPolicyStatus};
use crate::api::common::FIELD_MANAGER;
use crate::leader::Fence;
use crate::runtime::{Health, merge_conditions};

/// A status that could not be written is tried again after this time.
const AGAIN: Duration = Duration::from_secs(30);

/// Writes the status of every policy that it receives, once this process leads.
pub async fn tell(client: Client, fence: Fence, mut policies: UnboundedReceiver<DynamicObject>) {
    let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<CausewayPolicy>(&()));
    fence.opened().await;
    let mut unwritten: HashMap<String, DynamicObject> = HashMap::new();
    loop {
        tokio::select! {
            policy = policies.recv() => match policy {
                Some(policy) => drop(unwritten.insert(policy.name_any(), policy)),
                None => return,
            },
            () = sleep(AGAIN), if !unwritten.is_empty() => {}
        }
        let mut failed = HashMap::new();
        for (name, policy) in unwritten.drain() {
            let Some(status) = status(&policy, Timestamp::now()) else { continue };
            // The uid makes the patch fail if the policy was replaced by another one of the same name.
            let patch = json!({
                "apiVersion": "demo.rtfm.co.ua/v1", "kind": "CausewayPolicy", "metadata": { "name": name, "uid": policy.uid() },
                "status": status,
            });
            let how = PatchParams::apply(FIELD_MANAGER).force();
            match api.patch_status(&name, &how, &Patch::Apply(&patch)).await {
                Ok(_) => {}
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

/// The status that a policy should have, if it differs from the present one.
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
    (known != status.conditions || before.observed_generation != generation).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_says_whether_it_is_in_force_and_says_it_once() {
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
}
