//! Alarms: a database without space, and a member whose data differ from the others'.

use std::time::{Duration, Instant};

use causeway_api::EtcdCluster;
use causeway_databases::etcd::ROOT;
use etcd_client::{AlarmAction, AlarmOptions, AlarmType, Client, ConnectOptions};
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use serde_json::{Value, json};

use super::checker::Checker;
use super::rollout::leader_last;
use super::{NAME, Stage, access, becomes, bystander, claims, describe, running, settled, spec, took, uids};
use crate::support::rollout_watch::RolloutWatch;
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

/// Large enough that few values fill the quota, small enough for one request.
pub const VALUE: usize = 1024 * 1024;
/// The quota of a database that is filled by history, in bytes.
const SMALL: usize = 16 * 1024 * 1024;
/// The quota of a database that is filled by keys, in bytes. Its file grows by 16 MiB at a time, so a smaller one would
/// never be nearly full.
const LARGE: usize = 192 * 1024 * 1024;
/// An alarm is noticed within a second or two; then each member has to be defragmented.
const WAIT_TIMEOUT: Duration = Duration::from_mins(6);
/// Between two writes that may be refused.
const PAUSE: Duration = Duration::from_millis(200);

async fn client(scene: &Scene, address: Option<String>) -> Client {
    let endpoint = format!("http://{}:2379", address.expect("an address"));
    let mut options = ConnectOptions::new().with_connect_timeout(WAIT_TIMEOUT).with_timeout(Duration::from_secs(10));
    if let Some(secret) = scene.api::<Secret>().get_opt(access::ROOT).await.expect("an answer") {
        options = options.with_user(ROOT, access::text(&secret, "password"));
    }
    Client::connect([endpoint], Some(options)).await.expect("a client")
}

pub async fn of_service(scene: &Scene) -> Client {
    client(scene, scene.api::<Service>().get(NAME).await.expect("the Service").spec.and_then(|spec| spec.cluster_ip))
        .await
}

pub async fn of_member(scene: &Scene, name: &str) -> Client {
    client(scene, scene.api::<Pod>().get(name).await.expect("the pod").status.and_then(|status| status.pod_ip)).await
}

/// A cluster with that quota, whose database is filled by values; `key` gives the key of each value.
async fn full(scene: &Scene, mut small: Value, quota: usize, key: impl Fn(usize) -> String) -> Client {
    small["config"] = json!({ "quota-backend-bytes": quota.to_string() });
    running(scene, small).await;
    let mut client = of_service(scene).await;
    let begun = Instant::now();
    for number in 0..=2 * quota / VALUE {
        // On a busy disk a write may time out; then the same write is tried again.
        while let Err(error) = client.put(key(number), vec![b'x'; VALUE], None).await {
            if error.to_string().contains("database space exceeded") {
                return client;
            }
            assert!(begun.elapsed() < WAIT_TIMEOUT, "value {number}: {error}");
        }
    }
    panic!("twice the quota was written without an alarm");
}

/// Waits until a write is acknowledged.
async fn writable(client: &Client, what: &str) {
    let look = || async { client.clone().put("after", "1", None).await.map(drop).map_err(|error| error.to_string()) };
    let written = wait_within(WAIT_TIMEOUT, &format!("{what}: a write"), look, Result::is_ok).await;
    written.expect("just seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_full_of_history_gets_its_space_back() {
    let scene = Stage::new("etcd-space").await;
    let _operator = Operator::start(&scene).await;
    let mut client = full(&scene, spec(3), SMALL, |_| "same".into()).await;
    let begun = Instant::now();
    writable(&client, "a database full of history").await;
    took("a database full of history takes writes again", begun);
    settled(&scene, "all members again").await;
    let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await.expect("alarms");
    assert!(alarms.alarms().is_empty(), "{alarms:?}");
    let kept = client.get("same", None).await.expect("the last value");
    assert_eq!(kept.kvs().first().map(|pair| pair.value().len()), Some(VALUE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_compacted_when_the_quota_is_used_up() {
    let scene = Stage::new("etcd-space").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(3);
    // Members of this version report neither their status nor alarms to clients that have not logged in.
    wanted["version"] = json!("3.5.35");
    wanted["auth"] = json!({ "enabled": true });
    let mut client = full(&scene, wanted, SMALL, |_| "same".into()).await;
    let begun = Instant::now();
    writable(&client, "a database full of history, with logins").await;
    took("a database full of history takes writes again, with logins", begun);
    settled(&scene, "all members again").await;
    let alarms = client.alarm(AlarmAction::Get, AlarmType::None, None).await.expect("alarms");
    assert!(alarms.alarms().is_empty(), "{alarms:?}");

    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    let (watch, leader) = (RolloutWatch::start(&scene).await, bystander::leader(&scene).await);
    scene.edit::<EtcdCluster>(NAME, json!({ "config": { "snapshot-count": "5000" } })).await;
    let object = settled(&scene, "the other settings").await;
    assert_eq!(describe(&object, "AuthEnabled").map(|(status, ..)| status).as_deref(), Some("True"));
    let after = uids(&scene).await;
    assert!(before.iter().all(|(name, uid)| after[name] != *uid), "every pod was replaced");
    leader_last(&scene, &watch, &leader, "the other settings, with logins").await;
    checker.goes_on("the other settings").await;
    checker.finish(&scene, "other settings, with logins").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_is_helped_by_a_higher_quota() {
    let scene = Stage::new("etcd-space").await;
    let _operator = Operator::start(&scene).await;
    let mut client = full(&scene, spec(1), LARGE, |number| format!("key-{number}")).await;
    let is_reported = |object: &EtcdCluster| {
        describe(object, "Ready")
            .is_some_and(|(_, reason, message)| reason == "NoSpace" && message.contains("Delete keys"))
    };
    let begun = Instant::now();
    // The file grows in steps. This also fills what is left of the last step after the keys were packed.
    let mut more = client.clone();
    let writer = tokio::spawn(async move {
        for number in 0.. {
            more.put(format!("key-more-{number}"), vec![b'x'; VALUE], None).await.ok();
            tokio::time::sleep(PAUSE).await;
        }
    });
    let is_full = |object: &EtcdCluster| describe(object, "Ready").is_some_and(|(_, reason, _)| reason == "NoSpace");
    becomes(&scene, "NoSpace to be reported", is_full).await;
    took("NoSpace is reported", begun);
    let object = becomes(&scene, "a message about the full database", is_reported).await;
    writer.abort();
    let (_, _, message) = describe(&object, "Ready").expect("a condition");
    println!("»   {message}");
    assert!(message.contains("spec.config.quota-backend-bytes"), "{message}");
    let count = client.get("key-", Some(etcd_client::GetOptions::new().with_prefix().with_count_only())).await;
    let count = count.expect("the keys").count();

    scene.edit::<EtcdCluster>(NAME, json!({ "config": { "quota-backend-bytes": (2 * LARGE).to_string() } })).await;
    writable(&client, "a higher quota").await;
    settled(&scene, "the higher quota everywhere").await;
    let left = client.get("key-", Some(etcd_client::GetOptions::new().with_prefix().with_count_only())).await;
    assert_eq!(left.expect("the keys").count(), count, "no key is lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_an_alarm_of_damaged_data_is_replaced() {
    let scene = Stage::new("etcd-corrupt").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let (name, volumes) = ("db-1", claims(&scene).await);
    let id = bystander::status_of(&scene, name).await.member_id;
    let begun = Instant::now();
    // A member raises this alarm when it finds that its data differ. No client may write until the alarm is ended.
    let mut raise = AlarmOptions::new();
    raise.with_member(id);
    let mut member = of_member(&scene, "db-0").await;
    member.alarm(AlarmAction::Activate, AlarmType::Corrupt, Some(raise)).await.expect("the alarm is raised");
    let replaced = || async { claims(&scene).await };
    let is_other = |now: &std::collections::BTreeMap<String, String>| {
        now.get("data-db-1").is_some_and(|uid| volumes.get("data-db-1") != Some(uid))
    };
    wait_within(WAIT_TIMEOUT, "another volume for db-1", replaced, is_other).await;
    settled(&scene, "all members again").await;
    took("a member with an alarm of damaged data is replaced", begun);
    checker.goes_on("all members again").await;
    checker.finish(&scene, "an alarm of damaged data").await;
}

/// One request deletes all keys, so the revision grows only by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_database_serves_after_keys_are_deleted() {
    let scene = Stage::new("etcd-space").await;
    let _operator = Operator::start(&scene).await;
    let mut client = full(&scene, spec(1), LARGE, |number| format!("key-{number}")).await;
    let is_reported =
        |object: &EtcdCluster| describe(object, "Ready").is_some_and(|(_, _, it)| it.contains("Delete keys"));
    let look = || async {
        // Also fills what is left of the file's last step after the keys were packed.
        let mut client = client.clone();
        for number in 0.. {
            if client.put(format!("key-more-{number}"), vec![b'x'; VALUE], None).await.is_err() {
                break;
            }
        }
        scene.api::<EtcdCluster>().get(NAME).await.expect("the cluster")
    };
    wait_within(WAIT_TIMEOUT, "a message about the full database", look, is_reported).await;
    let all = etcd_client::DeleteOptions::new().with_prefix();
    assert!(client.delete("key-", Some(all)).await.expect("deletions are accepted").deleted() > 0);
    let begun = Instant::now();
    writable(&client, "all keys deleted").await;
    took("a database whose keys were deleted takes writes again", begun);
    settled(&scene, "the member again").await;
}
