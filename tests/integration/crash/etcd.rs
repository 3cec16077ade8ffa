//! Scenarios of `EtcdCluster`: members are changed by calls of Kubernetes and by calls of the members themselves.

use causeway_api::EtcdCluster;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use serde_json::json;

use super::harness::{Scenario, die_everywhere};
use crate::etcd::{self, NAME};
use crate::support::Scene;
use crate::support::rollout_watch::is_ready;

/// Calls of each scenario: each takes many seconds.
const MOST: usize = 2;
/// The same, for scenarios that add little to another one.
const FEW: usize = 1;

async fn settled(scene: &Scene) -> bool {
    let object = scene.api::<EtcdCluster>().get_opt(NAME).await.expect("an answer");
    let Some(object) = object.filter(etcd::is_settled) else { return false };
    let pods = etcd::pods(scene).await;
    pods.len() == usize::try_from(object.spec.replicas).unwrap_or_default() && pods.iter().all(is_ready)
}

async fn created(scene: &Scene, replicas: i32) {
    etcd::running(scene, etcd::spec(replicas)).await;
}

struct Create;

impl Scenario for Create {
    const NAME: &'static str = "create an EtcdCluster";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(_: &Scene) {}

    async fn act(scene: &Scene) {
        scene.create::<EtcdCluster>(NAME, etcd::spec(3)).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

/// A cluster of one member: it is enough for logins and certificates, which are the same for all members.
fn single(field: &str, value: serde_json::Value) -> serde_json::Value {
    let mut spec = etcd::spec(1);
    spec["deletionPolicy"] = json!("Delete");
    spec[field] = value;
    spec
}

struct CreateWithLogins;

impl Scenario for CreateWithLogins {
    const NAME: &'static str = "create an EtcdCluster that asks for logins";
    const MOST: usize = FEW;
    const POLLS: bool = true;

    async fn prepare(_: &Scene) {}

    async fn act(scene: &Scene) {
        scene.create::<EtcdCluster>(NAME, single("auth", json!({ "enabled": true }))).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await && asks_for_logins(scene).await
    }
}

struct TurnLoginsOn;

impl Scenario for TurnLoginsOn {
    const NAME: &'static str = "let an EtcdCluster ask for logins";
    const MOST: usize = FEW;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        etcd::running(scene, single("suspend", json!(false))).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<EtcdCluster>(NAME, json!({ "auth": { "enabled": true } })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await && asks_for_logins(scene).await
    }
}

struct CreateWithTls;

impl Scenario for CreateWithTls {
    const NAME: &'static str = "create an EtcdCluster with TLS";
    const MOST: usize = FEW;
    const POLLS: bool = true;

    async fn prepare(_: &Scene) {}

    async fn act(scene: &Scene) {
        scene.create::<EtcdCluster>(NAME, single("tls", json!({ "peer": {}, "client": {} }))).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

async fn asks_for_logins(scene: &Scene) -> bool {
    let object = scene.api::<EtcdCluster>().get_opt(NAME).await.expect("an answer");
    object.and_then(|object| etcd::describe(&object, "AuthEnabled")).is_some_and(|(status, ..)| status == "True")
}

struct ScaleUp;

impl Scenario for ScaleUp {
    const NAME: &'static str = "scale an EtcdCluster up";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 1).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<EtcdCluster>(NAME, json!({ "replicas": 3 })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

struct ScaleDown;

impl Scenario for ScaleDown {
    const NAME: &'static str = "scale an EtcdCluster down";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 3).await;
        // The leader is among the members that are removed.
        etcd::bystander::lead(scene, "db-2").await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<EtcdCluster>(NAME, json!({ "replicas": 1 })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

struct Upgrade;

impl Scenario for Upgrade {
    const NAME: &'static str = "upgrade an EtcdCluster";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 3).await;
    }

    async fn act(scene: &Scene) {
        scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.35" })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        settled(scene).await
    }
}

/// The claim that is replaced by another one.
const WIPED: &str = "data-db-1";

struct Replace;

impl Scenario for Replace {
    const NAME: &'static str = "replace a member of an EtcdCluster that lost its volume";
    const MOST: usize = MOST;
    const POLLS: bool = true;

    async fn prepare(scene: &Scene) {
        created(scene, 3).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<PersistentVolumeClaim>(WIPED).await;
        let at_once = DeleteParams::default().grace_period(0);
        scene.api::<Pod>().delete("db-1", &at_once).await.expect("the deletion is accepted");
    }

    async fn settled(scene: &Scene) -> bool {
        let claim = scene.api::<PersistentVolumeClaim>().get_opt(WIPED).await.expect("an answer");
        claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none()) && settled(scene).await
    }
}

/// Kubernetes garbage-collects the object's children; the controllers only have to keep out of its way.
struct Delete;

impl Scenario for Delete {
    const NAME: &'static str = "delete an EtcdCluster";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, 3).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<EtcdCluster>(NAME).await;
    }

    async fn settled(scene: &Scene) -> bool {
        let object = scene.api::<EtcdCluster>().get_opt(NAME).await.expect("an answer");
        object.is_none() && etcd::pods(scene).await.is_empty()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_is_created_despite_any_crash() {
    die_everywhere::<Create>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_with_auth_is_created_despite_any_crash() {
    die_everywhere::<CreateWithLogins>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_turns_auth_on_despite_any_crash() {
    die_everywhere::<TurnLoginsOn>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_with_tls_is_created_despite_any_crash() {
    die_everywhere::<CreateWithTls>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_is_scaled_up_despite_any_crash() {
    die_everywhere::<ScaleUp>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_is_scaled_down_despite_any_crash() {
    die_everywhere::<ScaleDown>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_is_upgraded_despite_any_crash() {
    die_everywhere::<Upgrade>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_member_is_replaced_despite_any_crash() {
    die_everywhere::<Replace>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_is_deleted_despite_any_crash() {
    die_everywhere::<Delete>().await;
}
