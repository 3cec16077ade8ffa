//! Obstacles that only new clients meet: the limit of connections, users that were changed by hand, and a script that keeps a
//! master busy.

use std::time::Instant;

use causeway_api::Redis;
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::checker::{Checker, Promise, open};
use super::faults::Walled;
use super::{Stage, becomes, describe, master, nodes, patient, pods, running, settled, spec, succeeded, uids};
use crate::support::{Operator, Scene, wait_for};

fn is_told(object: &Redis, reason: &str, words: &[&str]) -> bool {
    describe(object, "Ready").is_some_and(|(status, told, message)| {
        status == "False" && told == reason && words.iter().all(|word| message.contains(word))
    })
}

async fn address_of(scene: &Scene, name: &str) -> String {
    let pod = pods(scene).await.into_iter().find(|pod| pod.metadata.name.as_deref() == Some(name)).expect("the pod");
    format!("{}:6379", pod.status.and_then(|status| status.pod_ip).expect("an address"))
}

/// Reports whether a client of the spec, without a password, gets in and may write.
async fn lets_in(address: &str) -> bool {
    let Ok(mut connection) = open(address, None).await else { return false };
    redis::cmd("SET").arg("door").arg("1").query_async::<()>(&mut connection).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_set_by_hand_against_new_clients_is_taken_back() {
    let scene = Stage::new("redis-doors").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (before, name) = (uids(&scene).await, master(&scene).await);
    let address = address_of(&scene, &name).await;
    for change in [
        vec!["CONFIG", "SET", "requirepass", "by-hand"],
        vec!["ACL", "SETUSER", "default", "off"],
        vec!["ACL", "SETUSER", "default", "-@write"],
        vec!["ACL", "SETUSER", "default", "-set"],
        vec!["ACL", "SETUSER", "default", "resetkeys", "~causeway:*"],
        vec!["CONFIG", "SET", "port", "7777"],
    ] {
        nodes::tell(&scene, &name, &change).await;
        wait_for(&format!("new clients to get in again after {change:?}"), || lets_in(&address), |is_in| *is_in).await;
    }
    settled(&scene, "all as before").await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reached_client_limit_is_raised_without_a_restart() {
    let scene = Stage::new("redis-doors").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(1);
    wanted["config"] = json!({ "maxclients": "32" });
    running(&scene, wanted).await;
    let (before, name) = (uids(&scene).await, master(&scene).await);
    let address = address_of(&scene, &name).await;
    let mut held: Vec<MultiplexedConnection> = Vec::new();
    while let Ok(mut connection) = open(&address, None).await {
        if redis::cmd("PING").query_async::<String>(&mut connection).await.is_err() {
            break;
        }
        held.push(connection);
    }
    assert!(held.len() > 10, "{} clients got in", held.len());
    let begun = Instant::now();
    let words = [name.as_str(), "max number of clients reached", "of 32", "spec.config.maxclients"];
    becomes(&scene, "the limit to be told", |object| is_told(object, "ClientsRefused", &words)).await;
    println!("» a reached limit of clients is told after {:.1} s", begun.elapsed().as_secs_f64());
    scene.edit::<Redis>(super::NAME, json!({ "config": { "maxclients": "200" } })).await;
    settled(&scene, "the higher limit").await;
    assert!(lets_in(&address).await, "new clients get in beside {} others", held.len());
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_script_is_reported_and_costs_the_role() {
    let scene = Stage::new("redis-doors").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(2);
    // Redis itself says BUSY after five seconds.
    wanted["failover"] = json!({ "hangTimeout": "12s" });
    running(&scene, wanted).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let name = master(&scene).await;
    let mut connection = open(&address_of(&scene, &name).await, None).await.expect("the master");
    checker.event("a script that never ends");
    let endless = tokio::spawn(async move {
        let mut script = redis::cmd("EVAL");
        script.arg("redis.call('SET', 'scripted', '1') while true do end").arg(0);
        script.query_async::<redis::Value>(&mut connection).await.is_ok()
    });
    let words = [name.as_str(), "SCRIPT KILL", "SHUTDOWN NOSAVE"];
    becomes(&scene, "the script to be told", |object| is_told(object, "MasterBusy", &words)).await;
    succeeded(&scene, &name).await;
    checker.goes_on("another master").await;
    settled(&scene, "all nodes again").await;
    assert!(!endless.await.expect("the client ends"), "the script was never acknowledged");
    checker.finish("a master that ran a script", Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_silent_to_new_clients_is_reported() {
    let scene = Stage::new("redis-doors").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(0)).await;
    let name = master(&scene).await;
    let begun = Instant::now();
    let walled = Walled::new(&scene, &name).await;
    let words = [name.as_str(), "gives no answer"];
    becomes(&scene, "the silence to be told", |object| is_told(object, "ClientsRefused", &words)).await;
    println!("» no answer to new clients is told after {:.1} s", begun.elapsed().as_secs_f64());
    drop(walled);
    settled(&scene, "new clients again").await;
}
