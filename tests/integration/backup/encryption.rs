//! Backups that only the owner of a key can read: with Causeway, and with the program `age` alone.

use std::io::Write;
use std::process::{Command, Stdio};

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseRestore, DatabaseRestoreStatus};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::control_restore::ended;
use super::stage::{NAME, NEVER, Stage, describe, redis_command, redis_connection};
use crate::support::Operator;
use crate::support::backends::USABLE_BY_ALL;
use crate::support::wait::wait_for;

/// A word that is found nowhere else: it must not be readable in a backup without a key.
const WORD: &str = "correct-horse-battery-staple";

/// A key as its owner makes it: the file, and the public part.
fn key() -> (String, String) {
    let made = Command::new("age-keygen").output().expect("age-keygen, of Debian's package age");
    let file = String::from_utf8(made.stdout).expect("text");
    let public = file.lines().find_map(|line| line.strip_prefix("# public key: ")).expect("a public key").to_owned();
    (file, public)
}

async fn secret(stage: &Stage, name: &str, identity: &str) {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.into()),
            labels: Some([("causeway.example.com/usable-by".to_owned(), USABLE_BY_ALL.to_owned())].into()),
            ..ObjectMeta::default()
        },
        string_data: Some([("identity".to_owned(), identity.to_owned())].into()),
        ..Secret::default()
    };
    stage.api::<Secret>().create(&PostParams::default(), &secret).await.expect("the Secret is made");
}

/// Reports whether a program succeeded with these bytes as its input, and its output.
fn through(program: &str, arguments: &[&str], input: Vec<u8>) -> (bool, Vec<u8>) {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut stdin = child.stdin.take().expect("its input");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("its output");
    writer.join().expect("the writer").ok();
    (output.status.success(), output.stdout)
}

async fn object(stage: &Stage, key: &str) -> Vec<u8> {
    let object = stage.s3.get_object().bucket(stage.bucket()).key(key).send().await.expect("the object");
    object.body.collect().await.expect("its bytes").to_vec()
}

async fn restored(stage: &Stage, name: &str, from: Value, target: &str) -> (RestorePhase, Option<u64>, String) {
    let spec = json!({ "from": from, "target": { "redis": { "name": target } } });
    stage.create::<DatabaseRestore>(name, spec).await;
    let status = ended(stage, name).await;
    (status.phase, status.keys.and_then(|keys| keys.try_into().ok()), status.message.unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_opens_an_encrypted_backup() {
    let stage = Stage::new("encryption").await;
    let _operator = Operator::start(&stage).await;
    let from = stage.redis("cache").await;
    let mut connection = redis_connection(&from).await;
    let mut fill = redis::pipe();
    for number in 0..3000_u32 {
        // This cannot be compressed, so it takes several chunks of age.
        fill.cmd("SET").arg(format!("key-{number}")).arg(&Sha256::digest(number.to_le_bytes())[..]).ignore();
    }
    fill.cmd("SET").arg(WORD).arg(WORD).ignore();
    let () = fill.query_async(&mut connection).await.expect("the keys are written");

    let ((ours, public), (others, stranger)) = (key(), key());
    secret(&stage, "opens", &ours).await;
    secret(&stage, "opens-nothing", &key().0).await;
    let spec = json!({
        "schedule": NEVER,
        "source": { "redis": { "name": "cache" } },
        "encryption": { "recipients": [public, stranger], "identitySecretName": "opens" },
        "verify": { "afterEach": true },
    });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    stage.backup_now("one").await;
    stage.has_backups(1).await;
    stage.becomes("a proof", |status| describe(status, "Verified").0 == "True").await;

    let keys = stage.keys(&stage.bucket()).await;
    let find = |end: &str| keys.iter().find(|key| key.ends_with(end)).unwrap_or_else(|| panic!("{end} in {keys:?}"));
    let manifest: Value = serde_json::from_slice(&object(&stage, find("/manifest.json")).await).expect("a manifest");
    assert_eq!((&manifest["encryption"], &manifest["contents"]["keys"]), (&json!("age"), &json!(3001)));
    let data = object(&stage, find("/data")).await;
    assert!(data.starts_with(b"age-encryption.org/v1\n"));
    let holds = |bytes: &[u8]| bytes.windows(WORD.len()).any(|window| window == WORD.as_bytes());
    assert!(!holds(&data));
    // Either owner can decrypt it without Causeway.
    let directory = tempfile(&stage);
    for (name, identity, opens) in [("ours", &ours, true), ("others", &others, true), ("third", &key().0, false)] {
        let path = format!("{directory}/{name}");
        std::fs::write(&path, identity).expect("the file is written");
        let (good, packed) = through("age", &["--decrypt", "--identity", &path], data.clone());
        assert_eq!(good, opens, "{name}");
        if good {
            let (good, rdb) = through("zstd", &["--decompress", "--stdout"], packed);
            assert!(good && holds(&rdb));
            let (_, sum) = through("sha256sum", &[], rdb);
            let sum = String::from_utf8(sum).expect("text");
            assert_eq!(sum.split_whitespace().next(), manifest["sha256"].as_str());
        }
    }
    std::fs::remove_dir_all(&directory).expect("the keys are deleted");

    let to = stage.redis("other").await;
    let wrong = json!({ "backup": NAME, "identitySecretName": "opens-nothing" });
    let (phase, _, message) = restored(&stage, "wrong", wrong, "other").await;
    assert_eq!(phase, RestorePhase::Failed);
    assert!(message.contains("IdentityWrong") && message.contains("was encrypted for others"), "{message}");
    assert_eq!(redis_command::<u64>(&to, &["DBSIZE"]).await, 0, "nothing was touched");
    let (phase, keys, message) = restored(&stage, "right", json!({ "backup": NAME }), "other").await;
    assert_eq!((phase, keys), (RestorePhase::Succeeded, Some(3001)), "{message}");
    assert_eq!(redis_command::<String>(&to, &["GET", WORD]).await, WORD);
}

fn tempfile(stage: &Stage) -> String {
    let directory = std::env::temp_dir().join(format!("causeway-{}", stage.namespace));
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.to_string_lossy().into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lacks_the_key_is_told_which_secret_to_name() {
    let stage = Stage::new("encryption-none").await;
    let _operator = Operator::start(&stage).await;
    let from = stage.redis("cache").await;
    let () = redis_command(&from, &["SET", "key", "value"]).await;
    let (ours, public) = key();
    let wrong = format!("{}{}", &public[..public.len() - 1], if public.ends_with('q') { 'p' } else { 'q' });
    let spec = json!({
        "schedule": NEVER,
        "source": { "redis": { "name": "cache" } },
        "encryption": { "recipients": [wrong] },
    });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    let object = stage.becomes("RecipientInvalid", |status| describe(status, "Ready").1 == "RecipientInvalid").await;
    let status = object.status.expect("a status");
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").expect("a condition");
    assert!(ready.message.contains("spec.encryption.recipients[0]: a letter of it is wrong"), "{}", ready.message);

    // Taking backups needs no secret key.
    stage.edit::<DatabaseBackup>(NAME, json!({ "encryption": { "recipients": [public] } })).await;
    stage.backup_now("one").await;
    stage.has_backups(1).await;
    stage.redis("other").await;
    let spec = json!({ "from": { "backup": NAME }, "target": { "redis": { "name": "other" } } });
    stage.create::<DatabaseRestore>("back", spec).await;
    let api = stage.api::<DatabaseRestore>();
    let look = || async { api.get("back").await.expect("the object").status.unwrap_or_default() };
    let words = "spec.encryption.identitySecretName of DatabaseBackup nightly";
    let says = |status: &DatabaseRestoreStatus| status.message.as_ref().is_some_and(|text| text.contains(words));
    wait_for("a message that names the field of the key", look, says).await;
    // The Secret is named before it exists.
    let opens = json!({ "encryption": { "recipients": [public], "identitySecretName": "opens" } });
    stage.edit::<DatabaseBackup>(NAME, opens).await;
    secret(&stage, "opens", &ours).await;
    let status = ended(&stage, "back").await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
}
