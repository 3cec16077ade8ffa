//! Members that lose their data while the others have it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};

use super::checker::Checker;
use super::{Stage, WAIT_TIMEOUT, bystander, claim_of, claims, running, settled, spec, successor, took, uids};
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene, volumes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_volume_is_gone_is_replaced() {
    let scene = Stage::new("etcd-volume").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    // First a follower loses its volume, then the leader.
    let leader = bystander::leader(&scene).await;
    let follower = uids(&scene).await.into_keys().find(|name| *name != leader).expect("a follower");
    for (name, role) in [(follower, "a follower"), (leader, "the leader")] {
        let (volumes, members) = (claims(&scene).await, uids(&scene).await);
        let begun = Instant::now();
        scene.delete::<PersistentVolumeClaim>(&claim_of(&name)).await;
        scene.delete::<Pod>(&name).await;
        successor(&scene, &name, &members[&name]).await;
        settled(&scene, "all members again").await;
        took(&format!("{role} whose volume was deleted is replaced"), begun);
        assert_ne!(claims(&scene).await[&claim_of(&name)], volumes[&claim_of(&name)], "another volume");
        checker.goes_on("all members again").await;
    }
    checker.finish(&scene, "two volumes deleted, one after the other").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_files_are_gone_is_replaced() {
    let scene = Stage::new("etcd-volume").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let name = bystander::leader(&scene).await;
    let before = uids(&scene).await;
    let begun = Instant::now();
    volumes::empty(&volume(&scene, &name).await);
    scene.delete::<Pod>(&name).await;
    successor(&scene, &name, &before[&name]).await;
    settled(&scene, "all members again").await;
    took("a member whose files were removed while it ran is replaced", begun);
    checker.goes_on("all members again").await;
    checker.finish(&scene, "the files of a volume removed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_files_are_damaged_is_replaced() {
    let scene = Stage::new("etcd-volume").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let name = bystander::leader(&scene).await;
    let before = uids(&scene).await;
    let begun = Instant::now();
    // This leaves the log without its database: etcd refuses to start with that.
    volumes::empty(&volume(&scene, &name).await.join("data/member/snap"));
    scene.delete::<Pod>(&name).await;
    successor(&scene, &name, &before[&name]).await;
    settled(&scene, "all members again").await;
    took("a member whose database was removed is whole again", begun);
    checker.goes_on("all members again").await;
    checker.finish(&scene, "the database of a member removed").await;
}

/// Overwrites pages of one database, and truncates another: etcd panics with a stack trace of Go, or dies of SIGBUS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_database_is_spoilt_is_replaced() {
    let scene = Stage::new("etcd-volume").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    for (name, cut_off) in [("db-1", false), ("db-2", true)] {
        let before = claims(&scene).await;
        let begun = Instant::now();
        let database = volume(&scene, name).await.join("data/member/snap/db");
        if cut_off {
            volumes::truncate(&database, 10 * 4096);
        } else {
            volumes::overwrite(&database, 2 * 4096, 1000 * 4096);
        }
        scene.delete::<Pod>(name).await;
        let another = |now: &BTreeMap<String, String>| {
            now.get(&claim_of(name)).is_some_and(|uid| *uid != before[&claim_of(name)])
        };
        wait_within(WAIT_TIMEOUT, "another volume", || claims(&scene), another).await;
        settled(&scene, "all members again").await;
        took(&format!("a member whose database was spoilt (cut off: {cut_off}) is replaced"), begun);
        let after = claims(&scene).await;
        assert!(before.iter().all(|(claim, uid)| *claim == claim_of(name) || after[claim] == *uid), "only that one");
    }
    checker.goes_on("all members again").await;
    checker.finish(&scene, "the databases of two members spoilt, one after the other").await;
}

/// Where a member's volume is on this machine.
async fn volume(scene: &Scene, member: &str) -> PathBuf {
    let path = volumes::directory(scene, &claim_of(member)).await;
    assert!(path.join("data").is_dir(), "{} holds the data of {member}", path.display());
    path
}
