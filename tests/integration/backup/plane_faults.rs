//! S3 on a bad day, processes that die, and stored bytes that change.

use std::process::Command;

use serde_json::{Value, json};

use super::plane::{FOLDER, Plane};
use super::stage::{redis_command, redis_connection};
use crate::support::wait_for;

/// Faults of a call that pass.
const PASSING: [&str; 5] = ["throttle", "500", "503", "reset_before", "reset_after"];
/// The calls of a backup.
const CALLS: [&str; 5] =
    ["ListObjectsV2", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "PutObject"];

/// A Redis with 10 MiB that cannot be compressed, more than one part, as a source.
async fn filled(plane: &Plane) -> (String, Value) {
    let address = plane.redis("source").await;
    let mut connection = redis_connection(&address).await;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut number = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    for key in 0..10 {
        let bytes: Vec<u8> = (0..128 * 1024).flat_map(|_| number()).collect();
        let set = redis::cmd("SET").arg(format!("key:{key}")).arg(bytes).query_async(&mut connection).await;
        let () = set.expect("written");
    }
    (address.clone(), json!({ "type": "redis", "addresses": [address] }))
}

/// Checks that there is a backup exactly if the process says so, that it can be fetched, and that no new upload is
/// left. Returns whether there is one.
async fn whole_or_none(plane: &Plane, server: &Value, what: &str) -> bool {
    let before = plane.uploads().await;
    let ended = plane.run("backup", &plane.backup_plan(server)).await;
    plane.emulator.no_faults().await;
    let manifest = plane.manifest().await;
    assert_eq!(manifest.is_some(), ended.code == Some(0), "{what}: {}", ended.log);
    assert_eq!(plane.uploads().await, before, "{what}: {}", ended.log);
    if manifest.is_some() {
        plane.run("fetch", &plane.restore_plan("127.0.0.1:1", server)).await.succeeded();
    }
    plane.remove().await;
    ended.code == Some(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_survives_every_failure_of_a_call() {
    let plane = Plane::new("plane-faults").await;
    let (_, server) = filled(&plane).await;
    for operation in CALLS {
        for kind in PASSING {
            plane.emulator.fault(json!({ "kind": kind, "service": "s3", "operation": operation, "times": 1 })).await;
        }
        let fault = json!({ "kind": "expired_token", "service": "s3", "operation": operation, "times": 1 });
        plane.emulator.fault(fault).await;
        assert!(whole_or_none(&plane, &server, operation).await, "{operation} gives up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_permission_leaves_only_a_reason() {
    let plane = Plane::new("plane-denied").await;
    let (_, server) = filled(&plane).await;
    for operation in CALLS {
        plane.emulator.fault(json!({ "kind": "access_denied", "service": "s3", "operation": operation })).await;
        let ended = plane.run("backup", &plane.backup_plan(&server)).await;
        plane.emulator.no_faults().await;
        assert_eq!(
            (ended.code, ended.reason.as_deref()),
            (Some(1), Some("AccessDenied")),
            "{operation}: {}",
            ended.log
        );
        assert!(ended.log.contains(operation), "the call is named: {}", ended.log);
        assert_eq!((plane.manifest().await, plane.uploads().await), (None, 0), "{operation}");
        plane.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_jobs_clear_and_killed_ones_block_nothing() {
    let plane = Plane::new("plane-killed").await;
    let (_, server) = filled(&plane).await;
    for signal in ["TERM", "KILL"] {
        plane.emulator.fault(json!({ "kind": "throttle", "service": "s3", "operation": "UploadPart" })).await;
        let mut process = plane.begin_backup(&server);
        wait_for("an upload to begin", || plane.uploads(), |count| *count == 1).await;
        let id = process.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().expect("a signal is sent");
        assert!(sent.success());
        let status = tokio::task::spawn_blocking(move || process.wait()).await.expect("a wait").expect("it ends");
        assert_eq!(status.code(), if signal == "TERM" { Some(1) } else { None });
        assert_eq!(plane.uploads().await, usize::from(signal == "KILL"), "after {signal}");
        plane.emulator.no_faults().await;
        assert!(whole_or_none(&plane, &server, signal).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_a_dead_run_left_are_never_overwritten() {
    let plane = Plane::new("plane-left").await;
    let (_, server) = filled(&plane).await;
    plane.emulator.fault(json!({ "kind": "access_denied", "service": "s3", "operation": "PutObject" })).await;
    let ended = plane.run("backup", &plane.backup_plan(&server)).await;
    plane.emulator.no_faults().await;
    assert_eq!(ended.reason.as_deref(), Some("AccessDenied"), "{}", ended.log);
    let left = plane.etags().await;
    assert_eq!(left.len(), 1, "data without a manifest: {left:?}");
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    assert_eq!(plane.manifest().await, None, "no backup is made of what was left");
    let after = plane.etags().await;
    assert!(left.iter().all(|object| after.contains(object)), "{left:?} is overwritten: {after:?}");
    let next = format!("/{FOLDER}/20261122T000501Z/manifest.json");
    assert!(after.iter().any(|(key, _)| key.ends_with(&next)), "it is due a second later: {after:?}");
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    assert_eq!(plane.etags().await, after, "it is not made again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_there_is_not_made_again() {
    let plane = Plane::new("plane-again").await;
    let (address, server) = filled(&plane).await;
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    let before = plane.manifest().await.expect("a backup");
    let _: i64 = redis_command(&address, &["DEL", "key:1"]).await;
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    assert_eq!(plane.manifest().await, Some(before));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_leaves_no_backup() {
    let plane = Plane::new("plane-flipped").await;
    let (_, server) = filled(&plane).await;
    plane.run("backup", &plane.backup_plan(&server)).await.succeeded();
    let plan = plane.restore_plan("127.0.0.1:1", &server);
    plane.run("fetch", &plan).await.succeeded();
    assert!(plane.fetched("dump.rdb").is_some_and(|bytes| bytes.starts_with(b"REDIS")));
    plane.flip().await;
    let ended = plane.run("fetch", &plan).await;
    assert_eq!((ended.code, ended.reason.as_deref()), (Some(3), Some("ChecksumMismatch")), "{}", ended.log);
    assert_eq!((plane.fetched("dump.rdb"), plane.fetched("manifest.json")), (None, None));
}
