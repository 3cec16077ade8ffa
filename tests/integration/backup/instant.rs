//! PostgreSQL as it was at an instant, by the operator: the base backup and the log are restored in a temporary server,
//! and copied from there into another one.

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestoreStatus};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::sql_postgres::POSTGRES;
use super::sql_stage::SqlStage;
use super::stage::{NAME, NEVER, WAIT_TIMEOUT};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// The object with base backups. The other object has the log.
const BASE: &str = "base";
/// The settings that the server needs, and the first rows. It would not start again with that library: the temporary server,
/// which is only read, has to start without it.
const FILL: &str = "ALTER SYSTEM SET max_slot_wal_keep_size = '2GB';
COPY (SELECT 'host replication all all scram-sha-256') TO PROGRAM 'cat >> /tmp/data/pg_hba.conf';
ALTER SYSTEM SET shared_preload_libraries = 'no_such_library';
SELECT pg_reload_conf();
CREATE ROLE app LOGIN;
CREATE DATABASE shop OWNER app;
\\c shop
SET ROLE app;
CREATE TABLE orders AS SELECT i FROM generate_series(1, 1000) i;
CREATE INDEX ON orders (i);
RESET ROLE;";

/// Takes the base backup, and waits until it was proven.
async fn has_proven_base(stage: &SqlStage) {
    let now = Patch::Merge(json!({ "metadata": { "annotations": { "causeway.example.com/backup-now": "once" } } }));
    let api = stage.api::<DatabaseBackup>();
    api.patch(BASE, &PatchParams::default(), &now).await.expect("the annotation is taken");
    let look = || async { api.get(BASE).await.expect("the object").status.unwrap_or_default() };
    let proven = |status: &DatabaseBackupStatus| {
        assert!(status.last_failure.is_none(), "{status:?}");
        !status.verified.is_empty()
    };
    let status = wait_within(WAIT_TIMEOUT, "a base backup that was tried", look, proven).await;
    assert!(status.verified[0].ok, "{:?}", status.verified);
    assert!(status.verified[0].message.contains("with 1000 keys"), "{:?}", status.verified);
}

async fn restore(stage: &SqlStage, name: &str, instant: Value, others: &Value) -> DatabaseRestoreStatus {
    let mut fields = json!({ "from": { "backup": BASE }, "pointInTime": instant });
    for (field, value) in others.as_object().into_iter().flatten() {
        fields[field] = value.clone();
    }
    stage.restore_as(name, &stage.server(&json!({})), &fields).await
}

async fn is_refused(stage: &SqlStage, name: &str, instant: Value, reason: &str, words: &str) {
    let status = restore(stage, name, instant, &json!({})).await;
    assert_eq!((status.phase, status.reason.as_deref()), (RestorePhase::Failed, Some(reason)), "{status:?}");
    let message = status.message.unwrap_or_default();
    assert!(message.contains(words) && status.job.is_none(), "{message}");
}

/// Deletes one of the backups of the log, as any client can that may delete in the bucket.
async fn lose_second_log(stage: &SqlStage) -> String {
    let keys: Vec<String> = stage.keys(&stage.bucket()).await;
    let mut log: Vec<&String> = keys.iter().filter(|key| key.contains("/postgresql-wal/")).collect();
    log.sort();
    let mut ids: Vec<&str> = log.iter().filter_map(|key| key.rsplit('/').nth(1)).collect();
    ids.dedup();
    let [first, second, _] = ids.as_slice() else { panic!("three backups of the log: {ids:?}") };
    for key in log.iter().filter(|key| key.contains(second)) {
        stage.s3.delete_object().bucket(stage.bucket()).key(*key).send().await.expect("it goes");
    }
    (*first).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_returns_to_an_instant_or_names_gaps() {
    let mut stage = SqlStage::new("instant", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    stage.ask(FILL).await;
    let source = stage.server(&json!({}));
    let log = json!({ "schedule": NEVER, "retention": { "maxAge": "15d" }, "source": source, "method": "Wal" });
    stage.create::<DatabaseBackup>(NAME, log).await;
    stage.backup_now("first").await;
    stage.has_backups(1).await;
    let base = json!({
        "schedule": NEVER, "source": source, "method": "BaseBackup", "verify": { "afterEach": true },
    });
    stage.create::<DatabaseBackup>(BASE, base).await;
    has_proven_base(&stage).await;
    let until = stage
        .ask(
            "\\c shop
            INSERT INTO orders SELECT i FROM generate_series(1001, 2000) i;
            SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"');",
        )
        .await;
    stage.ask("\\c shop\nDELETE FROM orders WHERE i % 2 = 0; CREATE TABLE later (i int);").await;
    for (token, count) in [("second", 2), ("third", 3)] {
        stage.backup_now(token).await;
        stage.has_backups(count).await;
    }
    // The base backup is signed, too: a restore from the bucket has nothing else to trust it by.
    stage.has_signatures(4).await;
    stage.replace().await;

    is_refused(&stage, "too-late", json!({ "until": "2099-01-01T00:00:00Z" }), "LogTooShort", "the log ends at").await;
    is_refused(
        &stage,
        "too-early",
        json!({ "until": "2020-01-01T00:00:00Z" }),
        "BaseBackupMissing",
        "the earliest that counts only at",
    )
    .await;
    is_refused(&stage, "no-log", json!({ "log": BASE }), "MethodMismatch", "method: Wal").await;

    // This restores from the bucket alone, without the two objects.
    let bucket = json!({ "from": { "s3": { "bucket": stage.bucket() } }, "dryRun": true });
    let planned = restore(&stage, "look", json!({}), &bucket).await;
    assert_eq!(planned.phase, RestorePhase::Planned, "{planned:?}");
    assert_eq!(planned.recovered_to.map(|it| (it.until, it.log_backups)), Some((None, 3)));
    let text = planned.message.unwrap_or_default();
    assert!(text.contains("create 2 tables") && text.contains("create 1000 rows"), "{text}");

    let back = restore(&stage, "back", json!({ "until": until }), &json!({})).await;
    assert_eq!((back.phase, back.keys), (RestorePhase::Succeeded, Some(2000)), "{back:?}");
    let to = back.recovered_to.expect("what it came back from");
    let (asked, reached) = (to.until.expect("an instant").0, to.reached.expect("a transaction").0);
    assert_eq!((asked, to.log_backups), (until.parse().expect("an instant"), 2));
    assert!(reached <= asked, "{reached} {asked}");
    let found = "\\c shop
        SELECT count(*), sum(i), to_regclass('later') IS NULL, min(tableowner) FROM orders, pg_tables WHERE tablename = 'orders';";
    assert_eq!(stage.ask(found).await, "2000|2001000|t|app");

    let first = lose_second_log(&stage).await;
    let words = format!("log is missing: backup {first} ends before segment");
    is_refused(&stage, "hole", json!({ "until": until }), "LogBroken", &words).await;
    // The bucket is read again when a Job has ended. This one fails: the server is another one.
    stage.backup_now("fourth").await;
    let told = |status: &DatabaseBackupStatus| {
        let mut conditions = status.conditions.iter();
        conditions.any(|it| it.type_ == "LogBroken" && it.status == "True" && it.message.contains(&words))
    };
    stage.becomes("a condition that says so", told).await;
}
