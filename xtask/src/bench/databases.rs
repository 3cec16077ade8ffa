//! The common part of the benchmarks of databases.

pub mod idle;

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::kubernetes::{Event, Watch};
use super::scene::Scene;

/// The longest wait of a benchmark.
pub const DATABASE_TIMEOUT: Duration = Duration::from_mins(3);

/// A kind of database.
pub struct Database {
    /// Its API, such as `example.com/v1`.
    pub api: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// The value of the label `app.kubernetes.io/name` on its pods.
    pub pods: &'static str,
}

impl Database {
    /// The API path of its objects.
    pub fn path(&self) -> String {
        format!("/apis/{}", self.api)
    }

    /// Applies an object whose volumes are deleted with it. With default requests, forty pods would fill two cores.
    pub fn apply(&self, scene: &Scene, name: &str, mut spec: Value) -> Result<()> {
        spec["deletionPolicy"] = json!("Delete");
        spec["resources"] = json!({ "requests": { "cpu": "1m", "memory": "16Mi" } });
        let object = json!({ "apiVersion": self.api, "kind": self.kind, "metadata": { "name": name }, "spec": spec });
        scene.apply_other(&self.path(), self.plural, &object)
    }

    /// A watch of its objects.
    pub fn watch(&self, scene: &Scene) -> Result<Watch> {
        scene.watch_other(&self.path(), self.plural)
    }

    /// Addresses of all its pods.
    pub fn addresses(&self, scene: &Scene) -> Result<Vec<String>> {
        addresses(scene, &format!("app.kubernetes.io%2Fname%3D{}", self.pods))
    }
}

/// Addresses of pods with a label.
pub fn addresses(scene: &Scene, selector: &str) -> Result<Vec<String>> {
    let pods = scene.get_other("/api/v1", &format!("pods?labelSelector={selector}"))?;
    let pods = pods["items"].as_array().context("a list of pods")?;
    Ok(pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str().map(str::to_owned)).collect())
}

/// Whether the object is ready in its status.
pub fn is_ready(event: &Event) -> bool {
    says(event, "Ready")
}

/// Whether the condition of that type is true.
pub fn says(event: &Event, type_: &str) -> bool {
    let Value::Array(conditions) = &event.object["status"]["conditions"] else { return false };
    conditions.iter().any(|condition| condition["type"] == type_ && condition["status"] == "True")
}
