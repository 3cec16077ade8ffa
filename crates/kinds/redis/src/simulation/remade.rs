//! An object that is made again on the volumes of an earlier one.

use causeway_databases::redis::{Link, Role};
use causeway_databases::simulation::belongs_to_an_earlier_object;
use causeway_runtime::Health;

use super::Simulation;
use super::looks::says;
use super::story::{Edit, Mishap};
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures::redis;

/// Deletes the object and makes it again: only the volumes stay.
fn make_again(simulation: &mut Simulation) {
    simulation.object.metadata.uid = Some(format!("uid-{}", simulation.kubernetes.set.next_number()));
    (simulation.object.status, simulation.object.spec.switchover) = (None, None);
    let set = &mut simulation.kubernetes.set;
    set.children.clear();
    set.pods.clear();
    set.claims.values_mut().for_each(|claim| claim.facts.ours = false);
    simulation.kubernetes.slices.clear();
    simulation.journal.clear();
}

/// Lists the events about the choice of the master.
fn announcements(simulation: &Simulation) -> Vec<&str> {
    let notes = simulation.journal.iter().filter_map(|action| match action {
        Action::Tell { reason: "DataChosen", note } => Some(note.as_str()),
        _ => None,
    });
    notes.collect()
}

/// A node that was away missed the deletion of keys, so it has more of them.
fn leave_older_data(simulation: &mut Simulation, ordinal: i32) {
    let volume = &mut simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume;
    volume.writes = (1000..2000).collect();
}

#[test]
fn the_last_masters_data_survive_recreation() {
    let mut simulation = Simulation::settled(redis(2));
    for last in [2, 0, 1, 0] {
        Edit::Switch(last).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
        let (before, epoch) = (simulation.data(), simulation.object.status.clone().unwrap().epoch);
        let away = (last + 1) % 3;
        leave_older_data(&mut simulation, away);
        make_again(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
        let status = simulation.object.status.clone().unwrap();
        assert!(before.iter().all(|write| simulation.data().contains(write)), "{last}: {status:#?}");
        assert_eq!(status.master, Some(format!("cache-{last}")));
        assert!(status.epoch > epoch, "a later epoch has a higher number: {status:#?}");
        let announced = announcements(&simulation);
        assert_eq!(announced.len(), 1, "{announced:?}");
        assert!(
            announced[0].starts_with(&format!("cache-{last} "))
                && announced[0].contains(&format!("cache-{away} (1000 keys)"))
        );
    }
}

#[test]
fn later_data_without_a_pod_are_waited_for() {
    let mut simulation = Simulation::settled(redis(2));
    Edit::Switch(2).happens(&mut simulation);
    simulation.settle();
    let before = simulation.data();
    leave_older_data(&mut simulation, 0);
    make_again(&mut simulation);
    simulation.object.spec.replicas = 0;
    for _ in 0..40 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    let status = simulation.object.status.clone().unwrap();
    assert_eq!((status.master, status.failover), (None, None));
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.reason == "LaterDataElsewhere" && cause.message.contains("--replicas=2"), "{cause:?}");
    simulation.object.spec.replicas = 2;
    simulation.settle();
    simulation.assert_settled();
    assert!(before.iter().all(|write| simulation.data().contains(write)));
}

/// Volumes of an operator that noted nothing on them.
#[test]
fn a_choice_by_keys_is_announced() {
    let mut simulation = Simulation::settled(redis(2));
    leave_older_data(&mut simulation, 2);
    simulation.kubernetes.set.claims.values_mut().for_each(|claim| claim.facts.epoch = None);
    make_again(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
    let announced = announcements(&simulation);
    assert!(announced.len() == 1 && announced[0].contains("cache-2 (1000 keys)"), "{announced:?}");
    assert!(announced[0].contains("no volume of these nodes records"), "{announced:?}");
    let event = simulation.journal.iter().filter_map(Action::event).find(|event| event.reason == "DataChosen");
    assert!(event.is_some_and(|event| event.warning));
}

#[test]
fn nothing_is_told_where_all_volumes_have_the_same_data() {
    let mut simulation = Simulation::settled(redis(2));
    make_again(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(announcements(&simulation), [""; 0]);
}

#[test]
fn the_last_epoch_outweighs_the_number_of_keys() {
    let mut simulation = Simulation::settled(redis(2));
    simulation.object.status = None;
    let mut observed = simulation.observe();
    for (ordinal, keys, epoch) in [(0, 500, Some(7)), (1, 500, None), (2, 1000, Some(3))] {
        let claim = observed.set.claims.get_mut(&ordinal).unwrap();
        (claim.ours, claim.epoch) = (false, epoch);
        says(&mut observed, ordinal, |info| {
            info.keys = keys;
            info.role = Role::Replica(Link { host: "127.0.0.1".into(), port: 1, ..Link::default() });
        });
    }
    let first = |observed: &_| decide(&simulation.object, observed, simulation.now).status.failover.unwrap();
    assert_eq!((first(&observed).target.as_str(), first(&observed).epoch), ("cache-0", 8));
    // It lost its data, and an empty node never wins.
    says(&mut observed, 0, |info| info.keys = 0);
    assert_eq!(first(&observed).target, "cache-2");
}

/// A user deletes an object with its volumes and makes it again at once: the former master answers for a moment longer.
#[test]
fn nodes_of_an_earlier_object_are_not_adopted() {
    let mut simulation = Simulation::settled(redis(2));
    let mut observed = simulation.observe();
    let object = &mut simulation.object;
    (object.metadata.uid, object.status) = (Some("another".into()), None);
    observed.slices.clear();
    belongs_to_an_earlier_object(&mut observed.set);
    for set_is_gone in [false, true] {
        if set_is_gone {
            observed.set.children.clear();
        }
        let plan = decide(&simulation.object, &observed, simulation.now);
        assert_eq!(plan.actions, [], "the StatefulSet is gone: {set_is_gone}");
        assert!(matches!(&plan.health, Health::Progressing(cause) if cause.reason == "Applying"), "{:?}", plan.health);
        assert!(plan.status.master.is_none() && plan.status.failover.is_none(), "{:?}", plan.status);
        assert!(plan.status.nodes.is_empty(), "data of the earlier object are not those of this one");
        simulation.object.status = Some(plan.status);
    }
    observed.set.pods.clear();
    observed.set.claims.clear();
    let plan = decide(&simulation.object, &observed, simulation.now);
    assert!(!plan.actions.is_empty(), "its own nodes are made: {:?}", plan.health);
}
