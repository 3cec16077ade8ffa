//! What is somebody else's stays as it is, what is ours stays ours, and what cannot be read is fetched anew.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::World;
use super::story::{Edit, Fault, Mishap};
use crate::controllers::redis::action::Action;
use crate::controllers::redis::fixtures::redis;
use crate::runtime::Health;

const WHOSE: &str = "PersistentVolumeClaim data-cache-0 exists and holds data of EtcdCluster cache";

fn reason(world: &World) -> Option<&'static str> {
    match world.health.as_ref()? {
        Health::Stalled(told) | Health::Progressing(told) => Some(told.reason),
        _ => None,
    }
}

fn damage(world: &mut World, ordinal: i32) {
    world.kubernetes.kill(ordinal);
    world.kubernetes.claims.get_mut(&ordinal).unwrap().damaged = true;
}

fn volumes(world: &World) -> BTreeMap<i32, String> {
    world.kubernetes.claims.iter().map(|(ordinal, claim)| (*ordinal, claim.facts.uid.clone())).collect()
}

#[test]
fn nothing_begins_on_volumes_of_somebody_else() {
    let mut world = World::new(redis(2));
    world.kubernetes.others.insert(1, WHOSE);
    world.settle();
    assert_eq!(reason(&world), Some("NameTaken"));
    assert!(world.journal.is_empty() && world.kubernetes.pods.is_empty(), "{:?}", world.journal);
    world.kubernetes.others.clear();
    world.settle();
    world.assert_settled();
}

#[test]
fn replicas_do_not_begin_on_volumes_of_somebody_else_and_the_master_serves_on() {
    let mut world = World::settled(redis(1));
    world.kubernetes.others.insert(2, WHOSE);
    Edit::Replicas(2).happens(&mut world);
    world.settle();
    assert_eq!((reason(&world), world.kubernetes.pods.len()), (Some("NameTaken"), 2));
    world.kubernetes.kill(0);
    world.time_passes();
    world.settle();
    let status = world.object.status.clone().unwrap();
    assert!(status.failover.is_none() && status.ready_replicas == 1, "{status:?}");
    world.kubernetes.others.clear();
    world.settle();
    world.assert_settled();
}

#[test]
fn a_pod_whose_label_was_taken_off_gets_it_back_and_keeps_its_role() {
    for ordinal in 0..=2 {
        let mut world = World::settled(redis(2));
        let epoch = world.object.status.clone().unwrap().epoch;
        world.journal.clear();
        world.kubernetes.pods.get_mut(&ordinal).unwrap().unlabelled = true;
        world.kubernetes.claims.get_mut(&ordinal).unwrap().facts.unlabelled = true;
        world.reconcile(&Mishap::default());
        let labels = |action: &Action| matches!(action, Action::LabelPod(_) | Action::LabelClaim { .. });
        assert!(world.journal.iter().all(labels) && world.journal.len() == 2, "{:?}", world.journal);
        world.settle();
        world.assert_settled();
        assert_eq!(world.object.status.as_ref().unwrap().epoch, epoch, "nobody takes over");
    }
}

/// The files of the master cannot be read when it is started again: another takes over, and it begins empty.
#[test]
fn a_master_that_cannot_read_its_data_is_succeeded_and_emptied() {
    let mut world = World::settled(redis(2));
    let (before, data) = (volumes(&world), world.data());
    damage(&mut world, 0);
    world.settle();
    world.assert_settled();
    let after = volumes(&world);
    assert!(before[&0] != after[&0] && before[&1] == after[&1] && before[&2] == after[&2], "{after:?}");
    assert!(data.iter().all(|write| world.data().contains(write)));
}

#[test]
fn the_last_copy_is_never_emptied() {
    // All are damaged; or the master lacks writes.
    let mut world = World::settled(redis(1));
    damage(&mut world, 0);
    damage(&mut world, 1);
    for _ in 0..100 {
        world.reconcile(&Mishap::default());
        world.time_passes();
    }
    assert!(world.kubernetes.claims.values().all(|claim| claim.damaged), "{:?}", world.kubernetes.claims);
    // Somebody repairs the file of one: what it has is served, and the other begins empty.
    world.kubernetes.claims.get_mut(&1).unwrap().damaged = false;
    let before = volumes(&world);
    for _ in 0..100 {
        world.reconcile(&Mishap::default());
        world.time_passes();
    }
    let lost = world.object.status.as_ref().unwrap().last_failover.as_ref().unwrap().reason.clone();
    assert!(volumes(&world) == before || lost != "MasterLost", "{lost}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn replicas_that_cannot_read_their_data_get_well_whatever_dies(
        size in 1..4_i32, place: prop::sample::Index, other: prop::sample::Index, kind in 0..3, dies in 0..12_usize,
    ) {
        let mut world = World::settled(redis(size));
        let kept = world.acknowledged.clone();
        let damaged = i32::try_from(1 + place.index(usize::try_from(size).unwrap())).unwrap();
        damage(&mut world, damaged);
        for _ in 0..3 {
            world.reconcile(&Mishap { dies_after: Some(dies), reply_lost: None });
            world.time_passes();
        }
        match kind {
            0 => Fault::Kill(other),
            1 => Fault::DeletePod(other),
            _ => Fault::TakeLabel(other),
        }.happens(&mut world);
        world.settle();
        world.assert_settled();
        let data = world.data();
        prop_assert!(kept.iter().all(|write| data.contains(write)), "{:?} of {:?}", kept, data);
    }
}
