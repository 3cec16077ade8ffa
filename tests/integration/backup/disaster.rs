//! The cluster is gone, with every object, record and key. What is left is the bucket, and a public key that a user kept.

use std::process::Command;
use std::time::Duration;

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestore, Redis};
use causeway_backup::manifest::{due_of, id_of};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::control_restore::ended;
use super::sql_postgres::POSTGRES;
use super::sql_stage::SqlStage;
use super::stage::{Stage, redis_command};
use crate::support::wait::wait_within;
use crate::support::{Operator, operator, role};

/// A namespace is deleted with all that is in it, and pods take their time to end.
const GONE: Duration = Duration::from_mins(6);
/// A public key that no object here trusts.
const STRANGER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// Deletes the namespace, as if the cluster were gone with its etcd, and makes an empty one with the same name.
async fn lose(stage: &Stage) {
    // No operator is there that could clean up and remove the finalizers.
    let objects = stage.api::<DatabaseBackup>();
    for object in objects.list(&ListParams::default()).await.expect("objects").items {
        let free = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
        objects.patch(&object.name_any(), &PatchParams::default(), &free).await.expect("it may go");
    }
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    namespaces.delete(&stage.namespace, &DeleteParams::default()).await.expect("the namespace goes");
    let look = || async { namespaces.get_opt(&stage.namespace).await.expect("an answer") };
    wait_within(GONE, "the namespace to be gone", look, Option::is_none).await;
    let metadata = ObjectMeta { name: Some(stage.namespace.clone()), ..ObjectMeta::default() };
    let bare = Namespace { metadata, ..Namespace::default() };
    namespaces.create(&PostParams::default(), &bare).await.expect("a namespace");
}

/// The environment of a program that calls the stage's AWS account.
pub fn account(stage: &Stage) -> [(&'static str, String); 4] {
    [
        ("AWS_ENDPOINT_URL", stage.emulator.endpoint().to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", stage.emulator.account().to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
    ]
}

/// Runs the commands of docs/databasebackup.md, as a user who has the bucket and the public key, but no Causeway.
pub fn by_hand(stage: &Stage, place: &str, key: &str, then: &str) -> String {
    let directory = std::env::temp_dir().join(format!("causeway-by-hand-{}-{then:.4}", stage.namespace));
    std::fs::create_dir_all(&directory).expect("a directory");
    let script = format!(
        "B={place}; aws s3 cp --only-show-errors --recursive s3://{}/$B . >&2; echo \"causeway {key}\" > signers; \
         ssh-keygen -Y verify -f signers -I causeway -n causeway-backup:$B -s manifest.json.sig < manifest.json >&2; \
         grep -q $(sha256sum < data | cut -c1-64) manifest.json; zstd -q -d < data > plain; \
         grep -q $(sha256sum < plain | cut -c1-64) manifest.json; {then}",
        stage.bucket()
    );
    let done = Command::new("sh")
        .current_dir(&directory)
        .args(["-ec", &script])
        .envs(account(stage))
        .output()
        .expect("a shell");
    std::fs::remove_dir_all(&directory).expect("it is deleted");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// Returns what `causeway backups ls` prints: it needs the bucket, and no cluster.
fn listed(stage: &Stage, key: &str) -> String {
    let done = Command::new(operator::program())
        .args(["backups", "ls", "--bucket", &stage.bucket(), "--prefix", &stage.namespace, "--trusted-key", key])
        .env_clear()
        .envs(account(stage))
        .output()
        .expect("the program starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

pub async fn restored(stage: &Stage, name: &str, from: Value, target: Value) -> (RestorePhase, String, String) {
    stage.create::<DatabaseRestore>(name, json!({ "from": from, "target": target })).await;
    let status = ended(stage, name).await;
    (status.phase, status.reason.unwrap_or_default(), status.message.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_return_from_bucket_and_public_key_alone() {
    let mut stage = SqlStage::new("disaster", &POSTGRES).await;
    let operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    stage
        .ask("CREATE DATABASE shop;\n\\c shop\nCREATE TABLE orders AS SELECT i AS id, md5(i::text) AS t FROM generate_series(1, 500) i;")
        .await;
    stage.back_up("sql", &stage.server(&json!({})), false).await;
    let status = stage.backed_up(json!({ "redis": { "name": "cache" } })).await;
    let kept = status.signing_key.clone().expect("a public key, for people to keep");
    let recoverable = status.recoverable.clone().expect("what can be restored");
    assert_eq!((recoverable.count, recoverable.oldest == recoverable.newest), (1, true));
    stage.has_signatures(2).await;
    let bucket = stage.bucket();
    let objects = stage.api::<DatabaseBackup>();
    let look = || async { objects.get("sql").await.expect("the object").status.unwrap_or_default() };
    let sql = wait_within(GONE, "the backup of PostgreSQL", look, |status| status.recent.len() == 1).await;
    let place = |status: &DatabaseBackupStatus| {
        let run = &status.recent[0];
        format!("{}/{}/{}", status.prefix.clone().unwrap_or_default(), run.folder, run.id)
    };
    assert_eq!(by_hand(&stage, &place(&status), &kept, "head -c 5 plain"), "REDIS");
    let rows = "tar -xf plain; find dump/shop -type f | sort | xargs cat > shop.pgdump; \
                pg_restore --data-only --file=- shop.pgdump | grep -cE '^[0-9]+.[0-9a-f]{32}$'";
    assert_eq!(by_hand(&stage, &place(&sql), &kept, rows), "500");
    // A client that may write into the bucket adds a newer backup, with the signature of another one.
    let folder = format!("{}/redis-cache", status.prefix.expect("a prefix"));
    let real = status.recent[0].id.clone();
    let forged = id_of(due_of(&real).expect("an ID") + SignedDuration::from_secs(1));
    for file in ["data", "manifest.json", "manifest.json.sig"] {
        let object = stage.s3.get_object().bucket(&bucket).key(format!("{folder}/{real}/{file}"));
        let bytes = object.send().await.expect("an object").body.collect().await.expect("its bytes").to_vec();
        let bytes = if file == "manifest.json" {
            String::from_utf8(bytes).expect("text").replace(&real, &forged).into_bytes()
        } else {
            bytes
        };
        let key = format!("{folder}/{forged}/{file}");
        let put = stage.s3.put_object().bucket(&bucket).key(key).if_none_match("*").body(bytes.into());
        put.send().await.expect("it is written");
    }

    operator.stop().await;
    lose(&stage).await;
    let list = listed(&stage, &kept);
    let line_of = |id: &str| {
        let line = list.lines().find(|line| line.starts_with(id) && line.contains("redis-cache"));
        line.unwrap_or_else(|| panic!("{id} is listed: {list}")).to_owned()
    };
    assert!(line_of(&real).contains(" trusted ") && line_of(&forged).contains(" INVALID "), "{list}");
    let issuer = role::trust_cluster(&stage).await;
    role::put_jobs(&stage, &issuer, &stage.namespace).await;
    let _operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    stage.serve().await;
    let into_redis = || json!({ "redis": { "name": "cache" } });
    let from = |s3: Value| {
        let mut s3 = s3;
        s3["bucket"] = bucket.as_str().into();
        json!({ "s3": s3, "source": "Redis/cache" })
    };
    let refused = async |name: &str, s3: Value| {
        let (phase, reason, message) = restored(&stage, name, from(s3), into_redis()).await;
        assert_eq!(phase, RestorePhase::Failed, "{message}");
        (reason, message)
    };
    // This cluster has never signed anything.
    assert_eq!(refused("no-key", json!({})).await.0, "KeyMissing");
    let (reason, message) = refused("stranger", json!({ "trustedKeys": [STRANGER] })).await;
    assert!(reason == "NotSigned" && message.contains(&kept), "it names the signing key: {message}");
    let (reason, _) = refused("other", json!({ "trustedKeys": [kept], "prefix": "bank/nightly" })).await;
    assert_eq!(reason, "OtherNamespace");

    let trusted = json!({ "trustedKeys": [kept] });
    let (phase, _, message) = restored(&stage, "back", from(trusted.clone()), into_redis()).await;
    assert_eq!(phase, RestorePhase::Succeeded, "{message}");
    stage
        .has_event(
            "back",
            "RestoreStarted",
            &format!("passed over what is not signed by a trusted key: {folder}/{forged}"),
        )
        .await;
    assert_eq!(redis_command::<String>(&address, &["GET", "greeting"]).await, "hello");
    let mut sql = from(trusted);
    sql["source"] = "postgresql".into();
    let (phase, _, message) = restored(&stage, "sql-back", sql, stage.server(&json!({}))).await;
    assert_eq!(phase, RestorePhase::Succeeded, "{message}");
    let sum = "\\c shop\nSELECT count(*), md5(string_agg(t, '' ORDER BY id)) = md5((SELECT string_agg(md5(i::text), '' ORDER BY i) \
               FROM generate_series(1, 500) i)) FROM orders;";
    assert_eq!(stage.ask(sum).await, "500|t");

    // A restore that accepts any backup is reported as unverified.
    stage.create::<Redis>("other", json!({ "replicas": 0 })).await;
    let unverified = from(json!({ "trust": "Unverified" }));
    let (_, _, message) = restored(&stage, "unverified", unverified, json!({ "redis": { "name": "other" } })).await;
    assert!(message.contains(&forged), "the forged one is the newest: {message}");
    stage.has_event("unverified", "UnverifiedRestoreStarted", "it was not checked who wrote it").await;
    let secrets = stage.api::<Secret>();
    assert!(secrets.get_opt("causeway-signing-key").await.expect("an answer").is_none(), "no backup was taken here");
}
