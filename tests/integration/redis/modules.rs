//! Modules: every node loads them, and one that cannot be loaded costs a replica.

use causeway_api::Redis;
use serde_json::{Value, json};

use super::checker::{Checker, Promise};
use super::{NAME, Stage, becomes, master, nodes, replicas, running, settled, spec, succeeded, uids};
use crate::support::{Operator, Scene, wait_for};

/// The module for full text that Debian has for Redis 7.
const SEARCH: &str = "/usr/lib/redis/modules/redisearch.so";

fn module() -> Value {
    json!([{ "path": SEARCH, "args": ["TIMEOUT", "700"] }])
}

/// Waits until a condition names the field; returns its message.
async fn says_modules(scene: &Scene, what: &str) -> String {
    let message = |object: &Redis| {
        let conditions = &object.status.as_ref()?.conditions;
        conditions.iter().map(|it| &it.message).find(|message| message.contains("spec.modules")).cloned()
    };
    let object = becomes(scene, what, |object| message(object).is_some()).await;
    let message = message(&object).unwrap_or_default();
    println!("» {message}");
    message
}

async fn search(scene: &Scene, name: &str) -> Vec<redis::Value> {
    nodes::answers(scene, name, &["FT.SEARCH", "books", "hello", "NOCONTENT"]).await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn modules_and_their_data_survive_a_failover() {
    let scene = Stage::new("redis-modules").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let checker = Checker::start(&scene).await;
    scene.edit::<Redis>(NAME, json!({ "modules": module() })).await;
    settled(&scene, "the module in every node").await;
    for name in uids(&scene).await.keys() {
        let loaded: redis::Value = nodes::answers(&scene, name, &["MODULE", "LIST"]).await.expect("an answer");
        let loaded = format!("{loaded:?}");
        assert!([SEARCH, "TIMEOUT", "700"].iter().all(|word| loaded.contains(word)), "{name}: {loaded}");
    }
    let first = master(&scene).await;
    nodes::tell(&scene, &first, &["FT.CREATE", "books", "SCHEMA", "title", "TEXT"]).await;
    nodes::tell(&scene, &first, &["FT.ADD", "books", "book-1", "1.0", "FIELDS", "title", "hello world"]).await;
    checker.goes_on("with the module").await;
    nodes::tell(&scene, &first, &["WAIT", "1", "10000"]).await;
    scene.edit::<Redis>(NAME, json!({ "switchover": { "master": replicas(&scene).await[0] } })).await;
    let second = succeeded(&scene, &first).await;
    settled(&scene, "the other master").await;
    for name in [&first, &second] {
        wait_for("the book to be found", || search(&scene, name), |answer| answer.len() == 2).await;
    }
    // Nodes without the module cannot read the keys that it wrote.
    let before = uids(&scene).await;
    scene.edit::<Redis>(NAME, json!({ "modules": Value::Null })).await;
    says_modules(&scene, "a message about keys of a module that is gone").await;
    checker.goes_on("while one node cannot read the keys of a module").await;
    assert_eq!(uids(&scene).await[&second], before[&second], "the master stays");
    scene.edit::<Redis>(NAME, json!({ "modules": module() })).await;
    settled(&scene, "the module in every node again").await;
    for name in [&first, &second] {
        wait_for("the book to be found again", || search(&scene, name), |answer| answer.len() == 2).await;
    }
    checker.finish("a module, then another master", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_module_costs_one_replica() {
    let scene = Stage::new("redis-modules").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let (before, leader) = (uids(&scene).await, master(&scene).await);
    let checker = Checker::start(&scene).await;
    scene.edit::<Redis>(NAME, json!({ "modules": [{ "path": "/usr/lib/redis/modules/none.so" }] })).await;
    let message = says_modules(&scene, "a message about the module").await;
    assert!(message.contains("none.so"), "{message}");
    checker.goes_on("while one node has no module").await;
    assert_eq!(uids(&scene).await[&leader], before[&leader], "the master stays");
    scene.edit::<Redis>(NAME, json!({ "modules": Value::Null })).await;
    settled(&scene, "without it").await;
    checker.finish("a module that is not there", Promise::Everything).await;
}
