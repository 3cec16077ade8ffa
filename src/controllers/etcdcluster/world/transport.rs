//! TLS is turned on and off, and its authorities change, while members reach each other at every moment.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::World;
use super::faults::{Edit, tls};
use crate::api::etcdcluster::ClientTlsMode;
use crate::controllers::etcdcluster::action::Action;
use crate::controllers::etcdcluster::fixtures::cluster;
use crate::controllers::etcdcluster::tls::write::Due;
use crate::controllers::etcdcluster::tls::{Mode, Side};

/// How often pods were deleted, and members told to be reached otherwise.
fn counts(world: &World) -> (usize, usize) {
    let count = |is: fn(&Action) -> bool| world.journal.iter().filter(|action| is(action)).count();
    (
        count(|action| matches!(action, Action::DeletePod { .. })),
        count(|action| matches!(action, Action::UpdatePeer { .. })),
    )
}

fn changed(world: &mut World, edit: &Edit) -> (usize, usize) {
    world.journal.clear();
    edit.happens(world);
    world.settle();
    world.assert_settled();
    counts(world)
}

#[test]
fn a_cluster_that_begins_with_tls_needs_no_second_start() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
    let mut world = World::settled(object);
    world.assert_settled();
    assert_eq!(counts(&world), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 32, ..ProptestConfig::default() })]

    #[test]
    fn tls_is_turned_on_and_off_in_two_rollouts_each(size in 0..3_i32) {
        let count = 2 * size + 1;
        let mut world = World::settled(cluster(count));
        let all = usize::try_from(count).unwrap();
        let on = Edit::Tls(true, Some(ClientTlsMode::Require));
        prop_assert_eq!(changed(&mut world, &on), (2 * all, all));
        prop_assert_eq!(changed(&mut world, &Edit::Tls(false, None)), (2 * all, all));
        // What was made is still there.
        prop_assert_eq!(changed(&mut world, &on), (2 * all, all));
    }

    #[test]
    fn other_authorities_are_trusted_before_they_are_met_and_forgotten_after(size in 0..3_i32) {
        let count = 2 * size + 1;
        let mut object = cluster(count);
        object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
        let mut world = World::settled(object);
        world.journal.clear();
        Edit::Renewal("new").happens(&mut world);
        world.settle();
        world.assert_settled();
        let of_peers: Vec<Due> = world.journal.iter().filter_map(|action| match action {
            Action::Certify(certify) => Some(certify.due),
            _ => None,
        }).filter(|due| matches!(due, Due::Authority(Side::Peer) | Due::Trust(Side::Peer) | Due::Leaf(Side::Peer) | Due::Forget(Side::Peer))).collect();
        let side = Side::Peer;
        prop_assert_eq!(of_peers, [Due::Authority(side), Due::Trust(side), Due::Leaf(side), Due::Forget(side)]);
        let facts = &world.kubernetes.vault.facts;
        for side in Side::ALL {
            let kept = facts.side(side).kept.as_ref().unwrap();
            prop_assert_eq!(&kept.trust, &facts.side(side).source.trust());
        }
        prop_assert_eq!(&facts.for_clients.as_ref().unwrap().trust, &facts.client.source.trust());
    }
}

/// The certificates that are made from now on.
fn made(world: &mut World, after: SignedDuration) -> Vec<Due> {
    world.journal.clear();
    world.now += after;
    world.settle();
    world.assert_settled();
    let due = |action: &Action| if let Action::Certify(certify) = action { Some(certify.due) } else { None };
    world.journal.iter().filter_map(due).collect()
}

#[test]
fn certificates_are_renewed_after_two_thirds_of_their_lives_and_nobody_is_restarted() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
    let mut world = World::settled(object);
    assert_eq!(made(&mut world, SignedDuration::from_hours(59 * 24)), []);
    assert_eq!(
        made(&mut world, SignedDuration::from_hours(2 * 24)),
        [Due::Leaf(Side::Peer), Due::Leaf(Side::Client), Due::Clients]
    );
    assert_eq!(counts(&world), (0, 0));
}

#[test]
fn authorities_are_replaced_after_two_thirds_of_their_lives() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, None));
    let mut world = World::settled(object);
    let peer = Side::Peer;
    assert_eq!(
        made(&mut world, SignedDuration::from_hours(7 * 365 * 24)),
        [Due::Authority(peer), Due::Trust(peer), Due::Leaf(peer), Due::Forget(peer)]
    );
    assert_eq!(counts(&world), (9, 0));
}

/// A mistake in the spec stops changes, but no certificate from being renewed.
#[test]
fn certificates_are_renewed_while_the_spec_cannot_be_accepted() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, None));
    let mut world = World::settled(object);
    Edit::Mistake.happens(&mut world);
    world.journal.clear();
    world.now += SignedDuration::from_hours(61 * 24);
    world.settle();
    let dues: Vec<&Action> = world.journal.iter().collect();
    assert!(matches!(dues[..], [Action::Certify(_)]), "{dues:?}");
}

#[test]
fn clients_without_tls_are_served_as_long_as_they_are_allowed() {
    let mut world = World::settled(cluster(3));
    assert_eq!(changed(&mut world, &Edit::Tls(false, Some(ClientTlsMode::Allow))), (3, 0));
    assert!(world.kubernetes.pods.values().all(|pod| pod.transport.client.mode == Mode::Both));
    assert_eq!(changed(&mut world, &Edit::Tls(false, Some(ClientTlsMode::Require))), (3, 0));
}
