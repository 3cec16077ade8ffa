//! Time passes without an operator, or by another clock.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::redis::Tls;

use super::Simulation;
use super::looks::dies;
use super::story::{Edit, Mishap};
use crate::decide::decide;
use crate::facts::LastWord;
use crate::fixtures::redis;

fn passes(simulation: &mut Simulation, after: SignedDuration) {
    simulation.now = simulation.now.checked_add(after).unwrap();
}

/// Certificates, and even the authority that would sign others.
#[test]
fn an_absence_longer_than_every_lifetime_is_made_good() {
    for days in [91, 11 * 365] {
        let mut object = redis(2);
        object.spec.tls = Some(Tls::default());
        let mut simulation = Simulation::settled(object);
        let kept = simulation.acknowledged.clone();
        passes(&mut simulation, SignedDuration::from_hours(days * 24));
        simulation.settle();
        simulation.assert_settled();
        let leaf = simulation.kubernetes.certificates.nodes.kept.as_ref().and_then(|kept| kept.leaf.as_ref());
        assert!(leaf.is_some_and(|leaf| leaf.ends > simulation.now), "{days}: {leaf:?}");
        assert!(kept.iter().all(|write| simulation.data().contains(write)), "{days}");
    }
}

#[test]
fn a_scaling_that_was_abandoned_is_ended_however_late() {
    for (from, to) in [(1, 3), (3, 1)] {
        for dies_after in 0..6 {
            let mut simulation = Simulation::settled(redis(from));
            Edit::Replicas(to).happens(&mut simulation);
            simulation.reconcile(&Mishap { dies_after: Some(dies_after), reply_lost: None });
            for _ in 0..30 {
                simulation.time_passes();
            }
            passes(&mut simulation, SignedDuration::from_hours(400 * 24));
            simulation.settle();
            simulation.assert_settled();
        }
    }
}

/// The next leader's clock is an hour ahead of the one by which the start was recorded.
#[test]
fn a_clock_that_is_ahead_ends_no_wait() {
    let mut simulation = Simulation::settled(redis(1));
    let now = simulation.now;
    let status = simulation.object.status.as_mut().unwrap();
    status.nodes[1].in_sync = false;
    (status.masterless_since, status.candidate_since) = (Some(Time(now)), Some(Time(now)));
    passes(&mut simulation, SignedDuration::from_hours(1));
    let timeout = simulation.object.spec.failover.data_loss_timeout.seconds();
    for (seen, expected) in [(0, false), (timeout - 1, false), (timeout, true)] {
        let mut observed = simulation.observe();
        dies(&mut observed, 0);
        observed.words.insert("cache-0".into(), LastWord { offset: 1 << 30, ..LastWord::default() });
        observed.candidate_seen = std::time::Duration::from_secs(seen);
        let status = decide(&simulation.object, &observed, simulation.now).status;
        assert_eq!(status.failover.is_some(), expected, "seen for {seen} s");
    }
}

/// An operator whose clock was an hour ahead wrote the record.
#[test]
fn a_time_in_the_future_delays_nothing() {
    let mut simulation = Simulation::settled(redis(1));
    simulation.kubernetes.kill(1);
    simulation.time_passes();
    simulation.kubernetes.set.pods.get_mut(&0).unwrap().process.as_mut().unwrap().hangs = Some(0);
    let mut seconds = 0;
    while simulation.object.status.as_ref().unwrap().candidate_since.is_none() {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
        seconds += 1;
        assert!(seconds < 60, "{:#?}", simulation.object.status);
    }
    let status = simulation.object.status.as_mut().unwrap();
    for since in [&mut status.masterless_since, &mut status.candidate_since] {
        *since = Some(Time(simulation.now.checked_add(SignedDuration::from_hours(1)).unwrap()));
    }
    for _ in 0..100 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(simulation.object.status.as_ref().unwrap().master.as_deref(), Some("cache-1"));
}
