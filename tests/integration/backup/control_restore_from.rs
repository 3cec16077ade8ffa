//! Databases that begin with a backup: they are ready only with all of it, and it is never restored twice.

use causeway_api::databaserestore::{RestoreOutcome, Restored};
use causeway_api::{DatabaseBackup, DatabaseBackupStatus, DatabaseRestore, EtcdCluster, Redis};
use etcd_client::{Client, GetOptions};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::stage::{NAME, NEVER, Stage, WAIT_TIMEOUT, redis_command};
use crate::support::Operator;
use crate::support::scene::condition;
use crate::support::wait::wait_within;

/// The parts of a database's status that matter here.
#[derive(Clone, Debug)]
struct DatabaseState {
    conditions: Vec<Condition>,
    restored: Option<Restored>,
    current: bool,
    replicas: i32,
}

impl DatabaseState {
    fn is_ready(&self) -> bool {
        self.current && condition(&self.conditions, "Ready").is_some_and(|(status, ..)| status == "True")
    }

    fn outcome(&self) -> Option<RestoreOutcome> {
        self.restored.as_ref().map(|restored| restored.outcome)
    }

    /// The condition `Restored` as (status, reason, message).
    fn restored(&self) -> (String, String, String) {
        condition(&self.conditions, "Restored").unwrap_or_default()
    }
}

async fn etcd(stage: &Stage, name: &str) -> DatabaseState {
    let object = stage.api::<EtcdCluster>().get(name).await.expect("the object");
    let status = object.status.unwrap_or_default();
    DatabaseState {
        current: status.observed_generation == object.metadata.generation,
        conditions: status.conditions,
        restored: status.restored,
        replicas: status.ready_replicas,
    }
}

async fn redis(stage: &Stage, name: &str) -> DatabaseState {
    let object = stage.api::<Redis>().get(name).await.expect("the object");
    let status = object.status.unwrap_or_default();
    DatabaseState {
        current: status.observed_generation == object.metadata.generation,
        conditions: status.conditions,
        restored: status.restored,
        replicas: status.ready_replicas,
    }
}

/// Reports whether the database is ready. Panics if it is ready without its data.
fn ready_with_its_data(text: &DatabaseState) -> bool {
    let ready = text.is_ready();
    assert!(!ready || text.outcome() == Some(RestoreOutcome::Succeeded), "ready too early: {text:#?}");
    ready
}

/// Where a pod with these labels answers.
async fn address(stage: &Stage, labels: &str) -> String {
    let pods = stage.api::<Pod>().list(&ListParams::default().labels(labels)).await.expect("pods").items;
    let address = |pod: &Pod| pod.status.as_ref()?.pod_ip.clone();
    pods.iter().find_map(address).unwrap_or_else(|| panic!("no pod {labels} has an address"))
}

async fn client(stage: &Stage, name: &str) -> Client {
    let address = address(stage, &format!("causeway.example.com/etcd={name}")).await;
    Client::connect([format!("http://{address}:2379")], None).await.expect("a connection")
}

async fn master(stage: &Stage, name: &str) -> String {
    let labels = format!("causeway.example.com/redis={name},causeway.example.com/role=master");
    format!("{}:6379", address(stage, &labels).await)
}

/// All keys of an etcd and their values.
async fn pairs(client: &mut Client) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = client.get("", Some(GetOptions::new().with_all_keys())).await.expect("all keys");
    all.kvs().iter().map(|pair| (pair.key().to_vec(), pair.value().to_vec())).collect()
}

/// Backs the only database up; returns the backup's ID.
async fn back_up(stage: &Stage, source: Value) -> String {
    stage.backed_up(source).await.recent[0].id.clone()
}

async fn restores(stage: &Stage) -> Vec<String> {
    let list = stage.api::<DatabaseRestore>().list(&ListParams::default()).await.expect("an answer").items;
    list.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_is_ready_only_with_every_key() {
    let stage = Stage::new("from-etcd").await;
    let operator = Operator::start(&stage).await;
    stage.create::<EtcdCluster>("prod", json!({ "version": "3.5.9", "replicas": 1 })).await;
    wait_within(WAIT_TIMEOUT, "an etcd", || etcd(&stage, "prod"), DatabaseState::is_ready).await;
    let mut from = client(&stage, "prod").await;
    for number in 0..200 {
        from.put(format!("key-{number:03}"), format!("value-{number}"), None).await.expect("a write");
    }
    let id = back_up(&stage, json!({ "etcdCluster": { "name": "prod" } })).await;

    let choice = json!({ "backup": NAME, "source": "EtcdCluster/prod", "id": id });
    let spec = json!({ "version": "3.5.9", "replicas": 1, "restoreFrom": choice });
    stage.create::<EtcdCluster>("other", spec).await;
    let text = wait_within(WAIT_TIMEOUT, "the other etcd", || etcd(&stage, "other"), ready_with_its_data).await;
    let mut to = client(&stage, "other").await;
    assert_eq!(pairs(&mut to).await, pairs(&mut from).await);
    let restored = text.restored.clone().expect("it is remembered");
    assert_eq!((restored.backup.as_str(), restored.id.as_deref()), (NAME, Some(id.as_str())));
    assert!(restored.time.is_some());
    let (status, reason, _) = text.restored();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Restored"));
    let look = || async {
        let events = stage.events("other").await;
        events.into_iter().filter(|(reason, _)| reason == "Restored").count()
    };
    wait_within(WAIT_TIMEOUT, "the event", look, |count| *count == 1).await;

    // Clients go on, a user deletes the restore, and a new operator starts: it must not restore the backup again.
    to.delete("key-007", None).await.expect("a deletion");
    stage.delete::<DatabaseRestore>("other-restore").await;
    stage.gone::<DatabaseRestore>("other-restore").await;
    operator.stop().await;
    let _operator = Operator::start(&stage).await;
    stage.edit::<EtcdCluster>("other", json!({ "replicas": 3 })).await;
    let grown = |text: &DatabaseState| text.is_ready() && text.replicas == 3;
    wait_within(WAIT_TIMEOUT, "three members", || etcd(&stage, "other"), grown).await;
    assert_eq!(restores(&stage).await, Vec::<String>::new());
    let gone = to.get("key-007", None).await.expect("an answer");
    assert_eq!((gone.count(), pairs(&mut to).await.len()), (0, 199));
    assert_eq!(look().await, 1, "the event comes once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_begins_with_its_keys_only_once() {
    let stage = Stage::new("from-redis").await;
    let _operator = Operator::start(&stage).await;
    let from = stage.redis("cache").await;
    for number in 0..100 {
        let () = redis_command(&from, &["SET", &format!("key-{number}"), &format!("value-{number}")]).await;
    }
    let _: i64 = redis_command(&from, &["RPUSH", "list", "a", "b", "c"]).await;
    let id = back_up(&stage, json!({ "redis": { "name": "cache" } })).await;

    stage.create::<Redis>("other", json!({ "replicas": 1, "restoreFrom": { "backup": NAME } })).await;
    let text = wait_within(WAIT_TIMEOUT, "the other Redis", || redis(&stage, "other"), ready_with_its_data).await;
    assert_eq!(text.restored.and_then(|restored| restored.id), Some(id));
    let to = master(&stage, "other").await;
    // The restore's mark is kept for some minutes.
    let keys: Vec<String> = redis_command(&to, &["KEYS", "*"]).await;
    let ours = keys.iter().filter(|key| *key != "causeway.example.com/restore").count();
    assert_eq!(ours, 101);
    let list: Vec<String> = redis_command(&to, &["LRANGE", "list", "0", "-1"]).await;
    assert_eq!(list, ["a", "b", "c"]);
    let value: String = redis_command(&to, &["GET", "key-99"]).await;
    assert_eq!(value, "value-99");

    // A restore into the empty Redis would not be refused, so the operator must not start one.
    let _: String = redis_command(&to, &["FLUSHALL"]).await;
    stage.delete::<DatabaseRestore>("other-restore").await;
    stage.gone::<DatabaseRestore>("other-restore").await;
    stage.edit::<Redis>("other", json!({ "replicas": 2 })).await;
    let grown = |text: &DatabaseState| text.is_ready() && text.replicas == 2;
    wait_within(WAIT_TIMEOUT, "another replica", || redis(&stage, "other"), grown).await;
    assert_eq!(restores(&stage).await, Vec::<String>::new());
    let to = master(&stage, "other").await;
    assert_eq!(redis_command::<u64>(&to, &["DBSIZE"]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_backup_does_not_block_deletion() {
    let stage = Stage::new("from-nowhere").await;
    let _operator = Operator::start(&stage).await;
    let spec = json!({ "version": "3.5.9", "replicas": 1, "restoreFrom": { "backup": "nowhere" } });
    stage.create::<EtcdCluster>("db", spec).await;
    let waits = |text: &DatabaseState| {
        assert!(!text.is_ready(), "ready without its data: {text:#?}");
        let (status, reason, message) = text.restored();
        // On a slow machine a member may stop answering meanwhile, and Ready reports that first.
        let holds = condition(&text.conditions, "Ready").is_some_and(|(_, reason, _)| reason == "Restoring");
        status == "False" && reason == "Restoring" && message.contains("there is no DatabaseBackup nowhere") && holds
    };
    let text = wait_within(WAIT_TIMEOUT, "the missing backup", || etcd(&stage, "db"), waits).await;
    assert_eq!(text.outcome(), Some(RestoreOutcome::Running));
    client(&stage, "db").await.put("key", "value", None).await.expect("it serves all the same");

    // As after `kubectl delete --cascade=orphan`: it is taken back, and goes with its cluster.
    let orphan = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    let restores = stage.api::<DatabaseRestore>();
    let before = restores.patch("db-restore", &PatchParams::default(), &orphan).await.expect("an orphan");
    let look = || async { restores.get("db-restore").await.expect("it is there") };
    let is_owned = |live: &DatabaseRestore| live.owner_references().iter().any(|it| it.controller == Some(true));
    let after = wait_within(WAIT_TIMEOUT, "the restore to be taken back", look, is_owned).await;
    assert_eq!(after.uid(), before.uid());
    stage.has_event("db", "TakenBack", "DatabaseRestore db-restore").await;

    stage.delete::<EtcdCluster>("db").await;
    stage.gone::<EtcdCluster>("db").await;
    stage.gone::<DatabaseRestore>("db-restore").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_restore_is_left_alone() {
    let stage = Stage::new("from-foreign").await;
    let _operator = Operator::start(&stage).await;
    let theirs = json!({ "from": { "backup": "theirs" }, "target": { "redis": { "name": "elsewhere" } } });
    let before = stage.create::<DatabaseRestore>("cache-restore", theirs).await;
    stage.create::<Redis>("cache", json!({ "replicas": 0, "restoreFrom": { "backup": "nowhere" } })).await;
    let conflicts = |text: &DatabaseState| text.restored().1 == "NameTaken";
    let text = wait_within(WAIT_TIMEOUT, "the conflict", || redis(&stage, "cache"), conflicts).await;
    let command = format!("kubectl -n {} delete databaserestore cache-restore", stage.namespace);
    let message = text.restored().2;
    assert!(message.contains("DatabaseRestore cache-restore exists") && message.contains(&command), "{message}");
    let after = stage.api::<DatabaseRestore>().get("cache-restore").await.expect("it is there");
    assert_eq!((after.spec, after.metadata.owner_references), (before.spec, None));

    stage.delete::<DatabaseRestore>("cache-restore").await;
    let noted = |text: &DatabaseState| text.outcome() == Some(RestoreOutcome::Running);
    wait_within(WAIT_TIMEOUT, "our own", || redis(&stage, "cache"), noted).await;
    stage.edit::<Redis>("cache", json!({ "restoreFrom": null })).await;
    let text = wait_within(WAIT_TIMEOUT, "a Redis without", || redis(&stage, "cache"), DatabaseState::is_ready).await;
    assert_eq!((text.restored(), text.outcome()), (Default::default(), None));
    stage.gone::<DatabaseRestore>("cache-restore").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_object_keeps_its_volumes() {
    let stage = Stage::new("from-volumes").await;
    let _operator = Operator::start(&stage).await;
    let first = stage.redis("cache").await;
    let () = redis_command(&first, &["SET", "key", "as it was"]).await;
    back_up(&stage, json!({ "redis": { "name": "cache" } })).await;
    let () = redis_command(&first, &["SET", "key", "newer than every backup"]).await;
    let () = redis_command(&first, &["SET", "another", "value"]).await;
    stage.delete::<Redis>("cache").await;
    stage.gone::<Redis>("cache").await;

    stage.create::<Redis>("cache", json!({ "replicas": 0, "restoreFrom": { "backup": NAME } })).await;
    let text = wait_within(WAIT_TIMEOUT, "the same again", || redis(&stage, "cache"), DatabaseState::is_ready).await;
    assert_eq!((text.outcome(), text.restored().1.as_str()), (Some(RestoreOutcome::Skipped), "VolumesFound"));
    let value: String = redis_command(&master(&stage, "cache").await, &["GET", "key"]).await;
    assert_eq!(value, "newer than every backup");
}

/// Creates a Redis that begins with the newest backup of the object; returns its value of `key`, and the ID of that
/// backup.
async fn newest(stage: &Stage, name: &str) -> (String, Option<String>) {
    stage.create::<Redis>(name, json!({ "replicas": 0, "restoreFrom": { "backup": NAME } })).await;
    let text = wait_within(WAIT_TIMEOUT, "a copy", || redis(stage, name), ready_with_its_data).await;
    let value = redis_command(&master(stage, name).await, &["GET", "key"]).await;
    (value, text.restored.and_then(|restored| restored.id))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recreated_object_restores_earlier_backups() {
    let stage = Stage::new("from-adopted").await;
    let _operator = Operator::start(&stage).await;
    let from = stage.redis("cache").await;
    let () = redis_command(&from, &["SET", "key", "of the earlier one"]).await;
    let source = json!({ "redis": { "name": "cache" } });
    let id = back_up(&stage, source.clone()).await;
    stage.has_signatures(1).await;
    let uid = stage.api::<DatabaseBackup>().get(NAME).await.expect("the object").uid().expect("a uid");
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    let written = stage.keys(&stage.bucket()).await;

    let spec = json!({
        "schedule": NEVER, "source": source, "adoptFrom": { "uid": uid }, "retention": { "keepLast": 1 },
        "deletionPolicy": "Delete",
    });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    assert_eq!(newest(&stage, "copy").await, ("of the earlier one".to_owned(), Some(id.clone())));

    // The object's own backups come first. Retention deletes only these, and so does the deletion of the object.
    let () = redis_command(&from, &["SET", "key", "of its own"]).await;
    stage.backup_now("two").await;
    let own = stage.has_backups(1).await.recent[0].id.clone();
    assert_ne!(own, id);
    let (value, restored) = newest(&stage, "newer").await;
    assert_eq!((value.as_str(), restored), ("of its own", Some(own.clone())));
    stage.backup_now("three").await;
    let pruned = |status: &DatabaseBackupStatus| status.recent.len() == 1 && status.recent[0].id != own;
    stage.becomes("the one too many to go", pruned).await;
    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    assert_eq!(stage.keys(&stage.bucket()).await, written);
}
