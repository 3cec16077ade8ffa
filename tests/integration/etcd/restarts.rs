//! The operator dies again and again while it changes a cluster, each time at a call that chance chooses.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use causeway_api::EtcdCluster;
use serde_json::{Value, json};

use super::checker::Checker;
use super::{NAME, Stage, is_settled, running, settled, spec};
use crate::support::wait::wait_within;
use crate::support::{Interception, Moment, Operator, Scene, Target};

/// An operator makes at most so many calls before it dies.
const LONGEST_LIFE: u64 = 40;
const SWEEP: Duration = Duration::from_secs(2);

/// Numbers that look random, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let seed = RandomState::new().build_hasher().finish() | 1;
        println!("the seed is {seed}");
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        // Xorshift: https://www.jstatsoft.org/article/view/v008i14
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn moment(&mut self) -> Moment {
        Moment::ALL[usize::try_from(self.below(3)).expect("a small number")]
    }
}

/// Edits the cluster, and lets operators die until one of them has carried the edit out; returns how many died.
async fn edited_by_mortals(scene: &Scene, chance: &mut Chance, what: &str, edit: Value) -> usize {
    scene.edit::<EtcdCluster>(NAME, edit).await;
    let mut died = 0;
    loop {
        let interception = Interception::new();
        let life = usize::try_from(1 + chance.below(LONGEST_LIFE)).expect("a small number");
        interception.arm(Some((Target::Nth(life), chance.moment())));
        let operator = Operator::through(scene, &interception, Operator::client().await, SWEEP);
        let done = wait_within(super::WAIT_TIMEOUT, what, || outcome(scene, &interception), Option::is_some).await;
        drop(operator);
        if done == Some(true) {
            return died;
        }
        died += 1;
        assert!(died < 300, "{what}: no end in sight");
    }
}

/// `Some(true)` when the cluster is as it should be, `Some(false)` when the operator has died.
async fn outcome(scene: &Scene, interception: &Interception) -> Option<bool> {
    let object = scene.api::<EtcdCluster>().get(NAME).await.expect("the object");
    if is_settled(&object) { Some(true) } else { interception.is_dead().then_some(false) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_that_die_while_they_scale_leave_no_harm() {
    let scene = Stage::new("etcd-restarts").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    operator.stop().await;
    let (mut chance, checker) = (Chance::new(), Checker::start(&scene).await);
    let mut died = 0;
    for replicas in [3, 5, 3, 1] {
        let what = format!("{replicas} members");
        died += edited_by_mortals(&scene, &mut chance, &what, json!({ "replicas": replicas })).await;
        checker.goes_on(&what).await;
    }
    let _operator = Operator::start(&scene).await;
    settled(&scene, "one member").await;
    checker.finish(&scene, &format!("1 → 3 → 5 → 3 → 1 members by {} operators, {died} of which died", died + 4)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_crashes_while_tls_changes_do_no_harm() {
    let scene = Stage::new("etcd-restarts").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    operator.stop().await;
    let (mut chance, checker) = (Chance::new(), Checker::start(&scene).await);
    let mut died = 0;
    for tls in [json!({ "peer": {}, "client": { "verifyClients": true } }), Value::Null] {
        let what = format!("TLS: {tls}");
        died += edited_by_mortals(&scene, &mut chance, &what, json!({ "tls": tls })).await;
        checker.goes_on(&what).await;
    }
    let _operator = Operator::start(&scene).await;
    settled(&scene, "no TLS").await;
    checker.finish(&scene, &format!("TLS turned on and off by {} operators, {died} of which died", died + 2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_crashes_while_versions_change_do_no_harm() {
    let scene = Stage::new("etcd-restarts").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    operator.stop().await;
    let (mut chance, checker) = (Chance::new(), Checker::start(&scene).await);
    let mut died = 0;
    for version in ["3.5.35", "3.6.16", "3.5.35"] {
        died += edited_by_mortals(&scene, &mut chance, version, json!({ "version": version })).await;
        checker.goes_on(version).await;
    }
    let _operator = Operator::start(&scene).await;
    settled(&scene, "etcd 3.5.35 everywhere").await;
    checker
        .finish(&scene, &format!("two upgrades and the way back by {} operators, {died} of which died", died + 3))
        .await;
}
