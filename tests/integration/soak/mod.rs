//! All kinds of databases at once on three nodes, clients that write to each all the time, and a seeded chaos.
//!
//! `cargo xtask soak` runs it, on a cluster of its own; `cargo xtask test` does not.

mod chaos;
mod harm;
mod page;

use std::env;
use std::time::{Duration, Instant};

use causeway_api::{EtcdCluster, Redis};
use serde_json::json;
use tokio::time::timeout;

use crate::history::judge::Verdict;
use crate::leadership::process::Process;
use crate::redis::checker::Promise;
use crate::support::Scene;
use crate::{etcd, redis};
use chaos::{Fault, Random};
use page::{Database, Page, Turn};

/// The quota of etcd's database in bytes: small enough to be filled within seconds, large enough for what clients write
/// in an hour.
const QUOTA: &str = "134217728";
/// A set that takes longer than this to recover counts as broken.
const RECOVERY: Duration = Duration::from_mins(3);

/// The comma-separated numbers of an environment variable.
fn numbers_from_env(variable: &str, otherwise: u64) -> Vec<u64> {
    let numbers = env::var(variable).map(|text| text.split(',').map(|one| one.parse().expect("a number")).collect());
    numbers.unwrap_or_else(|_| vec![otherwise])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_databases_live_through_a_seeded_chaos() {
    let (seconds, seeds) =
        (numbers_from_env("CAUSEWAY_SOAK_SECONDS", 60)[0], numbers_from_env("CAUSEWAY_SOAK_SEEDS", 1));
    let scene = Scene::new("soak").await;
    let kinds = [("KINDS", "Redis,EtcdCluster")];
    let start = async |name, uid| {
        let variables: Vec<_> = kinds.into_iter().chain([("POD_UID", uid)]).collect();
        Process::start_with(&scene, name, &variables).await
    };
    let mut operators = [start("first", "6a1f").await, start("second", "93c0").await];
    let mut members = etcd::spec(3);
    members["version"] = json!(chaos::VERSIONS[0]);
    // No node may run two members: a node that is cut off must take only one with it, as docs/etcdcluster.md demands.
    let apart = json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { (etcd::LABEL): etcd::NAME } } });
    members["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [apart] } });
    members["tls"] = json!({ "peer": {}, "client": {} });
    members["config"] = json!({ "quota-backend-bytes": QUOTA });
    scene.create::<EtcdCluster>(etcd::NAME, members).await;
    let mut wanted = redis::spec(2);
    wanted["spread"] = json!("Required");
    wanted["failover"] = json!({ "minReplicasToWrite": 1 });
    // A disk that takes no snapshot is noticed only where snapshots are configured.
    wanted["config"] = json!({ "save": "3600 1" });
    scene.create::<Redis>(redis::NAME, wanted).await;
    etcd::settled(&scene, "the first members").await;
    redis::settled(&scene, "the first nodes").await;
    let (of_redis, of_etcd) =
        (redis::checker::Checker::start(&scene).await, etcd::checker::Checker::start(&scene).await);
    let shared = (redis::checker::mixed::start(&scene), etcd::checker::mixed::start(&scene));
    let statuses = page::Statuses::follow(&scene);

    let (begun, mut random, mut page) = (Instant::now(), Random(0), Page::default());
    let (mut faults, mut coming, mut until) = (Vec::new(), seeds.into_iter(), begun);
    loop {
        if Instant::now() >= until {
            let Some(seed) = coming.next() else { break };
            println!("  {:>4} s: seed {seed}", begun.elapsed().as_secs());
            (random, until) = (Random(seed), Instant::now() + Duration::from_secs(seconds));
            faults.clear();
        }
        of_redis.writes(100).await;
        of_etcd.writes(100).await;
        // Each fault comes once, in an order that the seed decides, before any fault is repeated.
        if faults.is_empty() {
            faults.extend(Fault::ALL);
        }
        let fault = random.take(&mut faults);
        let at = of_redis.event(fault.as_str());
        println!("  {:>4} s: {}", begun.elapsed().as_secs(), fault.as_str());
        let held = fault.happens(&scene, &mut operators, &mut random).await;
        let served = async {
            of_redis.goes_on("the next master").await;
            of_etcd.goes_on("the next leader").await;
        };
        timeout(RECOVERY, served).await.unwrap_or_else(|_| panic!("no client can write {RECOVERY:?} after {fault:?}"));
        // A hanging process or a cut-off node comes back once others serve.
        held.ends(&scene).await;
        let all_well = async {
            redis::nodes::complete(&scene, 2, None).await;
            let version = scene.api::<EtcdCluster>().get(etcd::NAME).await.expect("the cluster").spec.version;
            etcd::bystander::complete(&scene, 3, &version).await;
        };
        timeout(RECOVERY, all_well).await.unwrap_or_else(|_| panic!("not all are well {RECOVERY:?} after {fault:?}"));
        let well = Instant::now();
        redis::settled(&scene, "all nodes to be reported well").await;
        etcd::settled(&scene, "all members to be reported well").await;
        let reported = Instant::now();
        for (database, moments) in
            [(Database::Redis, of_redis.acknowledged_since(at)), (Database::Etcd, of_etcd.acknowledged_since(at))]
        {
            let readiness = statuses.readiness(database);
            page.add(Turn { fault, database, begun: at, well, reported, moments, readiness });
        }
    }
    let of_shared =
        [(Database::Redis, shared.0.judged("soak-redis").await), (Database::Etcd, shared.1.judged("soak-etcd").await)];
    page.note_judgements(&of_shared);
    let report = of_etcd.finish(&scene, "soak").await;
    page.note_load(Database::Etcd, begun.elapsed(), report.written, report.lost);
    let measured = of_redis.measured(Promise::WhatWasReplicated).await;
    page.note_load(Database::Redis, begun.elapsed(), measured.written, measured.lost);
    page.print();
    for (database, judgement) in of_shared {
        assert_ne!(judgement.verdict, Verdict::Broken, "{database:?}: {}", judgement.summary());
    }
}
