//! Scenarios of `Redis`: which node is the master is decided by calls of Kubernetes and by commands to the nodes.

use causeway_api::Redis;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

use super::harness::{Scenario, die_everywhere};
use crate::redis::{self, NAME};
use crate::support::Scene;
use crate::support::rollout_watch::is_ready;

/// Calls of each scenario: each takes many seconds.
const MOST: usize = 2;

/// The first master: volumes are all empty then.
const FIRST: &str = "cache-0";
/// The node that is to be the master after it.
const SECOND: &str = "cache-1";

/// The object, if all is as it asks for.
async fn whole(scene: &Scene) -> Option<Redis> {
    let object = scene.api::<Redis>().get_opt(NAME).await.expect("an answer");
    let object = object.filter(redis::is_settled)?;
    let pods = redis::pods(scene).await;
    let all = pods.len() == usize::try_from(object.spec.replicas + 1).unwrap_or_default();
    // The former master gets its role label last.
    let found = |pod: &Pod| is_ready(pod) && pod.labels().contains_key(redis::ROLE_LABEL);
    (all && pods.iter().all(found)).then_some(object)
}

async fn settled(scene: &Scene) -> bool {
    whole(scene).await.is_some()
}

/// Reports whether all is well with another master than the first.
async fn succeeded(scene: &Scene) -> bool {
    let status = whole(scene).await.and_then(|object| object.status).unwrap_or_default();
    status.master.is_some_and(|master| master != FIRST)
}

async fn created(scene: &Scene, replicas: i32) {
    redis::running(scene, redis::spec(replicas)).await;
}

struct Create;

impl Scenario for Create {
    const NAME: &'static str = "create a Redis";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(_: &Scene) {}

    async fn act(scene: &Scene) {
        scene.create::<Redis>(NAME, redis::spec(2)).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

struct ScaleUp;

impl Scenario for ScaleUp {
    const NAME: &'static str = "scale a Redis up";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 0).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<Redis>(NAME, json!({ "replicas": 2 })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

struct ScaleDown;

impl Scenario for ScaleDown {
    const NAME: &'static str = "scale a Redis down whose last node is the master";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 1).await;
        redis::switchover::switched(scene, SECOND).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<Redis>(NAME, json!({ "replicas": 0, "switchover": null })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

struct Switchover;

impl Scenario for Switchover {
    const NAME: &'static str = "switch the master of a Redis";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 2).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<Redis>(NAME, json!({ "switchover": { "master": SECOND } })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        succeeded(scene).await
    }
}

struct Failover;

impl Scenario for Failover {
    const NAME: &'static str = "lose the master of a Redis";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 2).await;
    }

    async fn act(scene: &Scene) {
        let at_once = DeleteParams::default().grace_period(0);
        scene.api::<Pod>().delete(FIRST, &at_once).await.expect("the deletion is accepted");
    }

    async fn settled(scene: &Scene) -> bool {
        succeeded(scene).await
    }
}

struct RollOut;

impl Scenario for RollOut {
    const NAME: &'static str = "change a setting of a Redis that takes a restart";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 1).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<Redis>(NAME, json!({ "config": { "databases": "32" } })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

/// Kubernetes garbage-collects the object's children; the controllers only have to keep out of its way.
struct Delete;

impl Scenario for Delete {
    const NAME: &'static str = "delete a Redis";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, 1).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<Redis>(NAME).await;
    }

    async fn settled(scene: &Scene) -> bool {
        let object = scene.api::<Redis>().get_opt(NAME).await.expect("an answer");
        object.is_none() && redis::pods(scene).await.is_empty()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_is_created_despite_any_crash() {
    die_everywhere::<Create>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_is_scaled_up_despite_any_crash() {
    die_everywhere::<ScaleUp>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_is_scaled_down_despite_any_crash() {
    die_everywhere::<ScaleDown>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_master_is_switched_despite_any_crash() {
    die_everywhere::<Switchover>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_master_is_succeeded_despite_any_crash() {
    die_everywhere::<Failover>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_is_rolled_out_despite_any_crash() {
    die_everywhere::<RollOut>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_is_deleted_despite_any_crash() {
    die_everywhere::<Delete>().await;
}
