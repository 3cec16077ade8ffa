//! `kubectl causeway`: the program, under the name by which kubectl finds and calls it.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use causeway_api::{MyApp, MyIngress};
use serde_json::{Value, json};

use crate::support::scene::{condition, stalled};
use crate::support::{Operator, Scene, operator};

/// A directory with the plugin in it.
struct Plugin {
    directory: PathBuf,
    namespace: String,
}

impl Plugin {
    fn installed(scene: &Scene) -> Self {
        let directory = env::temp_dir().join(format!("causeway-plugin-{}", scene.namespace));
        fs::create_dir_all(&directory).expect("a directory");
        symlink(operator::program(), directory.join("kubectl-causeway")).expect("the plugin");
        Self { directory, namespace: scene.namespace.clone() }
    }

    /// Runs the plugin. Returns true if it succeeded, and its output.
    async fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut plugin = Command::new(self.directory.join("kubectl-causeway"));
        plugin.args(arguments).args(["-n", &self.namespace]);
        let run = tokio::task::spawn_blocking(move || plugin.output().expect("the plugin starts"));
        let output = run.await.expect("the plugin ends");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).expect("text"))
    }

    /// Returns the output. Panics unless the plugin succeeded.
    async fn says(&self, arguments: &[&str]) -> String {
        let (good, text) = self.run(arguments).await;
        assert!(good, "kubectl causeway {arguments:?}: {text}");
        text
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_shows_how_objects_are_says_why_and_suspends_them() {
    let scene = Scene::new("plugin").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<MyApp>("good", json!({ "image": "nginx:latest", "banner": "hello", "replicas": 1 })).await;
    scene.create::<MyIngress>("wrong", json!({ "subnets": ["subnet-abc", "subnet-missing"] })).await;
    let ready = |app: &MyApp| is_ready(app, |status, _| status == "True");
    scene.app("good", "to be ready", ready).await;
    scene.ingress("wrong", "to tell what is wrong", |it| stalled(it).is_some()).await;
    let plugin = Plugin::installed(&scene);

    let table = plugin.says(&["status"]).await;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "a heading and both objects: {table}");
    assert!(rows[1].starts_with("myingress/wrong") && rows[1].contains("False"), "trouble comes first: {table}");
    assert!(rows[2].starts_with("myapp/good") && rows[2].contains("True"), "{table}");

    let tree = plugin.says(&["status", "myapp/good"]).await;
    let pod = tree.lines().find(|line| line.trim().starts_with("pod/good-")).unwrap_or_default();
    assert!(pod.contains("1 of 1 containers ready, node node-1") && tree.contains("AllPodsReady"), "{tree}");

    let why = plugin.says(&["why"]).await;
    assert!(why.contains("subnet-missing") && why.contains("1 of 2 objects are in trouble"), "{why}");
    assert!(!why.contains("myapp/good"), "of what is well nothing is said: {why}");

    let json: Value = serde_json::from_str(&plugin.says(&["status", "ma", "-o", "json"]).await).expect("JSON");
    assert_eq!((&json[0]["name"], &json[0]["ready"]), (&json!("good"), &json!("True")), "{json}");

    let done = plugin.says(&["suspend", "myapp/good"]).await;
    assert!(done.contains("suspended"), "{done}");
    let suspended = |app: &MyApp| is_ready(app, |_, reason| reason == "Suspended");
    scene.app("good", "to be suspended", suspended).await;
    plugin.says(&["resume", "myapp/good"]).await;
    scene.app("good", "to be looked after again", ready).await;

    let (good, refusal) = plugin.run(&["status", "myapp/absent"]).await;
    assert!(!good && refusal.contains("absent") && refusal.contains("not found"), "{refusal}");
    let (good, refusal) = plugin.run(&["suspend", "pod/good"]).await;
    assert!(!good && refusal.contains("no kind of Causeway"), "{refusal}");
    let table = plugin.says(&["status", "mi"]).await;
    assert!(table.contains("myingress/wrong") && !table.contains("myapp"), "{table}");
}

/// Returns true if `good` accepts status and reason of `Ready`.
fn is_ready(app: &MyApp, good: impl Fn(&str, &str) -> bool) -> bool {
    let conditions = app.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, "Ready").is_some_and(|(status, reason, _)| good(&status, &reason))
}
