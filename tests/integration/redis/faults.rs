//! Faults of nodes: their processes are killed or stopped, their network is cut as a whole or between two of them, their files
//! vanish.
//!
//! The cluster's containers are processes of this machine, in cgroups that are named after them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Pod;

use super::{claim_of, nodes, pods};
use crate::support::{Scene, volumes, wait_for};

/// Kills a node's process with SIGKILL; its container starts again.
pub async fn kill(scene: &Scene, name: &str) {
    signal("-KILL", &process_of(scene, name).await);
}

/// A node whose process is stopped until this is dropped.
pub struct Stopped(String);

impl Stopped {
    pub async fn new(scene: &Scene, name: &str) -> Self {
        let process = process_of(scene, name).await;
        signal("-STOP", &process);
        Self(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The container may have ended meanwhile.
        let _ = Command::new("kill").args(["-CONT", &self.0]).stderr(Stdio::null()).status();
    }
}

/// A pod to and from which nothing comes through until this is dropped: nothing is refused, nothing is answered.
pub struct Cut(String);

impl Cut {
    pub async fn new(scene: &Scene, name: &str) -> Self {
        let process = process_of(scene, name).await;
        let rules = "table inet cut {
            chain in { type filter hook input priority -300; iif lo accept; drop; }
            chain out { type filter hook output priority -300; oif lo accept; drop; }
        }";
        assert!(nft(&process, rules), "nft takes the rules");
        Self(process)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        // The pod may be gone, and the rules with it.
        nft(&self.0, "delete table inet cut");
    }
}

/// Nodes that receive nothing from another one, nor that from them, until this is dropped. Clients and the operator reach
/// all of them.
pub struct Severed(Vec<String>);

impl Severed {
    pub async fn new(scene: &Scene, name: &str, others: &[String]) -> Self {
        let pod = scene.api::<Pod>().get(name).await.expect("the pod");
        let address = pod.status.and_then(|status| status.pod_ip).expect("its address");
        let mut processes = Vec::new();
        for other in others {
            let process = process_of(scene, other).await;
            let rules = format!(
                "table inet severed {{
                    chain in {{ type filter hook input priority -300; ip saddr {address} drop; }}
                    chain out {{ type filter hook output priority -300; ip daddr {address} drop; }}
                }}"
            );
            assert!(nft(&process, &rules), "nft takes the rules");
            processes.push(process);
        }
        Self(processes)
    }

    /// The same between a node, and all but the other nodes.
    pub async fn from_all_but_nodes(scene: &Scene, name: &str) -> Self {
        let address = |pod: Pod| pod.status.and_then(|status| status.pod_ip);
        let others: Vec<String> = pods(scene).await.into_iter().filter_map(address).collect();
        let (process, others) = (process_of(scene, name).await, others.join(", "));
        let rules = format!(
            "table inet severed {{
                chain in {{ type filter hook input priority -300; iif lo accept; ip saddr {{ {others} }} accept; drop; }}
                chain out {{ type filter hook output priority -300; oif lo accept; ip daddr {{ {others} }} accept; drop; }}
            }}"
        );
        assert!(nft(&process, &rules), "nft takes the rules");
        Self(vec![process])
    }
}

impl Drop for Severed {
    fn drop(&mut self) {
        for process in &self.0 {
            // The pod may be gone, and the rules with it.
            nft(process, "delete table inet severed");
        }
    }
}

/// A node whose port takes no new connection until this is dropped. Those that it has go on, and nothing is refused.
pub struct Walled(String);

impl Walled {
    pub async fn new(scene: &Scene, name: &str) -> Self {
        let process = process_of(scene, name).await;
        let rules = "table inet walled {
            chain in { type filter hook input priority -300; iif lo accept; tcp dport 6379 tcp flags & (syn | ack) == syn drop; }
        }";
        assert!(nft(&process, rules), "nft takes the rules");
        Self(process)
    }
}

impl Drop for Walled {
    fn drop(&mut self) {
        // The pod may be gone, and the rules with it.
        nft(&self.0, "delete table inet walled");
    }
}

/// Changes the packet filter in the network namespace of a process.
fn nft(process: &str, rules: &str) -> bool {
    let mut child = Command::new("nsenter")
        .args(["--target", process, "--net", "nft", "-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("nsenter starts");
    let mut input = child.stdin.take().expect("its input");
    let written = input.write_all(rules.as_bytes());
    drop(input);
    written.is_ok() && child.wait().expect("nsenter ends").success()
}

/// A volume in which no file can be made until this is dropped. A snapshot fails there as on a full disk, so Redis
/// refuses writes. Its append-only file is not affected: it is open already.
pub struct Unwritable(fs::File, fs::Permissions);

impl Unwritable {
    pub async fn new(scene: &Scene, name: &str) -> Self {
        let path = format!("/proc/{}/root/data", process_of(scene, name).await);
        let directory = fs::File::open(&path).expect("the volume as the process sees it");
        let before = directory.metadata().expect("a directory").permissions();
        directory.set_permissions(fs::Permissions::from_mode(0o555)).expect("the change is accepted");
        Self(directory, before)
    }

    /// Makes a node's volume unwritable, and starts a snapshot, which fails.
    pub async fn at_a_snapshot(scene: &Scene, name: &str) -> Self {
        let unwritable = Self::new(scene, name).await;
        nodes::tell(scene, name, &["BGSAVE"]).await;
        unwritable
    }
}

/// Waits until a node's disk has taken a snapshot again. Before that, the node refuses writes as soon as it is the
/// master. Its process may restart meanwhile: a master that is made a replica while its disk takes nothing dies at the
/// first write that it receives (<https://github.com/redis/redis/issues/13730>).
pub async fn takes_a_snapshot(scene: &Scene, name: &str) {
    wait_for(&format!("a snapshot of {name}"), || nodes::takes_a_snapshot(scene, name), |taken| *taken).await;
}

impl Drop for Unwritable {
    fn drop(&mut self) {
        // The volume may be gone.
        self.0.set_permissions(self.1.clone()).ok();
    }
}

/// Removes everything from a node's volume, while it runs.
pub async fn wipe(scene: &Scene, name: &str) {
    volumes::empty(&volumes::directory(scene, &claim_of(name)).await);
}

fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args([name, process]).status().expect("kill runs");
    assert!(sent.success(), "kill {name} {process}");
}

/// The process of a pod's node, as soon as it runs: the pod's status may still name a container that has ended.
pub async fn process_of(scene: &Scene, name: &str) -> String {
    let look = || async {
        let pod = scene.api::<Pod>().get_opt(name).await.expect("an answer")?;
        let statuses = pod.status?.container_statuses?;
        let id = statuses.into_iter().find(|container| container.name == "redis")?.container_id?;
        first_process(id.rsplit('/').next()?)
    };
    wait_for(&format!("the process of {name}"), look, Option::is_some).await.expect("just seen")
}

/// The first process of a container. The processes that a node forks to write its data to disk are in the same group.
fn first_process(container: &str) -> Option<String> {
    fs::read_dir("/proc").expect("/proc").find_map(|entry| {
        let process = entry.ok()?.file_name().into_string().ok()?;
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        // Its numbers, from the outermost namespace to that of the container.
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let is_first = numbers.split_whitespace().last() == Some("1");
        (is_first && groups.contains(container)).then_some(process)
    })
}
