//! An etcd that asks for logins: its backups are taken and proven, and another etcd begins with them, whatever the
//! password was at the time.

use causeway_api::{DatabaseBackup, DatabaseBackupStatus, EtcdCluster};
use etcd_client::{Client, ConnectOptions};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::stage::{NAME, NEVER, Stage, WAIT_TIMEOUT, describe};
use crate::support::Operator;
use crate::support::scene::condition;
use crate::support::wait::wait_within;

async fn ready(stage: &Stage, name: &str) {
    let ready = |object: &EtcdCluster| {
        let status = object.status.clone().unwrap_or_default();
        condition(&status.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
    };
    let api = stage.api::<EtcdCluster>();
    wait_within(WAIT_TIMEOUT, "an etcd", || async { api.get(name).await.expect("the object") }, ready).await;
}

async fn password(stage: &Stage, secret: &str) -> String {
    let secret = stage.api::<Secret>().get_opt(secret).await.expect("an answer");
    let bytes = secret.and_then(|secret| secret.data?.remove("password")).map(|bytes| bytes.0);
    String::from_utf8(bytes.unwrap_or_default()).expect("text")
}

/// Logs in with the password that the Secret for users has.
async fn client(stage: &Stage, name: &str) -> Client {
    let pods = ListParams::default().labels(&format!("causeway.example.com/etcd={name}"));
    let pod = stage.api::<Pod>().list(&pods).await.expect("pods").items.pop().expect("a pod");
    let address = pod.status.and_then(|status| status.pod_ip).expect("an address");
    let options = ConnectOptions::new().with_user("root", password(stage, &format!("{name}-auth")).await);
    Client::connect([format!("http://{address}:2379")], Some(options)).await.expect("root is let in")
}

fn spec() -> Value {
    json!({ "version": "3.5.9", "replicas": 1, "auth": { "enabled": true } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_with_logins_survives_a_changed_password() {
    let stage = Stage::new("backup-auth").await;
    let _operator = Operator::start(&stage).await;
    stage.create::<EtcdCluster>("prod-etcd", spec()).await;
    ready(&stage, "prod-etcd").await;
    client(&stage, "prod-etcd").await.put("greeting", "hello", None).await.expect("written");

    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "verify": { "afterEach": true } })).await;
    let made = |status: &DatabaseBackupStatus| describe(status, "Verified") == ("Unknown".into(), "NotTried".into());
    stage.becomes("nothing to be proven yet", made).await;
    stage.backup_now("first").await;
    let proven = |status: &DatabaseBackupStatus| status.verified.len() == 1 && status.verified[0].ok;
    stage.becomes("the backup to be proven", proven).await;

    let patch = Patch::Merge(json!({ "stringData": { "password": "another password" } }));
    let secrets = stage.api::<Secret>();
    secrets.patch("prod-etcd-auth", &PatchParams::default(), &patch).await.expect("the change is accepted");
    let look = || password(&stage, "prod-etcd-root");
    wait_within(WAIT_TIMEOUT, "another password", look, |password| password == "another password").await;

    let mut again = spec();
    again["restoreFrom"] = json!({ "backup": NAME, "source": "EtcdCluster/prod-etcd", "id": "latest" });
    stage.create::<EtcdCluster>("again", again).await;
    ready(&stage, "again").await;
    let found = client(&stage, "again").await.get("greeting", None).await.expect("an answer");
    assert_eq!(found.kvs().first().map(|pair| pair.value().to_vec()), Some(b"hello".to_vec()));
}
