//! Passwords: asked for, changed while clients write, and never shown.

use causeway_api::Redis;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::Resource;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::checker::{Checker, Promise, open};
use super::{NAME, Stage, becomes, is_settled, master, nodes, patient, pods, settled_with, stalls, uids};
use crate::support::{Operator, Scene, wait_for};

pub(super) async fn password(scene: &Scene, secret: &str) -> String {
    let secret = scene.api::<Secret>().get(secret).await.expect("the Secret");
    let bytes = secret.data.and_then(|mut data| data.remove("password")).expect("a password");
    String::from_utf8(bytes.0).expect("a text")
}

/// Makes a set that asks for a password; returns the password that is made for it.
async fn begin(scene: &Scene) -> String {
    let mut wanted = patient(2);
    wanted["auth"] = json!({ "enabled": true });
    scene.create::<Redis>(NAME, wanted).await;
    becomes(scene, "the first nodes", is_settled).await;
    password(scene, "cache-auth").await
}

async fn change_password(scene: &Scene, secret: &str, password: &str) {
    let patch = Patch::Merge(json!({ "stringData": { "password": password } }));
    scene.api::<Secret>().patch(secret, &PatchParams::default(), &patch).await.expect("the change is accepted");
}

/// Waits until every node accepts that password.
async fn wait_until_taken(scene: &Scene, password: &str) {
    let look = || async { nodes::all(scene, Some(password)).await };
    let all = |nodes: &std::collections::BTreeMap<String, Option<nodes::Node>>| nodes.values().all(Option::is_some);
    wait_for("every node to take the password", look, all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_change_turns_no_client_away() {
    let scene = Stage::new("redis-auth").await;
    let _operator = Operator::start(&scene).await;
    let first = begin(&scene).await;
    settled_with(&scene, "the first nodes", Some(&first)).await;
    assert!(first.len() >= 20, "long enough");
    let before = uids(&scene).await;
    for pod in pods(&scene).await {
        let address = format!("{}:6379", pod.status.and_then(|status| status.pod_ip).expect("an address"));
        for user_provided in [None, Some("wrong")] {
            let refused = match open(&address, user_provided).await {
                Ok(mut line) => redis::cmd("GET").arg("key").query_async::<Option<String>>(&mut line).await.err(),
                Err(error) => Some(error),
            };
            assert!(refused.is_some(), "{address} lets in clients that give {user_provided:?}");
        }
    }

    let checker = Checker::start_with_password(&scene, &first).await;
    let mut current = first.clone();
    for next in ["the second password", "and a third one"] {
        checker.event("another password in the Secret");
        change_password(&scene, "cache-auth", next).await;
        // The previous password still works: clients move one by one.
        checker.goes_on("the earlier password").await;
        wait_until_taken(&scene, next).await;
        checker.goes_on("the earlier password").await;
        checker.use_password(Some(next.to_owned()));
        checker.goes_on("the next password").await;
        current = next.to_owned();
    }
    let look = || async { nodes::all(&scene, Some(&first)).await };
    let none = |nodes: &std::collections::BTreeMap<String, Option<nodes::Node>>| nodes.values().all(Option::is_none);
    wait_for("the first password to be good no more", look, none).await;
    settled_with(&scene, "all nodes", Some(&current)).await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");

    // Replication and failover work with the new password.
    let name = master(&scene).await;
    checker.event("the master killed");
    super::faults::kill(&scene, &name).await;
    super::succeeded(&scene, &name).await;
    settled_with(&scene, "all nodes again", Some(&current)).await;
    checker.goes_on("another master").await;
    for secret in [first.as_str(), "the second password", "and a third one"] {
        shown_nowhere(&scene, secret).await;
    }
    checker.finish("two changes of the password, and a master killed", Promise::WhatWasReplicated).await;
}

/// Panics if a password is in any object other than a Secret.
async fn shown_nowhere(scene: &Scene, secret: &str) {
    for (kind, text) in [
        ("Redis", text_of::<Redis>(scene).await),
        ("StatefulSet", text_of::<StatefulSet>(scene).await),
        ("Pod", text_of::<Pod>(scene).await),
        ("ConfigMap", text_of::<ConfigMap>(scene).await),
        ("Event", text_of::<Event>(scene).await),
    ] {
        assert!(!text.contains(secret), "a {kind} shows the password");
    }
}

async fn text_of<K>(scene: &Scene) -> String
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    let list = scene.api::<K>().list(&ListParams::default()).await.expect("a list");
    serde_json::to_string(&list.items).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_missing_is_told_of_and_awaited() {
    let scene = Stage::new("redis-auth").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(1);
    wanted["auth"] = json!({ "enabled": true, "secretName": "mine" });
    scene.create::<Redis>(NAME, wanted).await;
    let (_, message) = stalls(&scene, "a message about the Secret").await;
    assert!(message.contains("spec.auth.secretName") && message.contains("mine"), "{message}");
    assert!(pods(&scene).await.is_empty(), "no pod is created without a password");
    crate::support::backends::secret(&scene, "mine", "word", "of no use").await;
    let (_, message) = stalls(&scene, "a message about the key").await;
    assert!(message.contains("password"), "{message}");
    change_password(&scene, "mine", "a password of mine").await;
    settled_with(&scene, "the nodes", Some("a password of mine")).await;
    // Without the Secret the nodes run on.
    let checker = Checker::start_with_password(&scene, "a password of mine").await;
    let before = uids(&scene).await;
    checker.event("the Secret deleted");
    scene.delete::<Secret>("mine").await;
    stalls(&scene, "a message about the Secret that is gone").await;
    checker.goes_on("the Secret is gone").await;
    assert_eq!(uids(&scene).await, before);
    change_secret_back(&scene).await;
    settled_with(&scene, "the Secret again", Some("a password of mine")).await;
    checker.finish("a Secret that goes and comes back", Promise::Everything).await;
}

async fn change_secret_back(scene: &Scene) {
    crate::support::backends::secret(scene, "mine", "password", "a password of mine").await;
}

/// Without this Secret, running nodes would let in neither the operator nor a replica that starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_secret_of_users_returns_as_it_was() {
    let scene = Stage::new("redis-auth").await;
    let _operator = Operator::start(&scene).await;
    let user_provided = begin(&scene).await;
    let users = scene.api::<Secret>();
    let known = users.get("cache-users").await.expect("the Secret");
    let checker = Checker::start_with_password(&scene, &user_provided).await;
    let look = || async { users.get_opt("cache-users").await.expect("an answer") };
    let is_known = |now: &Option<Secret>| {
        now.as_ref().is_some_and(|now| {
            now.data.as_ref().map(|data| &data["internal"]) == known.data.as_ref().map(|data| &data["internal"])
        })
    };
    checker.event("the Secret of the users deleted");
    scene.delete::<Secret>("cache-users").await;
    wait_for("the Secret of the users", look, is_known).await;
    checker.event("its password changed");
    let patch = Patch::Merge(json!({ "stringData": { "internal": "a user's" } }));
    users.patch("cache-users", &PatchParams::default(), &patch).await.expect("the change is accepted");
    wait_for("the Secret of the users as it was", look, is_known).await;
    checker.event("its owner taken off");
    let patch = Patch::Merge(json!({ "metadata": { "ownerReferences": null } }));
    users.patch("cache-users", &PatchParams::default(), &patch).await.expect("the change is accepted");
    scene.has_event(NAME, "TakenBack", "Secret cache-users").await;
    let name = master(&scene).await;
    checker.event("the master killed");
    super::faults::kill(&scene, &name).await;
    super::succeeded(&scene, &name).await;
    scene.delete::<Secret>("cache-users").await;
    wait_for("the Secret of the users once more", look, is_known).await;
    settled_with(&scene, "all nodes again", Some(&user_provided)).await;
    checker.goes_on("another master").await;
    checker
        .finish(
            "the Secret of the users deleted, changed and taken off its owner, then a master killed",
            Promise::WhatWasReplicated,
        )
        .await;
}

/// The kubelet looks for a missing Secret less and less often, in the end every two minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_older_than_its_secret_is_replaced() {
    let scene = Stage::new("redis-auth").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(1);
    wanted["auth"] = json!({ "enabled": true });
    scene.create::<Redis>(NAME, wanted).await;
    becomes(&scene, "the first nodes", super::is_settled).await;
    let name = super::replicas(&scene).await.remove(0);
    scene.edit::<Redis>(NAME, json!({ "suspend": true })).await;
    becomes(&scene, "the suspension", super::is_suspended).await;
    let before = uids(&scene).await.remove(&name);
    scene.delete::<Secret>("cache-users").await;
    scene.delete::<Pod>(&name).await;
    let look = || async { uids(&scene).await.remove(&name).filter(|uid| Some(uid) != before.as_ref()) };
    let uid = wait_for("another pod", look, Option::is_some).await.expect("just seen");
    scene.has_repeated_event(&uid, "FailedMount", 6).await;
    let begun = std::time::Instant::now();
    scene.edit::<Redis>(NAME, json!({ "suspend": false })).await;
    scene.has_event(NAME, "PodDeleted", "it waits for Secret cache-users, which came after it").await;
    becomes(&scene, "all nodes again", super::is_settled).await;
    super::took("a pod whose Secret is there now serves", begun);
}
