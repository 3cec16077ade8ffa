//! Clients that find the master as they would with Redis Sentinel.

use std::collections::BTreeMap;
use std::time::Instant;

use causeway_api::Redis;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::time::timeout;

use super::auth::password;
use super::checker::{Entrance, Secure};
use super::tls::client;
use super::{NAME, Stage, WAIT_TIMEOUT, becomes, is_settled, master, patient, pods, succeeded, took};
use crate::support::{Operator, Scene, wait_for};

/// The Service at which clients ask.
const SENTINEL: &str = "cache-sentinel";

/// The addresses of the nodes, by pod.
async fn addresses(scene: &Scene) -> BTreeMap<String, String> {
    let named = |pod: k8s_openapi::api::core::v1::Pod| Some((pod.metadata.name?, pod.status?.pod_ip?));
    pods(scene).await.into_iter().filter_map(named).collect()
}

/// The master that the sentinel at that address names.
async fn ask_sentinel(secure: &Secure, password: &str, address: &str) -> Result<Option<(String, u16)>, String> {
    let asked = async {
        let mut line = secure.open(address, Some(password)).await?;
        redis::cmd("SENTINEL").arg("get-master-addr-by-name").arg(NAME).query_async(&mut line).await
    };
    asked.await.map_err(|error: redis::RedisError| error.to_string())
}

/// Subscribes to news of another master at that address: the subscription has begun when this returns. The future that
/// it returns gives the next message.
async fn listening(secure: &Secure, password: &str, address: &str) -> impl Future<Output = String> + use<> {
    let stream = secure.stream(address).await.expect("a connection");
    let mut lines = BufReader::new(stream);
    for command in [redis::cmd("AUTH").arg(password), redis::cmd("SUBSCRIBE").arg("+switch-master")] {
        lines.write_all(&command.get_packed_command()).await.expect("it is sent");
    }
    let mut read = async move |end: &str| {
        let mut line = String::new();
        while !line.trim_end().ends_with(end) {
            line.clear();
            let length = lines.read_line(&mut line).await.expect("a line");
            assert!(length > 0, "the connection ended before a line with {end:?} came");
        }
        line.trim_end().to_owned()
    };
    // The answer to `SUBSCRIBE` ends with the number of channels.
    timeout(WAIT_TIMEOUT, read(":1")).await.expect("an answer");
    async move { read(" 6379").await }
}

/// With a password and TLS, the harder case: less is asked of a client without them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_clients_find_every_next_master() {
    let scene = Stage::new("redis-discovery").await;
    let _operator = Operator::start(&scene).await;
    let mut wanted = patient(1);
    wanted["auth"] = json!({ "enabled": true });
    wanted["tls"] = json!({ "clientCertificates": "Required" });
    wanted["sentinel"] = json!({});
    scene.create::<Redis>(NAME, wanted).await;
    let object = becomes(&scene, "two nodes, each with a sentinel", is_settled).await;
    let named = object.status.and_then(|status| status.connection).and_then(|connection| connection.sentinel);
    assert_eq!(named, Some(format!("{SENTINEL}.{}.svc:26379", scene.namespace)));

    let secure = client(&scene, SENTINEL, "cache-client-tls", true).await;
    let password = password(&scene, "cache-auth").await;
    let entrance = Entrance::service(&scene, SENTINEL);
    let service = wait_for("the Service of sentinels", || entrance.address(), Result::is_ok).await.expect("just seen");
    let (first, nodes) = (master(&scene).await, addresses(&scene).await);
    let (heir, at) = nodes.iter().find(|(name, _)| **name != first).expect("a replica");
    let each = nodes.values().map(|address| format!("{address}:26379")).chain([service.clone()]);
    for address in each.clone() {
        let look = || ask_sentinel(&secure, &password, &address);
        let good = |seen: &Result<_, String>| *seen == Ok(Some((nodes[&first].clone(), 6379)));
        wait_for(&format!("{first} to be found at {address}"), look, good).await.expect("just seen");
        let refused = ask_sentinel(&secure, "wrong", &address).await.expect_err("a wrong password");
        assert!(refused.contains("authentication failed"), "{address}: {refused}");
    }
    let mut line = secure.open(&service, Some(&password)).await.expect("a connection");
    let masters: Vec<BTreeMap<String, String>> =
        redis::cmd("SENTINEL").arg("MASTERS").query_async(&mut line).await.expect("masters");
    assert_eq!((masters[0]["name"].as_str(), masters[0]["flags"].as_str()), (NAME, "master"));

    let next = listening(&secure, &password, &format!("{at}:26379")).await;
    let begun = Instant::now();
    super::faults::kill(&scene, &first).await;
    let message = timeout(WAIT_TIMEOUT, next).await.expect("a message about another master");
    took("a client that listens to a sentinel knows another master", begun);
    assert_eq!(message, format!("{NAME} {} 6379 {at} 6379", nodes[&first]));
    assert_eq!(succeeded(&scene, &first).await, *heir);
    for address in each {
        let look = || ask_sentinel(&secure, &password, &address);
        let good = |seen: &Result<_, String>| *seen == Ok(Some((at.clone(), 6379)));
        wait_for(&format!("{heir} to be found at {address}"), look, good).await.expect("just seen");
    }

    scene.edit::<Redis>(NAME, json!({ "sentinel": Value::Null })).await;
    let look = || async { scene.api::<Service>().get_opt(SENTINEL).await.expect("an answer").is_some() };
    wait_for("the Service of sentinels to be gone", look, |there| !there).await;
}
