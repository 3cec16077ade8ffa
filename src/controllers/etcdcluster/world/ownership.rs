//! What is somebody else's stays as it is, and what is ours stays ours.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::World;
use super::faults::{Edit, Fault, Mishap};
use crate::api::etcdcluster::Recovery;
use crate::controllers::etcdcluster::action::Action;
use crate::controllers::etcdcluster::fixtures::cluster;
use crate::controllers::etcdcluster::world::kubernetes::Container;
use crate::runtime::Health;

const WHOSE: &str = "PersistentVolumeClaim data-prod-etcd-0 exists and holds data of Redis prod-etcd";

fn reason(world: &World) -> Option<&'static str> {
    match world.health.as_ref()? {
        Health::Stalled(told) => Some(told.reason),
        _ => None,
    }
}

fn lose_volume(world: &mut World, ordinal: i32) {
    world.kubernetes.delete_pod(ordinal, &mut world.raft);
    world.kubernetes.drop_claim(ordinal, &mut world.raft);
}

#[test]
fn a_cluster_does_not_begin_on_volumes_of_somebody_else() {
    let mut world = World::new(cluster(3));
    world.kubernetes.others.insert(1, WHOSE);
    world.settle();
    assert_eq!(reason(&world), Some("NameTaken"));
    assert!(world.journal.is_empty() && world.kubernetes.pods.is_empty(), "{:?}", world.journal);
    world.kubernetes.others.clear();
    world.settle();
    world.assert_settled();
}

#[test]
fn a_cluster_does_not_grow_onto_a_volume_of_somebody_else_and_heals_all_the_same() {
    let mut world = World::settled(cluster(3));
    world.kubernetes.others.insert(3, WHOSE);
    Edit::Replicas(5).happens(&mut world);
    world.settle();
    assert_eq!(reason(&world), Some("NameTaken"));
    assert_eq!(world.ordinals(), BTreeSet::from([0, 1, 2]));
    lose_volume(&mut world, 1);
    world.settle();
    assert_eq!(world.raft.healthy().len(), 3, "the members that there are get well");
    world.kubernetes.others.clear();
    world.settle();
    world.assert_settled();
}

#[test]
fn a_pod_whose_label_was_taken_off_gets_it_back_and_nobody_is_disturbed() {
    let mut world = World::settled(cluster(3));
    let (pods, at) = (format!("{:?}", world.kubernetes.pods), world.journal.len());
    world.kubernetes.pods.get_mut(&1).unwrap().unlabelled = true;
    world.kubernetes.claims.get_mut(&2).unwrap().facts.unlabelled = true;
    world.settle();
    world.assert_settled();
    assert!(world.journal[at..].iter().all(|action| matches!(action, Action::Label { .. })), "{:?}", world.journal);
    assert_eq!(format!("{:?}", world.kubernetes.pods), pods);
}

#[test]
fn a_member_whose_address_was_changed_is_told_its_own_and_keeps_its_volume() {
    let mut world = World::settled(cluster(3));
    let (volumes, at) = (format!("{:?}", world.kubernetes.claims), world.journal.len());
    let id = world.kubernetes.pods[&1].member().unwrap();
    world.raft.send_astray(id);
    world.settle();
    world.assert_settled();
    assert_eq!(format!("{:?}", world.kubernetes.claims), volumes);
    // The settings of those that join follow the addresses, too.
    let harmless = |action: &Action| matches!(action, Action::UpdatePeer { .. } | Action::Apply { .. });
    assert!(world.journal[at..].iter().all(harmless), "{:?}", world.journal);
}

#[test]
fn a_member_that_never_started_and_nobody_of_ours_added_goes_at_once() {
    for learns in [false, true] {
        let mut world = World::settled(cluster(3));
        world.raft.add_stranger(learns, false);
        assert_eq!(world.raft.members.len(), 4);
        world.settle();
        world.assert_settled();
    }
}

#[test]
fn a_stranger_that_runs_is_told_of_and_goes_when_that_is_asked_for() {
    let mut world = World::settled(cluster(3));
    world.raft.add_stranger(false, true);
    world.settle();
    assert_eq!(reason(&world), Some("UnknownMembers"));
    assert_eq!(world.object.status.as_ref().unwrap().unknown_members.len(), 1);
    assert_eq!(world.raft.members.len(), 4);
    // Members are replaced beside it.
    lose_volume(&mut world, 1);
    world.settle();
    assert_eq!(world.raft.healthy().len(), 4, "{:#?}", world.raft);
    world.object.spec.remove_unknown_members = true;
    world.settle();
    world.assert_settled();
}

/// With three members and a stranger that never started, three of four must agree.
#[test]
fn a_majority_that_a_stranger_makes_impossible_is_lost_and_a_recovery_begins() {
    let mut world = World::settled(cluster(3));
    // Nobody was there to remove it before the next loss.
    world.raft.add_stranger(false, false);
    for ordinal in [0, 1] {
        world.kubernetes.stop(ordinal, Container::Waiting(None), &mut world.raft);
        world.kubernetes.pods.get_mut(&ordinal).unwrap().lost = ordinal == 0;
    }
    for _ in 0..20 {
        world.reconcile(&Mishap::default());
        world.time_passes();
    }
    assert_eq!(reason(&world), Some("QuorumLost"), "{:?}", world.health);
    assert!(format!("{:?}", world.health).contains("2 of 4 voting members answer"), "{:?}", world.health);
    let recovery = Recovery { from_member: "prod-etcd-2".into(), token: "first".into(), image: None };
    let before = world.raft.cluster;
    world.object.spec.recovery = Some(recovery);
    for _ in 0..20 {
        world.reconcile(&Mishap::default());
        world.time_passes();
    }
    world.nodes_return();
    world.settle();
    world.assert_settled();
    assert_ne!(world.raft.cluster, before, "it has begun anew");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn a_minority_of_damaged_members_heals(size in 1..3_i32, first: Index, second: Index) {
        let mut world = World::settled(cluster(2 * size + 1));
        for place in [first, second] {
            Fault::DamageVolume(place).happens(&mut world);
        }
        let kept: BTreeMap<i32, String> = world
            .kubernetes
            .claims
            .iter()
            .filter(|(_, claim)| claim.data.as_ref().is_some_and(|data| !data.damaged))
            .map(|(ordinal, claim)| (*ordinal, claim.facts.uid.clone()))
            .collect();
        world.settle();
        world.assert_settled();
        for (ordinal, uid) in kept {
            prop_assert_eq!(&world.kubernetes.claims[&ordinal].facts.uid, &uid, "the volume of a healthy member stays");
        }
    }
}
