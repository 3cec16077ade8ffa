//! Time passes without an operator, and others add to our objects meanwhile.

use jiff::SignedDuration;

use causeway_api::etcdcluster::ClientTlsMode;
use causeway_databases::ChildAction;
use causeway_runtime::Health;

use super::Simulation;
use super::faults::{Edit, Mishap, tls};
use crate::action::Action;
use crate::fixtures::cluster;
use crate::tls::Side;

/// Certificates, and even the authorities that would sign others.
#[test]
fn an_absence_longer_than_every_lifetime_is_made_good() {
    for days in [91, 11 * 365] {
        let mut object = cluster(3);
        object.spec.tls = Some(tls(true, Some(ClientTlsMode::Require)));
        let mut simulation = Simulation::settled(object);
        simulation.now += SignedDuration::from_hours(days * 24);
        simulation.settle();
        simulation.assert_settled();
        for side in Side::ALL {
            let kept = simulation.kubernetes.secrets.facts.side(side).kept.as_ref();
            let leaf = kept.and_then(|kept| kept.leaf.as_ref());
            assert!(leaf.is_some_and(|leaf| leaf.ends > simulation.now), "{days}: {leaf:?}");
        }
    }
}

#[test]
fn a_scaling_that_was_abandoned_is_ended_however_late() {
    for (from, to) in [(1, 3), (3, 1), (3, 5)] {
        for dies_after in 0..8 {
            let mut simulation = Simulation::settled(cluster(from));
            Edit::Replicas(to).happens(&mut simulation);
            for _ in 0..3 {
                simulation.reconcile(&Mishap { dies_after: Some(dies_after), ..Mishap::default() });
                simulation.time_passes();
            }
            for _ in 0..30 {
                simulation.time_passes();
            }
            simulation.now += SignedDuration::from_hours(400 * 24);
            simulation.settle();
            simulation.assert_settled();
        }
    }
}

/// The first claim asks for more than the spec, and has it.
#[test]
fn a_claim_grown_by_hand_stays() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.journal.clear();
    let claim = &mut simulation.kubernetes.set.claims.get_mut(&0).unwrap().facts;
    (claim.size, claim.capacity) = ("30Gi".into(), "30Gi".into());
    simulation.settle();
    assert!(matches!(simulation.health, Some(Health::Ready(_))), "{:?}", simulation.health);
    assert_eq!(simulation.journal, [], "nothing is to be done about it");
    Edit::Size("20Gi").happens(&mut simulation);
    simulation.settle();
    assert!(matches!(simulation.health, Some(Health::Ready(_))), "{:?}", simulation.health);
    let grown = simulation.journal.iter().filter_map(|action| match action {
        Action::Child(ChildAction::GrowClaim { name, size, .. }) => Some((name.as_str(), size.as_str())),
        _ => None,
    });
    assert_eq!(grown.collect::<Vec<_>>(), [("data-prod-etcd-1", "20Gi"), ("data-prod-etcd-2", "20Gi")]);
}

/// As injectors and policies do.
#[test]
fn what_others_add_to_children_stays() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.journal.clear();
    for ((kind, _), child) in &mut simulation.kubernetes.set.children {
        child.value["metadata"]["annotations"]["example.com/note"] = "theirs".into();
        child.value["metadata"]["labels"]["team"] = "theirs".into();
        if kind == "StatefulSet" {
            let pod = &mut child.value["spec"]["template"]["spec"];
            let theirs = serde_json::json!({ "name": "mesh", "image": "mesh:1" });
            pod["containers"].as_array_mut().unwrap().push(theirs.clone());
            pod["initContainers"] = serde_json::json!([theirs]);
        }
    }
    simulation.settle();
    assert_eq!(simulation.journal, []);
}
