//! The faults of a soak, in an order that a seed decides.

use causeway_api::{EtcdCluster, Redis};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use super::harm::{self, Held};
use super::page::Database;
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
    DiskTakesNothing,
    ReplicaKilled,
    ReplicaSpoilt,
    RedisLabelOff,
    RedisRestarts,
    LeaderKilled,
    LeaderHangs,
    MemberDeleted,
    MemberSpoilt,
    EtcdLabelOff,
    StrangerAdded,
    DatabaseFull,
    AuthoritiesRenewed,
    AnotherVersion,
    OperatorsKilled,
    MasterAndOperatorsKilled,
    MasterKilledAmongDyingOperators,
    NodeCut,
    ReplicasSevered,
    ReplicasSeveredMasterKilled,
    ReplicaSeveredMasterKilled,
    MasterUnreached,
    ReplicaUnreached,
}

impl Fault {
    pub const ALL: [Self; 26] = [
        Self::MasterKilled,
        Self::MasterHangs,
        Self::MasterDeleted,
        Self::DiskTakesNothing,
        Self::ReplicaKilled,
        Self::ReplicaSpoilt,
        Self::RedisLabelOff,
        Self::RedisRestarts,
        Self::LeaderKilled,
        Self::LeaderHangs,
        Self::MemberDeleted,
        Self::MemberSpoilt,
        Self::EtcdLabelOff,
        Self::StrangerAdded,
        Self::DatabaseFull,
        Self::AuthoritiesRenewed,
        Self::AnotherVersion,
        Self::OperatorsKilled,
        Self::MasterAndOperatorsKilled,
        Self::MasterKilledAmongDyingOperators,
        Self::NodeCut,
        Self::ReplicasSevered,
        Self::ReplicasSeveredMasterKilled,
        Self::ReplicaSeveredMasterKilled,
        Self::MasterUnreached,
        Self::ReplicaUnreached,
    ];

    /// The words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MasterKilled => "Redis: the master killed",
            Self::MasterHangs => "Redis: the master hangs",
            Self::MasterDeleted => "Redis: the master's pod deleted",
            Self::DiskTakesNothing => "Redis: the master's disk takes nothing",
            Self::ReplicaKilled => "Redis: a replica killed",
            Self::ReplicaSpoilt => "Redis: a replica's file cut off",
            Self::RedisLabelOff => "Redis: the label of a pod taken off",
            Self::RedisRestarts => "Redis: a rolling restart",
            Self::LeaderKilled => "etcd: the leader killed",
            Self::LeaderHangs => "etcd: the leader hangs",
            Self::MemberDeleted => "etcd: a member's pod deleted",
            Self::MemberSpoilt => "etcd: a member's file cut off",
            Self::EtcdLabelOff => "etcd: the label of a pod taken off",
            Self::StrangerAdded => "etcd: a stranger added as a member",
            Self::DatabaseFull => "etcd: the database full of history",
            Self::AuthoritiesRenewed => "etcd: other authorities for TLS asked for",
            Self::AnotherVersion => "etcd: on to 3.6, or back to 3.5",
            Self::OperatorsKilled => "all operators killed",
            Self::MasterAndOperatorsKilled => "all operators and the master killed",
            Self::MasterKilledAmongDyingOperators => "all operators killed every 2 to 5 s, and the master once",
            Self::NodeCut => "a node cut off",
            Self::ReplicasSevered => "Redis: the master cut off from its replicas",
            Self::ReplicasSeveredMasterKilled => "Redis: the master cut off from its replicas, and killed",
            Self::ReplicaSeveredMasterKilled => "Redis: the master cut off from one replica, and killed",
            Self::MasterUnreached => "Redis: the master cut off from clients and operators",
            Self::ReplicaUnreached => "Redis: a replica cut off from clients and operators",
        }
    }

    /// Reports whether the fault is aimed at that database.
    pub fn is_done_to(self, database: Database) -> bool {
        match database {
            Database::Redis => !self.as_str().starts_with("etcd: "),
            Database::Etcd => !self.as_str().starts_with("Redis: "),
        }
    }

    /// Injects the fault. A process that hangs, or a node that is cut off, stays so until the returned value is ended.
    /// A fault that lasts only until a change of a spec is carried out, or until a member is replaced, is over when
    /// this returns.
    pub async fn happens(self, scene: &Scene, operators: &mut [Process], random: &mut Random) -> Held {
        match self {
            Self::MasterKilled => kill(scene, &redis::master(scene).await).await,
            Self::MasterHangs => {
                let name = redis::master(scene).await;
                let stopped = Stopped::new(scene, &name).await;
                redis::succeeded(scene, &name).await;
                return Held::until_dropped(stopped);
            }
            Self::MasterDeleted => delete(scene, &redis::master(scene).await).await,
            Self::DiskTakesNothing => return harm::disk_takes_nothing(scene).await,
            Self::ReplicaKilled => kill(scene, &random.choose(&redis::replicas(scene).await)).await,
            Self::ReplicaSpoilt => harm::spoil_replica(scene, &random.choose(&redis::replicas(scene).await)).await,
            Self::RedisLabelOff => {
                let names: Vec<String> = redis::uids(scene).await.into_keys().collect();
                harm::take_label_off(scene, &random.choose(&names), redis::LABEL).await;
            }
            Self::RedisRestarts => {
                let cpu = format!("{}m", 10 + random.below(1000));
                scene.edit::<Redis>(redis::NAME, json!({ "resources": { "requests": { "cpu": cpu } } })).await;
                redis::settled(scene, "new resources everywhere").await;
            }
            Self::LeaderKilled => {
                etcd::signal("-KILL", &etcd::process_of(scene, &etcd::bystander::leader(scene).await).await);
            }
            Self::LeaderHangs => {
                let name = etcd::bystander::leader(scene).await;
                return Held::until_dropped(etcd::Stopped::new(etcd::process_of(scene, &name).await));
            }
            Self::MemberDeleted => delete(scene, &random.choose(&members(scene).await)).await,
            Self::MemberSpoilt => harm::spoil_member(scene, &random.choose(&members(scene).await)).await,
            Self::EtcdLabelOff => {
                harm::take_label_off(scene, &random.choose(&members(scene).await), etcd::LABEL).await;
            }
            Self::StrangerAdded => harm::add_stranger(scene).await,
            Self::DatabaseFull => harm::fill_database(scene).await,
            Self::AuthoritiesRenewed => {
                let token = random.below(u64::MAX).to_string();
                scene.edit::<EtcdCluster>(etcd::NAME, json!({ "tls": { "renewal": token } })).await;
                etcd::settled(scene, "other authorities").await;
            }
            Self::AnotherVersion => {
                let cluster = scene.api::<EtcdCluster>().get(etcd::NAME).await.expect("the cluster");
                let other = if cluster.spec.version == VERSIONS[0] { VERSIONS[1] } else { VERSIONS[0] };
                scene.edit::<EtcdCluster>(etcd::NAME, json!({ "version": other })).await;
                etcd::settled(scene, &format!("etcd {other} everywhere")).await;
            }
            Self::OperatorsKilled => operators.iter_mut().for_each(Process::start_again),
            Self::MasterAndOperatorsKilled => {
                operators.iter_mut().for_each(Process::start_again);
                kill(scene, &redis::master(scene).await).await;
            }
            Self::MasterKilledAmongDyingOperators => harm::kill_master_among_dying(scene, operators).await,
            Self::NodeCut => return Held::until_dropped(Cut::new(CUT)),
            Self::ReplicasSevered => harm::sever(scene, &redis::replicas(scene).await, false, random).await,
            Self::ReplicasSeveredMasterKilled => harm::sever(scene, &redis::replicas(scene).await, true, random).await,
            Self::ReplicaSeveredMasterKilled => {
                let one = random.choose(&redis::replicas(scene).await);
                harm::sever(scene, &[one], true, random).await;
            }
            Self::MasterUnreached => harm::unreached(scene, &redis::master(scene).await, random).await,
            Self::ReplicaUnreached => {
                harm::unreached(scene, &random.choose(&redis::replicas(scene).await), random).await;
            }
        }
        Held::nothing()
    }
}

/// The versions of etcd between which it goes.
pub const VERSIONS: [&str; 2] = ["3.5.35", "3.6.16"];

async fn members(scene: &Scene) -> Vec<String> {
    etcd::uids(scene).await.into_keys().collect()
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

    /// Chooses one of them.
    pub fn choose<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.index(all)].clone()
    }

    /// Takes one of them out.
    pub fn take<T>(&mut self, all: &mut Vec<T>) -> T {
        all.swap_remove(self.index(all))
    }

    fn index<T>(&mut self, all: &[T]) -> usize {
        let count = u64::try_from(all.len()).expect("a number");
        usize::try_from(self.below(count)).expect("a number")
    }

    /// A number below that.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
