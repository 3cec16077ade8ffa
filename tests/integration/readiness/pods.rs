//! `MyApp`.

use causeway_api::MyApp;
use serde_json::{Value, json};

use super::judge::{container, has, lies, pods_serve};
use super::{carried_out, fails, says};
use crate::support::chronicle::{Chronicle, Moment};
use crate::support::{Operator, Scene};

fn app(name: &str, spec: &Value, moment: &Moment) -> Result<(), String> {
    let like = |pod: &Value| {
        let app = container(pod, "app");
        has("image", &app["image"], &spec["image"])?;
        has("banner", &app["env"][0]["value"], &spec["banner"])
    };
    pods_serve(moment, ("causeway.example.com/app", name), spec["replicas"].as_i64().unwrap(), like)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_is_never_ready_too_early() {
    let scene = Scene::new("ready-app").await;
    let operator = Operator::start(&scene).await;
    let chronicle = Chronicle::start::<MyApp>(&scene).await;
    scene.create::<MyApp>("web", json!({ "image": "nginx:latest", "banner": "one", "replicas": 2 })).await;
    says::<MyApp>(&scene, "web", "the first pods", |status, _| status == "True").await;
    carried_out::<MyApp>(&scene, "web", json!({ "banner": "two" })).await;
    carried_out::<MyApp>(&scene, "web", json!({ "replicas": 1 })).await;
    fails::<MyApp>(&scene, "web", json!({ "image": "nginx:does-not-exist" }), "ImagePullFailed").await;
    carried_out::<MyApp>(&scene, "web", json!({ "image": "nginx:latest" })).await;
    carried_out::<MyApp>(&scene, "web", json!({ "replicas": 3 })).await;
    operator.stop().await;
    let chronicle = chronicle.complete().await;
    assert_eq!(lies(&chronicle, "MyApp", app), Vec::<String>::new());
}
