//! The content of a server is copied into another one: all of it, to the end once it has begun, and never over data of others.

use std::process::Stdio;

use etcd_client::{Client, GetOptions};
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::plane::{FOLDER, ID, Plane};
use super::stage::{WAIT_TIMEOUT, redis_command, redis_connection};

async fn ask<T: FromRedisValue>(address: &str, words: &[&str]) -> T {
    redis_command(address, words).await
}

/// The content of database 0 of a Redis, and its functions, as text.
async fn contents(address: &str) -> Vec<(String, String, String)> {
    // One connection, and one pipeline for each command: there are thousands of keys.
    let mut connection = redis_connection(address).await;
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut connection).await.expect("keys");
    keys.retain(|key| key != "causeway.example.com/restore");
    keys.sort_unstable();
    let types: Vec<String> = of_each(&mut connection, &keys, |_, key| vec!["TYPE", key]).await;
    let ends: Vec<i64> = of_each(&mut connection, &keys, |_, key| vec!["PEXPIRETIME", key]).await;
    let values: Vec<redis::Value> = of_each(&mut connection, &keys, |at, key| match types[at].as_str() {
        "string" => vec!["GET", key],
        "hash" => vec!["HGET", key, "field"],
        "list" => vec!["LRANGE", key, "0", "-1"],
        "zset" => vec!["ZRANGE", key, "0", "-1", "WITHSCORES"],
        "stream" => vec!["XRANGE", key, "-", "+"],
        _ => vec!["SMEMBERS", key],
    })
    .await;
    let described = values.iter().zip(ends).map(|(value, ends)| (format!("{value:?}"), ends.to_string()));
    let mut found: Vec<_> =
        keys.iter().cloned().zip(described).map(|(key, (value, ends))| (key, value, ends)).collect();
    let functions: redis::Value =
        redis::cmd("FUNCTION").arg("DUMP").query_async(&mut connection).await.expect("functions");
    found.push((String::new(), format!("{functions:?}"), String::new()));
    found
}

/// Returns what a Redis answers to a command about each of the keys.
async fn of_each<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    keys: &[String],
    command: impl for<'a> Fn(usize, &'a str) -> Vec<&'a str>,
) -> Vec<T> {
    let mut all = redis::pipe();
    for (at, key) in keys.iter().enumerate() {
        let words = command(at, key);
        all.cmd(words[0]).arg(&words[1..]);
    }
    all.query_async(connection).await.expect("an answer for each key")
}

async fn filled(plane: &Plane) -> (String, String, Value) {
    let (from, into) = futures::join!(plane.redis("source"), plane.redis("target"));
    for words in [
        vec!["HSET", "hash", "field", "value"],
        vec!["RPUSH", "list", "a", "b"],
        vec!["SADD", "set", "one"],
        vec!["ZADD", "sorted", "1.5", "a", "inf", "b"],
        vec!["XADD", "stream", "1-1", "field", "value"],
        vec!["SET", "ends", "value", "EX", "100000"],
        // An earlier restore into it failed.
        vec!["SET", "causeway.example.com/restore", "earlier"],
        vec!["FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('hello', function() return 1 end)"],
        vec!["EVAL", "for i = 1, 5000 do redis.call('SET', 'key:' .. i, string.rep('x', 2000) .. i) end", "0"],
    ] {
        let _: redis::Value = ask(&from, &words).await;
    }
    let server = json!({ "type": "redis", "addresses": [from] });
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    let target = json!({ "type": "redis", "addresses": ["127.0.0.1:1", into] });
    let plan = plane.restore_plan(&from, &target);
    plane.run("fetch", &plan).await.succeeded();
    (from, into, plan)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_force_overwrites_values_of_a_redis() {
    let plane = Plane::new("plane-restore").await;
    let (from, into, mut plan) = filled(&plane).await;
    // A manifest other than the one that the operator has checked is refused.
    let mut another = plan.clone();
    another["manifest"] = json!("0f".repeat(32));
    let ended = plane.run("fetch", &another).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("ManifestChanged")), "{}", ended.log);
    assert_eq!(plane.run("restore", &plan).await.succeeded().keys, Some(5006));
    assert_eq!(contents(&into).await, contents(&from).await);
    let marks = || ask::<i64>(&into, &["EXISTS", "causeway.example.com/restore"]);
    assert_eq!(marks().await, 0, "the mark goes with the end");
    // The process may have died before it could report that it was done.
    let done = format!("done:{FOLDER}/{ID}");
    let () = ask(&into, &["SET", "causeway.example.com/restore", &done]).await;
    plane.run("restore", &plan).await.succeeded();
    assert_eq!(marks().await, 0, "another try that finds it done takes it away");

    let _: i64 = ask(&into, &["DEL", "hash"]).await;
    let _: redis::Value = ask(&into, &["SET", "stranger", "value"]).await;
    let ended = plane.run("restore", &plan).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("TargetNotEmpty")), "{}", ended.log);
    plan["force"] = json!(true);
    plan["dryRun"] = json!(true);
    let before = contents(&into).await;
    let outlook = plane.run("restore", &plan).await.succeeded().outlook;
    assert_eq!(outlook, ["Create 1 keys", "Replace 5005 keys", "Drop 1 keys"]);
    assert_eq!(contents(&into).await, before, "a dry run writes nothing");
    plan["dryRun"] = json!(false);
    plane.run("restore", &plan).await.succeeded();
    assert_eq!(contents(&into).await, contents(&from).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_restore_is_finished_by_the_next() {
    let plane = Plane::new("plane-half").await;
    let (from, into, plan) = filled(&plane).await;
    let (mut target, mut tries) = (redis_connection(&into).await, 0);
    let mark = loop {
        let mut process = plane.command("restore", &plan).stderr(Stdio::null()).spawn().expect("it starts");
        // Waits for more than the mark. The restore takes milliseconds, so there is no pause between two looks.
        let begun =
            async { while redis::cmd("DBSIZE").query_async::<u64>(&mut target).await.expect("an answer") < 2 {} };
        timeout(WAIT_TIMEOUT, begun).await.expect("the restore begins");
        process.kill().expect("it can be killed");
        process.wait().expect("it ends");
        if let Some(mark) = ask::<Option<String>>(&into, &["GET", "causeway.example.com/restore"]).await {
            break mark;
        }
        // Without the mark, the restore had ended before it was killed.
        tries += 1;
        assert!(tries < 100, "every restore ended before it was killed");
        let () = ask(&into, &["FLUSHALL"]).await;
    };
    if !mark.starts_with("done:") {
        // Another restore finds one that was left half-done, and that no process will finish.
        let () = ask(&into, &["SET", "causeway.example.com/restore", "another"]).await;
        assert_eq!(plane.run("restore", &plan).await.reason.as_deref(), Some("TargetHalfRestored"));
        let () = ask(&into, &["SET", "causeway.example.com/restore", &mark]).await;
    }
    plane.run("restore", &plan).await.succeeded();
    assert_eq!(contents(&into).await, contents(&from).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_force_overwrites_keys_of_an_etcd() {
    let plane = Plane::new("plane-etcd").await;
    let (from, into) = futures::join!(plane.etcd("source"), plane.etcd("target"));
    let mut source = Client::connect([&from], None).await.expect("a connection");
    let mut target = Client::connect([&into], None).await.expect("a connection");
    for number in 0..300 {
        // More than one page, and more than one transaction.
        let value = format!("{number}").repeat(5000);
        source.put(format!("key:{number}"), value, None).await.expect("written");
    }
    let server = json!({ "type": "etcd", "endpoints": ["http://127.0.0.1:1", from] });
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    let manifest = plane.manifest().await.expect("a backup");
    assert_eq!((manifest.contents.keys, manifest.version.as_str()), (300, "3.5.9"));
    let mut plan =
        plane.restore_plan(from.trim_start_matches("http://"), &json!({ "type": "etcd", "endpoints": [into] }));
    plane.run("fetch", &plan).await.succeeded();
    assert_eq!(plane.run("verify", &plan).await.succeeded().keys, Some(300));

    assert_eq!(plane.run("restore", &plan).await.succeeded().keys, Some(300));
    assert_eq!(pairs(&mut target).await, pairs(&mut source).await);
    // The process may have died before it could report that it was done.
    plane.run("restore", &plan).await.succeeded();

    target.put("stranger", "value", None).await.expect("written");
    target.delete("key:7", None).await.expect("deleted");
    let ended = plane.run("restore", &plan).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("TargetNotEmpty")), "{}", ended.log);
    target.put("key:8", "another", None).await.expect("written");
    plan["force"] = json!(true);
    plan["dryRun"] = json!(true);
    let before = pairs(&mut target).await;
    let outlook = plane.run("restore", &plan).await.succeeded().outlook;
    assert_eq!(outlook, ["Create 1 keys", "Replace 1 keys", "Drop 1 keys", "Keep 298 keys"]);
    assert_eq!(pairs(&mut target).await, before, "a dry run writes nothing");
    plan["dryRun"] = json!(false);
    plane.run("restore", &plan).await.succeeded();
    assert_eq!(pairs(&mut target).await, pairs(&mut source).await);

    // A server with other content is noticed.
    source.put("later", "value", None).await.expect("written");
    plane.run("verify", &plan).await.succeeded();
    let revision = source_revision(&mut source).await;
    source.compact(revision, None).await.expect("compacted");
    let ended = plane.run("verify", &plan).await.succeeded();
    assert!(ended.log.contains("compacted"), "what cannot be compared is logged: {}", ended.log);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_to_an_etcd_stay_unless_forced() {
    let plane = Plane::new("plane-etcd-theirs").await;
    let (from, into) = futures::join!(plane.etcd("source"), plane.etcd("target"));
    let mut source = Client::connect([&from], None).await.expect("a connection");
    let mut target = Client::connect([&into], None).await.expect("a connection");
    for key in ["a", "b", "c"] {
        source.put(key, "value", None).await.expect("written");
    }
    let server = json!({ "type": "etcd", "endpoints": [from] });
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    let mut plan =
        plane.restore_plan(from.trim_start_matches("http://"), &json!({ "type": "etcd", "endpoints": [into] }));
    plane.run("fetch", &plan).await.succeeded();
    // This very restore is half done, and another client adds a key.
    target.put("causeway.example.com/restore", "another", None).await.expect("written");
    let ended = plane.run("restore", &plan).await;
    let ended = (ended.code, ended.reason);
    assert_eq!(ended, (Some(3), Some("TargetHalfRestored".to_owned())), "another restore has begun");
    target.put("causeway.example.com/restore", format!("{FOLDER}/{ID}"), None).await.expect("written");
    target.put("a", "value", None).await.expect("written");
    for (theirs, value) in [("b", "another"), ("stranger", "value")] {
        target.put(theirs, value, None).await.expect("written");
        let ended = plane.run("restore", &plan).await;
        assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("Differs")), "{}", ended.log);
        assert!(ended.log.contains("changed by another client"), "{}", ended.log);
        let found = target.get(theirs, None).await.expect("an answer");
        assert_eq!(
            found.kvs().first().map(etcd_client::KeyValue::value),
            Some(value.as_bytes()),
            "{theirs} is not touched"
        );
        target.delete(theirs, None).await.expect("deleted");
    }
    assert_eq!(plane.run("restore", &plan).await.succeeded().keys, Some(3));
    assert_eq!(pairs(&mut target).await, pairs(&mut source).await);
    target.put("b", "another", None).await.expect("written");
    target.put("stranger", "value", None).await.expect("written");
    plan["force"] = json!(true);
    plane.run("restore", &plan).await.succeeded();
    assert_eq!(pairs(&mut target).await, pairs(&mut source).await);
}

async fn pairs(client: &mut Client) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = client.get("", Some(GetOptions::new().with_all_keys())).await.expect("all keys");
    all.kvs().iter().map(|pair| (pair.key().to_vec(), pair.value().to_vec())).collect()
}

async fn source_revision(client: &mut Client) -> i64 {
    let counted = client.get("", Some(GetOptions::new().with_all_keys().with_count_only())).await;
    counted.expect("a revision").header().map_or(0, etcd_client::ResponseHeader::revision)
}
