//! An object that vanishes without the operator's clean-up leaves nothing behind, or an event reports what it left.

use causeway_api::MyIngress;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::{created, spec};
use crate::support::backends::{endpoints, service};
use crate::support::{Account, Operator, Scene, wait_for};

/// Deletes the object and removes its finalizers, as people do with objects that hang in their deletion.
async fn vanishes(scene: &Scene, name: &str) {
    scene.delete::<MyIngress>(name).await;
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
    // The object may be gone already, in the regular way.
    scene.api::<MyIngress>().patch(name, &PatchParams::default(), &patch).await.ok();
    scene.gone::<MyIngress>(name).await;
}

fn with_a_group() -> serde_json::Value {
    spec(json!({
        "backends": [{ "name": "web", "service": "web", "port": 80 }],
        "listeners": [{ "port": 80, "defaultAction": { "forward": { "backends": [{ "name": "web" }] } } }],
    }))
}

#[tokio::test]
async fn an_object_without_finalizer_still_takes_everything_along() {
    let scene = Scene::new("orphans").await;
    let _operator = Operator::start(&scene).await;
    service(&scene, "web", &[("", 80)]).await;
    endpoints(&scene, "web", &[("", 8080)], &["198.18.7.1"]).await;
    // The object vanishes at different moments of its creation.
    for step in ["CreateLoadBalancer", "CreateTargetGroup", "CreateListener"] {
        scene.emulator.clear_journal().await;
        scene.create::<MyIngress>("app", with_a_group()).await;
        let called = |calls: &Vec<crate::support::emulator::Call>| calls.iter().any(|call| call.operation == step);
        wait_for(step, || scene.emulator.journal(), called).await;
        vanishes(&scene, "app").await;
        let left = || async { Account::of(&scene).await };
        wait_for(&format!("nothing to be left after {step}"), left, Account::is_empty).await;
    }
}

#[tokio::test]
async fn orphans_of_an_absent_operator_are_reported_and_kept() {
    let scene = Scene::new("orphans").await;
    let operator = Operator::start(&scene).await;
    let alb = created(&scene, "app", spec(json!({}))).await;
    created(&scene, "other", spec(json!({}))).await;
    operator.stop().await;
    vanishes(&scene, "app").await;
    let operator = Operator::start(&scene).await;
    let events: Api<Event> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let orphaned = || async {
        let all = events.list(&ListParams::default()).await.expect("events").items;
        let orphaned = all.into_iter().filter(|event| event.reason.as_deref() == Some("Orphaned"));
        orphaned.filter_map(|event| event.note).collect::<Vec<String>>()
    };
    let notes = wait_for("an event Orphaned", orphaned, |notes| !notes.is_empty()).await;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains(&alb.name) && notes[0].contains("causeway orphans rm"), "{notes:?}");
    let text = operator.metrics.encode().expect("metrics");
    assert!(text.contains("causeway_orphans 1"), "{text}");
    // The balancer stays: another process made it, so it may be wanted.
    assert_eq!(scene.balancers().await.len(), 2);
}
