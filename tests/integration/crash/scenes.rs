//! Scenes are costly to make: a point that ended well leaves its scene to the next one.

use std::sync::Mutex;

use causeway::api::{MyApp, MyIngress};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::support::{Scene, wait_for};

/// Empty scenes.
#[derive(Default)]
pub struct Scenes {
    empty: Mutex<Vec<Scene>>,
}

impl Scenes {
    /// An empty scene.
    pub async fn take(&self) -> Scene {
        let empty = self.empty.lock().expect("nobody panics with it").pop();
        match empty {
            Some(scene) => scene,
            None => Scene::new("crash").await,
        }
    }

    /// Keeps an empty scene for others.
    pub fn give_back(&self, scene: Scene) {
        self.empty.lock().expect("nobody panics with it").push(scene);
    }

    /// Removes them all.
    pub async fn close(&self) {
        let scenes = std::mem::take(&mut *self.empty.lock().expect("nobody panics with it"));
        // A scene's clean-up blocks.
        tokio::task::spawn_blocking(move || drop(scenes)).await.expect("the scenes are cleaned up");
    }
}

/// Empties a scene in which controllers work.
pub async fn clear(scene: &Scene) {
    let all = (DeleteParams::default(), ListParams::default());
    scene.api::<MyIngress>().delete_collection(&all.0, &all.1).await.expect("the deletion is accepted");
    scene.api::<MyApp>().delete_collection(&all.0, &all.1).await.expect("the deletion is accepted");
    let look = || async {
        let (ingresses, apps) = (scene.api::<MyIngress>(), scene.api::<MyApp>());
        ingresses.list(&all.1).await.expect("a list").items.len() + apps.list(&all.1).await.expect("a list").items.len()
    };
    wait_for("all objects to be gone", look, |left| *left == 0).await;
    scene.api::<Pod>().delete_collection(&all.0, &all.1).await.expect("the deletion is accepted");
    wait_for("all pods to be gone", || scene.pods(), Vec::is_empty).await;
    // What was to be retained.
    for balancer in scene.balancers().await {
        let arn = balancer.load_balancer_arn.unwrap_or_default();
        scene.elb.delete_load_balancer().load_balancer_arn(arn).send().await.expect("the balancer is deleted");
    }
    scene.emulator.settings(json!({ "provisioning_seconds": 0 })).await;
}
