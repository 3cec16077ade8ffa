//! Describes a scene when a test fails in it: the machine may be gone before a developer can look.

use std::fmt::Write;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::kinds;

/// How many of the latest events are described.
const EVENTS: usize = 12;

/// Describes our objects of the namespace with their conditions, its pods, and its latest events. Leaves out what
/// cannot be listed.
pub async fn account(client: &Client, namespace: &str) -> String {
    let mut text = String::new();
    for (kind, api) in kinds::apis(client, namespace) {
        for object in api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
            let (name, generation) = (object.name_any(), object.metadata.generation.unwrap_or_default());
            let deleted = object.metadata.deletion_timestamp.as_ref().map(|_| ", being deleted").unwrap_or_default();
            let status = &object.data["status"];
            let seen = &status["observedGeneration"];
            let _ = writeln!(text, "{kind} {name}, generation {generation}, observed {seen}{deleted}");
            for condition in status["conditions"].as_array().into_iter().flatten() {
                let word = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
                let _ = writeln!(
                    text,
                    "  {}={} {} since {}: {}",
                    word("type"),
                    word("status"),
                    word("reason"),
                    word("lastTransitionTime"),
                    word("message")
                );
            }
            for list in ["members", "nodes"] {
                for one in status[list].as_array().into_iter().flatten() {
                    let _ = writeln!(text, "  {list}: {}", Value::to_string(one));
                }
            }
        }
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
        let status = pod.status.clone().unwrap_or_default();
        let deleted = pod.metadata.deletion_timestamp.as_ref().map(|_| ", being deleted").unwrap_or_default();
        let _ = writeln!(text, "pod {} {}{deleted}", pod.name_any(), status.phase.unwrap_or_default());
        let containers =
            status.init_container_statuses.into_iter().flatten().chain(status.container_statuses.into_iter().flatten());
        for container in containers {
            let state = serde_json::to_string(&container.state).unwrap_or_default();
            let last = serde_json::to_string(&container.last_state).unwrap_or_default();
            let _ = writeln!(
                text,
                "  {} ready={} restarts={} {state} before: {last}",
                container.name, container.ready, container.restart_count
            );
        }
    }
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut events = events.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
    events.sort_by_key(|event| event.metadata.resource_version.as_deref().and_then(|it| it.parse::<u64>().ok()));
    for event in events.iter().rev().take(EVENTS).rev() {
        let about = event.regarding.as_ref().and_then(|it| it.name.clone()).unwrap_or_default();
        let reason = event.reason.clone().unwrap_or_default();
        let _ = writeln!(text, "event {about} {reason}: {}", event.note.clone().unwrap_or_default());
    }
    text
}
