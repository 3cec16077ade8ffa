//! A Redis with TLS that serves no client without a certificate: it is backed up, the backup is proven, and another
//! Redis begins with it.

use causeway_api::{DatabaseBackup, DatabaseBackupStatus, Redis};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::stage::{NAME, NEVER, Stage, WAIT_TIMEOUT, describe};
use crate::redis::checker::Secure;
use crate::redis::tls::client;
use crate::support::Operator;
use crate::support::scene::condition;
use crate::support::wait::wait_within;

fn spec(replicas: i32) -> Value {
    json!({ "replicas": replicas, "tls": { "clientCertificates": "Required" } })
}

async fn ready(stage: &Stage, name: &str) {
    let ready = |object: &Redis| {
        let status = object.status.clone().unwrap_or_default();
        condition(&status.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
    };
    let api = stage.api::<Redis>();
    wait_within(WAIT_TIMEOUT, "a Redis", || async { api.get(name).await.expect("the object") }, ready).await;
}

/// A connection to the master.
async fn connection(stage: &Stage, name: &str) -> redis::aio::MultiplexedConnection {
    let secure: Secure = client(stage, name, &format!("{name}-client-tls"), true).await;
    let labels = format!("causeway.example.com/redis={name},causeway.example.com/role=master");
    let pod = stage.api::<Pod>().list(&ListParams::default().labels(&labels)).await.expect("pods").items.pop();
    let pod = pod.expect("a master");
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
    let address = address.unwrap_or_else(|| panic!("{} has an address", pod.name_any()));
    secure.open(&format!("{address}:6379"), None).await.expect("a client with a certificate is let in")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_with_tls_is_backed_up_and_restored() {
    let stage = Stage::new("backup-tls").await;
    let _operator = Operator::start(&stage).await;
    stage.create::<Redis>("cache", spec(1)).await;
    ready(&stage, "cache").await;
    let mut from = connection(&stage, "cache").await;
    for number in 0..50 {
        let mut write = redis::cmd("SET");
        let () = write.arg(format!("key-{number}")).arg(number).query_async(&mut from).await.expect("a write");
    }
    let _: i64 = redis::cmd("WAIT").arg(1).arg(5000).query_async(&mut from).await.expect("a replica");

    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "verify": { "afterEach": true } })).await;
    let made = |status: &DatabaseBackupStatus| describe(status, "Verified") == ("Unknown".into(), "NotTried".into());
    stage.becomes("nothing to be proven yet", made).await;
    stage.backup_now("first").await;
    let proven = |status: &DatabaseBackupStatus| status.verified.len() == 1 && status.verified[0].ok;
    stage.becomes("the backup to be proven", proven).await;

    let mut again = spec(0);
    again["restoreFrom"] = json!({ "backup": NAME, "source": "Redis/cache", "id": "latest" });
    stage.create::<Redis>("again", again).await;
    ready(&stage, "again").await;
    let mut to = connection(&stage, "again").await;
    let value: Option<u64> = redis::cmd("GET").arg("key-49").query_async(&mut to).await.expect("an answer");
    assert_eq!(value, Some(49));
}
