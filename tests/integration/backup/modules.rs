//! Data of Redis modules are backed up, proven and restored by servers that load the modules, too.

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestore};
use serde_json::json;

use super::control_restore::ended;
use super::stage::{NAME, NEVER, Stage, redis_command};
use crate::support::Operator;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_of_modules_return_where_they_are_loaded() {
    let stage = Stage::new("backup-modules").await;
    let _operator = Operator::start(&stage).await;
    let with = json!({ "replicas": 0, "modules": [{ "path": "/usr/lib/redis/modules/redisearch.so" }] });
    let from = stage.redis_of("cache", with.clone()).await;
    let () = redis_command(&from, &["FT.CREATE", "books", "SCHEMA", "title", "TEXT"]).await;
    let () = redis_command(&from, &["FT.ADD", "books", "book-1", "1.0", "FIELDS", "title", "hello world"]).await;
    let source = json!({ "redis": { "name": "cache" } });
    stage
        .create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "source": source, "verify": { "afterEach": true } }))
        .await;
    stage.backup_now("one").await;
    let proven = |status: &DatabaseBackupStatus| status.verified.first().is_some_and(|it| it.ok);
    stage.becomes("the backup to be proven", proven).await;

    let to = stage.redis_of("other", with).await;
    let restore = |name: &str| json!({ "from": { "backup": NAME }, "target": { "redis": { "name": name } } });
    stage.create::<DatabaseRestore>("back", restore("other")).await;
    let status = ended(&stage, "back").await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    let found: (u64, String) = redis_command(&to, &["FT.SEARCH", "books", "hello", "NOCONTENT"]).await;
    assert_eq!(found, (1, "book-1".to_owned()));

    stage.redis("plain").await;
    stage.create::<DatabaseRestore>("lacking", restore("plain")).await;
    let status = ended(&stage, "lacking").await;
    let message = status.message.clone().unwrap_or_default();
    assert_eq!(status.phase, RestorePhase::Failed, "{status:?}");
    assert!(message.contains("spec.modules"), "{message}");
}
