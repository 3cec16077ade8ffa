//! Targets that are smaller than what was backed up: a restore knows it before it writes, or fails with the setting that is enough.

use etcd_client::{Client, GetOptions};
use serde_json::{Value, json};

use super::plane::Plane;
use super::stage::redis_command;

/// Hashes that a node with the usual settings keeps compact. All of them have a time to live.
const FILL: &str = "for i = 1, 20000 do redis.call('HSET', 'h' .. i, 'a', 1, 'b', 2, 'c', 3, 'd', 4, 'e', 5); \
                    redis.call('EXPIRE', 'h' .. i, 100000) end";

async fn keys_of(address: &str) -> i64 {
    redis_command(address, &["DBSIZE"]).await
}

async fn set(address: &str, setting: &str, value: &str) {
    let _: redis::Value = redis_command(address, &["CONFIG", "SET", setting, value]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_too_small_fails_or_names_evictions() {
    let plane = Plane::new("plane-room").await;
    // The target keeps no hash compact, so it needs more than the server that was backed up.
    let settings = ["--maxmemory", "2mb", "--maxmemory-policy", "allkeys-random", "--hash-max-listpack-entries", "1"];
    let (from, into) = futures::join!(plane.redis("source"), plane.redis_with("target", &settings));
    let _: redis::Value = redis_command(&from, &["EVAL", FILL, "0"]).await;
    plane.run("backup", &plane.backup_plan(&json!({ "type": "redis", "addresses": [from] }))).await.succeeded();
    let mut plan = plane.restore_plan(&from, &json!({ "type": "redis", "addresses": [into] }));
    plane.run("fetch", &plan).await.succeeded();

    plan["dryRun"] = json!(true);
    assert_eq!(plane.run("restore", &plan).await.succeeded().refused.as_deref(), Some("MemoryTooSmall"));
    plan["dryRun"] = json!(false);
    let ended = plane.run("restore", &plan).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("MemoryTooSmall")), "{}", ended.log);
    assert_eq!(keys_of(&into).await, 0, "nothing was written");

    // It looks large enough.
    set(&into, "maxmemory", "9mb").await;
    let ended = plane.run("restore", &plan).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("KeysEvicted")), "{}", ended.log);
    assert!(ended.log.contains("CONFIG SET maxmemory") || ended.log.contains("spec.config.maxmemory"), "{}", ended.log);
    plan["force"] = json!(true);
    set(&into, "maxmemory-policy", "noeviction").await;
    let ended = plane.run("restore", &plan).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("MemoryTooSmall")), "{}", ended.log);
    set(&into, "maxmemory", "100mb").await;
    assert_eq!(plane.run("restore", &plan).await.succeeded().keys, Some(20_000));
    assert_eq!(keys_of(&into).await, 20_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_without_the_last_database_is_told_before() {
    let plane = Plane::new("plane-databases").await;
    let (from, into) = futures::join!(plane.redis("source"), plane.redis_with("target", &["--databases", "4"]));
    let _: redis::Value =
        redis_command(&from, &["EVAL", "redis.call('SELECT', 9); redis.call('SET', 'a', 1)", "0"]).await;
    plane.run("backup", &plane.backup_plan(&json!({ "type": "redis", "addresses": [from] }))).await.succeeded();
    let plan = plane.restore_plan(&from, &json!({ "type": "redis", "addresses": [into] }));
    plane.run("fetch", &plan).await.succeeded();
    let ended = plane.run("restore", &plan).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("ServerUnfit")), "{}", ended.log);
    assert!(ended.log.contains("set databases of its configuration to 10 or more"), "{}", ended.log);
    assert_eq!(keys_of(&into).await, 0, "nothing was written");
}

/// Backs an etcd up, and returns the plan to restore it into the other one.
async fn backed_up(plane: &Plane, from: &str, into: &str) -> Value {
    let server = json!({ "type": "etcd", "endpoints": [from] });
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    let target = json!({ "type": "etcd", "endpoints": [into] });
    let plan = plane.restore_plan(from.trim_start_matches("http://"), &target);
    plane.run("fetch", &plan).await.succeeded();
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_with_smaller_limits_gets_smaller_transactions() {
    let plane = Plane::new("plane-etcd-limits").await;
    let settings = ["--max-txn-ops=3", "--max-request-bytes=60000"];
    let (from, into) = futures::join!(plane.etcd("source"), plane.etcd_with("target", &settings));
    let mut source = Client::connect([&from], None).await.expect("a connection");
    for number in 0..200 {
        let value = "x".repeat(if number % 20 == 0 { 40_000 } else { 500 });
        source.put(format!("key:{number}"), value, None).await.expect("written");
    }
    let plan = backed_up(&plane, &from, &into).await;
    assert_eq!(plane.run("restore", &plan).await.succeeded().keys, Some(200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_an_etcd_cannot_take_is_named_before() {
    let plane = Plane::new("plane-etcd-large").await;
    let (from, into) = futures::join!(plane.etcd("source"), plane.etcd_with("target", &["--max-request-bytes=60000"]));
    let mut source = Client::connect([&from], None).await.expect("a connection");
    source.put("a", "small", None).await.expect("written");
    source.put("large", "x".repeat(200_000), None).await.expect("written");
    let mut plan = backed_up(&plane, &from, &into).await;
    for dry_run in [true, false] {
        plan["dryRun"] = json!(dry_run);
        let ended = plane.run("restore", &plan).await;
        let reason = if dry_run { ended.refused.as_deref() } else { ended.reason.as_deref() };
        assert_eq!(reason, Some("ServerUnfit"), "{}", ended.log);
        if !dry_run {
            assert!(ended.log.contains("large") && ended.log.contains("max-request-bytes"), "{}", ended.log);
        }
    }
    let mut target = Client::connect([&into], None).await.expect("a connection");
    let all = target.get("", Some(GetOptions::new().with_all_keys().with_count_only())).await.expect("a count");
    assert_eq!(all.count(), 0, "nothing was written");
}
