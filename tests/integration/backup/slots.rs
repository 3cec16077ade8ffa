//! The replication slot for which a PostgreSQL keeps its log: what becomes of it when its object is deleted.

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::sql_postgres::POSTGRES;
use super::sql_stage::{LOGIN, SqlStage};
use super::stage::{NAME, NEVER, WAIT_TIMEOUT};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// How many slots the server has.
const SLOTS: &str = "SELECT count(*) FROM pg_replication_slots;";

async fn log(stage: &SqlStage, token: &str, source: &Value) {
    let log = json!({
        "schedule": NEVER, "retry": { "limit": 0, "deadline": "1800s" }, "retention": { "maxAge": "15d" },
        "source": source, "method": "Wal",
    });
    stage.create::<DatabaseBackup>(NAME, log).await;
    stage.backup_now(token).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_object_drops_its_replication_slot() {
    let stage = SqlStage::new("slots", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let line = "COPY (SELECT 'host replication all all scram-sha-256') TO PROGRAM 'cat >> /tmp/data/pg_hba.conf';";
    let limit = "ALTER SYSTEM SET max_slot_wal_keep_size = '2GB';";
    stage.ask(&format!("{limit}\n{line}\nSELECT pg_reload_conf();")).await;

    log(&stage, "first", &stage.server(&json!({}))).await;
    stage.has_backups(1).await;
    assert_eq!(stage.ask(SLOTS).await, "1");
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    assert_eq!(stage.ask(SLOTS).await, "0", "{:?}", stage.events(NAME).await);
    stage.has_event(NAME, "Retained", "the server has dropped replication slot causeway_").await;

    log(&stage, "second", &stage.server(&json!({}))).await;
    stage.has_backups(1).await;
    let refuse = Patch::Merge(json!({ "metadata": { "labels": { "causeway.example.com/usable-by": null } } }));
    let secrets = stage.api::<Secret>();
    secrets.patch(LOGIN, &PatchParams::default(), &refuse).await.expect("the label goes");
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    assert_eq!(stage.ask(SLOTS).await, "1");
    stage.has_event(NAME, "Retained", "SELECT pg_drop_replication_slot('causeway_").await;
    stage.has_event(NAME, "Retained", LOGIN).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_backup_before_the_first_log_can_be_recovered() {
    let mut stage = SqlStage::new("slots-order", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let line = "COPY (SELECT 'host replication all all scram-sha-256') TO PROGRAM 'cat >> /tmp/data/pg_hba.conf';";
    let limit = "ALTER SYSTEM SET max_slot_wal_keep_size = '2GB';";
    let fill = "CREATE DATABASE shop;\n\\c shop\nCREATE TABLE orders AS SELECT i FROM generate_series(1, 100) i;";
    stage.ask(&format!("{limit}\n{line}\nSELECT pg_reload_conf();\n{fill}")).await;
    let source = stage.server(&json!({}));
    let log = json!({ "schedule": NEVER, "retention": { "maxAge": "15d" }, "source": source, "method": "Wal" });
    stage.create::<DatabaseBackup>(NAME, log).await;
    stage.back_up_as("base", &source, &json!({ "method": "BaseBackup" })).await;
    let bases = stage.api::<DatabaseBackup>();
    let look = || async { bases.get("base").await.expect("the object").status.unwrap_or_default() };
    let taken = |status: &DatabaseBackupStatus| {
        assert!(status.last_failure.is_none(), "{status:?}");
        !status.recent.is_empty()
    };
    wait_within(WAIT_TIMEOUT, "a base backup", look, taken).await;
    assert_eq!(stage.ask(SLOTS).await, "1", "the server keeps the log before it is backed up for the first time");

    // Several segments pass before the first backup of the log.
    stage
        .ask("\\c shop\nSELECT pg_switch_wal(); INSERT INTO orders VALUES (101); SELECT pg_switch_wal(); CHECKPOINT;")
        .await;
    stage.backup_now("first").await;
    stage.has_backups(1).await;
    stage.replace().await;
    let fields = json!({ "from": { "backup": "base" }, "pointInTime": {} });
    let back = stage.restore_as("back", &stage.server(&json!({})), &fields).await;
    assert_eq!((back.phase, back.keys), (RestorePhase::Succeeded, Some(101)), "{back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_without_dropping_its_slot() {
    let stage = SqlStage::new("slots-gone", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    // The server has no limit on what slots keep yet.
    log(&stage, "first", &stage.server(&json!({}))).await;
    let failed = |status: &DatabaseBackupStatus| status.last_failure.is_some();
    stage.becomes("a failure", failed).await;
    let client = stage.api::<DatabaseBackup>().into_client();
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete(&stage.namespace, &DeleteParams::default()).await.expect("the namespace goes");
    stage.gone::<DatabaseBackup>(NAME).await;
}
