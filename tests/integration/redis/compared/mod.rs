//! How Causeway and Redis Sentinel handle the same failures, with the same clients. `cargo xtask bench failover`
//! measures all of them. In a run of all tests, each failure that needs only one Kubernetes node happens once, to keep
//! the comparison working.

mod lost;

use std::time::Duration;

use serde_json::{Value, json};

use super::checker::{Checker, Measured, Promise};
use super::faults::{Stopped, Unwritable, kill, takes_a_snapshot};
use super::sentinel::{BOUNDED, FASTEST, SHIPPED, Sentinels, Settings};
use super::switchover::switched;
use super::{Stage, master, replicas, running, settled, spec, succeeded};
use crate::support::Operator;

/// The variable with how often each failure happens when it is measured.
const TURNS: &str = "CAUSEWAY_TURNS";
/// The variable with the path of the file that figures are written to.
const REPORT: &str = "CAUSEWAY_REPORT";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The master's process is killed; its container starts again.
    Killed,
    /// The master's process is stopped, and goes on once another node is the master.
    Hangs,
    /// A user asks for another master.
    Planned,
    /// The master's disk takes nothing until another node is the master.
    DiskFull,
    /// The master's Kubernetes node is cut off until another node is the master.
    NodeLost,
    /// The same, and the leading operator is stopped, too. Sentinel has no operator.
    NodeAndOperatorLost,
}

impl Fault {
    /// Those that need one Kubernetes node only.
    const ON_ONE_NODE: [Self; 3] = [Self::Killed, Self::Hangs, Self::Planned];
    const ALL: [Self; 6] =
        [Self::Killed, Self::Hangs, Self::Planned, Self::DiskFull, Self::NodeLost, Self::NodeAndOperatorLost];

    fn name(self) -> &'static str {
        match self {
            Self::Killed => "kill",
            Self::Hangs => "hang",
            Self::Planned => "planned",
            Self::DiskFull => "disk_full",
            Self::NodeLost => "node_lost",
            Self::NodeAndOperatorLost => "node_and_operator_lost",
        }
    }

    /// The words for people.
    fn words(self) -> &'static str {
        match self {
            Self::Killed => "the master's process killed",
            Self::Hangs => "the master hangs",
            Self::Planned => "moved on request",
            Self::DiskFull => "the master's disk takes nothing",
            Self::NodeLost => "the master's node lost",
            Self::NodeAndOperatorLost => "the master's node lost, and the leading operator with it",
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_master_costs_less_than_with_redis_sentinel() {
    let turns: Option<usize> = std::env::var(TURNS).ok().map(|turns| turns.parse().expect("a number"));
    // As shipped, Sentinel waits half a minute for a master that hangs: too long for a run of all tests.
    let settings: &[Settings] = if turns.is_some() { &[SHIPPED, FASTEST, BOUNDED] } else { &[BOUNDED] };
    let faults: &[Fault] = if turns.is_some() { &Fault::ALL } else { &Fault::ON_ONE_NODE };
    let (mut figures, turns) = (Vec::new(), turns.unwrap_or(1));
    for fault in faults.iter().copied() {
        let measured = match fault {
            Fault::NodeLost | Fault::NodeAndOperatorLost => {
                lost::ours(turns, fault == Fault::NodeAndOperatorLost).await
            }
            _ => ours(fault, turns).await,
        };
        note(&mut figures, fault, "causeway", &measured);
        for settings in settings {
            let measured = match fault {
                Fault::NodeAndOperatorLost => continue,
                Fault::NodeLost => lost::theirs(*settings, turns).await,
                _ => theirs(fault, *settings, turns).await,
            };
            note(&mut figures, fault, settings.name, &measured);
        }
    }
    if let Ok(path) = std::env::var(REPORT) {
        std::fs::write(path, Value::from(figures).to_string()).expect("the report is written");
    }
}

async fn ours(fault: Fault, turns: usize) -> Measured {
    let scene = Stage::new("redis-compared").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(2);
    // Redis's defaults, as the servers with Sentinel have them: a disk that takes no snapshot is noticed only where
    // snapshots are configured.
    wanted["config"] = json!({ "save": "3600 1 300 100 60 10000" });
    running(&scene, wanted).await;
    let checker = Checker::start(&scene).await;
    for _ in 0..turns {
        checker.writes(100).await;
        let name = master(&scene).await;
        checker.event(fault.name());
        match fault {
            Fault::Killed => {
                kill(&scene, &name).await;
                succeeded(&scene, &name).await;
                checker.goes_on("another master").await;
            }
            Fault::Hangs => {
                let _stopped = Stopped::new(&scene, &name).await;
                succeeded(&scene, &name).await;
                checker.goes_on("another master").await;
            }
            Fault::DiskFull => {
                let unwritable = Unwritable::at_a_snapshot(&scene, &name).await;
                succeeded(&scene, &name).await;
                checker.goes_on("another master").await;
                drop(unwritable);
                takes_a_snapshot(&scene, &name).await;
            }
            Fault::Planned | Fault::NodeLost | Fault::NodeAndOperatorLost => {
                let to = replicas(&scene).await.remove(0);
                switched(&scene, &to).await;
                checker.goes_on("the other master").await;
            }
        }
        settled(&scene, "all nodes again").await;
    }
    let loses_nothing = matches!(fault, Fault::Planned | Fault::DiskFull);
    checker.measured(if loses_nothing { Promise::Everything } else { Promise::WhatWasReplicated }).await
}

async fn theirs(fault: Fault, settings: Settings, turns: usize) -> Measured {
    let scene = Stage::new("redis-sentinel").await;
    let sentinels = Sentinels::start(&scene, settings).await;
    let checker = Checker::start_at(sentinels.entrance()).await;
    for _ in 0..turns {
        checker.writes(100).await;
        let name = sentinels.master().await;
        checker.event(fault.name());
        match fault {
            Fault::Killed => {
                kill(&scene, &name).await;
                checker.goes_on("a master").await;
            }
            Fault::Hangs => {
                let _stopped = Stopped::new(&scene, &name).await;
                checker.goes_on("another master").await;
            }
            Fault::DiskFull => {
                // A master that cannot write its files answers pings with an error, so it is down for sentinels, too.
                let before = sentinels.address().await;
                let unwritable = Unwritable::at_a_snapshot(&scene, &name).await;
                sentinels.succeeded(&before).await;
                checker.goes_on("another master").await;
                drop(unwritable);
                takes_a_snapshot(&scene, &name).await;
            }
            Fault::Planned | Fault::NodeLost | Fault::NodeAndOperatorLost => {
                sentinels.fail_over().await;
                checker.goes_on("the other master").await;
            }
        }
        sentinels.settled().await;
    }
    checker.measured(Promise::Nothing).await
}

/// Prints what came of a failure, and keeps it as figures: one row of the table in docs/benchmarks.md.
fn note(figures: &mut Vec<Value>, fault: Fault, who: &str, measured: &Measured) {
    let Measured { outages, written, lost } = measured;
    let times = outages.len();
    let at = |share: usize| outages.get((times * share / 100).min(times - 1)).map_or(0, Duration::as_millis);
    let (middle, most) = (at(50), at(99));
    println!(
        "» {}, {who}: no client could write for {middle} ms in the middle, {most} ms at most of {times} times; lost {lost} of \
         {written} acknowledged writes",
        fault.words(),
    );
    let row = format!("{}: {who}", fault.words());
    let mut add = |what: &str, column: &str, value: u128, note: String| {
        let key = format!("{}_{what}_{}", fault.name(), who.replace([' ', ','], "_").replace("__", "_"));
        let value = u64::try_from(value).expect("a small number");
        figures.push(json!({ "key": key, "row": row, "column": column, "value": value, "note": note }));
    };
    add("times", "times", times as u128, String::new());
    add("outage_ms_p50", "p50, ms", middle, String::new());
    add("outage_ms_p99", "p99, ms", most, if times < 100 { "(the longest)".into() } else { String::new() });
    add("lost_writes", "lost writes", *lost as u128, format!("of {written}"));
}
