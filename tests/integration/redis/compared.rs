//! The same failures met by Causeway and by Redis Sentinel, with the same clients. `cargo xtask bench failover` makes
//! figures of it; in a run of all tests each happens once, so that the comparison stays able to run.

use std::time::Duration;

use serde_json::{Value, json};

use super::checker::{Checker, Measured, Promise};
use super::faults::{Stopped, kill};
use super::sentinel::{BOUNDED, FASTEST, SHIPPED, Sentinels, Settings};
use super::switchover::switched;
use super::{Stage, master, replicas, running, settled, spec, succeeded};
use crate::support::Operator;

/// How often each failure happens, where it is to be measured.
const TURNS: &str = "CAUSEWAY_TURNS";
/// The file that figures are written to.
const REPORT: &str = "CAUSEWAY_REPORT";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The master's process is killed; its container starts again.
    Killed,
    /// The master's process is stopped, and goes on once it was succeeded.
    Hangs,
    /// Somebody asks for another master.
    Planned,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Killed, Self::Hangs, Self::Planned];

    fn name(self) -> &'static str {
        match self {
            Self::Killed => "kill",
            Self::Hangs => "hang",
            Self::Planned => "planned",
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_master_costs_less_than_with_redis_sentinel() {
    let turns: Option<usize> = std::env::var(TURNS).ok().map(|turns| turns.parse().expect("a number"));
    // A master that hangs is waited for half a minute with the settings as shipped.
    let settings: &[Settings] = if turns.is_some() { &[SHIPPED, FASTEST, BOUNDED] } else { &[BOUNDED] };
    let mut figures = Vec::new();
    for fault in Fault::ALL {
        let measured = ours(fault, turns.unwrap_or(1)).await;
        note(&mut figures, fault, "causeway", &measured);
        for settings in settings {
            let measured = theirs(fault, *settings, turns.unwrap_or(1)).await;
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
    running(&scene, spec(2)).await;
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
            Fault::Planned => {
                let to = replicas(&scene).await.remove(0);
                switched(&scene, &to).await;
                checker.goes_on("the other master").await;
            }
        }
        settled(&scene, "all nodes again").await;
    }
    let promise = if fault == Fault::Planned { Promise::Everything } else { Promise::WhatWasReplicated };
    checker.measured(promise).await
}

async fn theirs(fault: Fault, settings: Settings, turns: usize) -> Measured {
    let scene = Stage::new("redis-sentinel").await;
    let sentinels = Sentinels::start(&scene, settings).await;
    let checker = Checker::by(sentinels.entrance()).await;
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
            Fault::Planned => {
                sentinels.fail_over().await;
                checker.goes_on("the other master").await;
            }
        }
        sentinels.settled().await;
    }
    checker.measured(Promise::Nothing).await
}

/// Prints what came of a failure, and keeps it as figures.
fn note(figures: &mut Vec<Value>, fault: Fault, who: &str, measured: &Measured) {
    let Measured { outages, written, lost } = measured;
    let longest = |share: usize| outages.get((outages.len() * share / 100).min(outages.len() - 1));
    let [middle, most] = [50, 100].map(|share| longest(share).map_or(0, Duration::as_millis));
    println!(
        "» {}, {who}: nobody could write for {middle} ms in the middle, {most} ms at most of {} times; lost {lost} of {written} \
         acknowledged writes",
        fault.name(),
        outages.len()
    );
    let key = |what: &str| format!("{}_{what}_{}", fault.name(), who.replace([' ', ','], "_").replace("__", "_"));
    let count = format!("n={}", outages.len());
    figures.extend([
        json!({ "key": key("outage_ms_p50"), "value": middle, "note": count }),
        json!({ "key": key("outage_ms_max"), "value": most, "note": count }),
        json!({ "key": key("lost_writes"), "value": lost, "note": format!("of {written} acknowledged") }),
    ]);
}
