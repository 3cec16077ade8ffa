//! Children that lost their owner come back, and those of other owners stop only what needs them.

use causeway_databases::ChildAction;
use causeway_databases::simulation::{given_away, orphaned};
use causeway_runtime::Health;

use super::Simulation;
use super::story::{Edit, Mishap};
use crate::action::Action;
use crate::fixtures::redis;

fn uids(simulation: &Simulation) -> Vec<String> {
    simulation.kubernetes.set.pods.values().map(|pod| pod.uid.clone()).collect()
}

#[test]
fn all_children_without_owner_are_taken_back_and_pods_stay() {
    let mut simulation = Simulation::settled(redis(2));
    let (before, at) = (uids(&simulation), simulation.journal.len());
    simulation.kubernetes.set.children.values_mut().for_each(orphaned);
    simulation.kubernetes.slices.values_mut().for_each(orphaned);
    let lost = simulation.kubernetes.set.children.len() + simulation.kubernetes.slices.len();
    simulation.settle();
    simulation.assert_settled();
    let is_taken = |action: &&Action| matches!(action, Action::Child(ChildAction::TakeBack { .. }));
    assert_eq!(simulation.journal[at..].iter().filter(is_taken).count(), lost);
    assert_eq!((uids(&simulation), simulation.journal.len() - at), (before, lost), "{:?}", &simulation.journal[at..]);
}

#[test]
fn children_of_others_are_named_while_pods_are_replaced() {
    let mut simulation = Simulation::settled(redis(2));
    let before = uids(&simulation);
    for kind in ["Service", "PodDisruptionBudget"] {
        let children = simulation.kubernetes.set.children.iter_mut().filter(|((of, _), _)| of == kind);
        children.for_each(|(_, child)| given_away(child));
    }
    simulation.kubernetes.slices.values_mut().for_each(given_away);
    simulation.journal.clear();
    Edit::Image(Some("registry.example.com/redis")).happens(&mut simulation);
    for _ in 0..60 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert!(uids(&simulation).iter().all(|uid| !before.contains(uid)), "{:#?}", simulation.kubernetes.set.pods);
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "NameTaken");
    for words in
        ["--cascade=orphan", "service/cache ", "service/cache-peers", "poddisruptionbudget/cache", "endpointslice/"]
    {
        assert!(cause.message.contains(words), "{words} is not in {}", cause.message);
    }
    let changes = |action: &Action| match action {
        Action::Child(ChildAction::Apply { child, .. }) => child.kind() != "StatefulSet",
        Action::WriteSlice(_) => true,
        _ => false,
    };
    assert!(!simulation.journal.iter().any(changes), "{:#?}", simulation.journal);
}
