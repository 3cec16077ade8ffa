//! Objects of other owners stay as they are, and our own stay ours.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use causeway_api::etcdcluster::Recovery;
use causeway_databases::ChildAction;
use causeway_databases::simulation::{belongs_to_an_earlier_object, given_away, orphaned};
use causeway_runtime::Health;

use super::Simulation;
use super::faults::{Edit, Fault, Mishap};
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures::cluster;
use crate::settings::INITIAL_STATE;
use crate::simulation::kubernetes::Container;

const WHOSE: &str = "PersistentVolumeClaim data-prod-etcd-0 exists and holds data of Redis prod-etcd";

fn reason(simulation: &Simulation) -> Option<&'static str> {
    match simulation.health.as_ref()? {
        Health::Stalled(message) => Some(message.reason),
        _ => None,
    }
}

fn lose_volume(simulation: &mut Simulation, ordinal: i32) {
    simulation.kubernetes.delete_pod(ordinal, &mut simulation.raft);
    simulation.kubernetes.drop_claim(ordinal, &mut simulation.raft);
}

#[test]
fn a_cluster_does_not_begin_on_foreign_volumes() {
    let mut simulation = Simulation::new(cluster(3));
    simulation.kubernetes.set.others.insert(1, WHOSE);
    simulation.settle();
    assert_eq!(reason(&simulation), Some("NameTaken"));
    assert!(simulation.journal.is_empty() && simulation.kubernetes.set.pods.is_empty(), "{:?}", simulation.journal);
    simulation.kubernetes.set.others.clear();
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn a_foreign_volume_stops_growth_but_not_repair() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.kubernetes.set.others.insert(3, WHOSE);
    Edit::Replicas(5).happens(&mut simulation);
    simulation.settle();
    assert_eq!(reason(&simulation), Some("NameTaken"));
    assert_eq!(simulation.ordinals(), BTreeSet::from([0, 1, 2]));
    lose_volume(&mut simulation, 1);
    simulation.settle();
    assert_eq!(simulation.raft.healthy().len(), 3, "the members that there are get well");
    simulation.kubernetes.set.others.clear();
    simulation.settle();
    simulation.assert_settled();
}

/// A user deletes a cluster with its volumes and makes it again at once: the pods of the former still have a majority.
#[test]
fn members_of_an_earlier_object_are_not_adopted() {
    let mut simulation = Simulation::settled(cluster(3));
    let mut object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    assert!(observed.quorum.is_some());
    (object.metadata.uid, object.status) = (Some("another".into()), None);
    belongs_to_an_earlier_object(&mut observed.set);
    for set_is_gone in [false, true] {
        if set_is_gone {
            observed.set.children.clear();
        }
        let plan = decide(&object, &observed, simulation.now);
        assert_eq!(plan.actions, [], "the StatefulSet is gone: {set_is_gone}");
        assert!(matches!(&plan.health, Health::Progressing(cause) if cause.reason == "Applying"), "{:?}", plan.health);
        assert_eq!(plan.status.cluster_id, None);
        assert!(plan.status.members.is_empty(), "{:?}", plan.status);
        let quorate = plan.parts.iter().find(|part| part.type_ == "Quorate").unwrap();
        assert_eq!(quorate.reason, "Bootstrapping");
        object.status = Some(plan.status);
    }
    observed.set.pods.clear();
    observed.set.claims.clear();
    (observed.quorum, observed.statuses, observed.remembered) = (None, BTreeMap::new(), Vec::new());
    let begins = |action: &Action| match action {
        Action::Child(ChildAction::Apply { child, .. }) => child.value["data"][INITIAL_STATE] == "new",
        _ => false,
    };
    let actions = decide(&object, &observed, simulation.now).actions;
    assert!(actions.iter().any(begins), "its own members begin on their own: {actions:?}");
}

#[test]
fn an_unlabelled_pod_gets_its_label_back() {
    let mut simulation = Simulation::settled(cluster(3));
    let (pods, at) = (format!("{:?}", simulation.kubernetes.set.pods), simulation.journal.len());
    simulation.kubernetes.set.pods.get_mut(&1).unwrap().unlabelled = true;
    simulation.kubernetes.set.claims.get_mut(&2).unwrap().facts.unlabelled = true;
    simulation.settle();
    simulation.assert_settled();
    assert!(
        simulation.journal[at..].iter().all(|action| matches!(
            action,
            Action::Child(ChildAction::LabelPod { .. } | ChildAction::LabelClaim { .. })
        )),
        "{:?}",
        simulation.journal
    );
    assert_eq!(format!("{:?}", simulation.kubernetes.set.pods), pods);
}

#[test]
fn a_changed_peer_url_is_corrected() {
    let mut simulation = Simulation::settled(cluster(3));
    let (volumes, at) = (format!("{:?}", simulation.kubernetes.set.claims), simulation.journal.len());
    let id = simulation.kubernetes.set.pods[&1].member().unwrap();
    simulation.raft.send_astray(id);
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(format!("{:?}", simulation.kubernetes.set.claims), volumes);
    // The settings of those that join follow the addresses, too.
    let harmless =
        |action: &Action| matches!(action, Action::UpdatePeer { .. } | Action::Child(ChildAction::Apply { .. }));
    assert!(simulation.journal[at..].iter().all(harmless), "{:?}", simulation.journal);
}

#[test]
fn a_stranger_that_never_started_goes_at_once() {
    for learns in [false, true] {
        let mut simulation = Simulation::settled(cluster(3));
        simulation.raft.add_stranger(learns, false);
        assert_eq!(simulation.raft.members.len(), 4);
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn a_running_stranger_is_removed_only_on_request() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.raft.add_stranger(false, true);
    simulation.settle();
    assert_eq!(reason(&simulation), Some("UnknownMembers"));
    assert_eq!(simulation.object.status.as_ref().unwrap().unknown_members.len(), 1);
    assert_eq!(simulation.raft.members.len(), 4);
    // Members are replaced while it is there.
    lose_volume(&mut simulation, 1);
    simulation.settle();
    assert_eq!(simulation.raft.healthy().len(), 4, "{:#?}", simulation.raft);
    simulation.object.spec.remove_unknown_members = true;
    simulation.settle();
    simulation.assert_settled();
}

/// With three members and a stranger that never started, three of four must agree.
#[test]
fn a_recovery_begins_if_a_stranger_breaks_the_majority() {
    let mut simulation = Simulation::settled(cluster(3));
    // The operator does not get to remove it before the next loss.
    simulation.raft.add_stranger(false, false);
    for ordinal in [0, 1] {
        simulation.kubernetes.stop(ordinal, Container::Waiting(None), &mut simulation.raft);
        simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().lost = ordinal == 0;
    }
    for _ in 0..20 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(reason(&simulation), Some("QuorumLost"), "{:?}", simulation.health);
    assert!(format!("{:?}", simulation.health).contains("2 of 4 voting members answer"), "{:?}", simulation.health);
    let recovery = Recovery { from_member: "prod-etcd-2".into(), token: "first".into(), image: None };
    let before = simulation.raft.cluster;
    simulation.object.spec.recovery = Some(recovery);
    for _ in 0..20 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    simulation.nodes_return();
    simulation.settle();
    simulation.assert_settled();
    assert_ne!(simulation.raft.cluster, before, "it was rebuilt");
}

#[test]
fn all_children_without_owner_are_taken_back_and_pods_stay() {
    let mut simulation = Simulation::settled(cluster(3));
    let (pods, at) = (format!("{:?}", simulation.kubernetes.set.pods), simulation.journal.len());
    simulation.kubernetes.set.children.values_mut().for_each(orphaned);
    let lost = simulation.kubernetes.set.children.len();
    simulation.settle();
    simulation.assert_settled();
    let taken = |action: &Action| matches!(action, Action::Child(ChildAction::TakeBack { .. }));
    assert!(simulation.journal[at..].iter().all(taken), "{:?}", &simulation.journal[at..]);
    assert_eq!((simulation.journal.len() - at, format!("{:?}", simulation.kubernetes.set.pods)), (lost, pods));
}

/// `kubectl delete --cascade=orphan`, and then the same object again.
#[test]
fn an_object_that_is_created_again_keeps_the_pods_of_its_predecessor() {
    let mut simulation = Simulation::settled(cluster(3));
    let (pods, at) = (format!("{:?}", simulation.kubernetes.set.pods), simulation.journal.len());
    simulation.kubernetes.set.children.values_mut().for_each(orphaned);
    simulation.kubernetes.set.claims.values_mut().for_each(|claim| claim.facts.ours = false);
    (simulation.object.metadata.uid, simulation.object.status) = (Some("another".into()), None);
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(format!("{:?}", simulation.kubernetes.set.pods), pods, "{:?}", &simulation.journal[at..]);
}

#[test]
fn a_lost_member_is_replaced_while_others_have_our_services() {
    let mut simulation = Simulation::settled(cluster(3));
    let children = simulation.kubernetes.set.children.iter_mut();
    let theirs = children.filter(|((kind, _), _)| kind == "Service" || kind == "PodDisruptionBudget");
    theirs.for_each(|(_, child)| given_away(child));
    lose_volume(&mut simulation, 1);
    simulation.works(60);
    assert_eq!(simulation.raft.healthy().len(), 3, "{:#?}", simulation.raft);
    assert_eq!(reason(&simulation), Some("NameTaken"));
    let health = format!("{:?}", simulation.health);
    for words in ["--cascade=orphan", "service/prod-etcd ", "service/prod-etcd-peers", "poddisruptionbudget/prod-etcd"]
    {
        assert!(health.contains(words), "{words} is not in {health}");
    }
}

#[test]
fn without_its_settings_no_member_is_changed() {
    let mut simulation = Simulation::settled(cluster(3));
    let children = simulation.kubernetes.set.children.iter_mut();
    children.filter(|((kind, _), _)| kind == "ConfigMap").for_each(|(_, child)| given_away(child));
    simulation.journal.clear();
    lose_volume(&mut simulation, 1);
    simulation.works(20);
    assert_eq!((reason(&simulation), simulation.journal.len()), (Some("NameTaken"), 0), "{:?}", simulation.journal);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn a_minority_of_damaged_members_heals(size in 1..3_i32, first: Index, second: Index) {
        let mut simulation = Simulation::settled(cluster(2 * size + 1));
        for place in [first, second] {
            Fault::DamageVolume(place).happens(&mut simulation);
        }
        let kept: BTreeMap<i32, String> = simulation
            .kubernetes
            .set
            .claims
            .iter()
            .filter(|(_, claim)| claim.volume.as_ref().is_some_and(|data| !data.damaged))
            .map(|(ordinal, claim)| (*ordinal, claim.facts.uid.clone()))
            .collect();
        simulation.settle();
        simulation.assert_settled();
        for (ordinal, uid) in kept {
            prop_assert_eq!(&simulation.kubernetes.set.claims[&ordinal].facts.uid, &uid, "the volume of a healthy member stays");
        }
    }
}
