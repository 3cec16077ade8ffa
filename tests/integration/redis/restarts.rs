//! The operator dies while a master fails, or is not there at all.

use std::time::Duration;

use causeway_api::Redis;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use super::checker::{Checker, Promise};
use super::faults::{Stopped, kill};
use super::{NAME, Stage, becomes, is_settled, master, running, settled, spec, uids};
use crate::support::wait::wait_within;
use crate::support::{Interception, Moment, Operator, Scene, Target};

const SWEEP: Duration = Duration::from_secs(2);

/// Steps of a failover: what the operator does for the first time after the master died.
const STEPS: [(&str, Moment); 6] = [
    // The operator has decided, but has not recorded the decision.
    ("PATCH /apis/example.com/v1/…/redises/cache/status", Moment::BeforeSending),
    // The operator has recorded what it is about to do.
    ("PATCH /apis/example.com/v1/…/redises/cache/status", Moment::AfterReply),
    // The Service leads to no pod.
    ("PATCH /api/v1/…/pods", Moment::ReplyLost),
    // There may be a new master, but the Service does not lead to it.
    ("redis REPLICAOF NO ONE", Moment::BeforeSending),
    ("redis REPLICAOF NO ONE", Moment::ReplyLost),
    // Another replica still follows the dead master.
    ("redis REPLICAOF", Moment::BeforeSending),
];

/// OT-CONTAINER-KIT#513: data were lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_dies_in_a_failover_leaves_no_harm() {
    let scene = Stage::new("redis-restarts").await;
    let first = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    first.stop().await;
    let checker = Checker::start(&scene).await;
    let mut died = 0;
    for (call, moment) in STEPS {
        let interception = Interception::new();
        let operator = Operator::through(&scene, &interception, Operator::client().await, SWEEP);
        settled(&scene, "all nodes, with another operator").await;
        let name = master(&scene).await;
        interception.arm(Some((Target::OfKind(call.to_owned(), 1), moment)));
        checker.event(&format!("the master hangs, and the operator dies at {call}, {}", moment.as_str()));
        let stopped = Stopped::new(&scene, &name).await;
        let over = || async { interception.is_dead() || has_another_master(&scene, &name).await };
        wait_within(super::WAIT_TIMEOUT, &format!("{call}, {}", moment.as_str()), over, |over| *over).await;
        died += usize::from(interception.is_dead());
        drop(operator);
        let operator = Operator::start(&scene).await;
        let succeeded = |object: &Redis| {
            let status = object.status.clone().unwrap_or_default();
            status.failover.is_none() && status.master.as_deref() != Some(name.as_str())
        };
        becomes(&scene, &format!("{call}, {}: another master", moment.as_str()), succeeded).await;
        checker.goes_on("another master").await;
        drop(stopped);
        settled(&scene, "all nodes again").await;
        operator.stop().await;
    }
    println!("» {died} of {} operators died in a failover", STEPS.len());
    checker.goes_on("all nodes again").await;
    checker.finish("operators that die in failovers", Promise::WhatWasReplicated).await;
}

async fn has_another_master(scene: &Scene, name: &str) -> bool {
    let object = scene.api::<Redis>().get(NAME).await.expect("the object");
    is_settled(&object) && object.status.and_then(|status| status.master).is_some_and(|master| master != name)
}

/// Steps of a planned switch.
const SWITCH: [(&str, Moment); 5] = [
    ("PATCH /apis/example.com/v1/…/redises/cache/status", Moment::AfterReply),
    ("redis FAILOVER TO", Moment::BeforeSending),
    ("redis FAILOVER TO", Moment::ReplyLost),
    ("PATCH /api/v1/…/pods", Moment::BeforeSending),
    ("PATCH /api/v1/…/pods", Moment::ReplyLost),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_dies_in_a_planned_switch_loses_nothing() {
    let scene = Stage::new("redis-restarts").await;
    let first = Operator::start(&scene).await;
    running(&scene, spec(2)).await;
    first.stop().await;
    let checker = Checker::start(&scene).await;
    let mut died = 0;
    for (turn, (call, moment)) in SWITCH.into_iter().enumerate() {
        let interception = Interception::new();
        let operator = Operator::through(&scene, &interception, Operator::client().await, SWEEP);
        settled(&scene, "all nodes, with another operator").await;
        let to = &super::replicas(&scene).await.remove(turn % 2);
        interception.arm(Some((Target::OfKind(call.to_owned(), 1), moment)));
        checker.event(&format!("asked for {to}, and the operator dies at {call}, {}", moment.as_str()));
        scene.edit::<Redis>(NAME, json!({ "switchover": { "master": to } })).await;
        let done = || async { interception.is_dead() || settled_at(&scene, to).await };
        wait_within(super::WAIT_TIMEOUT, &format!("{call}, {}", moment.as_str()), done, |done| *done).await;
        died += usize::from(interception.is_dead());
        drop(operator);
        let operator = Operator::start(&scene).await;
        wait_within(super::WAIT_TIMEOUT, &format!("{to} to be the master"), || settled_at(&scene, to), |done| *done)
            .await;
        checker.goes_on(&format!("{to} is the master")).await;
        operator.stop().await;
    }
    println!("» {died} of {} operators died in a planned switch", SWITCH.len());
    checker.finish("operators that die in planned switches", Promise::Everything).await;
}

async fn settled_at(scene: &Scene, name: &str) -> bool {
    let object = scene.api::<Redis>().get(NAME).await.expect("the object");
    is_settled(&object) && object.status.and_then(|status| status.master).is_some_and(|master| master == name)
}

/// Failures wait for the operator meanwhile, and lose nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_without_an_operator_are_repaired_later() {
    let scene = Stage::new("redis-restarts").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    operator.stop().await;
    // Without an operator the set still serves.
    checker.writes(200).await;
    let (name, before) = (master(&scene).await, uids(&scene).await);
    checker.event("the master killed, and no operator is there");
    kill(&scene, &name).await;
    // The master comes back by itself, but takes no writes: it may have fewer data than others.
    checker.stops("the master killed, and no operator is there").await;
    let replica = before.keys().find(|other| **other != name).expect("a replica").clone();
    scene.api::<Pod>().delete(&replica, &DeleteParams::default().grace_period(0)).await.expect("accepted");
    super::successor_that_starts(&scene, &replica, &before[&replica]).await;
    checker.event("the operator returns");
    let _operator = Operator::start(&scene).await;
    checker.goes_on("the operator is back").await;
    settled(&scene, "all nodes again").await;
    checker.finish("failures while no operator is there", Promise::WhatWasReplicated).await;
}
