//! Scenes are costly to make: a point that ended well leaves its scene to the next one.

use std::sync::Mutex;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::buckets;
use super::children::{children, secrets};
use crate::support::{Scene, kinds, wait_for};
#[derive(Default)]
pub struct Scenes {
    empty: Mutex<Vec<Scene>>,
}

impl Scenes {
    /// Returns an empty scene.
    pub async fn take(&self) -> Scene {
        let empty = self.empty.lock().expect("the lock is not poisoned").pop();
        match empty {
            Some(scene) => scene,
            None => Scene::new("crash").await,
        }
    }

    /// Keeps an empty scene for others.
    pub fn give_back(&self, scene: Scene) {
        self.empty.lock().expect("the lock is not poisoned").push(scene);
    }

    /// Removes them all.
    pub async fn close(&self) {
        let scenes = std::mem::take(&mut *self.empty.lock().expect("the lock is not poisoned"));
        // A scene's clean-up blocks.
        tokio::task::spawn_blocking(move || drop(scenes)).await.expect("the scenes are cleaned up");
    }
}

/// Empties a scene in which controllers work.
pub async fn clear(scene: &Scene) {
    let all = (DeleteParams::default(), ListParams::default());
    let ours = kinds::apis(&scene.client, &scene.namespace);
    for (_, objects) in &ours {
        objects.delete_collection(&all.0, &all.1).await.expect("the deletion is accepted");
    }
    let look = || async {
        let mut left = Vec::new();
        for (kind, objects) in &ours {
            let list = objects.list(&all.1).await.expect("a list");
            left.extend(list.items.iter().map(|object| format!("{kind} {}", object.name_any())));
        }
        left
    };
    wait_for("all objects to be gone", look, Vec::is_empty).await;
    // While they exist, StatefulSets make pods and claims again.
    let sets = || async { scene.api::<StatefulSet>().list(&all.1).await.expect("a list").items.len() };
    wait_for("all StatefulSets to be gone", sets, |left| *left == 0).await;
    let jobs = || async { scene.api::<Job>().list(&all.1).await.expect("a list").items.len() };
    wait_for("all Jobs to be gone", jobs, |left| *left == 0).await;
    scene.api::<Pod>().delete_collection(&all.0, &all.1).await.expect("the deletion is accepted");
    wait_for("all pods to be gone", || scene.pods(), Vec::is_empty).await;
    // Claims that were to be retained.
    let claims = scene.api::<PersistentVolumeClaim>();
    claims.delete_collection(&all.0, &all.1).await.expect("the deletion is accepted");
    let left = || async { children(scene, &mut Vec::new()).await };
    wait_for("all children to be gone", left, |left| left.as_object().is_some_and(serde_json::Map::is_empty)).await;
    // Kubernetes garbage-collects them with their owners, a moment later.
    wait_for("all Secrets to be gone", || secrets(scene), serde_json::Map::is_empty).await;
    buckets::remove(scene).await;
    for balancer in scene.balancers().await {
        let arn = balancer.load_balancer_arn.unwrap_or_default();
        scene.elb.delete_load_balancer().load_balancer_arn(arn).send().await.expect("the balancer is deleted");
    }
    scene.emulator.settings(json!({ "provisioning_seconds": 0 })).await;
}
