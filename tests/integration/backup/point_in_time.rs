//! PostgreSQL as it was at an instant: base backups and the log since, in a new server.

use causeway_api::databasebackup::KeptBy;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::sql_postgres::POSTGRES;
use super::sql_stage::{PASSWORD, SqlStage};
use super::stage::{NAME, NEVER, WAIT_TIMEOUT, describe};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// Makes a new server out of what was fetched into `$1`, waits until it takes clients, and asks it `$2`. Prints the log
/// of a server that ends before.
const RECOVER: &str = "sh /restore/$1/recover.sh /tmp/$1
postgres -D /tmp/$1 -k /tmp -c listen_addresses= -c fsync=off > /tmp/log 2>&1 &
until [ \"$(psql -h /tmp -U postgres -XAtc 'SELECT pg_is_in_recovery()' 2> /tmp/psql)\" = f ]; do
    kill -0 $! 2> /tmp/psql || { tail -n 20 /tmp/log; exit 1; }
    sleep 0.2
done
psql -h /tmp -U postgres -XAt -v ON_ERROR_STOP=1 -c \"$2\"
kill $! && wait
";

/// The container that fetches what a new server needs, in the server's own pod.
fn fetch(stage: &SqlStage, key: &str, name: &str, until: Option<&str>) -> Value {
    let image = std::env::var("CAUSEWAY_TEST_IMAGE").unwrap_or_else(|_| "causeway:dev".into());
    let (bucket, into) = (stage.bucket(), format!("/restore/{name}"));
    let mut args = vec!["backups", "recover", "--bucket", &bucket, "--prefix", &stage.namespace, "--trusted-key", key];
    args.extend(["--into", &into]);
    args.extend(until.iter().flat_map(|until| ["--until", until]));
    json!({
        "name": name, "image": image, "args": args, "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{ "name": "restore", "mountPath": "/restore" }],
        "env": [
            { "name": "AWS_ENDPOINT_URL", "value": stage.emulator.endpoint() },
            { "name": "AWS_REGION", "value": "us-east-1" },
            { "name": "AWS_ACCESS_KEY_ID", "value": stage.emulator.account() },
            { "name": "AWS_SECRET_ACCESS_KEY", "value": "test" },
        ],
    })
}

/// The answers of two new servers: one as of the instant, and one with the whole log.
async fn recovered(stage: &SqlStage, key: &str, until: &str, question: &str) -> String {
    let script = format!(
        "recover() {{\n{RECOVER}}}\n(recover then '{question}'; recover all '{question}') > /dev/termination-log 2>&1"
    );
    let pod = json!({
        "metadata": { "name": "recovered" },
        "spec": {
            "terminationGracePeriodSeconds": 0, "restartPolicy": "Never",
            "securityContext": { "runAsUser": 999, "runAsGroup": 999, "fsGroup": 999 },
            "volumes": [{ "name": "restore", "emptyDir": {} }],
            "initContainers": [fetch(stage, key, "then", Some(until)), fetch(stage, key, "all", None)],
            "containers": [{
                "name": "main", "image": POSTGRES.image, "command": ["sh", "-ec", script.replace("$$", "$$$$")],
                "env": [{ "name": "PGPASSWORD", "value": PASSWORD }],
                "volumeMounts": [{ "name": "restore", "mountPath": "/restore" }],
            }],
        },
    });
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    stage.api::<Pod>().create(&PostParams::default(), &pod).await.expect("the pod is taken");
    stage.end("recovered").await
}

/// Takes another base backup, and waits until it is the only one; returns its ID.
async fn only_base(stage: &SqlStage, token: &str, before: &str) -> String {
    let now = Patch::Merge(json!({ "metadata": { "annotations": { "causeway.example.com/backup-now": token } } }));
    let bases = stage.api::<DatabaseBackup>();
    bases.patch("base", &PatchParams::default(), &now).await.expect("the annotation is taken");
    let look = || async { bases.get("base").await.expect("the object").status.unwrap_or_default() };
    let status = wait_within(WAIT_TIMEOUT, "one base backup, another one", look, |status| {
        assert!(status.last_failure.is_none(), "{status:?}");
        status.recent.len() == 1 && status.recent[0].id != before
    });
    status.await.recent[0].id.clone()
}

/// Kills the pod that receives log.
async fn kill_receiver(stage: &SqlStage) {
    let api = stage.api::<Pod>();
    let selector = ListParams::default().labels(&format!("causeway.example.com/backup={NAME}"));
    let running = || async {
        let pods = api.list(&selector).await.expect("pods").items;
        let is_running = |pod: &Pod| pod.status.as_ref().and_then(|it| it.phase.as_deref()) == Some("Running");
        pods.into_iter().find(is_running).map(|pod| pod.name_any())
    };
    let name = wait_within(WAIT_TIMEOUT, "a pod that receives log", running, Option::is_some).await.expect("just seen");
    api.delete(&name, &DeleteParams::default().grace_period(0)).await.expect("the pod goes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_receiver_of_log_loses_nothing() {
    let stage = SqlStage::new("pitr", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let log = json!({
        "schedule": NEVER, "retry": { "limit": 1, "deadline": "1800s" }, "retention": { "maxAge": "15d" },
        "source": stage.server(&json!({})), "method": "Wal",
    });
    stage.create::<DatabaseBackup>(NAME, log).await;
    // A missing requirement is reported before the server keeps any log for the object.
    let fails = async |reason: &str, words: &str| {
        let failed = |status: &DatabaseBackupStatus| status.last_failure.as_ref().is_some_and(|it| it.reason == reason);
        let status = stage.becomes(reason, failed).await.status.expect("a status");
        let message = status.last_failure.expect("just seen").message;
        assert!(message.contains(words), "{message}");
    };
    stage.backup_now("unbounded").await;
    fails("SlotUnbounded", "ALTER SYSTEM SET max_slot_wal_keep_size").await;
    stage.ask("ALTER SYSTEM SET max_slot_wal_keep_size = '2GB'; SELECT pg_reload_conf();").await;
    stage.backup_now("no-line").await;
    fails("RightsMissing", "host replication \"postgres\"").await;
    let line = "COPY (SELECT 'host replication all all scram-sha-256') TO PROGRAM 'cat >> /tmp/data/pg_hba.conf';";
    let fill = "CREATE TABLE orders AS SELECT i FROM generate_series(1, 1000) i;";
    stage.ask(&format!("{line}\nSELECT pg_reload_conf();\n{fill}")).await;
    stage.backup_now("first").await;
    stage.has_backups(1).await;
    let is_kept = |status: &DatabaseBackupStatus| {
        let kept = status.databases.first().and_then(|it| it.kept_log.as_ref());
        kept.is_some_and(|it| (0..64 << 20).contains(&it.bytes) && (1 << 30..3 << 30).contains(&it.bytes_until_lost))
    };
    stage.becomes("what the server keeps, now that the log is in S3", is_kept).await;

    let base = json!({ "schedule": NEVER, "source": stage.server(&json!({})), "method": "BaseBackup" });
    stage.create::<DatabaseBackup>("base", base).await;
    let now = Patch::Merge(json!({ "metadata": { "annotations": { "causeway.example.com/backup-now": "once" } } }));
    let bases = stage.api::<DatabaseBackup>();
    bases.patch("base", &PatchParams::default(), &now).await.expect("the annotation is taken");
    let look = || async { bases.get("base").await.expect("the object").status.unwrap_or_default() };
    wait_within(WAIT_TIMEOUT, "a base backup", look, |status| {
        assert!(status.last_failure.is_none(), "{status:?}");
        !status.recent.is_empty()
    })
    .await;
    let until = stage
        .ask(
            "INSERT INTO orders SELECT i FROM generate_series(1001, 2000) i;
            SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"');",
        )
        .await;
    // Enough log that receiving it takes a while.
    stage
        .ask("DELETE FROM orders WHERE i % 2 = 0; INSERT INTO orders SELECT i FROM generate_series(2001, 3000000) i;")
        .await;
    stage.backup_now("killed").await;
    kill_receiver(&stage).await;
    stage.has_backups(2).await;
    stage.has_signatures(3).await;

    // From here on, the server is not needed any more.
    let slots = "SELECT count(*), bool_and(restart_lsn > '0/8000000') FROM pg_replication_slots;";
    assert_eq!(stage.ask(slots).await, "1|t", "the slot lets the server delete the log that is in S3");
    stage.api::<Pod>().delete("server", &DeleteParams::default().grace_period(0)).await.expect("the server goes");
    let key = stage.has_backups(2).await.signing_key.expect("a public key");
    let found = recovered(&stage, &key, &until, "SELECT count(*), sum(i) FROM orders").await;
    let all = 1000 + 2_998_000;
    let sum = 1000_u64 * 1000 + (2001..=3_000_000_u64).sum::<u64>();
    assert_eq!(found, format!("2000|2001000\n{all}|{sum}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unneeded_log_goes_and_recovery_still_works() {
    let stage = SqlStage::new("pitr-log", &POSTGRES).await;
    let _operator = Operator::start(&stage).await;
    let line = "COPY (SELECT 'host replication all all scram-sha-256') TO PROGRAM 'cat >> /tmp/data/pg_hba.conf';";
    let limit = "ALTER SYSTEM SET max_slot_wal_keep_size = '2GB';";
    let fill = "CREATE TABLE orders AS SELECT i FROM generate_series(1, 1000) i;";
    stage.ask(&format!("{limit}\n{line}\nSELECT pg_reload_conf();\n{fill}")).await;
    let spec = |method: &str, retention: Value| {
        let retry = json!({ "limit": 1, "deadline": "1800s" });
        let source = stage.server(&json!({}));
        json!({ "schedule": NEVER, "retry": retry, "retention": retention, "source": source, "method": method })
    };
    stage.create::<DatabaseBackup>(NAME, spec("Wal", json!({}))).await;
    stage.backup_now("first").await;
    let status = stage.has_backups(1).await;
    assert_eq!(describe(&status, "LogNotDeleted"), ("True".into(), "BaseBackupMissing".into()), "{status:?}");
    let first = status.recent[0].id.clone();
    stage.create::<DatabaseBackup>("base", spec("BaseBackup", json!({ "keepLast": 1 }))).await;
    let base = only_base(&stage, "first", "").await;
    stage.backup_now("second").await;
    let second = stage.has_backups(2).await.recent[0].id.clone();
    // The first base backup is deleted. The log that only it needed is deleted with the next backup of the log.
    only_base(&stage, "second", &base).await;
    let until = stage
        .ask(
            "INSERT INTO orders SELECT i FROM generate_series(1001, 2000) i;
            SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"');",
        )
        .await;
    stage.ask("DELETE FROM orders WHERE i % 2 = 0;").await;
    stage.backup_now("third").await;
    let ids = |status: &DatabaseBackupStatus| status.recent.iter().map(|run| run.id.clone()).collect::<Vec<_>>();
    let is_gone = |status: &DatabaseBackupStatus| status.recent.len() == 2 && !ids(status).contains(&first);
    let status = stage.becomes("the oldest log to be gone", is_gone).await.status.expect("a status");
    assert_eq!(ids(&status)[1], second, "the last that no base backup needs stays");
    assert!(status.recent.iter().all(|run| run.kept_by.contains(&KeptBy::BaseBackup)), "{status:?}");
    for absent in ["LogNotDeleted", "LogBeginsTooLate"] {
        assert_eq!(describe(&status, absent), Default::default(), "{status:?}");
    }
    stage.has_signatures(3).await;
    let keys = stage.keys(&stage.bucket()).await;
    assert!(!keys.iter().any(|key| key.contains(&first)), "{keys:?}");
    let key = stage.has_backups(2).await.signing_key.expect("a public key");
    let found = recovered(&stage, &key, &until, "SELECT count(*), sum(i) FROM orders").await;
    assert_eq!(found, "2000|2001000\n1000|1000000");
}
