//! An attacker who may write into the bucket forges backups: none of them counts, none displaces a real one, and none
//! is restored.

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestore, DatabaseRestoreStatus};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::backup::control_restore::ended;
use crate::backup::stage::{NAME, NEVER, Stage, describe, redis_command};
use crate::support::{Operator, wait_for};

const EVIL: &str = "5000/evil/redis:pwn";
/// An ID later than all others.
const FUTURE: &str = "20991231T000000Z";
/// The public key of an identity that no test has.
const RECIPIENT: &str = "age1ljmwwkts2649rkhmf3tu0nk6vfz849ync5ynh5tjgqzzke2pz90sww4d6y";

/// The content of an object in S3.
async fn read(stage: &Stage, key: &str) -> Vec<u8> {
    let object = stage.s3.get_object().bucket(stage.bucket()).key(key).send().await.expect("the object");
    object.body.collect().await.expect("its bytes").to_vec()
}

async fn write(stage: &Stage, key: &str, bytes: Vec<u8>) {
    stage.s3.put_object().bucket(stage.bucket()).key(key).body(bytes.into()).send().await.expect("written");
}

/// Puts a copy of a backup where another one would be, with a changed manifest.
async fn forge(stage: &Stage, folder: &str, real: &str, id: &str, change: impl FnOnce(&mut Value)) {
    let data = read(stage, &format!("{folder}/{real}/data")).await;
    let manifest = read(stage, &format!("{folder}/{real}/manifest.json")).await;
    let mut manifest: Value = serde_json::from_slice(&manifest).expect("a manifest");
    manifest["id"] = id.into();
    change(&mut manifest);
    write(stage, &format!("{folder}/{id}/data"), data).await;
    write(stage, &format!("{folder}/{id}/manifest.json"), manifest.to_string().into_bytes()).await;
}

/// The reason and message of a restore that is refused.
async fn refused(stage: &Stage, name: &str, mut from: Value) -> (String, String) {
    from["backup"] = NAME.into();
    let spec = json!({ "from": from, "target": { "redisServer": { "address": "127.0.0.1:1" } } });
    stage.create::<DatabaseRestore>(name, spec).await;
    let api = stage.api::<DatabaseRestore>();
    let look = || async { api.get(name).await.expect("the object").status.unwrap_or_default() };
    let is_refused = |status: &DatabaseRestoreStatus| status.phase == RestorePhase::Failed;
    let status = wait_for(&format!("{name} to be refused"), look, is_refused).await;
    let job = stage.api::<Job>().get_opt(&format!("{name}-restore")).await.expect("an answer");
    assert!(job.is_none(), "{name} has a Job");
    let stalled = status.conditions.iter().find(|it| it.type_ == "Stalled" && it.status == "True");
    assert!(stalled.is_some(), "{status:?}");
    (status.reason.unwrap_or_default(), status.message.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_backups_replace_no_real_ones_and_are_not_restored() {
    let stage = Stage::new("security-forged").await;
    let _operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "retention": { "keepLast": 2 } })).await;
    stage.backup_now("one").await;
    let status = stage.has_backups(1).await;
    let first = status.recent[0].id.clone();
    let folder = format!("{}/redis-cache", status.prefix.expect("a prefix"));

    // The forged ID is later than the real one, and before now.
    let mut second: i64 = first[9..15].parse().expect("digits");
    second = if second % 100 == 59 { second - 1 } else { second + 1 };
    let (evil, foreign) = (format!("{}T{second:06}Z", &first[..8]), "20261101T000000Z");
    forge(&stage, &folder, &first, &evil, |manifest| manifest["version"] = EVIL.into()).await;
    forge(&stage, &folder, &first, foreign, |manifest| manifest["id"] = first.as_str().into()).await;
    forge(&stage, &folder, &first, FUTURE, |_| ()).await;
    for number in 1..4 {
        forge(&stage, &folder, &first, &format!("20991231T00000{number}Z"), |_| ()).await;
    }
    for token in ["two", "three"] {
        stage.backup_now(token).await;
        stage.becomes(token, |status| status.backup_now.as_deref() == Some(token)).await;
        let what = format!("the backup of {token}");
        stage.becomes(&what, |status| status.ended.len() >= if token == "two" { 2 } else { 3 }).await;
    }
    let has_two = |status: &DatabaseBackupStatus| status.backups == 2 && status.recent.len() == 2;
    let status = stage.becomes("two real backups", has_two).await.status.expect("a status");
    let real: Vec<String> = status.recent.iter().map(|run| run.id.clone()).collect();
    assert!(real.iter().all(|id| *id != first && *id != evil && !id.starts_with("2099")), "{real:?}");
    let keys = stage.keys(&stage.bucket()).await;
    for id in real.iter().map(String::as_str).chain([evil.as_str(), foreign, FUTURE]) {
        assert!(keys.contains(&format!("{folder}/{id}/manifest.json")), "{id} is there: {keys:?}");
    }
    assert_eq!(describe(&status, "UnrecordedBackups"), ("True".into(), "NotRecorded".into()));
    let found = status.conditions.iter().find(|it| it.type_ == "UnrecordedBackups").expect("a condition");
    assert!(found.message.contains("is due in the future") && found.message.contains("aws s3 rm"), "{}", found.message);

    for (name, id, words) in [
        ("evil", evil.as_str(), "was reported by no Job"),
        ("foreign", foreign, "was reported by no Job"),
        ("future", FUTURE, "is due in the future"),
    ] {
        let (reason, text) = refused(&stage, name, json!({ "id": id })).await;
        assert_eq!(reason, "NotRecorded", "{text}");
        assert!(text.contains(words) && text.contains(id), "{text}");
    }
    // Even `acceptUnrecorded` does not accept manifests that are invalid or due in the future.
    let trusting = |id: &str| json!({ "id": id, "acceptUnrecorded": true });
    let (reason, text) = refused(&stage, "trusts-evil", trusting(&evil)).await;
    assert_eq!(reason, "ManifestInvalid", "{text}");
    assert!(text.contains("version") && text.contains(EVIL), "{text}");
    let (reason, text) = refused(&stage, "trusts-foreign", trusting(foreign)).await;
    assert_eq!(reason, "ManifestInvalid", "{text}");
    assert!(text.contains("its id is") && text.contains(&first), "{text}");
    let (reason, text) = refused(&stage, "trusts-future", trusting(FUTURE)).await;
    assert_eq!(reason, "NotRecorded", "{text}");

    // A real manifest, overwritten.
    let key = format!("{folder}/{}/manifest.json", real[1]);
    let mut manifest: Value = serde_json::from_slice(&read(&stage, &key).await).expect("a manifest");
    manifest["contents"]["keys"] = 2.into();
    write(&stage, &key, manifest.to_string().into_bytes()).await;
    let (reason, text) = refused(&stage, "changed", json!({ "id": real[1] })).await;
    assert_eq!(reason, "ManifestChanged", "{text}");

    stage.edit::<DatabaseBackup>(NAME, json!({ "encryption": { "recipients": [RECIPIENT] } })).await;
    let (reason, text) = refused(&stage, "plain", json!({ "id": real[0] })).await;
    assert_eq!(reason, "NotEncrypted", "{text}");
    let jobs = stage.api::<Job>().list(&ListParams::default()).await.expect("Jobs").items;
    assert!(jobs.iter().all(|job| !format!("{:?}", job.spec).contains("evil")), "no pod has that image");
}

/// The cluster is lost, or the object was made again: it has another uid, and the operator's record may be gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_of_a_deleted_object_need_its_record_or_consent() {
    let stage = Stage::new("security-recovery").await;
    let _operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    let spec = json!({ "schedule": NEVER, "source": { "redis": { "name": "cache" } } });
    let object = stage.create::<DatabaseBackup>(NAME, spec.clone()).await;
    let uid = object.uid().expect("a uid");
    stage.backup_now("one").await;
    stage.has_backups(1).await;
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    let again = stage.create::<DatabaseBackup>(NAME, spec).await;
    assert_ne!(again.meta().uid.as_deref(), Some(uid.as_str()));

    let restored = async |name: &str, from: Value| {
        let () = redis_command(&address, &["SET", "greeting", "lost"]).await;
        let spec = json!({ "from": from, "target": { "redis": { "name": "cache" } }, "force": true });
        stage.create::<DatabaseRestore>(name, spec).await;
        let status = ended(&stage, name).await;
        assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
        assert_eq!(redis_command::<String>(&address, &["GET", "greeting"]).await, "hello", "{name}");
    };
    restored("by-record", json!({ "backup": NAME, "uid": uid })).await;
    let record = format!("causeway-backups-{uid}");
    stage.api::<ConfigMap>().delete(&record, &DeleteParams::default()).await.expect("the record goes");
    let (reason, text) = refused(&stage, "without", json!({ "uid": uid })).await;
    assert_eq!(reason, "NotRecorded", "{text}");
    assert!(text.contains(&record) && text.contains("acceptUnrecorded: true"), "{text}");
    restored("by-consent", json!({ "backup": NAME, "uid": uid, "acceptUnrecorded": true })).await;
}
