//! Controllers put back their fields of a pod after another client changed them; they leave a suspended app as it is.

use std::time::Duration;

use causeway_api::MyApp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{IMAGE, names, pods, ready_says, running, settled, successor, uids};
use crate::support::rewriting::rewriting;
use crate::support::rollout_watch::RolloutWatch;
use crate::support::scene::condition;
use crate::support::{Operator, Scene, wait_for};

async fn meddle(scene: &Scene, pod: &str, patch: Value) {
    scene
        .api::<Pod>()
        .patch(pod, &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .expect("the patch is accepted");
}

#[tokio::test]
async fn changed_and_removed_labels_are_put_back() {
    let scene = Scene::new("drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(1)).await;
    let before = uids(&scene).await;
    let labels = scene.pods().await[0].labels().clone();
    assert!(!labels.is_empty());
    let foreign_value: Value =
        labels.keys().map(|key| (key.clone(), json!("foreign"))).collect::<serde_json::Map<_, _>>().into();
    let removed: Value = labels.keys().map(|key| (key.clone(), Value::Null)).collect::<serde_json::Map<_, _>>().into();
    for meddled in [foreign_value, removed] {
        meddle(&scene, "app-pod", json!({ "metadata": { "labels": meddled } })).await;
        wait_for("the labels to be back", || async { scene.pods().await[0].labels().clone() }, |now| *now == labels)
            .await;
    }
    assert_eq!(uids(&scene).await, before, "the pod itself stays");
}

#[tokio::test]
async fn foreign_labels_stay() {
    let scene = Scene::new("drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(1)).await;
    let labels = json!({ "team": "payments", "app.kubernetes.io/managed-by": "foreign" });
    meddle(&scene, "app-pod", json!({ "metadata": { "labels": labels } })).await;
    let repaired =
        |labels: &std::collections::BTreeMap<String, String>| labels["app.kubernetes.io/managed-by"] == "causeway";
    let now = wait_for("our label to be back", || async { scene.pods().await[0].labels().clone() }, repaired).await;
    assert_eq!(now["team"], "payments");
}

#[tokio::test]
async fn a_pod_whose_image_a_client_changed_is_replaced() {
    let scene = Scene::new("drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(2)).await;
    let before = uids(&scene).await;
    let other = json!({ "spec": { "containers": [{ "name": "app", "image": "docker.io/library/nginx:latest" }] } });
    meddle(&scene, "app-pod-1", other).await;
    let pod = successor(&scene, "app-pod-1", &before["app-pod-1"]).await;
    assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some(IMAGE));
    assert_eq!(uids(&scene).await["app-pod"], before["app-pod"], "the other pod stays");
}

#[tokio::test]
async fn a_suspended_app_stays_unchanged_until_it_resumes() {
    let scene = Scene::new("drift").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(2)).await;
    let before = uids(&scene).await;
    scene.edit::<MyApp>("app", json!({ "suspend": true, "banner": "changed" })).await;
    ready_says(&scene, "app", "Suspended").await;
    scene.delete::<Pod>("app-pod").await;
    scene.gone::<Pod>("app-pod").await;
    // Once the status shows this change, a reconcile has run after the pod was deleted.
    let edited = scene.edit::<MyApp>("app", json!({ "replicas": 3 })).await;
    let seen = |app: &MyApp| {
        app.status.as_ref().is_some_and(|status| status.observed_generation == edited.metadata.generation)
    };
    let app = scene.app("app", "the suspended app's change to be seen", seen).await;
    let (ready, reason, _) = condition(&app.status.unwrap().conditions, "Ready").unwrap();
    assert_eq!((ready.as_str(), reason.as_str()), ("Unknown", "Suspended"));
    assert_eq!(names(&scene).await, ["app-pod-1"]);
    assert_eq!(uids(&scene).await["app-pod-1"], before["app-pod-1"]);

    scene.edit::<MyApp>("app", json!({ "suspend": false })).await;
    settled(&scene, "app", "three pods of the new banner").await;
    assert_eq!(names(&scene).await, ["app-pod", "app-pod-1", "app-pod-2"]);
    assert_ne!(uids(&scene).await["app-pod-1"], before["app-pod-1"]);
}

#[tokio::test]
async fn what_changed_while_no_operator_ran_is_made_up_for() {
    let scene = Scene::new("drift").await;
    let operator = Operator::start(&scene).await;
    running(&scene, "app", pods(2)).await;
    operator.stop().await;
    scene.delete::<Pod>("app-pod").await;
    scene.gone::<Pod>("app-pod").await;
    scene.edit::<MyApp>("app", json!({ "replicas": 3 })).await;
    let _operator = Operator::start(&scene).await;
    settled(&scene, "app", "three pods").await;
    assert_eq!(names(&scene).await, ["app-pod", "app-pod-1", "app-pod-2"]);
}

/// As a webhook does that sends all images through a mirror. The operator reads what it would read then.
#[tokio::test]
async fn an_image_that_a_webhook_rewrites_replaces_no_pod() {
    let scene = Scene::new("drift").await;
    let mirrored = ["\"image\":\"nginx:latest\"", "\"image\":\"mirror.example.com/nginx:latest\""];
    let client = rewriting(Operator::client().await, "pods", mirrored[0], mirrored[1]);
    let _operator = Operator::start_with(&scene, client, scene.aws.clone(), Duration::from_secs(2));
    running(&scene, "app", pods(2)).await;
    let before = uids(&scene).await;
    scene.edit::<MyApp>("app", json!({ "replicas": 3 })).await;
    settled(&scene, "app", "three pods").await;
    let now = uids(&scene).await;
    assert!(before.iter().all(|(name, uid)| now.get(name) == Some(uid)), "{before:?} {now:?}");
    // Another image or banner is followed all the same, each pod once.
    let watch = RolloutWatch::start(&scene).await;
    scene.edit::<MyApp>("app", json!({ "banner": "changed" })).await;
    settled(&scene, "app", "the other banner").await;
    assert_eq!(watch.replaced().len(), 3, "{:?}", watch.replaced());
}
