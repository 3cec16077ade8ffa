//! TLS among nodes and with clients: from the start, under failover, renewed while clients write, and given by the user.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use causeway_api::Redis;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::checker::{Checker, Promise, Secure, open};
use super::exporter::figures;
use super::{
    NAME, Stage, WAIT_TIMEOUT, becomes, is_settled, master, patient, pods, spec, stalls, succeeded, took, uids,
};
use crate::support::certificates::give;
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene, wait_for};

const SERVERS: &str = "cache-server-tls";
const CLIENTS: &str = "cache-client-tls";
/// How long a mounted Secret takes to reach its pod here. The operator waits for twice as long.
const KUBELET: Duration = Duration::from_secs(3);

/// Files of a Secret, all from one read: the Secret may change between two reads.
async fn files<const N: usize>(scene: &Scene, secret: &str, keys: [&str; N]) -> [String; N] {
    let secret = scene.api::<Secret>().get(secret).await.expect("the Secret");
    let mut data = secret.data.expect("files");
    keys.map(|key| String::from_utf8(data.remove(key).expect("the file").0).expect("text"))
}

/// The authorities that nodes trust.
async fn authorities(scene: &Scene) -> String {
    let [trusted] = files(scene, SERVERS, ["ca.crt"]).await;
    trusted
}

/// The settings of a client with that Secret: with its certificate if `shows`, or without one.
pub async fn client(scene: &Scene, name: &str, secret: &str, shows: bool) -> Secure {
    let name = format!("{name}.{}.svc", scene.namespace);
    if !shows {
        let [trusted] = files(scene, secret, ["ca.crt"]).await;
        return Secure::new(&trusted, &name, None);
    }
    let [trusted, certificate, key] = files(scene, secret, ["ca.crt", "tls.crt", "tls.key"]).await;
    Secure::new(&trusted, &name, Some((&certificate, &key)))
}

/// Where the nodes answer, by pod.
async fn addresses(scene: &Scene) -> BTreeMap<String, String> {
    let address = |pod: k8s_openapi::api::core::v1::Pod| {
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address");
        (pod.name_any(), format!("{ip}:6379"))
    };
    pods(scene).await.into_iter().map(address).collect()
}

/// Reports whether a client gets no answer to a ping. `None` is a client without TLS.
async fn is_refused(secure: Option<&Secure>, address: &str) -> bool {
    let ping = async {
        let mut line = match secure {
            Some(secure) => secure.open(address, None).await?,
            None => open(address, None).await?,
        };
        redis::cmd("PING").query_async::<String>(&mut line).await
    };
    !matches!(timeout(Duration::from_secs(2), ping).await, Ok(Ok(_)))
}

/// Waits until all nodes present the same certificate, and it is not `before`.
async fn renewed(scene: &Scene, secure: &Secure, before: &[u8]) {
    let look = || async {
        let mut shown = Vec::new();
        for address in addresses(scene).await.values() {
            shown.push(secure.shown_certificate(address).await.filter(|shown| shown.as_slice() != before));
        }
        shown
    };
    let good = |shown: &Vec<Option<Vec<u8>>>| shown.iter().all(|it| it.is_some() && *it == shown[0]);
    wait_within(WAIT_TIMEOUT, "all nodes to show another certificate", look, good).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_with_tls_fails_over_and_renews_certificates() {
    let scene = Stage::new("redis-tls").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(2);
    wanted["tls"] = json!({ "clientCertificates": "Required" });
    wanted["exporter"] = json!({});
    let begun = Instant::now();
    scene.create::<Redis>(NAME, wanted).await;
    let object = becomes(&scene, "nodes with TLS", is_settled).await;
    took("a master and two replicas with TLS serve", begun);
    let connection = object.status.and_then(|status| status.connection).expect("a connection");
    assert_eq!(
        (connection.scheme.as_deref(), connection.authority_secret_name.as_deref()),
        (Some("rediss"), Some(CLIENTS))
    );
    let secure = client(&scene, NAME, CLIENTS, true).await;
    let nameless = client(&scene, NAME, CLIENTS, false).await;
    for (name, address) in addresses(&scene).await {
        let look = || is_refused(Some(&secure), &address);
        wait_for(&format!("{name} to answer a client with a certificate"), look, |refused| !refused).await;
        assert!(is_refused(Some(&nameless), &address).await, "{name} answers a client without a certificate");
        assert!(is_refused(None, &address).await, "{name} answers without TLS");
        let ip = address.trim_end_matches(":6379").to_owned();
        let good = |text: &String| text.contains("redis_up 1");
        wait_for(&format!("the figures of {name}"), || figures(ip.clone()), good).await;
    }

    let checker = Checker::start_with_tls(&scene, secure.clone(), None).await;
    let killed = master(&scene).await;
    checker.event("the master killed");
    super::faults::kill(&scene, &killed).await;
    succeeded(&scene, &killed).await;
    becomes(&scene, "all nodes again", is_settled).await;
    checker.goes_on("another master").await;

    // Another certificate of the same authority, and then another authority.
    let before = uids(&scene).await;
    let address = addresses(&scene).await.remove(&master(&scene).await).expect("the master's");
    let shown = secure.shown_certificate(&address).await.expect("a certificate");
    let begun = Instant::now();
    checker.event("shorter certificates");
    scene.edit::<Redis>(NAME, json!({ "tls": { "certificateDuration": "24h" } })).await;
    renewed(&scene, &secure, &shown).await;
    took("all nodes show a renewed certificate", begun);
    checker.goes_on("renewed certificates").await;

    let authority = authorities(&scene).await;
    let begun = Instant::now();
    checker.event("another authority");
    scene.edit::<Redis>(NAME, json!({ "tls": { "renewal": "once" } })).await;
    // Clients that mount their Secret use what was in it some seconds ago.
    let read = tokio::sync::Mutex::new(VecDeque::from([(Instant::now(), secure.clone())]));
    let followed = || async {
        let mut read = read.lock().await;
        read.push_back((Instant::now(), client(&scene, NAME, CLIENTS, true).await));
        while read.get(1).is_some_and(|(at, _)| at.elapsed() > KUBELET) {
            read.pop_front();
        }
        let stale = read[0].1.clone();
        for (name, address) in addresses(&scene).await {
            assert!(!is_refused(Some(&stale), &address).await, "{name} refuses a client that mounts its Secret");
        }
        checker.use_tls(stale);
        authorities(&scene).await
    };
    let alone = |trusted: &String| *trusted != authority && trusted.matches("BEGIN").count() == 1;
    wait_within(WAIT_TIMEOUT, "another authority to be the only one", followed, alone).await;
    becomes(&scene, "another authority", is_settled).await;
    took("another authority is trusted, used, and the old one forgotten", begun);
    checker.use_tls(client(&scene, NAME, CLIENTS, true).await);
    checker.goes_on("another authority").await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
    let all = pods(&scene).await;
    let restarts = |pod: &k8s_openapi::api::core::v1::Pod| {
        let all = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        all.map(|container| container.restart_count).sum::<i32>()
    };
    assert_eq!(all.iter().map(restarts).sum::<i32>(), 1, "only the node that was killed was restarted");
    checker.finish("a master killed, and certificates renewed", Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_with_tls_moves_to_redis_8() {
    moves_with_tls_and_a_password(json!({ "version": "8.0.2" })).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_set_with_tls_moves_to_valkey() {
    moves_with_tls_and_a_password(json!({ "image": "valkey/valkey:8.1.1" })).await;
}

async fn moves_with_tls_and_a_password(there: Value) {
    let scene = Stage::new("redis-tls").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(2);
    wanted["tls"] = json!({});
    wanted["auth"] = json!({ "enabled": true });
    scene.create::<Redis>(NAME, wanted).await;
    becomes(&scene, "nodes with TLS", is_settled).await;
    let secure = client(&scene, NAME, CLIENTS, false).await;
    let [password] = files(&scene, "cache-auth", ["password"]).await;
    let checker = Checker::start_with_tls(&scene, secure.clone(), Some(&password)).await;
    for edit in [json!({}), there.clone()] {
        checker.event(&format!("a rollout: {edit}"));
        scene.edit::<Redis>(NAME, edit.clone()).await;
        becomes(&scene, &format!("all nodes with {edit}"), is_settled).await;
        checker.goes_on("all nodes after the rollout").await;
        for address in addresses(&scene).await.values() {
            assert!(open(address, Some(&password)).await.is_err(), "{edit}: {address} answers without TLS");
            let mut line = secure.open(address, None).await.expect("a connection");
            let answer = redis::cmd("GET").arg("key").query_async::<Option<String>>(&mut line).await;
            assert!(answer.is_err(), "{edit}: {address} answers without a password");
        }
        let killed = master(&scene).await;
        checker.event(&format!("the master killed: {edit}"));
        super::faults::kill(&scene, &killed).await;
        succeeded(&scene, &killed).await;
        becomes(&scene, "all nodes again", is_settled).await;
        checker.goes_on("another master").await;
    }
    let what = format!("with TLS and a password from Redis 7 to {there}, a master killed before and after");
    checker.finish(&what, Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_secret_is_followed_and_may_vanish() {
    let scene = Stage::new("redis-tls").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(1);
    wanted["tls"] = json!({ "secretName": "given" });
    scene.create::<Redis>(NAME, wanted).await;
    let (reason, message) = stalls(&scene, "a message about the Secret that is missing").await;
    assert_eq!(reason, "SecretInvalid");
    assert!(message.contains("spec.tls.secretName") && message.contains("no Secret given"), "{message}");
    assert!(pods(&scene).await.is_empty(), "no pod is created without a certificate");
    let namespace = scene.namespace.clone();
    give(&scene, "given", &[format!("cache.{namespace}.svc")]).await;
    let stalled_by = |words: &'static str| {
        move |object: &Redis| {
            super::describe(object, "Stalled")
                .is_some_and(|(status, _, message)| status == "True" && message.contains(words))
        }
    };
    becomes(&scene, "a message about the name that is missing", stalled_by("not valid for cache-replicas.")).await;
    let names = [format!("cache.{namespace}.svc"), format!("cache-replicas.{namespace}.svc")];
    give(&scene, "given", &names).await;
    becomes(&scene, "nodes with the given certificate", is_settled).await;

    let before = uids(&scene).await;
    let secure = client(&scene, NAME, "given", false).await;
    let checker = Checker::start_with_tls(&scene, secure.clone(), None).await;
    let address = addresses(&scene).await.into_values().next().expect("an address");
    let shown = secure.shown_certificate(&address).await.expect("a certificate");
    checker.event("another authority and certificate");
    let begun = Instant::now();
    give(&scene, "given", &names).await;
    // Clients that trust the same authorities as the nodes notice nothing meanwhile.
    let followed = || async {
        checker.use_tls(client(&scene, NAME, SERVERS, false).await);
        client(&scene, NAME, "given", false).await.shown_certificate(&address).await
    };
    let other = |now: &Option<Vec<u8>>| now.as_ref().is_some_and(|now| *now != shown);
    wait_within(WAIT_TIMEOUT, "another given certificate to be shown", followed, other).await;
    took("another given certificate is followed", begun);
    let alone = || async { authorities(&scene).await.matches("BEGIN").count() };
    wait_within(WAIT_TIMEOUT, "the old authority to be forgotten", alone, |count| *count == 1).await;
    checker.use_tls(client(&scene, NAME, "given", false).await);
    checker.goes_on("another given certificate").await;

    scene.api::<Secret>().delete("given", &DeleteParams::default()).await.expect("the deletion is accepted");
    stalls(&scene, "a message about the Secret that is gone").await;
    let killed = master(&scene).await;
    checker.event("the master killed");
    super::faults::kill(&scene, &killed).await;
    succeeded(&scene, &killed).await;
    checker.goes_on("another master without the given Secret").await;
    assert_eq!(uids(&scene).await, before, "no pod was replaced");
    checker.finish("a given Secret", Promise::WhatWasReplicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_fixed_in_an_existing_set() {
    let scene = Stage::new("redis-tls").await;
    for (before, after) in [(json!({}), Value::Null), (Value::Null, json!({}))] {
        let mut wanted = spec(0);
        wanted["suspend"] = json!(true);
        wanted["tls"] = before;
        scene.create::<Redis>(NAME, wanted).await;
        let patch = Patch::Merge(json!({ "spec": { "tls": after } }));
        let refusal = scene.api::<Redis>().patch(NAME, &PatchParams::default(), &patch).await.expect_err("refused");
        assert!(refusal.to_string().contains("spec.restoreFrom"), "{refusal}");
        scene.delete::<Redis>(NAME).await;
        scene.gone::<Redis>(NAME).await;
    }
}
