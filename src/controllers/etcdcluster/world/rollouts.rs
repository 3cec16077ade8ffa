//! How pods are replaced: one by one, the leader last.

use proptest::prelude::*;

use super::World;
use super::faults::{Edit, Mishap};
use crate::controllers::etcdcluster::action::Action;
use crate::controllers::etcdcluster::fixtures::cluster;

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 64, ..ProptestConfig::default() })]

    #[test]
    fn a_rollout_ends_with_the_leader_and_moves_leadership_once(size in 0..3_i32, leader in any::<prop::sample::Index>()) {
        let count = 2 * size + 1;
        let mut world = World::settled(cluster(count));
        let voters: Vec<u64> = world.raft.voters().collect();
        world.raft.leader = Some(voters[leader.index(voters.len())]);
        world.journal.clear();
        Edit::Version("3.5.30").happens(&mut world);
        world.settle();
        world.assert_settled();
        let steps: Vec<&str> = world.journal.iter().filter_map(|action| match action {
            Action::DeletePod { .. } => Some("delete"),
            Action::MoveLeader { .. } => Some("move"),
            _ => None,
        }).collect();
        let mut expected = vec!["delete"; usize::try_from(count).unwrap()];
        if count > 1 {
            expected.insert(expected.len() - 1, "move");
        }
        prop_assert_eq!(steps, expected);
    }

    #[test]
    fn an_image_that_does_not_exist_costs_one_member_until_it_is_mended(size in 1..3_i32) {
        let mut world = World::settled(cluster(2 * size + 1));
        Edit::Image(Some("registry.example.com/nothing")).happens(&mut world);
        for _ in 0..40 {
            world.reconcile(&Mishap::default());
            world.time_passes();
        }
        prop_assert_eq!(world.raft.healthy().len() + 1, world.raft.voters().count());
        Edit::Image(None).happens(&mut world);
        world.settle();
        world.assert_settled();
    }
}

/// Whoever lost the majority of the volumes must be asked: nothing is deleted, and no other cluster is begun.
#[test]
fn without_a_majority_of_the_volumes_nothing_is_deleted() {
    for count in [1, 3, 5] {
        let mut world = World::settled(cluster(count));
        world.journal.clear();
        for ordinal in 0..=count / 2 {
            world.kubernetes.delete_pod(ordinal, &mut world.raft);
            world.kubernetes.drop_claim(ordinal, &mut world.raft);
        }
        for _ in 0..60 {
            world.reconcile(&Mishap::default());
            world.time_passes();
        }
        assert_eq!(world.journal, [], "{count}");
        assert!(world.raft.leader.is_none());
    }
}

/// Scales a single member up, until a learner is known that is at work or not.
fn with_learner(starts: bool) -> World {
    let mut world = World::settled(cluster(1));
    if !starts {
        Edit::Image(Some("registry.example.com/nothing")).happens(&mut world);
    }
    Edit::Replicas(3).happens(&mut world);
    for _ in 0..20 {
        world.reconcile(&Mishap::default());
        if world.raft.members.values().any(|member| member.is_learner && member.client_urls.is_empty() != starts) {
            return world;
        }
        world.time_passes();
    }
    panic!("no learner: {:#?}", world.raft);
}

#[test]
fn a_learner_whose_pod_never_starts_is_made_anew_when_the_spec_is_mended() {
    let mut world = with_learner(false);
    for _ in 0..5 {
        world.time_passes();
        world.reconcile(&Mishap::default());
    }
    Edit::Image(None).happens(&mut world);
    world.settle();
    world.assert_settled();
}

#[test]
fn a_learner_that_loses_its_data_is_replaced() {
    for damaged in [true, false] {
        let mut world = with_learner(true);
        // The settings know that it has started.
        world.reconcile(&Mishap::default());
        world.lose_volume_of_learner(damaged);
        world.settle();
        world.assert_settled();
    }
}
