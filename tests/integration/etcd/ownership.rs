//! Volumes that another object left, members that a user added, and pods whose label a user removed.

use causeway_api::{DatabaseBackup, EtcdCluster, Redis};
use etcd_client::Client;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use serde_json::{Value, json};

use super::checker::Checker;
use super::{
    LABEL, NAME, Stage, WAIT_TIMEOUT, becomes, bystander, claim_of, claims, describe, pods, running, settled, spec,
    stalls, uids,
};
use crate::support::scene::condition;
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

async fn client(scene: &Scene, pod: &str) -> Client {
    let pod = scene.api::<Pod>().get(pod).await.expect("the pod");
    let address = pod.status.and_then(|status| status.pod_ip).expect("an address");
    Client::connect([format!("http://{address}:2379")], None).await.expect("the member answers")
}

/// Adds a member that never starts. etcd accepts no new member before all members have been connected for a few
/// seconds.
async fn add_voter(scene: &Scene) {
    let add = || async {
        let added = client(scene, "db-0").await.member_add(["http://10.9.8.7:2380"], None).await;
        added.map(drop).map_err(|error| error.to_string())
    };
    // A call that timed out may have added it.
    let is_there = |added: &Result<(), String>| added.as_ref().err().is_none_or(|it| it.contains("already exist"));
    wait_within(WAIT_TIMEOUT, "etcd to take a voter", add, is_there).await.ok();
}

async fn patch<K>(scene: &Scene, name: &str, patch: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let patched = scene.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.expect("the patch is accepted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_takes_no_volume_that_a_redis_left() {
    let scene = Stage::new("etcd-ownership").await;
    let _operator = Operator::start(&scene).await;
    scene.create::<Redis>(NAME, json!({ "replicas": 1 })).await;
    let is_ready = |object: &Redis| {
        let ready = object.status.as_ref().and_then(|status| condition(&status.conditions, "Ready"));
        ready.is_some_and(|(status, ..)| status == "True")
    };
    let redis = scene.api::<Redis>();
    wait_within(WAIT_TIMEOUT, "a Redis", || async { redis.get(NAME).await.expect("the object") }, is_ready).await;
    scene.delete::<Redis>(NAME).await;
    scene.gone::<Redis>(NAME).await;
    scene.gone::<StatefulSet>(NAME).await;
    for ordinal in 0..2 {
        scene.gone::<Pod>(&format!("{NAME}-{ordinal}")).await;
    }
    let left = || async {
        let list = scene.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.expect("claims").items;
        let facts = |claim: PersistentVolumeClaim| (claim.name_any(), claim.uid(), claim.owner_references().to_vec());
        list.into_iter().map(facts).collect::<Vec<_>>()
    };
    let before = left().await;
    assert_eq!(before.len(), 2, "{before:?}");
    let mut wanted = spec(3);
    wanted["deletionPolicy"] = "Delete".into();
    scene.create::<EtcdCluster>(NAME, wanted).await;
    let (reason, message) = stalls(&scene, "a cluster that finds volumes of a Redis").await;
    assert_eq!(reason, "NameTaken");
    assert!(message.contains("data-db-0") && message.contains("Redis db"), "{message}");
    assert!(pods(&scene).await.is_empty(), "no pod writes into them");
    scene.delete::<EtcdCluster>(NAME).await;
    scene.gone::<EtcdCluster>(NAME).await;
    assert_eq!(left().await, before, "the volumes are as the Redis left them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlabelled_pod_gets_its_label_back() {
    let scene = Stage::new("etcd-ownership").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let before = uids(&scene).await;
    patch::<Pod>(&scene, "db-1", json!({ "metadata": { "labels": { LABEL: null } } })).await;
    scene.delete::<Pod>("db-2").await;
    super::successor(&scene, "db-2", &before["db-2"]).await;
    settled(&scene, "all members again").await;
    assert_eq!(uids(&scene).await["db-1"], before["db-1"], "the pod stays");
    scene.has_event(NAME, "Labelled", "db-1").await;
    checker.finish(&scene, "the label of a pod taken off").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_is_removed_and_a_moved_member_stays() {
    let scene = Stage::new("etcd-strangers").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let volumes = claims(&scene).await;
    add_voter(&scene).await;
    scene.has_event(NAME, "MemberRemoved", "10.9.8.7").await;
    settled(&scene, "three members without the stranger").await;
    let moved = bystander::status_of(&scene, "db-1").await.member_id;
    let update = || async {
        let elsewhere = ["http://elsewhere.example.com:2380".to_owned()];
        let updated = client(&scene, "db-0").await.member_update(moved, elsewhere).await;
        updated.map(drop).map_err(|error| error.to_string())
    };
    wait_within(WAIT_TIMEOUT, "etcd to take another address", update, Result::is_ok).await.expect("just seen");
    scene.has_event(NAME, "MemberMoved", "db-1").await;
    settled(&scene, "the member to be reached again").await;
    assert_eq!(bystander::status_of(&scene, "db-1").await.member_id, moved);
    assert_eq!(claims(&scene).await, volumes, "no volume goes");
    checker.finish(&scene, "a voter added and a member moved by hand").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_member_is_replaced_while_children_have_no_owner() {
    let scene = Stage::new("etcd-ownership").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    let (before, volumes) = (uids(&scene).await, claims(&scene).await);
    let no_owner = json!({ "metadata": { "ownerReferences": null } });
    patch::<Service>(&scene, NAME, no_owner.clone()).await;
    patch::<ConfigMap>(&scene, NAME, no_owner.clone()).await;
    patch::<StatefulSet>(&scene, NAME, no_owner).await;
    scene.delete::<PersistentVolumeClaim>(&claim_of("db-2")).await;
    scene.delete::<Pod>("db-2").await;
    super::successor(&scene, "db-2", &before["db-2"]).await;
    for child in ["Service db", "ConfigMap db", "StatefulSet db"] {
        scene.has_event(NAME, "TakenBack", child).await;
    }
    settled(&scene, "all members again").await;
    assert_ne!(claims(&scene).await[&claim_of("db-2")], volumes[&claim_of("db-2")], "another volume");
    assert_eq!(uids(&scene).await["db-0"], before["db-0"], "the others stay");
    checker.finish(&scene, "children without owner, and a volume deleted").await;
}

/// Three of four votes must agree. With the stranger's vote and another one lost, the members that are left cannot
/// restore a majority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_lost_to_a_stranger_is_recovered() {
    let scene = Stage::new("etcd-strangers").await;
    let operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    operator.stop().await;
    add_voter(&scene).await;
    scene.delete::<PersistentVolumeClaim>(&claim_of("db-2")).await;
    let before = uids(&scene).await;
    scene.delete::<Pod>("db-2").await;
    wait_within(
        WAIT_TIMEOUT,
        "another db-2",
        || uids(&scene),
        |now| now.get("db-2").is_some_and(|uid| *uid != before["db-2"]),
    )
    .await;
    let _operator = Operator::start(&scene).await;
    // While a member does not answer in time, fewer may be told of.
    let lost = |object: &EtcdCluster| {
        describe(object, "Quorate").is_some_and(|(_, reason, message)| {
            reason == "QuorumLost" && message.contains("2 of 4 voting members") && message.contains("10.9.8.7")
        })
    };
    becomes(&scene, "the lost majority to be reported, with the stranger", lost).await;
    let recovery = json!({ "fromMember": "db-0", "token": "first" });
    scene.edit::<EtcdCluster>(NAME, json!({ "recovery": recovery })).await;
    settled(&scene, "three members of the recovered cluster").await;
}

/// Waits until that object is the controller of the backup; returns the backup.
async fn controlled(scene: &Scene, owner: &EtcdCluster) -> DatabaseBackup {
    let api = scene.api::<DatabaseBackup>();
    let look = || async { api.get("db-backup").await.expect("the backup") };
    let is_ours = |backup: &DatabaseBackup| {
        backup.owner_references().iter().any(|it| it.controller == Some(true) && Some(&it.uid) == owner.uid().as_ref())
    };
    wait_within(WAIT_TIMEOUT, "the backup to have its owner", look, is_ours).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_and_a_cluster_without_owner_are_taken_back() {
    let scene = Stage::new("etcd-ownership").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = spec(3);
    wanted["backupSchedule"] = json!("0 2 * * *");
    let object = running(&scene, wanted.clone()).await;
    let backup = controlled(&scene, &object).await;
    let checker = Checker::start(&scene).await;
    checker.writes(100).await;
    patch::<DatabaseBackup>(&scene, "db-backup", json!({ "metadata": { "ownerReferences": null } })).await;
    assert_eq!(controlled(&scene, &object).await.uid(), backup.uid(), "it is the same");
    let is_taken =
        |object: &EtcdCluster| describe(object, "BackupReady").is_some_and(|(_, reason, _)| reason == "NameTaken");
    becomes(&scene, "the backup to be the cluster's", |object| !is_taken(object)).await;

    // `kubectl delete --cascade=orphan`, and the object is made again.
    let volumes = claims(&scene).await;
    let orphaning = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    scene.api::<EtcdCluster>().delete(NAME, &orphaning).await.expect("the deletion is accepted");
    scene.gone::<EtcdCluster>(NAME).await;
    checker.goes_on("no object").await;
    let object = running(&scene, wanted).await;
    assert_eq!(controlled(&scene, &object).await.uid(), backup.uid(), "it is the same");
    assert_eq!(claims(&scene).await, volumes, "no volume was replaced");
    // Its members have another token for those that join, so they are replaced one by one.
    checker.goes_on("the object again").await;
    checker.finish(&scene, "an object deleted without its children, and made again").await;
}
