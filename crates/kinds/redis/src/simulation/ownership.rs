//! Objects of other owners stay as they are, our own stay ours, and data that cannot be read are fetched again.

use std::collections::BTreeMap;

use proptest::prelude::*;

use causeway_databases::{Child, ChildAction};
use causeway_runtime::Health;

use super::Simulation;
use super::story::{Edit, Fault, Mishap};
use crate::action::Action;
use crate::fixtures::redis;
use crate::names;

const WHOSE: &str = "PersistentVolumeClaim data-cache-0 exists and holds data of EtcdCluster cache";

fn reason(simulation: &Simulation) -> Option<&'static str> {
    match simulation.health.as_ref()? {
        Health::Stalled(cause) | Health::Progressing(cause) => Some(cause.reason),
        _ => None,
    }
}

fn damage(simulation: &mut Simulation, ordinal: i32) {
    simulation.kubernetes.kill(ordinal);
    simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.damaged = true;
}

fn volumes(simulation: &Simulation) -> BTreeMap<i32, String> {
    simulation.kubernetes.set.claims.iter().map(|(ordinal, claim)| (*ordinal, claim.facts.uid.clone())).collect()
}

#[test]
fn nothing_begins_on_foreign_volumes() {
    let mut simulation = Simulation::new(redis(2));
    simulation.kubernetes.set.others.insert(1, WHOSE);
    simulation.settle();
    assert_eq!(reason(&simulation), Some("NameTaken"));
    assert!(simulation.journal.is_empty() && simulation.kubernetes.set.pods.is_empty(), "{:?}", simulation.journal);
    simulation.kubernetes.set.others.clear();
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn replicas_do_not_begin_on_foreign_volumes() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.kubernetes.set.others.insert(2, WHOSE);
    Edit::Replicas(2).happens(&mut simulation);
    simulation.settle();
    assert_eq!((reason(&simulation), simulation.kubernetes.set.pods.len()), (Some("NameTaken"), 2));
    simulation.kubernetes.kill(0);
    simulation.time_passes();
    simulation.settle();
    let status = simulation.object.status.clone().unwrap();
    assert!(status.failover.is_none() && status.ready_replicas == 1, "{status:?}");
    simulation.kubernetes.set.others.clear();
    simulation.settle();
    simulation.assert_settled();
}

/// The operator still knows the users of the nodes.
#[test]
fn a_secret_without_owner_stops_no_failover() {
    let mut object = redis(1);
    object.spec.auth.enabled = true;
    let mut simulation = Simulation::settled(object);
    let users = ("Secret".to_owned(), names::users(&simulation.object));
    let child = Child { value: serde_json::Value::Null, uid: "theirs".into(), ours: false };
    simulation.kubernetes.set.children.insert(users, child);
    simulation.kubernetes.passwords.users_lost = true;
    simulation.journal.clear();
    simulation.kubernetes.kill(0);
    simulation.settle();
    assert_eq!(reason(&simulation), Some("NameTaken"));
    assert_eq!(simulation.object.status.as_ref().unwrap().master.as_deref(), Some("cache-1"));
    let overwrites = |action: &Action| {
        matches!(action, Action::Child(ChildAction::Apply { child, .. }) if child.kind() == "Secret")
            || matches!(action, Action::MakeUsers { .. })
    };
    assert!(!simulation.journal.iter().any(overwrites), "{:?}", simulation.journal);
}

#[test]
fn an_unlabelled_pod_gets_its_label_back() {
    for ordinal in 0..=2 {
        let mut simulation = Simulation::settled(redis(2));
        let epoch = simulation.object.status.clone().unwrap().epoch;
        simulation.journal.clear();
        simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().unlabelled = true;
        simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().facts.unlabelled = true;
        simulation.reconcile(&Mishap::default());
        let labels = |action: &Action| {
            matches!(action, Action::Child(ChildAction::LabelPod { .. } | ChildAction::LabelClaim { .. }))
        };
        assert!(simulation.journal.iter().all(labels) && simulation.journal.len() == 2, "{:?}", simulation.journal);
        simulation.settle();
        simulation.assert_settled();
        assert_eq!(simulation.object.status.as_ref().unwrap().epoch, epoch, "no other node takes over");
    }
}

/// The files of the master cannot be read when it is started again: another takes over, and it begins empty.
#[test]
fn a_damaged_master_is_succeeded_and_emptied() {
    let mut simulation = Simulation::settled(redis(2));
    let (before, data) = (volumes(&simulation), simulation.data());
    damage(&mut simulation, 0);
    simulation.settle();
    simulation.assert_settled();
    let after = volumes(&simulation);
    assert!(before[&0] != after[&0] && before[&1] == after[&1] && before[&2] == after[&2], "{after:?}");
    assert!(data.iter().all(|write| simulation.data().contains(write)));
}

#[test]
fn the_last_copy_is_never_emptied() {
    // All are damaged; or the master lacks writes.
    let mut simulation = Simulation::settled(redis(1));
    damage(&mut simulation, 0);
    damage(&mut simulation, 1);
    for _ in 0..100 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert!(
        simulation.kubernetes.set.claims.values().all(|claim| claim.volume.damaged),
        "{:?}",
        simulation.kubernetes.set.claims
    );
    // A user repairs the file of one node: what that has is served, and the other starts empty.
    simulation.kubernetes.set.claims.get_mut(&1).unwrap().volume.damaged = false;
    let before = volumes(&simulation);
    for _ in 0..100 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    let lost = simulation.object.status.as_ref().unwrap().last_failover.as_ref().unwrap().reason.clone();
    assert!(volumes(&simulation) == before || lost != "MasterLost", "{lost}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn replicas_that_cannot_read_their_data_get_well_whatever_dies(
        size in 1..4_i32, place: prop::sample::Index, other: prop::sample::Index, kind in 0..3, dies in 0..12_usize,
    ) {
        let mut simulation = Simulation::settled(redis(size));
        let kept = simulation.acknowledged.clone();
        let damaged = i32::try_from(1 + place.index(usize::try_from(size).unwrap())).unwrap();
        damage(&mut simulation, damaged);
        for _ in 0..3 {
            simulation.reconcile(&Mishap { dies_after: Some(dies), reply_lost: None });
            simulation.time_passes();
        }
        match kind {
            0 => Fault::Kill(other),
            1 => Fault::DeletePod(other),
            _ => Fault::TakeLabel(other),
        }.happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
        let data = simulation.data();
        prop_assert!(kept.iter().all(|write| data.contains(write)), "{:?} of {:?}", kept, data);
    }
}
