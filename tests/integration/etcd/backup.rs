//! A schedule makes a `DatabaseBackup` of the cluster, which follows it and goes with it.

use causeway_api::{DatabaseBackup, EtcdCluster};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{NAME, Stage, WAIT_TIMEOUT, becomes, describe, running, settled, spec};
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

const CHILD: &str = "db-backup";

/// Waits until `BackupReady` has that status and reason; returns its message.
async fn tells(scene: &Scene, status: &str, reason: &str) -> String {
    let is_reported = |object: &EtcdCluster| {
        describe(object, "BackupReady").is_some_and(|text| (text.0.as_str(), text.1.as_str()) == (status, reason))
    };
    let object = becomes(scene, &format!("BackupReady to be {status} for {reason}"), is_reported).await;
    describe(&object, "BackupReady").map(|(.., message)| message).unwrap_or_default()
}

async fn child(scene: &Scene, what: &str, good: impl Fn(&Option<DatabaseBackup>) -> bool) -> Option<DatabaseBackup> {
    let api = scene.api::<DatabaseBackup>();
    wait_within(WAIT_TIMEOUT, what, || async { api.get_opt(CHILD).await.expect("an answer") }, good).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduled_backup_follows_its_cluster() {
    let scene = Stage::new("etcd-backup").await;
    let _operator = Operator::start(&scene).await;
    let mut scheduled = spec(1);
    scheduled["backupSchedule"] = json!("0 2 * * *");
    let owner = running(&scene, scheduled).await;

    let made = child(&scene, "the DatabaseBackup", Option::is_some).await.expect("just seen");
    assert_eq!(made.spec.schedule, "0 2 * * *");
    let source = made.spec.source.as_ref().and_then(|source| source.etcd_cluster.as_ref());
    assert_eq!(source.map(|named| named.name.as_str()), Some(NAME));
    let owners: Vec<(bool, &str)> =
        made.owner_references().iter().map(|it| (it.controller == Some(true), it.uid.as_str())).collect();
    assert_eq!(owners, [(true, owner.uid().expect("a uid").as_str())]);
    let message = tells(&scene, "True", "BackupReady").await;
    assert!(message.contains("DatabaseBackup db-backup: Scheduled"), "{message}");

    // Drift is repaired, an edit is followed, a child that was deleted returns.
    let follows = |schedule: &'static str| {
        move |child: &Option<DatabaseBackup>| child.as_ref().is_some_and(|child| child.spec.schedule == schedule)
    };
    let backups = scene.api::<DatabaseBackup>();
    let drift = Patch::Merge(json!({ "spec": { "schedule": "0 0 1 1 *" } }));
    backups.patch(CHILD, &PatchParams::default(), &drift).await.expect("it is accepted");
    child(&scene, "drift to be repaired", follows("0 2 * * *")).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "backupSchedule": "0 4 * * *" })).await;
    child(&scene, "the edit to be followed", follows("0 4 * * *")).await;
    backups.delete(CHILD, &DeleteParams::default()).await.expect("the deletion is accepted");
    let another = |child: &Option<DatabaseBackup>| {
        child.as_ref().is_some_and(|child| child.uid().is_some() && child.uid() != made.uid())
    };
    child(&scene, "another DatabaseBackup", another).await;

    scene.edit::<EtcdCluster>(NAME, json!({ "backupSchedule": null })).await;
    child(&scene, "the DatabaseBackup to be gone", Option::is_none).await;
    let is_silent = |object: &EtcdCluster| describe(object, "BackupReady").is_none();
    becomes(&scene, "BackupReady to be gone", is_silent).await;
    settled(&scene, "the cluster as before").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_backup_of_that_name_is_left_alone() {
    let scene = Stage::new("etcd-backup").await;
    let _operator = Operator::start(&scene).await;
    let theirs = json!({ "schedule": "0 1 * * *", "source": { "redis": { "name": "cache" } } });
    let before = scene.create::<DatabaseBackup>(CHILD, theirs).await;
    let mut scheduled = spec(1);
    scheduled["backupSchedule"] = json!("0 2 * * *");
    running(&scene, scheduled).await;
    tells(&scene, "False", "NameTaken").await;
    let after = scene.api::<DatabaseBackup>().get(CHILD).await.expect("it is there");
    assert_eq!((after.spec, after.metadata.owner_references), (before.spec, None));
    settled(&scene, "a cluster that is well without backups").await;
}
