//! A changed image or banner reaches the pods one at a time, and a bad one costs one pod only.

use causeway_api::MyApp;
use serde_json::json;

use super::{event, names, pods, prints, ready_says, running, settled, uids};
use crate::support::rollout_watch::RolloutWatch;
use crate::support::{Operator, Scene};

/// Another name of the same image.
const SAME_IMAGE: &str = "docker.io/library/nginx:latest";

#[tokio::test]
async fn a_changed_banner_rolls_out_pod_by_pod() {
    let scene = Scene::new("rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(3)).await;
    let (before, watch) = (uids(&scene).await, RolloutWatch::start(&scene).await);
    scene.edit::<MyApp>("app", json!({ "banner": "changed" })).await;
    let app = settled(&scene, "app", "the new banner everywhere").await;
    assert_eq!(app.status.unwrap().updated_replicas, 3);
    assert_eq!(watch.fewest_ready(), 2);
    for (name, uid) in uids(&scene).await {
        assert_ne!(before[&name], uid);
        prints(&scene, &name, "changed\n").await;
    }
}

#[tokio::test]
async fn a_changed_image_rolls_out_pod_by_pod() {
    let scene = Scene::new("rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(3)).await;
    let watch = RolloutWatch::start(&scene).await;
    scene.edit::<MyApp>("app", json!({ "image": SAME_IMAGE })).await;
    settled(&scene, "app", "the new image everywhere").await;
    assert_eq!(watch.fewest_ready(), 2);
    for pod in scene.pods().await {
        assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some(SAME_IMAGE));
    }
}

#[tokio::test]
async fn a_missing_image_costs_one_pod_until_it_is_corrected() {
    let scene = Scene::new("rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(3)).await;
    let (before, watch) = (uids(&scene).await, RolloutWatch::start(&scene).await);
    scene.edit::<MyApp>("app", json!({ "image": "nginx:does-not-exist" })).await;
    let message = ready_says(&scene, "app", "ImagePullFailed").await;
    assert!(message.contains("spec.image") && message.contains("2 of 3"), "{message}");
    assert_eq!(event(&scene, "app", "ImagePullFailed").await, message);
    let stayed = uids(&scene).await.into_iter().filter(|(name, uid)| before[name] == *uid).count();
    assert_eq!(stayed, 2);

    scene.edit::<MyApp>("app", json!({ "image": SAME_IMAGE })).await;
    settled(&scene, "app", "the better image everywhere").await;
    assert_eq!(watch.fewest_ready(), 2, "neither the bad nor the better image took a second pod away");
}

#[tokio::test]
async fn a_pod_deleted_during_a_rollout_blocks_it_until_recreated() {
    let scene = Scene::new("rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(3)).await;
    scene.edit::<MyApp>("app", json!({ "banner": "changed" })).await;
    scene.delete::<k8s_openapi::api::core::v1::Pod>("app-pod").await;
    settled(&scene, "app", "the new banner everywhere").await;
    assert_eq!(names(&scene).await, ["app-pod", "app-pod-1", "app-pod-2"]);
    prints(&scene, "app-pod", "changed\n").await;
}
