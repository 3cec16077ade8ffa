//! The network between the master and its replicas drops packets, while clients and the operator reach all of them. Redis
//! calls such a connection up for a minute.

use std::time::{Duration, Instant};

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::checker::{Checker, Promise};
use super::faults::{Severed, kill};
use super::switchover::switched;
use super::{
    NAME, Stage, becomes, describe, master, nodes, ours, replicas, running, says, settled, spec, successor, uids,
};
use crate::support::{Operator, Scene, wait_for};

/// How a master goes.
#[derive(Clone, Copy, Debug)]
enum Death {
    Killed,
    PodDeleted,
}

/// Each write is on the master's volume before it is acknowledged: what is lost then, a replica lost.
fn durable(replicas: i32) -> Value {
    let mut wanted = spec(replicas);
    wanted["config"] = json!({ "appendfsync": "always" });
    wanted
}

async fn dies(scene: &Scene, name: &str, death: Death) {
    match death {
        Death::Killed => kill(scene, name).await,
        Death::PodDeleted => {
            let uid = uids(scene).await[name].clone();
            scene
                .api::<Pod>()
                .delete(name, &DeleteParams::default().grace_period(0))
                .await
                .expect("the deletion is accepted");
            successor(scene, name, &uid).await;
        }
    }
}

/// A cut that is over sooner than the operator reports it, and a longer one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_of_severed_replicas_is_waited_for() {
    let scene = Stage::new("redis-severed").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, durable(2)).await;
    let checker = Checker::start(&scene).await;
    let rounds = [(Death::Killed, 2), (Death::Killed, 9), (Death::PodDeleted, 2), (Death::PodDeleted, 9)];
    for (death, seconds) in rounds {
        checker.writes(200).await;
        let name = master(&scene).await;
        let severed = Severed::new(&scene, &name, &replicas(&scene).await).await;
        sleep(Duration::from_secs(seconds)).await;
        checker.event(&format!("the master cut off from its replicas for {seconds} s, and {death:?}"));
        dies(&scene, &name, death).await;
        let back = |object: &Redis| {
            let status = object.status.as_ref().expect("a status");
            status.failover.is_none()
                && status.last_failover.as_ref().is_some_and(|last| last.reason == "MasterRestarted")
        };
        becomes(&scene, "the master again", back).await;
        assert_eq!(master(&scene).await, name, "{death:?} after {seconds} s");
        drop(severed);
        settled(&scene, "replicas that are connected again").await;
        checker.goes_on("the master again").await;
        // The next round needs another last failover.
        let other = replicas(&scene).await.remove(0);
        switched(&scene, &other).await;
        scene.edit::<Redis>(NAME, json!({ "switchover": null })).await;
        settled(&scene, "the field removed").await;
    }
    checker.finish("the master dies while its replicas are cut off", Promise::Everything).await;
}

/// One replica receives everything, and takes over although another is cut off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connected_replica_takes_over_at_once() {
    let scene = Stage::new("redis-severed").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let (name, others) = (master(&scene).await, replicas(&scene).await);
    let severed = Severed::new(&scene, &name, &others[..1]).await;
    sleep(Duration::from_secs(5)).await;
    checker.event("the master killed, one replica cut off");
    kill(&scene, &name).await;
    assert_eq!(super::succeeded(&scene, &name).await, others[1]);
    checker.goes_on("another master").await;
    drop(severed);
    settled(&scene, "all nodes again").await;
    checker.finish("the master dies while one replica is cut off", Promise::WhatWasReplicated).await;
}

/// Redis notices after `repl-timeout`, a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_receive_nothing_are_reported_long_before_redis_notices() {
    let scene = Stage::new("redis-severed").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    let name = master(&scene).await;
    let severed = Severed::new(&scene, &name, &replicas(&scene).await).await;
    let begun = Instant::now();
    let is_told = |object: &Redis| {
        let status = object.status.as_ref().expect("a status");
        let in_sync = status.nodes.iter().filter(|node| node.in_sync).count();
        says(object, "Ready", "False")
            && says(object, "Replicated", "False")
            && in_sync == 1
            && status.ready_replicas == 0
    };
    let object = becomes(&scene, "the truth about the replicas", is_told).await;
    let told = begun.elapsed();
    let budget = || async {
        let budget = scene.api::<PodDisruptionBudget>().get(NAME).await.expect("the budget");
        serde_json::to_value(budget.spec).expect("JSON")["maxUnavailable"].clone()
    };
    wait_for("a budget that lets no pod go", budget, |most| *most == json!(0)).await;
    let budgeted = begun.elapsed();
    println!(
        "» replicas that receive nothing: reported after {} ms, the disruption budget closed after {} ms",
        told.as_millis(),
        budgeted.as_millis()
    );
    assert!(told < Duration::from_secs(30), "Redis itself notices after a minute, and this took {told:?}");
    let (_, _, message) = describe(&object, "Ready").expect("a condition");
    assert!(message.contains("does not receive what the master sends"), "{message}");
    drop(severed);
    settled(&scene, "replicas that are connected again").await;
    wait_for("a budget that lets a pod go", budget, |most| *most == json!(1)).await;
}

/// The one that has all data comes last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returning_pods_wait_for_the_full_one() {
    let scene = Stage::new("redis-severed").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = durable(2);
    wanted["failover"] = json!({ "dataLossTimeout": "20s" });
    running(&scene, wanted).await;
    // The controller of the set makes pods in the order of their ordinals.
    switched(&scene, "cache-2").await;
    scene.edit::<Redis>(NAME, json!({ "switchover": null })).await;
    settled(&scene, "the field removed").await;
    let checker = Checker::start(&scene).await;
    let severed = Severed::new(&scene, "cache-2", &replicas(&scene).await).await;
    sleep(Duration::from_secs(5)).await;
    checker.event("all pods gone");
    let quotas = scene.api::<ResourceQuota>();
    let quota = |pods: u8| json!({ "metadata": { "name": "pods" }, "spec": { "hard": { "pods": pods.to_string() } } });
    let none: ResourceQuota = serde_json::from_value(quota(0)).expect("a quota");
    quotas.create(&PostParams::default(), &none).await.expect("the quota is taken");
    let used = || async { quotas.get("pods").await.expect("the quota").status.and_then(|status| status.hard) };
    wait_for("the quota to be in force", used, Option::is_some).await;
    scene.api::<Pod>().delete_collection(&DeleteParams::default().grace_period(0), &ours()).await.expect("accepted");
    drop(severed);
    sleep(Duration::from_secs(30)).await;
    scene.edit::<ResourceQuota>("pods", quota(2)["spec"].clone()).await;
    let answer = || nodes::all(&scene, None);
    wait_for("the first two nodes to answer", answer, |nodes| nodes.values().flatten().count() == 2).await;
    sleep(Duration::from_secs(3)).await;
    quotas.delete("pods", &DeleteParams::default()).await.expect("the deletion is accepted");
    settled(&scene, "all nodes again").await;
    assert_eq!(master(&scene).await, "cache-2");
    checker.goes_on("the master again").await;
    checker.finish("all pods away for longer than dataLossTimeout", Promise::Everything).await;
}
