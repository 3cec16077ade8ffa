//! Members whose pods die or hang.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;

use super::checker::{Checker, mixed};
use super::{Stage, bystander, member, pods, running, settled, spec, successor, took, uids};
use crate::support::{Operator, Scene};

/// Pods that are deleted, each as soon as the one before is back.
const DELETED: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_are_deleted_over_and_over_cost_no_data() {
    let scene = Stage::new("etcd-pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    for turn in 0..DELETED {
        let name = member(turn % 3);
        let before = uids(&scene).await[&name].clone();
        // Every other pod is deleted without a grace period.
        let parameters = if turn % 2 == 0 { DeleteParams::default() } else { DeleteParams::default().grace_period(0) };
        scene.api::<Pod>().delete(&name, &parameters).await.expect("the deletion is accepted");
        successor(&scene, &name, &before).await;
        checker.writes(100).await;
    }
    settled(&scene, "all members again").await;
    checker.finish(&scene, &format!("{DELETED} pods deleted")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pods_deleted_at_once_come_back_with_all_data() {
    let scene = Stage::new("etcd-pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let checker = Checker::start(&scene).await;
    checker.writes(200).await;
    let (before, begun) = (uids(&scene).await, Instant::now());
    let at_once = DeleteParams::default().grace_period(0);
    scene.api::<Pod>().delete_collection(&at_once, &super::ours()).await.expect("the deletion is accepted");
    for (name, uid) in &before {
        successor(&scene, name, uid).await;
    }
    settled(&scene, "all members again").await;
    took("all members are back", begun);
    checker.goes_on("all members again").await;
    checker.finish(&scene, "all pods deleted at once").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_leader_is_succeeded_or_reported() {
    let scene = Stage::new("etcd-pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(3)).await;
    let before = uids(&scene).await;
    let (checker, shared) = (Checker::start(&scene).await, mixed::start(&scene));
    let hanging = bystander::leader(&scene).await;
    let process = process_of(&scene, &hanging).await;
    let (stopped, begun) = (Stopped::new(process), Instant::now());
    let sick = |object: &causeway_api::EtcdCluster| {
        super::says(object, "AllMembersReady", "False") && super::says(object, "Quorate", "True")
    };
    super::becomes(&scene, "the sick member to be noticed, and another leader", sick).await;
    took("a leader that hangs is reported, and another leads", begun);
    bystander::another_leader(&scene, &hanging).await;
    checker.goes_on("while a member hangs").await;
    drop(stopped);
    settled(&scene, "all members again").await;
    assert_eq!(uids(&scene).await, before, "a member that hangs for a moment is not replaced");

    // When a second member hangs, there is no leader, and Ready says so for as long as that lasts.
    let leader = bystander::leader(&scene).await;
    let follower = before.keys().find(|name| **name != leader).expect("a follower");
    let processes = [process_of(&scene, &leader).await, process_of(&scene, follower).await];
    let (stopped, begun) = (processes.map(Stopped::new), Instant::now());
    let away = |object: &causeway_api::EtcdCluster| {
        super::says(object, "Quorate", "False") && super::says(object, "Ready", "False")
    };
    let object = super::becomes(&scene, "a cluster without a leader to be reported", away).await;
    took("a cluster without a leader is reported", begun);
    let reason = super::describe(&object, "Ready").map(|(_, reason, _)| reason);
    println!("»   {}", reason.unwrap_or_default());
    let lost = |object: &causeway_api::EtcdCluster| {
        super::describe(object, "Quorate").is_some_and(|(_, reason, _)| reason == "QuorumLost")
    };
    super::becomes(&scene, "the lost majority to be reported", lost).await;
    took("a majority that hangs is reported", begun);
    drop(stopped);
    settled(&scene, "the majority again").await;
    shared.judged("etcd-leader-hangs").await.must_be_kept("keys that clients share");
    checker.finish(&scene, "the leader hangs for a while").await;
}

/// Only the kubelet can notice that the member hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_single_member_is_restarted() {
    let scene = Stage::new("etcd-pods").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    let checker = Checker::start(&scene).await;
    let _stopped = Stopped::new(process_of(&scene, "db-0").await);
    let is_reported = |object: &causeway_api::EtcdCluster| {
        super::describe(object, "Ready").is_some_and(|(_, reason, message)| {
            reason == "QuorumLost" && message.contains("db-0 on node") && message.contains("kubectl describe pod db-0")
        })
    };
    super::becomes(&scene, "QuorumLost to be reported", is_reported).await;
    scene.has_warning(super::NAME, "QuorumLost").await;
    settled(&scene, "the member again").await;
    checker.goes_on("the restarted member").await;
    checker.finish(&scene, "the only member hangs").await;
}

/// A process that is stopped until this is dropped.
pub struct Stopped(String);

impl Stopped {
    pub fn new(process: String) -> Self {
        signal("-STOP", &process);
        Self(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The process may have been replaced meanwhile.
        let _ = Command::new("kill").args(["-CONT", &self.0]).stderr(Stdio::null()).status();
    }
}

/// Sends a process a signal by name.
pub fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args([name, process]).status().expect("kill runs");
    assert!(sent.success(), "kill {name} {process}");
}

/// The process of a pod's member. The cluster's containers are processes of this machine, in cgroups that are named
/// after them.
pub async fn process_of(scene: &Scene, name: &str) -> String {
    let pods = pods(scene).await;
    let pod = pods.iter().find(|pod| pod.metadata.name.as_deref() == Some(name)).expect("the pod");
    let container = pod.status.as_ref().and_then(|it| it.container_statuses.as_ref()?.first()?.container_id.clone());
    let container = container.and_then(|id| id.rsplit('/').next().map(str::to_owned)).expect("a container");
    let found = fs::read_dir("/proc").expect("/proc").find_map(|entry| {
        let process = entry.ok()?.file_name().into_string().ok()?;
        process.parse::<u32>().ok()?;
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        groups.contains(&container).then_some(process)
    });
    found.unwrap_or_else(|| panic!("no process is in the group of container {container}"))
}
