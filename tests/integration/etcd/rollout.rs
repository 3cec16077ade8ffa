//! New versions and settings reach the members one by one, the leader last.

use std::time::Instant;

use causeway_api::EtcdCluster;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use serde_json::{Value, json};

use super::checker::Checker;
use super::{
    NAME, Stage, becomes, bystander, describe, pods, running, says, settled, spec, stalls, successor, took, uids,
};
use crate::support::rollout_watch::RolloutWatch;
use crate::support::{Operator, Scene, wait_for};

/// Edits a healthy cluster of three; fails unless its members were replaced one by one, the leader last.
async fn rolls(scene: &Scene, what: &str, edit: Value) {
    let watch = RolloutWatch::start(scene).await;
    let (begun, leader) = (Instant::now(), bystander::leader(scene).await);
    scene.edit::<EtcdCluster>(NAME, edit).await;
    settled(scene, what).await;
    took(what, begun);
    leader_last(scene, &watch, &leader, what).await;
    assert_eq!(watch.fewest_ready(), 2, "{what}: one at a time");
}

/// Fails unless each of three members was replaced once, and last the one that led before. If the members elected
/// another leader meanwhile, that one was the last, and it has handed leadership over.
pub async fn leader_last(scene: &Scene, watch: &RolloutWatch, leader: &str, what: &str) {
    // The watch may be behind the status.
    let look = || async { watch.replaced() };
    let replaced = wait_for(&format!("{what}: three replaced pods"), look, |names| names.len() >= 3).await;
    assert_eq!(replaced.len(), 3, "{what}: each member once: {replaced:?}");
    let last = &replaced[2];
    if last != leader {
        println!("»   {what}: {leader} led, and {last} was the last of {replaced:?}");
        scene.has_event(NAME, "LeaderMoved", &format!("Moved leadership from {last} to")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrades_and_downgrades_replace_the_leader_last() {
    let scene = Stage::new("etcd-upgrade").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    for version in ["3.5.35", "3.6.16"] {
        rolls(&scene, &format!("etcd {version} everywhere"), json!({ "version": version })).await;
        checker.goes_on(version).await;
    }
    let before = uids(&scene).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.9" })).await;
    let (_, message) = stalls(&scene, "a message about a version that is too old").await;
    assert!(message.contains("spec.version") && message.contains("3.5.26"), "{message}");
    checker.goes_on("while it is asked for").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    rolls(&scene, "etcd 3.5.35 everywhere, again", json!({ "version": "3.5.35" })).await;
    scene.has_event(NAME, "DowngradeEnabled", "from 3.6.16 to 3.5.35").await;
    checker.finish(&scene, "etcd 3.5.9 → 3.5.35 → 3.6.16 → 3.5.35").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_settings_roll_member_by_member_the_leader_last() {
    let scene = Stage::new("etcd-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    bystander::lead(&scene, "db-1").await;
    let checker = Checker::start(&scene).await;
    let config = json!({ "config": { "quota-backend-bytes": "4294967296", "snapshot-count": "5000" } });
    rolls(&scene, "new flags everywhere", config).await;
    let resources = json!({ "resources": { "requests": { "cpu": "20m" } } });
    rolls(&scene, "new resources everywhere", resources).await;
    for pod in pods(&scene).await {
        let requests = pod.spec.and_then(|spec| spec.containers[0].resources.clone()).and_then(|it| it.requests);
        assert_eq!(requests.unwrap()["cpu"].0, "20m");
    }
    checker.finish(&scene, "new flags, then new resources").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_image_costs_one_follower() {
    let scene = Stage::new("etcd-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let before = uids(&scene).await;
    let watch = RolloutWatch::start(&scene).await;
    let checker = Checker::start(&scene).await;
    // Just before the edit: the members may elect another one at any time.
    let leader = bystander::leader(&scene).await;
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.99" })).await;
    let stuck = |object: &EtcdCluster| {
        let conditions = object.status.iter().flat_map(|status| status.conditions.iter());
        conditions.clone().any(|it| it.message.contains("spec.version") || it.message.contains("spec.image"))
    };
    becomes(&scene, "a message about the image that cannot be pulled", stuck).await;
    checker.goes_on("while one member has no image").await;
    let after = uids(&scene).await;
    let stayed: Vec<&String> = before.keys().filter(|name| before[*name] == after[*name]).collect();
    assert!(stayed.len() == 2 && stayed.contains(&&leader), "{stayed:?} stayed, and {leader} leads");

    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.35" })).await;
    settled(&scene, "the better version everywhere").await;
    assert_eq!(watch.fewest_ready(), 2, "neither the bad nor the better version took a second member away");
    checker.finish(&scene, "a version that does not exist, then one that does").await;
}

/// No other member could serve meanwhile: the pod comes back with the version that worked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_member_comes_back_when_an_image_is_missing() {
    let scene = Stage::new("etcd-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    let checker = Checker::start(&scene).await;
    let begun = Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.99" })).await;
    // At first it only sees that the majority is away.
    let told = |object: &EtcdCluster| describe(object, "Stalled").filter(|(_, reason, _)| reason == "BroughtBack");
    let object = becomes(&scene, "the version that worked", |object| told(object).is_some()).await;
    let (.., message) = told(&object).expect("just seen");
    assert!(message.contains("spec.version") && message.contains("rollout restart statefulset/db"), "{message}");
    becomes(&scene, "the member that worked", |object| says(object, "Quorate", "True")).await;
    took("a single member serves again after a bad version", begun);
    checker.goes_on("the member that worked").await;
    let before = uids(&scene).await;
    scene.delete::<Pod>("db-0").await;
    successor(&scene, "db-0", &before["db-0"]).await;
    checker.goes_on("the member after a drain").await;
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.35" })).await;
    settled(&scene, "the better version").await;
    checker.finish(&scene, "a version that does not exist, and one member").await;
}

/// The quota has room for what there was. As soon as it has room for the edit, that is followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_member_returns_as_it_was() {
    let scene = Stage::new("etcd-rollout").await;
    let _operator = Operator::start(&scene).await;
    let limited = |limit: &str| json!({ "limits": { "memory": limit } });
    let mut first = spec(3);
    first["resources"] = limited("256Mi");
    running(&scene, first).await;
    let checker = Checker::start(&scene).await;
    scene.create::<ResourceQuota>("memory", json!({ "hard": { "limits.memory": "800Mi" } })).await;
    let quotas = scene.api::<ResourceQuota>();
    let look = || async { quotas.get("memory").await.expect("the quota").status.and_then(|status| status.used) };
    wait_for("the quota to be in force", look, Option::is_some).await;
    let begun = Instant::now();
    scene.edit::<EtcdCluster>(NAME, json!({ "resources": limited("512Mi") })).await;
    let told = |object: &EtcdCluster| describe(object, "Stalled").filter(|(_, reason, _)| reason == "BroughtBack");
    let object = becomes(&scene, "the spec that worked", |object| told(object).is_some()).await;
    let (.., message) = told(&object).expect("just seen");
    for words in ["exceeded quota", "spec.resources", "rollout restart statefulset/db"] {
        assert!(message.contains(words), "{message}");
    }
    becomes(&scene, "all members", |object| says(object, "AllMembersReady", "True")).await;
    took("a member that was refused serves as it was", begun);
    let before = uids(&scene).await;
    checker.goes_on("all members").await;
    assert_eq!(uids(&scene).await, before, "it is not tried again while it is refused");
    scene.delete::<ResourceQuota>("memory").await;
    settled(&scene, "the edit, which is not refused any more").await;
    checker.finish(&scene, "members that a quota refuses").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_member_comes_back_while_an_image_is_missing() {
    let scene = Stage::new("etcd-rollout").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let (before, checker) = (uids(&scene).await, Checker::start(&scene).await);
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.99" })).await;
    let stuck = |object: &EtcdCluster| {
        let conditions = object.status.iter().flat_map(|status| status.conditions.iter());
        conditions.clone().any(|it| it.message.contains("cannot pull image"))
    };
    becomes(&scene, "a message about the image that cannot be pulled", stuck).await;
    let now = uids(&scene).await;
    let worked: Vec<&String> = before.keys().filter(|it| before[*it] == now[*it]).collect();
    assert_eq!(worked.len(), 2);
    for lost in worked {
        scene.delete::<Pod>(lost).await;
        successor(&scene, lost, &before[lost]).await;
        checker.goes_on("the lost member").await;
    }
    scene.edit::<EtcdCluster>(NAME, json!({ "version": "3.5.35" })).await;
    settled(&scene, "the better version everywhere").await;
    checker.finish(&scene, "members lost while an image is missing").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_amount_in_other_words_restarts_no_member() {
    let scene = Stage::new("etcd-rollout").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(1);
    wanted["resources"] = json!({ "requests": { "cpu": "0.1", "memory": "64Mi" }, "limits": { "memory": "4Gi" } });
    running(&scene, wanted).await;
    let before = uids(&scene).await;
    for (cpu, memory, limit) in [("100m", "65536Ki", "4096Mi"), ("1e-1", "67108864", "4194304Ki")] {
        let other = json!({ "requests": { "cpu": cpu, "memory": memory }, "limits": { "memory": limit } });
        scene.edit::<EtcdCluster>(NAME, json!({ "resources": other })).await;
        settled(&scene, "the other words").await;
    }
    // Two members more come after those.
    scene.edit::<EtcdCluster>(NAME, json!({ "replicas": 3 })).await;
    settled(&scene, "three members").await;
    assert_eq!(uids(&scene).await["db-0"], before["db-0"], "its pod was not replaced");
}
