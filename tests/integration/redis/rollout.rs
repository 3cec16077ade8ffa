//! New versions and settings reach the nodes one by one, replicas first, and no write is lost.

use std::time::Instant;

use causeway_api::Redis;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::checker::{Checker, Promise};
use super::faults::kill;
use super::nodes::Node;
use super::{
    NAME, Stage, WAIT_TIMEOUT, becomes, describe, master, nodes, patient, pods, running, settled, spec, stalls, took,
    uids,
};
use crate::support::rollout_watch::RolloutWatch;
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

/// Edits a healthy set; fails unless its nodes were replaced one by one, the master last.
async fn rolls(scene: &Scene, checker: &Checker, what: &str, edit: Value) {
    let (begun, old) = (Instant::now(), master(scene).await);
    let count = uids(scene).await.len();
    let watch = RolloutWatch::start(scene).await;
    checker.event(what);
    scene.edit::<Redis>(NAME, edit).await;
    settled(scene, what).await;
    took(what, begun);
    let replaced = watch.replaced();
    assert_eq!(replaced.len(), count, "{what}: each node once: {replaced:?}");
    assert_eq!(replaced.last(), Some(&old), "{what}: the master last: {replaced:?}");
    assert_eq!(watch.fewest_ready(), count - 1, "{what}: one at a time");
    checker.goes_on(what).await;
}

async fn versions(scene: &Scene) -> Vec<String> {
    nodes::every(scene).await.into_values().map(|node| node.version).collect()
}

/// dragonfly-operator#504: all replicas were deleted at once. spotahome/redis-operator#600: several masters were left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_replaces_one_node_at_a_time() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(3)).await;
    let checker = Checker::start(&scene).await;
    rolls(&scene, &checker, "Redis 8.0.2 everywhere", json!({ "version": "8.0.2" })).await;
    assert_eq!(versions(&scene).await, ["8.0.2"; 4]);
    checker.finish("Redis 7.0.15 → 8.0.2", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_moves_to_valkey_and_loses_nothing() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let checker = Checker::start(&scene).await;
    rolls(&scene, &checker, "Valkey 8.1.1 everywhere", json!({ "image": "valkey/valkey:8.1.1" })).await;
    for pod in pods(&scene).await {
        let image = pod.spec.and_then(|spec| spec.containers.into_iter().find(|it| it.name == "redis")?.image);
        assert_eq!(image.as_deref(), Some("valkey/valkey:8.1.1"));
    }
    checker.finish("Redis 7.0.15 → Valkey 8.1.1", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_settings_change_in_running_nodes() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    let live = json!({ "config": { "maxmemory": "200mb", "maxmemory-policy": "allkeys-lru" } });
    checker.event("settings that a running node takes");
    scene.edit::<Redis>(NAME, live).await;
    settled(&scene, "settings that a running node takes").await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
    for name in before.keys() {
        assert_eq!(nodes::setting(&scene, name, "maxmemory-policy").await, "allkeys-lru", "{name}");
        assert_eq!(nodes::setting(&scene, name, "maxmemory").await, "209715200", "{name}");
    }
    let restart = json!({ "config": { "databases": "32" } });
    rolls(&scene, &checker, "a setting that takes a restart", restart).await;
    for name in before.keys() {
        assert_eq!(nodes::setting(&scene, name, "databases").await, "32", "{name}");
    }
    checker.finish("settings of both sorts", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_image_costs_one_replica() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let (before, name) = (uids(&scene).await, master(&scene).await);
    let checker = Checker::start(&scene).await;
    let watch = RolloutWatch::start(&scene).await;
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.99" })).await;
    let stuck = |object: &Redis| {
        let conditions = object.status.iter().flat_map(|status| status.conditions.iter());
        conditions.clone().any(|it| it.message.contains("spec.version") || it.message.contains("spec.image"))
    };
    becomes(&scene, "a message about the image that cannot be pulled", stuck).await;
    checker.goes_on("while one node has no image").await;
    let after = uids(&scene).await;
    let stayed: Vec<&String> = before.keys().filter(|name| before[*name] == after[*name]).collect();
    assert!(stayed.len() == 2 && stayed.contains(&&name), "{stayed:?} stayed, and {name} is the master");
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.2" })).await;
    settled(&scene, "the better version everywhere").await;
    assert_eq!(watch.fewest_ready(), 2, "neither the bad nor the better version took a second node away");
    checker.finish("a version that does not exist, then one that does", Promise::Everything).await;
}

/// The kubelet starts its process again after ten seconds, then after twenty; a successor would have no image, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashing_master_stays_while_the_image_is_missing() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let name = master(&scene).await;
    // A master that comes back without data would wait for the replica.
    nodes::tell(&scene, &name, &["SET", "key", "value"]).await;
    let before = uids(&scene).await;
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.99" })).await;
    let stuck = |object: &Redis| {
        let conditions = object.status.iter().flat_map(|status| status.conditions.iter());
        conditions.clone().any(|it| it.message.contains("cannot pull image"))
    };
    becomes(&scene, "a message about the image that cannot be pulled", stuck).await;
    for turn in 1..=3 {
        let history = nodes::answer(&scene, &name).await.history;
        kill(&scene, &name).await;
        let look = || async { nodes::one(&scene, &name).await };
        let serves = |node: &Option<Node>| node.as_ref().is_some_and(|it| it.role == "master" && it.history != history);
        wait_within(WAIT_TIMEOUT, &format!("the master after its death {turn}"), look, serves).await;
    }
    assert_eq!(uids(&scene).await[&name], before[&name], "its pod stays");
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.2" })).await;
    settled(&scene, "the better version everywhere").await;
}

/// The master is replaced last, so it has the limit of the earlier spec for as long as the rollout does not go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_memory_follows_the_limit_of_each_pod() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    let limited = |limit: &str| json!({ "resources": { "limits": { "memory": limit } } });
    let mut first = patient(1);
    first["resources"] = limited("100Mi")["resources"].take();
    running(&scene, first).await;
    let old = master(&scene).await;
    assert_eq!(nodes::setting(&scene, &old, "maxmemory").await, "78643200");
    let mut edit = limited("200Mi");
    edit["image"] = json!("redis:nope");
    scene.edit::<Redis>(NAME, edit).await;
    let stuck = |object: &Redis| describe(object, "Ready").is_some_and(|(_, reason, _)| reason == "ImagePullFailed");
    becomes(&scene, "the rollout to be stuck", stuck).await;
    assert_eq!(nodes::setting(&scene, &old, "maxmemory").await, "78643200", "the pod has its earlier limit");
    let pod = pods(&scene).await.into_iter().find(|pod| pod.metadata.name.as_ref() == Some(&old)).expect("the pod");
    let file = pod.metadata.annotations.unwrap_or_default().into_iter().find(|(_, text)| text.contains("maxmemory "));
    let (_, file) = file.expect("the file of its next process");
    assert!(file.lines().any(|line| line == "maxmemory 78643200"), "{file}");
    scene.edit::<Redis>(NAME, json!({ "image": null })).await;
    settled(&scene, "the corrected image").await;
    for name in uids(&scene).await.keys() {
        assert_eq!(nodes::setting(&scene, name, "maxmemory").await, "157286400", "{name}");
    }
}

/// A node with the lower limit would be killed while it reads the data. Nothing is evicted before that is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_limit_below_the_data_is_reported() {
    // Each script keeps its node from answering while it runs.
    const PARTS: u64 = 26;
    const PART: u64 = 5_000;
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    let limited = |limit: &str| json!({ "limits": { "memory": limit } });
    let mut first = patient(1);
    first["resources"] = limited("512Mi");
    first["config"] = json!({ "maxmemory-policy": "allkeys-lru" });
    running(&scene, first).await;
    let old = master(&scene).await;
    for part in 0..PARTS {
        let fill = format!("for i = 1, {PART} do redis.call('SET', 'key-{part}-' .. i, string.rep('x', 1000)) end");
        nodes::tell(&scene, &old, &["EVAL", &fill, "0"]).await;
    }
    let copied = || nodes::fewest_keys(&scene);
    let keys = wait_within(WAIT_TIMEOUT, "the replica to have all keys", copied, |count| *count == PARTS * PART).await;
    settled(&scene, "the data").await;
    let before = uids(&scene).await;
    scene.edit::<Redis>(NAME, json!({ "resources": limited("128Mi") })).await;
    let (reason, message) = stalls(&scene, "that the data do not fit").await;
    assert_eq!(reason, "MemoryTooSmall", "{message}");
    for words in ["128 MiB", "96 MiB", &old, r#""config":{"maxmemory":"96mb"}"#, r#""limits":{"memory":"#] {
        assert!(message.contains(words), "{words} is not in: {message}");
    }
    assert_eq!((uids(&scene).await, nodes::fewest_keys(&scene).await), (before, keys), "nothing was done");
    scene.edit::<Redis>(NAME, json!({ "config": { "maxmemory": "80mb" } })).await;
    settled(&scene, "the lower limit").await;
    let left = nodes::fewest_keys(&scene).await;
    assert!(left > keys / 4 && left < keys, "{left} of {keys} keys are left");
}

/// No other node could serve meanwhile: the pod comes back with the version that worked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_comes_back_when_an_image_is_missing() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(0)).await;
    nodes::tell(&scene, "cache-0", &["SET", "key", "value"]).await;
    let begun = Instant::now();
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.99" })).await;
    let (reason, message) = stalls(&scene, "the version that worked").await;
    assert_eq!(reason, "BroughtBack", "{message}");
    assert!(message.contains("spec.version") && message.contains("rollout restart statefulset/cache"), "{message}");
    let look = || async { nodes::one(&scene, "cache-0").await };
    let serves = |node: &Option<Node>| node.as_ref().is_some_and(|it| it.role == "master" && it.version == "7.0.15");
    wait_within(WAIT_TIMEOUT, "the node that worked", look, serves).await;
    took("a single node serves again after a bad version", begun);
    let kept: String = nodes::answers(&scene, "cache-0", &["GET", "key"]).await.expect("an answer");
    assert_eq!(kept, "value");

    // A drain gives the pod the version that works, not the bad one.
    let before = uids(&scene).await;
    scene.delete::<Pod>("cache-0").await;
    super::successor(&scene, "cache-0", &before["cache-0"]).await;
    wait_within(WAIT_TIMEOUT, "the node after a drain", look, serves).await;
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.2" })).await;
    settled(&scene, "the better version").await;
    assert_eq!(versions(&scene).await, ["8.0.2"]);
}

/// The pod that has no image stays as it is, and tries on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_node_comes_back_while_an_image_is_missing() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let (before, name) = (uids(&scene).await, master(&scene).await);
    let checker = Checker::start(&scene).await;
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.99" })).await;
    let stuck = |object: &Redis| {
        let conditions = object.status.iter().flat_map(|status| status.conditions.iter());
        conditions.clone().any(|it| it.message.contains("cannot pull image"))
    };
    becomes(&scene, "a message about the image that cannot be pulled", stuck).await;
    let now = uids(&scene).await;
    let worked: Vec<&String> = before.keys().filter(|it| before[*it] == now[*it]).collect();
    let replica = worked.into_iter().find(|it| **it != name).expect("a replica that worked");
    for lost in [replica, &name] {
        let pods = uids(&scene).await;
        checker.event(&format!("{lost} deleted"));
        scene.delete::<Pod>(lost).await;
        super::successor(&scene, lost, &pods[lost]).await;
        checker.goes_on("the lost node").await;
    }
    scene.edit::<Redis>(NAME, json!({ "version": "8.0.2" })).await;
    settled(&scene, "the better version everywhere").await;
    checker.finish("nodes lost while an image is missing", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_amount_in_other_words_restarts_nothing() {
    let scene = Stage::new("redis-rollout").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(1);
    wanted["resources"] = json!({ "requests": { "cpu": "0.1", "memory": "64Mi" }, "limits": { "memory": "1Gi" } });
    running(&scene, wanted).await;
    let before = uids(&scene).await;
    for (cpu, memory, limit) in [("100m", "65536Ki", "1024Mi"), ("1e-1", "67108864", "1048576Ki")] {
        let other = json!({ "requests": { "cpu": cpu, "memory": memory }, "limits": { "memory": limit } });
        scene.edit::<Redis>(NAME, json!({ "resources": other })).await;
        settled(&scene, "the other words").await;
    }
    // An edit that is followed comes after those.
    scene.edit::<Redis>(NAME, json!({ "config": { "maxmemory": "100mb" } })).await;
    settled(&scene, "another setting").await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
}
