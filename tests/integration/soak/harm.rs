//! The faults that take more than a signal: to disks, files, labels, members and operators.

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::chaos::Random;
use crate::etcd::checker::{Failover, Way};
use crate::leadership::process::Process;
use crate::redis::faults::{Severed, Unwritable, kill, takes_a_snapshot};
use crate::support::wait::{WAIT_TIMEOUT, wait_within};
use crate::support::{Scene, volumes, wait_for};
use crate::{etcd, redis};

/// Seconds for which both operators run before they are killed again. None is longer than the lease for databases.
const PAUSES: [u64; 4] = [2, 3, 4, 5];
/// Large enough that few values fill the database, small enough for one request.
const VALUE: usize = 1024 * 1024;

/// A fault that stays until it is ended.
pub struct Held {
    until_dropped: Option<Box<dyn Any>>,
    /// The node whose disk takes nothing.
    disk: Option<String>,
}

impl Held {
    pub fn nothing() -> Self {
        Self { until_dropped: None, disk: None }
    }

    pub fn until_dropped(it: impl Any) -> Self {
        Self { until_dropped: Some(Box::new(it)), disk: None }
    }

    /// Ends the fault.
    pub async fn ends(self, scene: &Scene) {
        drop(self.until_dropped);
        if let Some(name) = self.disk {
            takes_a_snapshot(scene, &name).await;
        }
    }
}

/// Makes the master's snapshot fail as on a full disk. Returns when another node is the master.
pub async fn disk_takes_nothing(scene: &Scene) -> Held {
    let name = redis::master(scene).await;
    let unwritable = Unwritable::at_a_snapshot(scene, &name).await;
    redis::succeeded(scene, &name).await;
    Held { disk: Some(name), ..Held::until_dropped(unwritable) }
}

/// The longest time in seconds for which packets between two nodes, or between one and the clients, are dropped.
const LONGEST_CUT: u64 = 15;

/// Drops packets between the master and these replicas for a while, and kills the master meanwhile where `kills` says so.
/// With all replicas cut off, the master refuses writes after a while, so the cut ends before clients are waited for.
pub async fn sever(scene: &Scene, from: &[String], kills: bool, random: &mut Random) {
    let name = redis::master(scene).await;
    let _severed = Severed::new(scene, &name, from).await;
    sleep(Duration::from_secs(1 + random.below(LONGEST_CUT))).await;
    if kills {
        kill(scene, &name).await;
        sleep(Duration::from_secs(random.below(5))).await;
    }
}

/// Drops all packets to and from a node but those of other nodes, for a while.
pub async fn unreached(scene: &Scene, name: &str, random: &mut Random) {
    let _severed = Severed::from_all_but_nodes(scene, name).await;
    sleep(Duration::from_secs(1 + random.below(LONGEST_CUT))).await;
}

/// Truncates a replica's file and restarts the replica. Returns when the operator has emptied the replica, or given it
/// another volume, and it has its data again.
pub async fn spoil_replica(scene: &Scene, name: &str) {
    let folder = files_of(&redis::faults::process_of(scene, name).await, "data/appendonlydir");
    let base = |path: &PathBuf| path.to_string_lossy().ends_with(".base.rdb");
    let files = fs::read_dir(&folder).expect("the replica's files").filter_map(|entry| Some(entry.ok()?.path()));
    let base = files.filter(base).max().expect("a file with the data");
    cut_off(&base);
    let before = redis::uids(scene).await[name].clone();
    scene.api::<Pod>().delete(name, &DeleteParams::default()).await.expect("the deletion is accepted");
    let another = || async { redis::uids(scene).await.get(name).is_some_and(|uid| *uid != before) };
    wait_for(&format!("another pod {name}"), another, |another| *another).await;
    redis::nodes::complete(scene, 2, None).await;
}

/// Truncates a member's database and restarts the member. Returns when it has another volume.
pub async fn spoil_member(scene: &Scene, name: &str) {
    let before = etcd::claims(scene).await;
    let folder = files_of(&etcd::process_of(scene, name).await, "var/lib/etcd/data/member/snap");
    volumes::truncate(&folder.join("db"), 10 * 4096);
    scene.api::<Pod>().delete(name, &DeleteParams::default()).await.expect("the deletion is accepted");
    let claim = format!("data-{name}");
    let another = || async { etcd::claims(scene).await.get(&claim).is_some_and(|uid| *uid != before[&claim]) };
    wait_within(WAIT_TIMEOUT, &format!("another volume of {name}"), another, |another| *another).await;
}

/// A folder as a container's process sees it, on whatever node it runs.
fn files_of(process: &str, folder: &str) -> PathBuf {
    Path::new("/proc").join(process).join("root").join(folder)
}

fn cut_off(file: &Path) {
    let length = fs::metadata(file).expect("the file").len();
    volumes::truncate(file, length / 2);
}

/// Removes the label by which a pod is found. Returns when the pod has it again.
pub async fn take_label_off(scene: &Scene, name: &str, label: &str) {
    let patch = Patch::Merge(json!({ "metadata": { "labels": { (label): null } } }));
    let api = scene.api::<Pod>();
    api.patch(name, &PatchParams::default(), &patch).await.expect("the patch is accepted");
    let look =
        || async { api.get_opt(name).await.expect("an answer").is_some_and(|pod| pod.labels().contains_key(label)) };
    wait_for(&format!("the label of {name}"), look, |there| *there).await;
}

/// Adds a member that is never started. etcd accepts no new member before all members have been connected for a few
/// seconds.
pub async fn add_stranger(scene: &Scene) {
    let add = || async {
        let mut client = Failover::new(scene, Way::Members, 0);
        client.call(async |client| client.member_add(["https://10.9.8.7:2380"], None).await).await
    };
    wait_within(WAIT_TIMEOUT, "etcd to take a stranger", add, Result::is_ok).await.ok();
}

/// Writes the same key until its history fills the database.
pub async fn fill_database(scene: &Scene) {
    let mut client = Failover::new(scene, Way::Members, 0);
    let mut write = async || {
        loop {
            let put = client.call(async |client| client.put("full", vec![b'x'; VALUE], None).await).await;
            if let Err(why) = put {
                return why;
            }
        }
    };
    let begun = std::time::Instant::now();
    loop {
        let why = write().await;
        if why.contains("database space exceeded") {
            return;
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT, "the database is not full: {why}");
    }
}

/// Kills the master while all operators are killed again and again. Returns when another node is the master.
pub async fn kill_master_among_dying(scene: &Scene, operators: &mut [Process]) {
    let name = redis::master(scene).await;
    let storm = async {
        for pause in PAUSES.into_iter().cycle() {
            operators.iter_mut().for_each(Process::start_again);
            sleep(Duration::from_secs(pause)).await;
        }
    };
    let succession = async {
        kill(scene, &name).await;
        redis::succeeded(scene, &name).await;
    };
    tokio::select! {
        () = storm => unreachable!("it goes on for ever"),
        () = succession => {}
    }
}
