//! Scenarios of `DatabaseBackup` and `DatabaseRestore`: a bucket, children, real Jobs, and what is deleted in S3.

use std::collections::BTreeMap;

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestore};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::harness::{Scenario, die_everywhere};
use crate::backup::stage::{self, NAME, NEVER, redis_command};
use crate::support::rollout_watch::is_ready;
use crate::support::{Scene, wait_for};

/// Calls of each scenario: those with Jobs take many seconds.
const MOST: usize = 3;

/// Starts a Redis that belongs to no object of ours; returns its address. It has a Service, whose name is the same in
/// every scene.
async fn redis(scene: &Scene, name: &str) -> String {
    let labels = BTreeMap::from([("server", name)]);
    let command = ["redis-server", "--save", "", "--protected-mode", "no", "--repl-diskless-sync-delay", "0"];
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "server", "image": "redis:7.0.15", "command": command,
                "readinessProbe": { "tcpSocket": { "port": 6379 }, "periodSeconds": 1 },
            }],
        },
    }))
    .expect("a pod");
    let service: Service = serde_json::from_value(json!({
        "metadata": { "name": name }, "spec": { "selector": labels, "ports": [{ "port": 6379 }] },
    }))
    .expect("a Service");
    let there = scene.api::<Service>().get_opt(name).await.expect("an answer").is_some();
    if !there {
        scene.api::<Service>().create(&PostParams::default(), &service).await.expect("the Service is taken");
    }
    scene.api::<Pod>().create(&PostParams::default(), &pod).await.expect("the pod is taken");
    let look = || async { scene.api::<Pod>().get(name).await.expect("the pod") };
    let pod = wait_for(&format!("{name} to be ready"), look, is_ready).await;
    format!("{}:6379", pod.status.and_then(|status| status.pod_ip).expect("an address"))
}

fn server(scene: &Scene, name: &str) -> Value {
    json!({ "redisServer": { "address": format!("{name}.{}.svc:6379", scene.namespace) } })
}

/// Makes the object, with a bucket and children, over a Redis with a key.
async fn created(scene: &Scene, spec: Value) {
    stage::trusted(scene).await;
    let address = redis(scene, "source").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    let mut spec = spec;
    spec["schedule"] = json!(NEVER);
    spec["source"] = server(scene, "source");
    scene.create::<DatabaseBackup>(NAME, spec).await;
    wait_for("backups to be scheduled", || scheduled(scene), |ready| *ready).await;
}

async fn status(scene: &Scene) -> Option<DatabaseBackupStatus> {
    let object = scene.api::<DatabaseBackup>().get_opt(NAME).await.expect("an answer")?;
    let status = object.status?;
    (status.observed_generation == object.metadata.generation).then_some(status)
}

async fn scheduled(scene: &Scene) -> bool {
    status(scene).await.is_some_and(|status| stage::describe(&status, "Ready").0 == "True")
}

async fn back_up(scene: &Scene, token: &str) {
    let patch = json!({ "metadata": { "annotations": { "causeway.example.com/backup-now": token } } });
    let api = scene.api::<DatabaseBackup>();
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("the annotation is taken");
}

/// Reports whether there are exactly so many backups, and the status reports all that the test requested.
async fn has(scene: &Scene, backups: usize) -> bool {
    let Some(status) = status(scene).await else { return false };
    let reported = status.backup_now.as_ref().is_some_and(|token| *token == format!("token-{}", status.ended.len()));
    let counted = status.recent.len() == backups && status.backups == i64::try_from(backups).unwrap_or_default();
    let Some(bucket) = status.bucket.filter(|_| reported && counted) else { return false };
    // Backups are signed after they appear in the status. What a dead operator has left of deleted backups stays for an
    // hour.
    let keys = super::buckets::keys(scene, &bucket).await;
    let manifests = keys.iter().filter(|key| key.ends_with("/manifest.json"));
    manifests.filter(|key| keys.contains(&format!("{key}.sig"))).count() == backups
}

struct Create;

impl Scenario for Create {
    const NAME: &'static str = "create a DatabaseBackup";
    const MOST: usize = MOST;

    async fn prepare(_: &Scene) {}

    async fn act(scene: &Scene) {
        let spec = json!({ "schedule": NEVER, "source": { "redisServer": { "address": "127.0.0.1:6379" } } });
        scene.create::<DatabaseBackup>(NAME, spec).await;
    }

    async fn settled(scene: &Scene) -> bool {
        scheduled(scene).await
    }
}

struct BackUp;

impl Scenario for BackUp {
    const NAME: &'static str = "take a backup";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, json!({})).await;
    }

    async fn act(scene: &Scene) {
        back_up(scene, "token-1").await;
    }

    async fn settled(scene: &Scene) -> bool {
        has(scene, 1).await
    }
}

struct Prune;

impl Scenario for Prune {
    const NAME: &'static str = "delete backups that no rule keeps";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, json!({ "retention": { "keepLast": 2 } })).await;
        for count in 1..=2 {
            back_up(scene, &format!("token-{count}")).await;
            wait_for("a backup", || has(scene, count), |there| *there).await;
        }
    }

    async fn act(scene: &Scene) {
        scene.edit::<DatabaseBackup>(NAME, json!({ "retention": { "keepLast": 1 } })).await;
    }

    async fn settled(scene: &Scene) -> bool {
        has(scene, 1).await
    }
}

struct Delete;

impl Scenario for Delete {
    const NAME: &'static str = "delete a DatabaseBackup with its backups";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, json!({ "deletionPolicy": "Delete" })).await;
        back_up(scene, "token-1").await;
        wait_for("a backup", || has(scene, 1), |there| *there).await;
    }

    async fn act(scene: &Scene) {
        scene.delete::<DatabaseBackup>(NAME).await;
    }

    async fn settled(scene: &Scene) -> bool {
        scene.api::<DatabaseBackup>().get_opt(NAME).await.expect("an answer").is_none()
    }
}

struct Restore;

impl Scenario for Restore {
    const NAME: &'static str = "restore a backup";
    const MOST: usize = MOST;

    async fn prepare(scene: &Scene) {
        created(scene, json!({})).await;
        redis(scene, "target").await;
        back_up(scene, "token-1").await;
        wait_for("a backup", || has(scene, 1), |there| *there).await;
    }

    async fn act(scene: &Scene) {
        let spec = json!({ "from": { "backup": NAME }, "target": server(scene, "target") });
        scene.create::<DatabaseRestore>("back", spec).await;
    }

    async fn settled(scene: &Scene) -> bool {
        let object = scene.api::<DatabaseRestore>().get_opt("back").await.expect("an answer");
        let phase = object.and_then(|object| object.status).map(|status| status.phase);
        assert_ne!(phase, Some(RestorePhase::Failed), "a restore is not tried again");
        phase == Some(RestorePhase::Succeeded)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_backup_is_created_despite_any_crash() {
    die_everywhere::<Create>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_taken_once_despite_any_crash() {
    die_everywhere::<BackUp>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_backups_are_deleted_despite_any_crash() {
    die_everywhere::<Prune>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_of_a_database_backup_are_deleted_despite_any_crash() {
    die_everywhere::<Delete>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_restored_despite_any_crash() {
    die_everywhere::<Restore>().await;
}
