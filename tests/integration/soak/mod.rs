//! All kinds of databases at once on three nodes, clients that write to each all the time, and a seeded chaos.
//!
//! `cargo xtask soak` runs it, on a cluster of its own; `cargo xtask test` does not.

mod chaos;
mod page;

use std::env;
use std::time::{Duration, Instant};

use causeway::api::{EtcdCluster, Redis};
use serde_json::json;
use tokio::time::timeout;

use crate::leadership::process::Process;
use crate::redis::checker::Promise;
use crate::support::Scene;
use crate::{etcd, redis};
use chaos::{Fault, Random};
use page::{Database, Page, Turn};

/// A set that takes longer to be well again than this never is.
const RECOVERY: Duration = Duration::from_mins(3);

fn given(variable: &str, otherwise: u64) -> u64 {
    env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_databases_live_through_a_seeded_chaos() {
    let (seconds, seed) = (given("CAUSEWAY_SOAK_SECONDS", 60), given("CAUSEWAY_SOAK_SEED", 1));
    let scene = Scene::new("soak").await;
    let kinds = [("KINDS", "Redis,EtcdCluster")];
    let start = async |name, uid| {
        let variables: Vec<_> = kinds.into_iter().chain([("POD_UID", uid)]).collect();
        Process::start_with(&scene, name, &variables).await
    };
    let mut operators = [start("first", "6a1f").await, start("second", "93c0").await];
    scene.create::<EtcdCluster>(etcd::NAME, etcd::spec(3)).await;
    let mut wanted = redis::spec(2);
    wanted["failover"] = json!({ "minReplicasToWrite": 1 });
    scene.create::<Redis>(redis::NAME, wanted).await;
    etcd::settled(&scene, "the first members").await;
    redis::settled(&scene, "the first nodes").await;
    let (of_redis, of_etcd) =
        (redis::checker::Checker::start(&scene).await, etcd::checker::Checker::start(&scene).await);
    let statuses = page::Statuses::follow(&scene);

    let (begun, mut random, mut page) = (Instant::now(), Random(seed), Page::new(seed));
    while begun.elapsed() < Duration::from_secs(seconds) {
        of_redis.writes(100).await;
        of_etcd.writes(100).await;
        let fault = random.choose(&Fault::ALL);
        let at = of_redis.event(fault.as_str());
        println!("  {:>4} s: {}", begun.elapsed().as_secs(), fault.as_str());
        let held = fault.happens(&scene, &mut operators, &mut random).await;
        let served = async {
            of_redis.goes_on("the next master").await;
            of_etcd.goes_on("the next leader").await;
        };
        timeout(RECOVERY, served).await.unwrap_or_else(|_| panic!("nobody can write {RECOVERY:?} after {fault:?}"));
        // What hangs or is away comes back when others serve.
        drop(held);
        let all_well = async {
            redis::nodes::complete(&scene, 2, None).await;
            etcd::bystander::complete(&scene, 3, "3.5.9").await;
        };
        timeout(RECOVERY, all_well).await.unwrap_or_else(|_| panic!("not all are well {RECOVERY:?} after {fault:?}"));
        let well = Instant::now();
        redis::settled(&scene, "all nodes to be told well").await;
        etcd::settled(&scene, "all members to be told well").await;
        let until = Instant::now();
        for (database, moments) in
            [(Database::Redis, of_redis.acknowledged_since(at)), (Database::Etcd, of_etcd.acknowledged_since(at))]
        {
            let readiness = statuses.of(database);
            page.add(Turn { fault, database, begun: at, well, until, moments, readiness });
        }
    }
    let report = of_etcd.finish(&scene, "soak").await;
    page.note_load(Database::Etcd, begun.elapsed(), report.written, report.lost);
    let measured = of_redis.measured(Promise::WhatWasReplicated).await;
    page.note_load(Database::Redis, begun.elapsed(), measured.written, measured.lost);
    page.print();
}
