//! `replicas`, by the spec and by the `/scale` subresource.

use causeway_api::MyApp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{names, pods, running, settled, uids};
use crate::support::{Operator, Scene, wait_for};

async fn scale(scene: &Scene, replicas: i32) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    scene.api::<MyApp>().patch_scale("app", &PatchParams::default(), &patch).await.map(drop)
}

#[tokio::test]
async fn the_scale_subresource_scales_up_down_and_to_zero() {
    let scene = Scene::new("scale").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, "app", pods(1)).await;
    let first = uids(&scene).await;
    for (replicas, expected) in
        [(4, vec!["app-pod", "app-pod-1", "app-pod-2", "app-pod-3"]), (1, vec!["app-pod"]), (0, vec![])]
    {
        scale(&scene, replicas).await.expect("the scale is accepted");
        settled(&scene, "app", &format!("{replicas} pods")).await;
        wait_for("only those pods", || names(&scene), |names| *names == expected).await;
        let seen = scene.api::<MyApp>().get_scale("app").await.expect("a scale");
        let status = seen.status.unwrap();
        // Kubernetes leaves a zero out.
        assert_eq!((seen.spec.unwrap().replicas.unwrap_or_default(), status.replicas), (replicas, replicas));
        assert_eq!(status.selector.as_deref(), Some("causeway.example.com/app=app"));
        if replicas > 0 {
            assert_eq!(uids(&scene).await["app-pod"], first["app-pod"], "scaling leaves the first pod alone");
        }
    }
}

#[tokio::test]
async fn replicas_beyond_0_to_100_are_refused() {
    let scene = Scene::new("scale").await;
    for replicas in [-1, 101] {
        let refused = scene.try_create::<MyApp>("app", pods(replicas)).await.expect_err("it is refused").to_string();
        assert!(refused.contains("spec.replicas"), "{refused}");
    }
    scene.create::<MyApp>("app", pods(0)).await;
    let refused = scale(&scene, 101).await.expect_err("it is refused").to_string();
    assert!(refused.contains("spec.replicas"), "{refused}");
}

#[tokio::test]
async fn an_app_without_replicas_has_one_pod() {
    let scene = Scene::new("scale").await;
    let _operator = Operator::start(&scene).await;
    let app = running(&scene, "app", json!({ "image": super::IMAGE })).await;
    assert_eq!(app.spec.replicas, 1);
    assert_eq!(names(&scene).await, ["app-pod"]);
}
