//! A majority is lost for good, and the cluster begins anew from the member that is left.

use super::World;
use super::faults::Mishap;
use crate::api::EtcdCluster;
use crate::api::etcdcluster::Recovery;
use crate::controllers::etcdcluster::facts::Pod;
use crate::controllers::etcdcluster::fixtures::cluster;
use crate::external::etcd::Status;
use crate::runtime::Health;

/// Whether the member of that pod belongs to the cluster that is recorded, or begins it anew.
pub fn is_ours(object: &EtcdCluster, pod: &Pod, status: &Status) -> bool {
    let recorded = object.status.as_ref().and_then(|status| status.cluster_id.clone());
    pod.forced || recorded.is_none_or(|recorded| recorded == format!("{:x}", status.cluster_id))
}

/// A cluster of three of which the last alone has its data.
fn lost() -> World {
    let mut world = World::settled(cluster(3));
    for ordinal in [0, 1] {
        world.kubernetes.delete_pod(ordinal, &mut world.raft);
        world.kubernetes.drop_claim(ordinal, &mut world.raft);
    }
    for _ in 0..20 {
        world.reconcile(&Mishap::default());
        world.time_passes();
    }
    assert!(matches!(world.health, Some(Health::Stalled(_))), "{:?}", world.health);
    assert!(world.raft.healthy().is_empty(), "nobody gives a majority up");
    world
}

fn asked(mut world: World) -> World {
    let recovery = Recovery { from_member: "prod-etcd-2".into(), token: "first".into(), image: None };
    world.object.spec.recovery = Some(recovery);
    world
}

fn assert_recovered(world: &mut World, before: Option<u64>) {
    world.settle();
    world.assert_settled();
    assert_ne!(world.raft.cluster, before, "it is another cluster");
    let status = world.object.status.clone().unwrap();
    assert_eq!(status.cluster_id, world.raft.cluster.map(|id| format!("{id:x}")));
    assert_eq!(status.recovered.as_deref(), Some("first"));
    assert!(status.recovered_revisions.is_some_and(|revisions| revisions.skipped));
}

#[test]
fn a_cluster_begins_anew_as_another_one_whose_members_all_follow_the_one_that_was_left() {
    let mut world = asked(lost());
    let before = world.raft.cluster;
    assert_recovered(&mut world, before);
}

#[test]
fn an_operator_that_dies_at_any_step_of_a_recovery_finds_the_new_cluster_again() {
    let begun = asked(lost());
    let before = begun.raft.cluster;
    for pass in 0..12 {
        for action in 0..3 {
            let mut world = begun.clone();
            for _ in 0..pass {
                world.reconcile(&Mishap::default());
                world.time_passes();
            }
            world.reconcile(&Mishap { dies_after: Some(action), ..Mishap::default() });
            world.time_passes();
            assert_recovered(&mut world, before);
        }
    }
}

#[test]
fn a_recovery_that_is_asked_for_while_a_majority_answers_is_void() {
    let mut world = asked(World::settled(cluster(3)));
    let before = world.raft.cluster;
    world.settle();
    world.assert_settled();
    assert_eq!(world.raft.cluster, before);
    let status = world.object.status.unwrap();
    assert_eq!((status.recovered.as_deref(), status.recovered_revisions), (Some("first"), None));
}

#[test]
fn a_majority_that_cannot_come_back_is_told_with_what_is_left_and_the_command_that_helps() {
    let world = lost();
    let Some(Health::Stalled(cause)) = &world.health else { panic!("{:?}", world.health) };
    assert_eq!(cause.reason, "QuorumLost");
    let told = &cause.message;
    for words in
        ["the volume of prod-etcd-0 is empty", "the volume of prod-etcd-1 is empty", "kubectl -n", "\"prod-etcd-2\""]
    {
        assert!(told.contains(words), "{words} is not in: {told}");
    }
    assert!(!told.contains("Bring"), "nobody can: {told}");
}

#[test]
fn a_recovery_names_whom_it_waits_for_and_the_node_that_keeps_it_waiting() {
    let mut world = asked(lost());
    world.kubernetes.pods.get_mut(&1).unwrap().lost = true;
    for _ in 0..10 {
        world.reconcile(&Mishap::default());
        world.time_passes();
    }
    let Some(Health::Progressing(cause)) = &world.health else { panic!("{:?}", world.health) };
    assert!(cause.message.contains("waiting for prod-etcd-1 to stop"), "{}", cause.message);
    assert!(cause.message.contains("kubectl delete node node-1"), "{}", cause.message);
}
