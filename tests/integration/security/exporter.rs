//! The exporter of Redis answers every client that reaches its port: it must neither give away a password nor show
//! keys.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use causeway_api::Redis;
use k8s_openapi::api::core::v1::{Pod, Secret};
use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::redis::checker::open;
use crate::redis::{NAME, Stage, becomes, is_settled, pods, spec};
use crate::support::{Operator, Scene, wait_for};

/// An exporter from before its endpoint `/scrape` could be closed.
const OLD: &str = "quay.io/oliver006/redis_exporter:v1.45.0";
/// The key that the attacker wants to read.
const KEY: &str = "salaries";

/// The attacker's server, which records everything that it receives, and always answers `+OK`.
struct Attacker {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Attacker {
    /// Starts the server at an address that the pod can reach.
    async fn start(pod: &str) -> io::Result<Self> {
        let own = TcpStream::connect(format!("{pod}:6379")).await?.local_addr()?.ip();
        let listener = TcpListener::bind((own, 0)).await?;
        let address = listener.local_addr()?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let written = Arc::clone(&written);
                tokio::spawn(async move {
                    let mut chunk = [0; 4096];
                    while let Ok(length @ 1..) = client.read(&mut chunk).await {
                        written.lock().expect("no panic").extend_from_slice(&chunk[..length]);
                        if client.write_all(b"+OK\r\n").await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Ok(Self { address, received })
    }

    fn received(&self) -> String {
        String::from_utf8_lossy(&self.received.lock().expect("no panic")).into_owned()
    }
}

/// Status and text of the exporter's answer.
async fn ask(address: &str, path: &str) -> (u16, String) {
    let url = format!("http://{address}:9121{path}");
    let asked = tokio::task::spawn_blocking(move || {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
        let mut answer = agent.get(&url).call()?;
        Ok::<_, ureq::Error>((answer.status().as_u16(), answer.body_mut().read_to_string()?))
    });
    asked.await.expect("no panic").unwrap_or_default()
}

/// Makes a single node with an exporter; returns its pod and the pod's address.
async fn begun(scene: &Scene, more: Value) -> (Pod, String) {
    let mut wanted = spec(0);
    wanted["exporter"] = json!({});
    let Value::Object(more) = more else { panic!("fields are expected, not {more}") };
    wanted.as_object_mut().expect("an object").extend(more);
    scene.create::<Redis>(NAME, wanted).await;
    becomes(scene, "the node", is_settled).await;
    let pod = pods(scene).await.remove(0);
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address");
    let up = |(_, text): &(u16, String)| text.contains("redis_up 1");
    wait_for("the exporter's figures", || ask(&address, "/metrics"), up).await;
    (pod, address)
}

/// Returns the value of a Secret under a key.
async fn secret(scene: &Scene, name: &str, key: &str) -> String {
    let secret = scene.api::<Secret>().get(name).await.expect("the Secret");
    let bytes = secret.data.and_then(|mut data| data.remove(key)).unwrap_or_else(|| panic!("{name} has no {key}"));
    String::from_utf8(bytes.0).expect("a text")
}

/// Asks the exporter for everything that an attacker would: it gives away neither a password nor a key.
async fn attack(address: &str, passwords: &[String]) -> Attacker {
    let attacker = Attacker::start(address).await.expect("an attacker");
    let there = attacker.address;
    let mut output = String::new();
    for target in [format!("redis://{there}"), there.to_string(), format!("redis://causeway@{there}")] {
        output += &ask(address, &format!("/scrape?target={target}")).await.1;
    }
    for target in ["redis://127.0.0.1:6379", "127.0.0.1:6379", "redis://causeway@127.0.0.1:6379"] {
        for asked in ["check-keys=*", "check-single-keys=db0=salaries", "count-keys=db0=*"] {
            output += &ask(address, &format!("/scrape?target={target}&{asked}")).await.1;
            output += &ask(address, &format!("/metrics?target={target}&{asked}")).await.1;
        }
    }
    for path in ["/", "/metrics", "/discover-cluster-nodes", "/debug/pprof/cmdline", "/-/reload"] {
        output += &ask(address, path).await.1;
    }
    let received = attacker.received();
    assert!(!received.contains("AUTH"), "the exporter logs in at the attacker: {received:?}");
    assert!(!output.contains(KEY), "the exporter shows keys: {output}");
    for password in passwords {
        assert!(!received.contains(password) && !output.contains(password), "the exporter gives away a password");
    }
    attacker
}

/// A line to the node as a user.
async fn log_in(address: &str, user: &str, password: &str) -> redis::RedisResult<MultiplexedConnection> {
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let settings = settings.set_username(user).set_password(password);
    let at = ConnectionAddr::Tcp(address.to_owned(), 6379);
    let client = Client::open(at.into_connection_info()?.set_redis_settings(settings))?;
    client.get_multiplexed_async_connection().await
}

/// A client with the exporter's password can read figures, and do nothing else.
async fn may_do_nothing_else(address: &str, password: &str) {
    let mut line = log_in(address, "causeway-exporter", password).await.expect("a user of its own");
    redis::cmd("INFO").arg("ALL").query_async::<String>(&mut line).await.expect("figures are for it");
    for words in [
        "GET salaries",
        "SET salaries 1",
        "DEL salaries",
        "KEYS *",
        "SCAN 0",
        "RANDOMKEY",
        "DUMP salaries",
        "CONFIG GET masterauth",
        "CONFIG SET maxmemory 1",
        "ACL LIST",
        "ACL SETUSER default nopass",
        "CLIENT LIST",
        "CLIENT KILL TYPE normal",
        "MONITOR",
        "REPLICAOF NO ONE",
        "PSYNC ? -1",
        "EVAL return(1) 0",
        "FLUSHALL",
        "SUBSCRIBE all",
        "SHUTDOWN",
    ] {
        let mut parts = words.split(' ');
        let mut command = redis::cmd(parts.next().expect("a command"));
        for part in parts {
            command.arg(part);
        }
        let error = command.query_async::<redis::Value>(&mut line).await.expect_err(words);
        assert_eq!(error.code(), Some("NOPERM"), "{words}: {error}");
    }
}

/// Neither the password nor a way to it is in what others may read of the pod.
fn no_password_in_the_environment(pod: &Pod) {
    let containers = pod.spec.as_ref().expect("a spec").containers.iter();
    let exporter = containers.clone().find(|container| container.name == "exporter").expect("an exporter");
    for variable in exporter.env.iter().flatten() {
        let secret = variable.value_from.as_ref().and_then(|source| source.secret_key_ref.as_ref());
        assert_eq!(secret, None, "{} holds a Secret", variable.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exporter_gives_away_neither_password_nor_keys() {
    let scene = Stage::new("security-exporter").await;
    let _operator = Operator::start(&scene).await;
    let (pod, address) = begun(&scene, json!({ "auth": { "enabled": true } })).await;
    let clients = secret(&scene, "cache-auth", "password").await;
    let mut line = open(&format!("{address}:6379"), Some(&clients)).await.expect("a line");
    redis::cmd("SET").arg(KEY).arg("1").query_async::<()>(&mut line).await.expect("a key");

    let internal = secret(&scene, "cache-users", "internal").await;
    let attacker = attack(&address, &[internal.clone(), clients]).await;
    assert_eq!(attacker.received(), "", "the exporter connects to a server that a client names");
    no_password_in_the_environment(&pod);

    let passwords: Value = serde_json::from_str(&secret(&scene, "cache-users", "exporter.json").await).expect("JSON");
    let own = passwords.as_object().expect("passwords by URL").values().next().and_then(Value::as_str);
    let own = own.expect("a password").to_owned();
    assert_ne!(own, internal);
    may_do_nothing_else(&address, &own).await;
    attack(&address, &[own]).await;
}

/// A client that may not reach Redis itself may still reach the exporter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exporter_shows_no_keys_without_logins() {
    let scene = Stage::new("security-exporter").await;
    let _operator = Operator::start(&scene).await;
    let (_, address) = begun(&scene, json!({})).await;
    let mut line = open(&format!("{address}:6379"), None).await.expect("a line");
    redis::cmd("SET").arg(KEY).arg("1").query_async::<()>(&mut line).await.expect("a key");
    let attacker = attack(&address, &[]).await;
    assert_eq!(attacker.received(), "", "the exporter connects to a server that a client names");
    may_do_nothing_else(&address, "any").await;
}

/// An image whose `/scrape` cannot be closed, under a name that does not show its version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_exporter_gives_away_neither_password_nor_keys() {
    let scene = Stage::new("security-exporter").await;
    let _operator = Operator::start(&scene).await;
    let more = json!({ "auth": { "enabled": true }, "exporter": { "image": "prometheus-redis-exporter:old" } });
    let (pod, address) = begun(&scene, more).await;
    let clients = secret(&scene, "cache-auth", "password").await;
    let mut line = open(&format!("{address}:6379"), Some(&clients)).await.expect("a line");
    redis::cmd("SET").arg(KEY).arg("1").query_async::<()>(&mut line).await.expect("a key");
    attack(&address, &[secret(&scene, "cache-users", "internal").await, clients]).await;
    no_password_in_the_environment(&pod);
}

#[tokio::test]
async fn an_exporter_that_clients_can_send_anywhere_is_refused() {
    let scene = Scene::new("security-exporter").await;
    let mut wanted = spec(0);
    for image in [OLD, "oliver006/redis_exporter:1.82.0", "oliver006/redis_exporter:v1.9.0-alpine"] {
        wanted["exporter"] = json!({ "image": image });
        let refused = scene.try_create::<Redis>("old", wanted.clone()).await.expect_err(image).to_string();
        assert!(refused.contains("spec.exporter.image") && refused.contains("v1.83.0"), "{refused}");
    }
    for image in ["oliver006/redis_exporter:v1.83.0", "oliver006/redis_exporter:v2.0.0", "exporter@sha256:0"] {
        wanted["exporter"] = json!({ "image": image });
        wanted["suspend"] = json!(true);
        let name = format!("new-{}", image.len());
        scene.try_create::<Redis>(&name, wanted.clone()).await.unwrap_or_else(|error| panic!("{image}: {error}"));
    }
}
