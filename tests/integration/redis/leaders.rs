//! Operators that are killed again and again, as real processes, while masters fail.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::sleep;

use super::checker::{Checker, Promise};
use super::faults::kill;
use super::{Stage, master, patient, running, settled, succeeded};
use crate::leadership::process::Process;
use crate::leadership::{DATABASES, leader_metric};
use crate::support::wait_for;

/// Seconds for which both operators take part in elections before they are killed again. None is longer than the lease
/// for databases, so no operator ever sees the lease expire.
const PAUSES: [u64; 4] = [2, 3, 4, 5];
/// After so many rounds, each pause is a second longer than it was in the round before, like the kubelet's back-off for
/// containers that end again and again. So the test also ends on a busy machine.
const IMPATIENT: usize = 12;
/// Masters that are killed meanwhile.
const MASTERS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failovers_succeed_while_operators_are_killed() {
    let scene = Stage::new("redis-leaders").await;
    // As in pods: a container that is started again has the same pod UID.
    let mut operators = [
        Process::start_with(&scene, "first", &[("KINDS", "Redis"), ("POD_UID", "6a1f")]).await,
        Process::start_with(&scene, "second", &[("KINDS", "Redis"), ("POD_UID", "93c0")]).await,
    ];
    running(&scene, patient(2)).await;
    let checker = Checker::start(&scene).await;
    for _ in 0..MASTERS {
        checker.writes(100).await;
        let name = master(&scene).await;
        let killed = checker.event("all operators killed every 2 to 5 s, and the master once");
        let (mut rounds, since) = (0_usize, Timestamp::now());
        let storm = async {
            loop {
                operators.iter_mut().for_each(Process::start_again);
                for operator in &operators {
                    operator.takes_part().await;
                }
                let longer = u64::try_from(rounds.saturating_sub(IMPATIENT)).expect("few");
                let pause = Duration::from_secs(PAUSES[rounds % PAUSES.len()] + longer);
                rounds += 1;
                sleep(pause).await;
            }
        };
        let succession = async {
            kill(&scene, &name).await;
            succeeded(&scene, &name).await;
            checker.goes_on("another master").await;
        };
        tokio::select! {
            () = storm => unreachable!("it goes on for ever"),
            () = succession => {}
        }
        let seconds = killed.elapsed().as_secs_f64();
        println!("» all operators killed {rounds} times: another master serves after {seconds:.1} s");
        for operator in &operators {
            operator.print_way_to_failover(since);
        }
        settled(&scene, "all nodes again").await;
        checker.goes_on("all nodes again").await;
    }
    let leaders = || async {
        let mut leaders = 0;
        for operator in &operators {
            leaders += usize::from(operator.get("/metrics").await.1.contains(&leader_metric(DATABASES, true)));
        }
        leaders
    };
    wait_for("one of them to lead", leaders, |leaders| *leaders == 1).await;
    checker.finish("all operators killed again and again", Promise::WhatWasReplicated).await;
}
