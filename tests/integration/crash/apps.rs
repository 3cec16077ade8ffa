//! Scenarios of `MyApp`.

use causeway_api::MyApp;
use serde_json::json;

use super::harness::{Scenario, die_everywhere};
use crate::support::Scene;
use crate::support::scene::condition;

const NAME: &str = "web";
/// Calls of each scenario: pods start and end at each.
const MOST: usize = 3;

async fn create(scene: &Scene, replicas: i32) {
    scene.create::<MyApp>(NAME, json!({ "image": "nginx:latest", "banner": "hello", "replicas": replicas })).await;
}

async fn created(scene: &Scene, replicas: i32) {
    create(scene, replicas).await;
    scene.app(NAME, "every pod to be ready", is_ready).await;
}

async fn ready(scene: &Scene) -> bool {
    scene.api::<MyApp>().get_opt(NAME).await.expect("an answer").is_some_and(|object| is_ready(&object))
}

fn is_ready(object: &MyApp) -> bool {
    let status = object.status.clone().unwrap_or_default();
    status.observed_generation == object.metadata.generation
        && condition(&status.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
}

struct Create;

impl Scenario for Create {
    const NAME: &'static str = "create a MyApp";
    const MOST: usize = MOST;

    async fn prepare(_: &Scene) {}

    async fn act(scene: &Scene) {
        create(scene, 2).await;
    }

    async fn settled(scene: &Scene) -> bool {
        ready(scene).await
    }
}

struct ScaleUp;

impl Scenario for ScaleUp {
    const NAME: &'static str = "scale a MyApp up";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, 1).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<MyApp>(NAME, json!({ "replicas": 3 })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        ready(scene).await
    }
}

struct ScaleDown;

impl Scenario for ScaleDown {
    const NAME: &'static str = "scale a MyApp down";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, 3).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<MyApp>(NAME, json!({ "replicas": 1 })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        ready(scene).await && scene.pods().await.len() == 1
    }
}

struct RollOut;

impl Scenario for RollOut {
    const NAME: &'static str = "change image and banner of a MyApp";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, 2).await;
    }

    async fn act(scene: &Scene) {
        // The same image by its long name.
        scene.edit::<MyApp>(NAME, json!({ "image": "docker.io/library/nginx:latest", "banner": "bye" })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        ready(scene).await
    }
}

struct Delete;

impl Scenario for Delete {
    const NAME: &'static str = "delete a MyApp";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, 2).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<MyApp>(NAME).await;
    }

    async fn settled(scene: &Scene) -> bool {
        let object = scene.api::<MyApp>().get_opt(NAME).await.expect("an answer");
        object.is_none() && scene.pods().await.is_empty()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_app_is_created_despite_any_crash() {
    die_everywhere::<Create>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_app_is_scaled_up_despite_any_crash() {
    die_everywhere::<ScaleUp>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_app_is_scaled_down_despite_any_crash() {
    die_everywhere::<ScaleDown>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_app_is_rolled_out_despite_any_crash() {
    die_everywhere::<RollOut>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_my_app_is_deleted_despite_any_crash() {
    die_everywhere::<Delete>().await;
}
