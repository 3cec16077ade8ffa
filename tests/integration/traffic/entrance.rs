//! Where a balancer is reached, and when it has applied its configuration in AWS.

use std::collections::BTreeSet;
use std::ops::Deref;

use causeway_api::MyIngress;
use serde_json::{Value, json};

use crate::support::scene::is_ready;
use crate::support::{Scene, wait_for};

/// A balancer, as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// Address and port.
    pub address: String,
    /// Its DNS name, which requests have in their `Host` header.
    pub host: String,
}

/// A scene whose balancers carry requests while it lasts.
pub struct Stage(Scene);

impl Stage {
    /// A new scene; `name` shows in the namespace.
    pub async fn new(name: &str) -> Self {
        let scene = Scene::new(name).await;
        let dataplane = scene.emulator.dataplane().await;
        assert_eq!(dataplane["error"], Value::Null, "balancers carry requests only where HAProxy runs");
        scene.emulator.settings(json!({ "traffic": true })).await;
        Self(scene)
    }
}

impl Deref for Stage {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0
    }
}

impl Drop for Stage {
    /// Stops the balancers: otherwise LocalStack would check their pods for ever, which are gone.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let emulator = self.0.emulator.clone();
        let closed = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(emulator.settings(json!({ "traffic": false })));
        });
        closed.join().expect("the balancers carry nothing any more");
    }
}

/// A spec with one listener, and what else it is to say.
pub fn spec(listener: Value, more: Value) -> Value {
    let mut listener = listener;
    listener["port"] = json!(80);
    let mut spec = json!({
        "subnets": ["subnet-abc", "subnet-def"], "scheme": "internet-facing", "listeners": [listener],
    });
    let Value::Object(more) = more else { panic!("fields are expected, not {more}") };
    spec.as_object_mut().unwrap().extend(more);
    spec
}

/// A backend that is checked as often as AWS allows.
pub fn backend(name: &str, more: Value) -> Value {
    let mut backend = json!({
        "name": name, "port": "http", "deregistrationDelay": "5s",
        "healthCheck": { "interval": "5s", "timeout": "2s" },
    });
    let Value::Object(more) = more else { panic!("fields are expected, not {more}") };
    backend.as_object_mut().unwrap().extend(more);
    backend
}

/// An action that forwards to these backends, by name and weight.
pub fn forward(backends: &[(&str, u16)]) -> Value {
    let backends: Vec<Value> =
        backends.iter().map(|(name, weight)| json!({ "name": name, "weight": weight })).collect();
    json!({ "forward": { "backends": backends } })
}

/// Waits until the object is ready with so many healthy targets, and the balancer has applied that; returns its
/// entrance.
pub async fn serving(scene: &Scene, name: &str, targets: usize) -> Entrance {
    let counted = format!("{targets}/{targets}");
    let serves = |object: &MyIngress| {
        is_ready(object) && object.status.as_ref().is_some_and(|status| status.targets.as_deref() == Some(&counted))
    };
    let object = scene.ingress(name, &format!("{name} to be ready with targets {counted}"), serves).await;
    in_force(scene).await;
    find(scene, &object).await.expect("its balancer carries requests")
}

/// Waits until the balancers have applied every change that was made in AWS so far.
pub async fn in_force(scene: &Scene) {
    let number = |status: &Value, field: &str| status[field].as_u64().expect("a number");
    let now = number(&scene.emulator.dataplane().await, "generation");
    let look = || scene.emulator.dataplane();
    wait_for("balancers to apply the configuration in AWS", look, |status| number(status, "applied") >= now).await;
}

/// Where the object's DNS name leads; nowhere while it has none, or nothing answers there.
pub async fn find(scene: &Scene, object: &MyIngress) -> Option<Entrance> {
    let host = object.status.as_ref()?.alb.as_ref()?.dns.clone();
    let dataplane = scene.emulator.dataplane().await;
    let balancers = dataplane["balancers"].as_array()?;
    let found = balancers.iter().find(|it| it["account"] == scene.emulator.account() && it["dns_name"] == host)?;
    Some(Entrance { address: format!("{}:80", found["address"].as_str()?), host })
}

/// The targets that AWS has for the object's backends, as `address:port`, without those that drain.
pub async fn registered(scene: &Scene, name: &str) -> BTreeSet<String> {
    let object = scene.api::<MyIngress>().get(name).await.expect("the object");
    let mut all = BTreeSet::new();
    for group in object.status.unwrap_or_default().target_groups {
        let targets = crate::support::account::targets(scene, &group.arn).await;
        all.extend(targets.into_iter().filter(|(_, state)| state != "draining").map(|(target, _)| target));
    }
    all
}
