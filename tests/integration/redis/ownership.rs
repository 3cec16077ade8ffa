//! Volumes that another object left, pods whose label a user removed, and files that cannot be read.

use std::fs;
use std::time::Instant;

use causeway_api::{EtcdCluster, Redis};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use super::checker::{Checker, Promise};
use super::faults::kill;
use super::{
    LABEL, NAME, Stage, WAIT_TIMEOUT, becomes, claim_of, claims, master, patient, pods, replicas, running, settled,
};
use super::{describe, stalls, took, uids};
use crate::support::scene::condition;
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene, volumes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_takes_no_volume_that_an_etcd_left() {
    let scene = Stage::new("redis-ownership").await;
    let _operator = Operator::start(&scene).await;
    let wanted = json!({ "version": "3.5.9", "replicas": 1, "storageSize": "1Gi" });
    scene.create::<EtcdCluster>(NAME, wanted).await;
    let is_ready = |object: &EtcdCluster| {
        let ready = object.status.as_ref().and_then(|status| condition(&status.conditions, "Ready"));
        ready.is_some_and(|(status, ..)| status == "True")
    };
    let clusters = scene.api::<EtcdCluster>();
    wait_within(WAIT_TIMEOUT, "an etcd", || async { clusters.get(NAME).await.expect("the object") }, is_ready).await;
    scene.delete::<EtcdCluster>(NAME).await;
    scene.gone::<EtcdCluster>(NAME).await;
    scene.gone::<StatefulSet>(NAME).await;
    scene.gone::<Pod>("cache-0").await;
    let left = || async {
        let list = scene.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.expect("claims").items;
        let facts = |claim: PersistentVolumeClaim| (claim.name_any(), claim.uid(), claim.owner_references().to_vec());
        list.into_iter().map(facts).collect::<Vec<_>>()
    };
    let before = left().await;
    assert_eq!(before.len(), 1, "{before:?}");
    scene.create::<Redis>(NAME, json!({ "replicas": 1, "deletionPolicy": "Delete" })).await;
    let (reason, message) = stalls(&scene, "a set that finds the volume of an etcd").await;
    assert_eq!(reason, "NameTaken");
    assert!(message.contains("data-cache-0") && message.contains("EtcdCluster cache"), "{message}");
    assert!(pods(&scene).await.is_empty(), "no pod writes into it");
    scene.delete::<Redis>(NAME).await;
    scene.gone::<Redis>(NAME).await;
    assert_eq!(left().await, before, "the volume is as the etcd left it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlabelled_master_stays_the_master() {
    let scene = Stage::new("redis-ownership").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let (before, name) = (uids(&scene).await, master(&scene).await);
    let stripped = json!({ "metadata": { "labels": { LABEL: null } } });
    let patched = scene.api::<Pod>().patch(&name, &PatchParams::default(), &Patch::Merge(&stripped)).await;
    patched.expect("the patch is accepted");
    wait_within(WAIT_TIMEOUT, "the label", || uids(&scene), |now| *now == before).await;
    settled(&scene, "all nodes").await;
    checker.goes_on("all nodes").await;
    assert_eq!(master(&scene).await, name);
    let object = becomes(&scene, "the object", |_| true).await;
    assert!(describe(&object, "DataLost").is_none(), "nothing is lost");
    checker.finish("the label of the master's pod taken off", Promise::Everything).await;
}

/// Takes the owner off a child, and returns when the object controls it again.
async fn taken_back<K>(scene: &Scene, name: &str)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let no_owner = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    let api = scene.api::<K>();
    let before = api.patch(name, &PatchParams::default(), &no_owner).await.expect("the patch is accepted").uid();
    let look = || async { api.get(name).await.expect("the child") };
    let is_ours = |child: &K| child.owner_references().iter().any(|owner| owner.controller == Some(true));
    let child = wait_within(WAIT_TIMEOUT, &format!("{} {name} with its owner", K::kind(&())), look, is_ours).await;
    assert_eq!(child.uid(), before, "it is the same");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children_without_owner_are_taken_back_and_told() {
    let scene = Stage::new("redis-ownership").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(1)).await;
    let (checker, before) = (Checker::start(&scene).await, uids(&scene).await);
    taken_back::<Service>(&scene, NAME).await;
    taken_back::<Service>(&scene, "cache-peers").await;
    taken_back::<EndpointSlice>(&scene, "cache-ipv4").await;
    taken_back::<PodDisruptionBudget>(&scene, NAME).await;
    taken_back::<StatefulSet>(&scene, NAME).await;
    scene.has_event(NAME, "TakenBack", "StatefulSet cache").await;
    settled(&scene, "all children again").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
    checker.goes_on("all children again").await;
    checker.finish("children that lost their owner", Promise::Everything).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_whose_file_cannot_be_read_is_filled_again() {
    let scene = Stage::new("redis-ownership").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, patient(2)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(500).await;
    let name = replicas(&scene).await.remove(0);
    let before = claims(&scene).await;
    let begun = Instant::now();
    spoil(&scene, &name).await;
    kill(&scene, &name).await;
    let another = |now: &std::collections::BTreeMap<String, String>| {
        now.get(&claim_of(&name)).is_some_and(|uid| *uid != before[&claim_of(&name)])
    };
    wait_within(WAIT_TIMEOUT, "another volume", || claims(&scene), another).await;
    settled(&scene, "all nodes again").await;
    took("a replica with a broken append-only file is filled again", begun);
    let after = claims(&scene).await;
    assert!(before.iter().all(|(claim, uid)| *claim == claim_of(&name) || after[claim] == *uid), "only that one");
    checker.goes_on("all nodes again").await;
    checker.finish("the append-only file of a replica broken", Promise::Everything).await;
}

/// Overwrites a part of the append-only file in its middle.
async fn spoil(scene: &Scene, name: &str) {
    let directory = volumes::directory(scene, &claim_of(name)).await.join("appendonlydir");
    let files = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let file = files.into_iter().find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("a file");
    let length = fs::metadata(&file).expect("a size").len();
    volumes::overwrite(&file, length / 2, 300);
}
