//! What goes wrong, in an order that a seed decides.

use std::any::Any;

use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;

use crate::leadership::process::Process;
use crate::lost_nodes::{CUT, Cut};
use crate::redis::faults::{Stopped, kill};
use crate::support::Scene;
use crate::{etcd, redis};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    MasterKilled,
    MasterHangs,
    MasterDeleted,
    ReplicaKilled,
    LeaderKilled,
    LeaderHangs,
    MemberDeleted,
    OperatorsKilled,
    MasterAndOperatorsKilled,
    NodeCut,
}

impl Fault {
    pub const ALL: [Self; 10] = [
        Self::MasterKilled,
        Self::MasterHangs,
        Self::MasterDeleted,
        Self::ReplicaKilled,
        Self::LeaderKilled,
        Self::LeaderHangs,
        Self::MemberDeleted,
        Self::OperatorsKilled,
        Self::MasterAndOperatorsKilled,
        Self::NodeCut,
    ];

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MasterKilled => "Redis: the master killed",
            Self::MasterHangs => "Redis: the master hangs",
            Self::MasterDeleted => "Redis: the master's pod deleted",
            Self::ReplicaKilled => "Redis: a replica killed",
            Self::LeaderKilled => "etcd: the leader killed",
            Self::LeaderHangs => "etcd: the leader hangs",
            Self::MemberDeleted => "etcd: a member's pod deleted",
            Self::OperatorsKilled => "all operators killed",
            Self::MasterAndOperatorsKilled => "all operators and the master killed",
            Self::NodeCut => "a node cut off",
        }
    }

    /// Lets it happen. What hangs or is cut off stays so until what is returned is dropped.
    pub async fn happens(self, scene: &Scene, operators: &mut [Process], random: &mut Random) -> Option<Box<dyn Any>> {
        match self {
            Self::MasterKilled => kill(scene, &redis::master(scene).await).await,
            Self::MasterHangs => {
                let name = redis::master(scene).await;
                let stopped = Stopped::new(scene, &name).await;
                redis::succeeded(scene, &name).await;
                return Some(Box::new(stopped));
            }
            Self::MasterDeleted => delete(scene, &redis::master(scene).await).await,
            Self::ReplicaKilled => kill(scene, &random.choose(&redis::replicas(scene).await)).await,
            Self::LeaderKilled => {
                etcd::signal("-KILL", &etcd::process_of(scene, &etcd::bystander::leader(scene).await).await);
            }
            Self::LeaderHangs => {
                let name = etcd::bystander::leader(scene).await;
                let stopped = etcd::Stopped::new(etcd::process_of(scene, &name).await);
                return Some(Box::new(stopped));
            }
            Self::MemberDeleted => {
                let names: Vec<String> = etcd::uids(scene).await.into_keys().collect();
                delete(scene, &random.choose(&names)).await;
            }
            Self::OperatorsKilled => operators.iter_mut().for_each(Process::start_again),
            Self::MasterAndOperatorsKilled => {
                operators.iter_mut().for_each(Process::start_again);
                kill(scene, &redis::master(scene).await).await;
            }
            Self::NodeCut => return Some(Box::new(Cut::new(CUT))),
        }
        None
    }
}

async fn delete(scene: &Scene, name: &str) {
    scene.api::<Pod>().delete(name, &DeleteParams::default()).await.expect("the deletion is accepted");
}

/// Numbers that a seed decides: `SplitMix64`, <https://prng.di.unimi.it/splitmix64.c>.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of them.
    pub fn choose<T: Clone>(&mut self, all: &[T]) -> T {
        let count = u64::try_from(all.len()).expect("a number");
        all[usize::try_from(self.next() % count).expect("a number")].clone()
    }
}
