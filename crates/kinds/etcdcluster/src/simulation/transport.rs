//! TLS is turned on and off, and its authorities change, while members reach each other at every moment.

use jiff::SignedDuration;
use proptest::prelude::*;

use causeway_api::etcdcluster::ClientTlsMode;
use causeway_databases::ChildAction;
use causeway_databases::tls::RotationStep;

use super::Simulation;
use super::faults::{Edit, Fault, Mishap, tls};
use crate::action::Action;
use crate::fixtures::cluster;
use crate::tls::{Mode, Side};

/// How members come to trust another authority, and no longer the one before.
const CHANGE_OF_AUTHORITIES: [RotationStep; 4] =
    [RotationStep::Authority, RotationStep::Trust, RotationStep::Leaf, RotationStep::Forget];

/// How often pods were deleted, and peer URLs changed.
fn counts(simulation: &Simulation) -> (usize, usize) {
    let count = |is: fn(&Action) -> bool| simulation.journal.iter().filter(|action| is(action)).count();
    (
        count(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. }))),
        count(|action| matches!(action, Action::UpdatePeer { .. })),
    )
}

fn counts_after(simulation: &mut Simulation, edit: &Edit) -> (usize, usize) {
    simulation.journal.clear();
    edit.happens(simulation);
    simulation.settle();
    simulation.assert_settled();
    counts(simulation)
}

#[test]
fn a_cluster_that_begins_with_tls_needs_no_second_start() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
    let mut simulation = Simulation::settled(object);
    simulation.assert_settled();
    assert_eq!(counts(&simulation), (0, 0));
}

/// There are no certificates any more with which members would answer, and none of them has ever answered.
#[test]
fn a_beginning_cluster_restarts_after_losing_certificates() {
    for size in [1, 3] {
        let mut simulation = Simulation::new(cluster(size));
        Edit::Tls(false, Some(ClientTlsMode::Require)).happens(&mut simulation);
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
        simulation.time_passes();
        Edit::Tls(false, None).happens(&mut simulation);
        let meanwhile = Some((0, Fault::LoseSecret(false, false)));
        simulation.reconcile(&Mishap { meanwhile, ..Mishap::default() });
        simulation.settle();
        simulation.assert_settled();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 32, ..ProptestConfig::default() })]

    #[test]
    fn tls_is_turned_on_and_off_in_two_rollouts_each(size in 0..3_i32) {
        let count = 2 * size + 1;
        let mut simulation = Simulation::settled(cluster(count));
        let all = usize::try_from(count).unwrap();
        let on = Edit::Tls(true, Some(ClientTlsMode::Require));
        prop_assert_eq!(counts_after(&mut simulation, &on), (2 * all, all));
        prop_assert_eq!(counts_after(&mut simulation, &Edit::Tls(false, None)), (2 * all, all));
        // The certificates that were made are still there.
        prop_assert_eq!(counts_after(&mut simulation, &on), (2 * all, all));
    }

    #[test]
    fn a_new_authority_is_trusted_before_it_signs(size in 0..3_i32) {
        let count = 2 * size + 1;
        let mut object = cluster(count);
        object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
        let mut simulation = Simulation::settled(object);
        simulation.journal.clear();
        Edit::Renewal("new").happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
        let of_peers: Vec<_> = dues(&simulation).into_iter().filter(|(side, _)| *side == Side::Peer).collect();
        prop_assert_eq!(of_peers, CHANGE_OF_AUTHORITIES.map(|step| (Side::Peer, step)));
        let facts = &simulation.kubernetes.secrets.facts;
        for side in Side::ALL {
            let kept = facts.side(side).kept.as_ref().unwrap();
            prop_assert_eq!(&kept.trust, &facts.side(side).source.trust());
        }
        prop_assert_eq!(&facts.for_clients.as_ref().unwrap().trust, &facts.client.source.trust());
    }
}

/// Lists the certificates that were made, and on which side.
fn dues(simulation: &Simulation) -> Vec<(Side, RotationStep)> {
    let due =
        |action: &Action| if let Action::Certify(side, certify) = action { Some((*side, certify.need)) } else { None };
    simulation.journal.iter().filter_map(due).collect()
}

/// The certificates that are made from now on.
fn steps_after(simulation: &mut Simulation, after: SignedDuration) -> Vec<(Side, RotationStep)> {
    simulation.journal.clear();
    simulation.now += after;
    simulation.settle();
    simulation.assert_settled();
    dues(simulation)
}

#[test]
fn certificates_are_renewed_in_time_without_restarts() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
    let mut simulation = Simulation::settled(object);
    assert_eq!(steps_after(&mut simulation, SignedDuration::from_hours(59 * 24)), []);
    assert_eq!(
        steps_after(&mut simulation, SignedDuration::from_hours(2 * 24)),
        [(Side::Peer, RotationStep::Leaf), (Side::Client, RotationStep::Leaf), (Side::Client, RotationStep::Clients)]
    );
    assert_eq!(counts(&simulation), (0, 0));
}

#[test]
fn authorities_are_replaced_after_two_thirds_of_their_lives() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, None));
    let mut simulation = Simulation::settled(object);
    let made = steps_after(&mut simulation, SignedDuration::from_hours(7 * 365 * 24));
    let steps = std::iter::once(RotationStep::Leaf).chain(CHANGE_OF_AUTHORITIES);
    assert_eq!(made, steps.map(|step| (Side::Peer, step)).collect::<Vec<_>>());
    assert_eq!(counts(&simulation), (9, 0));
}

/// Without the key of their authority, no member could be given a certificate that the others trust.
#[test]
fn expired_certificates_are_renewed_before_their_authorities() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
    let mut simulation = Simulation::settled(object);
    Edit::Renewal("new").happens(&mut simulation);
    let all = steps_after(&mut simulation, SignedDuration::from_hours(91 * 24));
    let of = |side: Side| all.iter().filter(move |(of, _)| *of == side).map(|(_, step)| *step);
    let steps: Vec<_> = std::iter::once(RotationStep::Leaf).chain(CHANGE_OF_AUTHORITIES).collect();
    assert_eq!(of(Side::Peer).collect::<Vec<_>>(), steps);
    let first: Vec<_> = of(Side::Client).take(3).collect();
    assert_eq!(first, [RotationStep::Leaf, RotationStep::Clients, RotationStep::Authority]);
}

/// A mistake in the spec stops changes, but no certificate from being renewed.
#[test]
fn certificates_are_renewed_while_the_spec_cannot_be_accepted() {
    let mut object = cluster(3);
    object.spec.tls = Some(tls(true, None));
    let mut simulation = Simulation::settled(object);
    Edit::Mistake.happens(&mut simulation);
    simulation.journal.clear();
    simulation.now += SignedDuration::from_hours(61 * 24);
    simulation.settle();
    let dues: Vec<&Action> = simulation.journal.iter().collect();
    assert!(matches!(dues[..], [Action::Certify(..)]), "{dues:?}");
}

#[test]
fn clients_without_tls_are_served_while_allowed() {
    let mut simulation = Simulation::settled(cluster(3));
    assert_eq!(counts_after(&mut simulation, &Edit::Tls(false, Some(ClientTlsMode::Allow))), (3, 0));
    assert!(simulation.kubernetes.set.pods.values().all(|pod| pod.transport.client.mode == Mode::Both));
    assert_eq!(counts_after(&mut simulation, &Edit::Tls(false, Some(ClientTlsMode::Require))), (3, 0));
}
