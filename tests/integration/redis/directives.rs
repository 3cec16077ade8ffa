//! Two processes of Redis whose settings differ in one directive, one of them the replica of the other: which directives make
//! the same commands mean something else? Causeway refuses to let nodes differ in those.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use redis::aio::MultiplexedConnection;
use serde_json::json;

use super::checker::open;
use super::faults::process_of;
use crate::support::rollout_watch::is_ready;
use crate::support::wait::wait_within;
use crate::support::{Scene, wait_for};

const IMAGE: &str = "redis:7.0.15";
/// So many replicas follow the master at the same time.
const AT_ONCE: usize = 24;
/// The first port of replicas.
const PORT: usize = 7000;
const WAIT: Duration = Duration::from_mins(3);

/// Directives for which data of replicas differ from those of the master.
const SPLITTING: [&str; 1] = ["databases"];
/// Directives of which replicas encode the same data in another way, which `DEBUG DIGEST` sees: the registers of a
/// `HyperLogLog`.
const ENCODING: [&str; 1] = ["hll-sparse-max-bytes"];
/// Directives for which Causeway replaces pods (`LASTING` in `settings.rs`), as far as this version has them and `CONFIG SET`
/// names them.
const LASTING: [&str; 18] = [
    "always-show-logo",
    "aof_rewrite_cpulist",
    "bgsave_cpulist",
    "bio_cpulist",
    "databases",
    "disable-thp",
    "enable-debug-command",
    "enable-module-command",
    "enable-protected-configs",
    "io-threads",
    "io-threads-do-reads",
    "rdbchecksum",
    "server_cpulist",
    "set-proc-title",
    "syslog-enabled",
    "syslog-facility",
    "syslog-ident",
    "tcp-backlog",
];
/// Directives that Causeway sets in running processes, although they look as if they needed another one.
const LIVE: [&str; 6] = [
    "maxclients",
    "jemalloc-bg-thread",
    "lazyfree-lazy-user-del",
    "oom-score-adj",
    "oom-score-adj-values",
    "protected-mode",
];
/// Directives without which a process of this test is no replica of the other, or could not be asked.
const NEEDED: [&str; 22] = [
    "replicaof",
    "slaveof",
    "port",
    "tls-port",
    "bind",
    "unixsocket",
    "enable-debug-command",
    "cluster-enabled",
    "logfile",
    "dir",
    "dbfilename",
    "replica-read-only",
    "slave-read-only",
    "replica-announce-port",
    "slave-announce-port",
    "masterauth",
    "masteruser",
    "requirepass",
    "supervised",
    "daemonize",
    "pidfile",
    "aclfile",
];
/// Other values of directives that are neither a number nor yes or no, and of those whose half is still too large to matter.
const OTHERS: [(&str, &str); 14] = [
    ("proto-max-bulk-len", "1048576"),
    ("client-query-buffer-limit", "1048576"),
    ("maxmemory", "1048576"),
    ("maxmemory-policy", "allkeys-random"),
    ("appendfsync", "always"),
    ("list-max-listpack-size", "2"),
    ("list-max-ziplist-size", "2"),
    ("notify-keyspace-events", "AKE"),
    ("sanitize-dump-payload", "yes"),
    ("acl-pubsub-default", "allchannels"),
    ("repl-diskless-load", "swapdb"),
    ("oom-score-adj", "yes"),
    ("proc-title-template", "{title} x"),
    ("save", "1 1"),
];

/// A process of Redis beside the first one of a pod, until this is dropped.
struct Replica {
    name: String,
    value: String,
    process: Child,
    /// Where it answers, if it follows the master.
    address: Option<String>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Another value than the default.
fn another(name: &str, value: &str) -> Option<String> {
    if let Some((_, other)) = OTHERS.iter().find(|(known, _)| *known == name) {
        return Some((*other).to_owned());
    }
    match (value, value.parse::<i64>()) {
        ("yes", _) => Some("no".into()),
        ("no", _) => Some("yes".into()),
        (_, Ok(number @ ..=1)) => Some((number + 1).to_string()),
        (_, Ok(number)) => Some((number / 2).to_string()),
        _ => None,
    }
}

fn start(beside: &str, port: usize, name: &str, value: &str) -> Child {
    let (port, file) = (port.to_string(), format!("{port}.rdb"));
    let mut command = Command::new("nsenter");
    command.args(["--target", beside, "--mount", "--net", "--root", "redis-server", "--port", &port]);
    command.args(["--dir", "/tmp", "--dbfilename", &file, "--enable-debug-command", "yes", "--protected-mode", "no"]);
    command.args(["--replicaof", "127.0.0.1 6379", &format!("--{name}"), value]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nsenter starts")
}

async fn ask<T: redis::FromRedisValue>(connection: &mut MultiplexedConnection, words: &[&str]) -> Option<T> {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(connection).await.ok()
}

/// Commands of all kinds, with values beyond every limit that encodings have.
async fn write_all_kinds(master: &mut MultiplexedConnection) {
    let long = "x".repeat(2 << 20);
    let script = "for i = 1, 900 do redis.call('HSET', KEYS[1], 'field' .. i, i) redis.call('RPUSH', KEYS[2], 'element' .. i) \
                  redis.call('ZADD', KEYS[3], i, 'member' .. i) redis.call('SADD', KEYS[4], i) redis.call('PFADD', KEYS[5], i) \
                  redis.call('XADD', KEYS[6], 'MAXLEN', '~', '100', '*', 'field', i) end";
    let library = "#!lua name=lib\nredis.register_function('keep', function(keys, args) return redis.call('SET', keys[1], args[1]) end)";
    let commands: Vec<Vec<&str>> = vec![
        vec!["SELECT", "0"],
        vec!["SET", "first", "1"],
        vec!["SET", "long", &long],
        vec!["APPEND", "long", &long],
        vec!["SETRANGE", "long", "5000000", "end"],
        vec!["EVAL", script, "6", "hash", "list", "sorted", "set", "hll", "stream"],
        vec!["HSET", "hash-long", "field", &long],
        vec!["SPOP", "set", "100"],
        vec!["LMPOP", "1", "list", "LEFT", "COUNT", "50"],
        vec!["INCRBYFLOAT", "float", "0.1"],
        vec!["GEOADD", "geo", "13.361389", "38.115556", "Palermo"],
        vec!["FUNCTION", "LOAD", library],
        vec!["FCALL", "keep", "1", "kept", "value"],
        vec!["XGROUP", "CREATE", "stream", "group", "0"],
        vec!["XREADGROUP", "GROUP", "group", "me", "COUNT", "10", "STREAMS", "stream", ">"],
        vec!["XTRIM", "stream", "MAXLEN", "~", "50"],
        vec!["SET", "gone", "soon", "PX", "1"],
        vec!["SORT", "set", "STORE", "sorted-set"],
        vec!["SELECT", "10"],
        vec!["SET", "tenth", "1"],
        vec!["MOVE", "tenth", "9"],
        vec!["SET", "first", "of database 10"],
        vec!["SELECT", "0"],
    ];
    for words in commands {
        let done: Option<redis::Value> = ask(master, &words).await;
        assert!(done.is_some(), "{} {}", words[0], words[1]);
    }
}

/// Returns the content of a process: a digest of all data, and the count of the `HyperLogLog`.
async fn contents(connection: &mut MultiplexedConnection) -> Option<(String, u64)> {
    Some((ask(connection, &["DEBUG", "DIGEST"]).await?, ask(connection, &["PFCOUNT", "hll"]).await?))
}

async fn offset(connection: &mut MultiplexedConnection) -> Option<u64> {
    let text: String = ask(connection, &["INFO", "replication"]).await?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let is_linked = field("role:")?.trim() == "master" || field("master_link_status:")?.trim() == "up";
    let name = if field("role:")?.trim() == "master" { "master_repl_offset:" } else { "slave_repl_offset:" };
    field(name)?.trim().parse().ok().filter(|_| is_linked)
}

/// Replicas that differ in one directive each, in turns. Returns what each of them has and what the master has.
async fn turn(
    host: &str,
    beside: &str,
    differing: &[(String, String)],
) -> (BTreeMap<String, (String, u64)>, (String, u64)) {
    let mut master = open(&format!("{host}:6379"), None).await.expect("the master");
    for words in [["FLUSHALL", "SYNC"], ["FUNCTION", "FLUSH"]] {
        let done: Option<redis::Value> = ask(&mut master, &words).await;
        assert!(done.is_some(), "{words:?}");
    }
    let started = differing.iter().enumerate().map(|(at, (name, value))| async move {
        let process = start(beside, PORT + at, name, value);
        let mut replica = Replica { name: name.clone(), value: value.clone(), process, address: None };
        let address = format!("{host}:{}", PORT + at);
        for _ in 0..60 {
            if let Ok(mut connection) = open(&address, None).await
                && offset(&mut connection).await.is_some()
            {
                replica.address = Some(address);
                break;
            }
            if replica.process.try_wait().is_ok_and(|ended| ended.is_some()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        replica
    });
    let replicas: Vec<Replica> = join_all(started).await;
    write_all_kinds(&mut master).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    // The key has expired, and the master deletes it now.
    let _: Option<u64> = ask(&mut master, &["EXISTS", "gone"]).await;
    let mut found = BTreeMap::new();
    for mut replica in replicas {
        let Some(address) = replica.address.take() else {
            println!("  {} {}: not accepted, or no replica of the other", replica.name, replica.value);
            continue;
        };
        let target = offset(&mut master).await.expect("the master's offset");
        // It may close connections that no client uses.
        let look = || async { offset(&mut open(&address, None).await.ok()?).await };
        let what = format!("a replica with {} {}", replica.name, replica.value);
        wait_within(WAIT, &what, look, |own| own.is_some_and(|own| own >= target)).await;
        let mut connection = open(&address, None).await.expect("the replica");
        found.insert(replica.name.clone(), contents(&mut connection).await.expect("its contents"));
    }
    (found, contents(&mut master).await.expect("the master's contents"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_number_of_databases_gives_commands_another_meaning() {
    let scene = Scene::new("redis-directives").await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "one" },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "redis", "image": IMAGE,
                "command": ["redis-server", "--protected-mode", "no", "--enable-debug-command", "yes", "--save", "",
                            "--repl-diskless-sync-delay", "0"],
            }],
        },
    }))
    .expect("a pod");
    let api = scene.api::<Pod>();
    api.create(&PostParams::default(), &pod).await.expect("the pod is taken");
    let pod = wait_for("the pod to run", || async { api.get("one").await.expect("the pod") }, is_ready).await;
    let host = pod.status.and_then(|status| status.pod_ip).expect("an address");
    let beside = process_of(&scene, "one").await;
    let mut master = open(&format!("{host}:6379"), None).await.expect("the master");
    let all: BTreeMap<String, String> = ask(&mut master, &["CONFIG", "GET", "*"]).await.expect("all directives");
    for (names, is_immutable) in [(&LASTING[..], true), (&LIVE[..], false)] {
        for name in names {
            let value = all.get(*name).unwrap_or_else(|| panic!("{name} is no directive"));
            let mut set = redis::cmd("CONFIG");
            let refusal = set.arg("SET").arg(*name).arg(value).query_async::<()>(&mut master).await.err();
            let words = refusal.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(words.contains("immutable"), is_immutable, "{name} {value}: {words}");
        }
    }
    let tried = all.iter().filter(|(name, _)| !NEEDED.contains(&name.as_str()) && !name.starts_with("tls-"));
    let differing: Vec<(String, String)> =
        tried.filter_map(|(name, value)| Some((name.clone(), another(name, value)?))).collect();
    let (mut split, mut count) = (Vec::new(), 0);
    for some in differing.chunks(AT_ONCE) {
        let (found, of_master) = turn(&host, &beside, some).await;
        count += found.len();
        for (name, own) in found {
            match own {
                own if own == of_master => {}
                (_, counted) if counted == of_master.1 && ENCODING.contains(&name.as_str()) => {}
                _ => split.push(name),
            }
        }
    }
    println!("» of {} directives, {count} were tried with another value on the replica", all.len());
    assert!(count > 100, "{count} directives were tried");
    assert_eq!(split, SPLITTING, "directives that give commands another meaning");
}
