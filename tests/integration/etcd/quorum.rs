//! A majority is lost: this is reported, and nothing is done about it that could cost data.

use std::time::{Duration, Instant};

use causeway_api::EtcdCluster;
use etcd_client::{Client, GetOptions, WatchOptions};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ResourceQuota};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::checker::Checker;
use super::space::{of_member, of_service};
use super::{NAME, Stage, becomes, bystander, claim_of, claims, describe, running, says, settled, spec, took, uids};
use crate::support::{Operator, Scene, wait_for};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_majority_is_told_and_nothing_is_destroyed() {
    let scene = Stage::new("etcd-quorum").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let survivor = bystander::leader(&scene).await;
    let (members, volumes) = (uids(&scene).await, claims(&scene).await);
    let data = bystander::status_of(&scene, &survivor).await;
    let begun = Instant::now();
    lose_all_but(&scene, &survivor).await;
    let object = becomes(&scene, "Quorate to be False", |object| says(object, "Quorate", "False")).await;
    took("a cluster without a majority is reported", begun);
    println!("»   {}", describe(&object, "Quorate").map(|(_, reason, _)| reason).unwrap_or_default());
    let object = becomes(&scene, "the lost majority to be reported", is_lost).await;
    took("a lost majority is reported", begun);
    let (_, _, message) = describe(&object, "Quorate").expect("a condition");
    println!("»   {message}");
    assert!(message.contains("majority is lost") && message.contains("kubectl"), "it says what to do: {message}");
    assert!(says(&object, "Ready", "False"), "{:?}", object.status);

    // Both pods are back, with empty volumes; the operator has seen them, and leaves everything as it is.
    let look = || async { uids(&scene).await.into_iter().filter(|(name, uid)| members[name] != *uid).count() };
    wait_for("the other pods to be made again", look, |count| *count == 2).await;
    rounds(&scene).await;
    assert!(says(&becomes(&scene, "the object", |_| true).await, "Quorate", "False"), "a majority came from nowhere");
    assert_eq!(uids(&scene).await[&survivor], members[&survivor], "the survivor's pod is the same");
    assert_eq!(claims(&scene).await[&claim_of(&survivor)], volumes[&claim_of(&survivor)], "and its volume");
    let now = bystander::status_of(&scene, &survivor).await;
    assert_eq!((now.cluster_id, now.member_id), (data.cluster_id, data.member_id));
    assert!(now.revision >= data.revision, "{} → {}", data.revision, now.revision);
    assert_eq!(bystander::members(&scene).await, None, "no majority, be it of strangers");
}

/// Reports whether the object reports that too few members are left, and not only that they elect a leader.
fn is_lost(object: &EtcdCluster) -> bool {
    describe(object, "Quorate").is_some_and(|(status, reason, _)| status == "False" && reason == "QuorumLost")
}

/// Deletes volumes and pods of all members but one, and waits until nothing answers at their addresses: a process
/// outlives a pod that is deleted without a grace period.
async fn lose_all_but(scene: &Scene, survivor: &str) {
    let mut addresses = Vec::new();
    for name in uids(scene).await.into_keys().filter(|name| name != survivor) {
        let pod = scene.api::<Pod>().get(&name).await.expect("a pod");
        addresses.extend(pod.status.and_then(|status| status.pod_ip));
        scene.delete::<PersistentVolumeClaim>(&claim_of(&name)).await;
        let at_once = DeleteParams::default().grace_period(0);
        scene.api::<Pod>().delete(&name, &at_once).await.expect("the deletion is accepted");
    }
    for address in addresses {
        let answers = || async {
            let connected = timeout(Duration::from_secs(1), TcpStream::connect((address.as_str(), 2380))).await;
            matches!(connected, Ok(Ok(_)))
        };
        wait_for(&format!("the lost member at {address} to be gone"), answers, |answers| !answers).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_majority_is_recovered_from_the_named_member() {
    let scene = Stage::new("etcd-quorum").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    // The leader has every write that was ever acknowledged.
    let survivor = bystander::leader(&scene).await;
    lose_all_but(&scene, &survivor).await;
    becomes(&scene, "the lost majority to be reported", is_lost).await;
    let begun = Instant::now();
    let recovery = json!({ "recovery": { "fromMember": survivor, "token": "first" } });
    scene.edit::<EtcdCluster>(NAME, recovery).await;
    let object = settled(&scene, "three members again").await;
    took("three members again, recovered from one", begun);
    assert_eq!(object.status.as_ref().and_then(|status| status.recovered.as_deref()), Some("first"));
    let (status, reason, message) = describe(&object, "RevisionsSkipped").expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "MayRepeat"));
    assert!(message.contains("restart clients") && message.contains("3.5.9 cannot"), "{message}");
    checker.goes_on("three members again").await;
    checker.finish(&scene, "a majority lost, and recovered from the member that led").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recovery_keeps_tls_and_logins() {
    let scene = Stage::new("etcd-quorum").await;
    let operator = Operator::start(&scene).await;
    let mut wanted = spec(3);
    // Members of this version report nothing to clients that have not logged in, and without a majority no client can
    // log in.
    wanted["version"] = json!("3.5.35");
    wanted["tls"] = json!({ "peer": {}, "client": {} });
    wanted["auth"] = json!({ "enabled": true });
    running(&scene, wanted).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let survivor = bystander::leader(&scene).await;
    lose_all_but(&scene, &survivor).await;
    becomes(&scene, "the lost majority to be reported", is_lost).await;
    drop(operator);
    let _operator = Operator::start(&scene).await;
    checker.expect_new_cluster();
    let begun = Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "recovery": { "fromMember": survivor, "token": "first" } })).await;
    let object = settled(&scene, "three members again").await;
    took("three members again, with TLS and logins", begun);
    assert!(says(&object, "AuthEnabled", "True"), "{:?}", object.status);
    assert!(says(&object, "RevisionsSkipped", "True"), "{:?}", object.status);
    checker.goes_on("three members again").await;
    checker.finish(&scene, "a majority lost under TLS and logins, and recovered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_lost_revisions_are_told_to_restart() {
    let scene = Stage::new("etcd-quorum").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let leader = bystander::leader(&scene).await;
    let survivor = uids(&scene).await.into_keys().find(|name| *name != leader).expect("a follower");
    write_value(&of_member(&scene, &leader).await, "by all").await;
    // The survivor is away, and misses what the others agree on.
    forbid_pods(&scene).await;
    scene.delete::<Pod>(&survivor).await;
    let away = || async { scene.api::<Pod>().get_opt(&survivor).await.expect("an answer") };
    wait_for("the survivor to be away", away, Option::is_none).await;
    let mut seen = 0;
    for number in 0..50 {
        seen = write_value(&of_member(&scene, &leader).await, &format!("by two, {number}")).await;
    }
    lose_all_but(&scene, &survivor).await;
    scene.delete::<ResourceQuota>(QUOTA).await;
    becomes(&scene, "the lost majority to be reported", is_lost).await;
    let begun = Instant::now();
    // The etcdutl of the members' own version cannot skip revisions.
    let recovery = json!({ "fromMember": survivor, "token": "first", "image": "quay.io/coreos/etcd:v3.5.35" });
    scene.edit::<EtcdCluster>(NAME, json!({ "recovery": recovery })).await;
    let object = settled(&scene, "three members again").await;
    took("three members again, above all revisions", begun);
    let (status, reason, message) = describe(&object, "RevisionsSkipped").expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Skipped"), "{message}");

    for name in uids(&scene).await.into_keys() {
        let mut client = of_member(&scene, &name).await;
        let read = || async { client.clone().get("seen", None).await.map_err(|error| error.to_string()) };
        let now = wait_for(&format!("a read of {name}"), read, Result::is_ok).await.expect("just seen");
        let (pair, revision) = (now.kvs().first().expect("the key"), now.header().expect("a header").revision());
        assert_eq!(pair.value_str().expect("text"), "by all", "the survivor has no more");
        assert!(revision > seen, "{name}: {revision} after {seen}");
        for old in [pair.mod_revision(), seen] {
            let read = client.get("seen", Some(GetOptions::new().with_revision(old))).await;
            let refusal = read.expect_err("a revision that was compacted").to_string();
            assert!(refusal.contains("compacted"), "{name}, {old}: {refusal}");
        }
        let from = WatchOptions::new().with_start_revision(seen + 1);
        let mut watch = client.watch("seen", Some(from)).await.expect("an answer");
        let mut text = watch.message().await.expect("a message").expect("a message");
        while !text.canceled() {
            assert!(text.events().is_empty(), "{name}: {text:?}");
            text = watch.message().await.expect("a message").expect("that the watch has ended");
        }
        assert!(text.compact_revision() > seen, "{name}: {text:?}");
    }
    let revision = write_value(&of_service(&scene).await, "again").await;
    println!("»   seen before: revision {seen}; the first write afterwards: revision {revision}");
    assert!(revision > seen);
}

/// Writes until that is acknowledged; returns the revision. On a busy machine a call may fail, for example during an
/// election.
async fn write_value(client: &Client, value: &str) -> i64 {
    let write = || async { Some(client.clone().put("seen", value, None).await.ok()?.header()?.revision()) };
    wait_for(&format!("a write: {value}"), write, Option::is_some).await.expect("just seen")
}

/// Name of the quota that forbids new pods.
const QUOTA: &str = "none";

/// From now on no pod can be created. Waits for that: a quota refuses pods only after its controller has counted the
/// existing ones.
async fn forbid_pods(scene: &Scene) {
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": QUOTA }, "spec": { "hard": { "pods": "1" } },
    });
    let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
    scene.api().create(&PostParams::default(), &quota).await.expect("the quota is accepted");
    let mut pod = scene.api::<Pod>().get(&format!("{NAME}-0")).await.expect("a pod");
    pod.metadata = ObjectMeta { name: Some("one-more".into()), ..ObjectMeta::default() };
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let refusal = || async { scene.api::<Pod>().create(&dry_run, &pod).await.err().map(|error| error.to_string()) };
    let by_quota = |refusal: &Option<String>| refusal.as_ref().is_some_and(|text| text.contains("exceeded quota"));
    wait_for("the quota to refuse pods", refusal, by_quota).await;
}

/// Waits until the operator has observed the members several times: it reports a generation as observed only after
/// that.
async fn rounds(scene: &Scene) {
    for cpu in ["10m", "11m", "12m"] {
        let edit = json!({ "resources": { "requests": { "cpu": cpu } } });
        let generation = scene.edit::<EtcdCluster>(NAME, edit).await.metadata.generation;
        let seen = |object: &EtcdCluster| {
            object.status.as_ref().is_some_and(|status| status.observed_generation == generation)
        };
        becomes(scene, "the edit to be observed", seen).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absent_majority_returns_with_its_data() {
    let scene = Stage::new("etcd-quorum").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let before = uids(&scene).await;
    forbid_pods(&scene).await;
    for name in ["db-1", "db-2"] {
        scene.delete::<Pod>(name).await;
        let away = || async { scene.api::<Pod>().get_opt(name).await.expect("an answer") };
        wait_for(&format!("{name} to be away"), away, Option::is_none).await;
    }
    becomes(&scene, "Quorate to be False", |object| says(object, "Quorate", "False")).await;
    scene.delete::<ResourceQuota>(QUOTA).await;
    let begun = Instant::now();
    settled(&scene, "all members again").await;
    took("the members are back", begun);
    let after = uids(&scene).await;
    assert_eq!(after["db-0"], before["db-0"]);
    checker.finish(&scene, "a majority away for a while").await;
    operator.stop().await;
}

/// Its members count the learners in their own data when they start. One that counts too many crashes, and is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_majority_of_a_later_version_begins_anew_too() {
    let scene = Stage::new("etcd-quorum").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(3);
    wanted["version"] = json!("3.6.16");
    running(&scene, wanted).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    for token in ["first", "second"] {
        let survivor = bystander::leader(&scene).await;
        lose_all_but(&scene, &survivor).await;
        becomes(&scene, "the lost majority to be reported", is_lost).await;
        checker.expect_new_cluster();
        let begun = Instant::now();
        scene.edit::<EtcdCluster>(NAME, json!({ "recovery": { "fromMember": survivor, "token": token } })).await;
        let recovered = |object: &EtcdCluster| {
            let done = object.status.as_ref().and_then(|status| status.recovered.as_deref());
            done == Some(token)
        };
        becomes(&scene, "the recovery", recovered).await;
        settled(&scene, "three members again").await;
        took("three members again, recovered from one", begun);
        checker.goes_on("three members again").await;
        // Each of them starts again from the list in its own data.
        for name in uids(&scene).await.into_keys() {
            let before = uids(&scene).await;
            scene.delete::<Pod>(&name).await;
            super::successor(&scene, &name, &before[&name]).await;
            settled(&scene, "all members after one has started again").await;
        }
    }
    checker.finish(&scene, "a majority of 3.6 lost twice").await;
}
