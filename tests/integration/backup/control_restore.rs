//! Backups that are restored.

use aws_sdk_s3::types::StorageClass;
use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseRestore, DatabaseRestoreStatus};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use super::stage::{NAME, Stage, WAIT_TIMEOUT, redis_command};
use crate::support::wait::wait_within;
use crate::support::{Operator, wait_for};

/// Waits until a restore has ended.
pub async fn ended(stage: &Stage, name: &str) -> DatabaseRestoreStatus {
    let api = stage.api::<DatabaseRestore>();
    let look = || async { api.get(name).await.expect("the object").status.unwrap_or_default() };
    wait_within(WAIT_TIMEOUT, &format!("{name} to end"), look, |status| status.phase.is_final()).await
}

fn spec(target: &Value) -> Value {
    json!({ "from": { "backup": NAME }, "target": target })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_comes_back_key_by_key_and_only_once() {
    let stage = Stage::new("restore-redis").await;
    let _operator = Operator::start(&stage).await;
    let from = stage.redis("cache").await;
    for number in 0..50 {
        let () = redis_command(&from, &["SET", &format!("key-{number}"), &format!("value-{number}")]).await;
    }
    let _: i64 = redis_command(&from, &["RPUSH", "list", "a", "b", "c"]).await;
    let id = stage.backed_up(json!({ "redis": { "name": "cache" } })).await.recent[0].id.clone();

    let to = stage.redis("other").await;
    stage.create::<DatabaseRestore>("back", spec(&json!({ "redis": { "name": "other" } }))).await;
    let status = ended(&stage, "back").await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
    assert_eq!((status.keys, status.backup_id.as_deref()), (Some(51), Some(id.as_str())));
    let list: Vec<String> = redis_command(&to, &["LRANGE", "list", "0", "-1"]).await;
    assert_eq!(list, ["a", "b", "c"]);
    let value: String = redis_command(&to, &["GET", "key-49"]).await;
    assert_eq!(value, "value-49");

    // A restore is done once: whatever happens to its Job, nothing is written again.
    let _: String = redis_command(&to, &["SET", "key-49", "newer"]).await;
    stage.api::<Job>().delete("back-restore", &DeleteParams::background()).await.expect("the Job goes");
    stage.gone::<Job>("back-restore").await;

    // A target that is not empty is refused, unless forced.
    stage.create::<DatabaseRestore>("again", spec(&json!({ "redis": { "name": "other" } }))).await;
    let status = ended(&stage, "again").await;
    assert_eq!(status.phase, RestorePhase::Failed);
    assert!(status.message.is_some_and(|message| message.contains("TargetNotEmpty")));
    let mut forced = spec(&json!({ "redis": { "name": "other" } }));
    forced["force"] = json!(true);
    stage.create::<DatabaseRestore>("forced", forced).await;
    assert_eq!(ended(&stage, "forced").await.phase, RestorePhase::Succeeded);
    let value: String = redis_command(&to, &["GET", "key-49"]).await;
    assert_eq!(value, "value-49");
    assert!(stage.api::<Job>().get_opt("back-restore").await.expect("an answer").is_none(), "it was not made again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_archived_backup_leaves_the_target() {
    let stage = Stage::new("restore-archived").await;
    let _operator = Operator::start(&stage).await;
    let from = stage.redis("cache").await;
    let _: String = redis_command(&from, &["SET", "key", "value"]).await;
    let status = stage.backed_up(json!({ "redis": { "name": "cache" } })).await;
    let (id, prefix) = (&status.recent[0].id, status.prefix.as_deref().expect("a prefix"));
    let (bucket, key) = (stage.bucket(), format!("{prefix}/redis-cache/{id}/data"));
    let source = format!("{bucket}/{key}");
    // As a lifecycle rule of others does it.
    let archive = stage.s3.copy_object().bucket(&bucket).key(&key).copy_source(source);
    archive.storage_class(StorageClass::Glacier).send().await.expect("the class changes");
    let to = stage.redis("other").await;
    let _: String = redis_command(&to, &["SET", "theirs", "stays"]).await;
    let mut forced = spec(&json!({ "redis": { "name": "other" } }));
    forced["force"] = json!(true);
    stage.create::<DatabaseRestore>("back", forced).await;
    let status = ended(&stage, "back").await;
    assert_eq!(status.phase, RestorePhase::Failed, "{status:?}");
    let message = status.message.unwrap_or_default();
    assert!(message.contains("Glacier") && message.contains("aws s3api restore-object"), "{message}");
    let theirs: String = redis_command(&to, &["GET", "theirs"]).await;
    assert_eq!(theirs, "stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_comes_back_key_by_key() {
    let stage = Stage::new("restore-etcd").await;
    let _operator = Operator::start(&stage).await;
    futures::join!(stage.etcd("prod-etcd"), stage.etcd("other"));
    let mut from = etcd(&stage, "prod-etcd").await;
    for number in 0..200 {
        from.put(format!("key-{number}"), format!("value-{number}"), None).await.expect("a write");
    }
    stage.backed_up(json!({ "etcdCluster": { "name": "prod-etcd" } })).await;
    stage.create::<DatabaseRestore>("back", spec(&json!({ "etcdCluster": { "name": "other" } }))).await;
    let status = ended(&stage, "back").await;
    assert_eq!((status.phase, status.keys), (RestorePhase::Succeeded, Some(200)), "{status:?}");
    let mut to = etcd(&stage, "other").await;
    let answer = to.get("key-199", None).await.expect("an answer");
    assert_eq!(answer.kvs().first().map(|pair| pair.value().to_vec()), Some(b"value-199".to_vec()));
}

/// A connection to an etcd of the stage.
pub async fn etcd(stage: &Stage, name: &str) -> etcd_client::Client {
    let selector = ListParams::default().labels(&format!("causeway.example.com/etcd={name}"));
    let pods = stage.api::<Pod>().list(&selector).await.expect("pods").items;
    let address = pods.first().and_then(|pod| pod.status.as_ref()?.pod_ip.clone()).expect("an address");
    etcd_client::Client::connect([format!("http://{address}:2379")], None).await.expect("a connection")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_waited_for_in_words() {
    let stage = Stage::new("restore-waits").await;
    let _operator = Operator::start(&stage).await;
    stage.create::<DatabaseRestore>("back", spec(&json!({ "redis": { "name": "cache" } }))).await;
    let api = stage.api::<DatabaseRestore>();
    let look = || async {
        let status = api.get("back").await.expect("the object").status.unwrap_or_default();
        (status.phase, status.message.unwrap_or_default())
    };
    let (phase, _) =
        wait_for("the missing Redis", look, |(_, message)| message.contains("there is no Redis cache")).await;
    assert_eq!(phase, RestorePhase::Pending);
    stage.redis("cache").await;
    wait_for("the missing backup", look, |(_, message)| message.contains("there is no DatabaseBackup nightly")).await;
}
