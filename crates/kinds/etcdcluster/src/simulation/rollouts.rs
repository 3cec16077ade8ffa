//! How pods are replaced: one by one, the leader last.

use proptest::prelude::*;

use causeway_databases::ChildAction;
use causeway_databases::simulation::restart;
use causeway_runtime::Health;

use super::Simulation;
use super::faults::{Edit, Mishap};
use super::kubernetes::{Container, LONG_BACK_OFF};
use crate::action::Action;
use crate::decide::decide;
use crate::facts::Observed;
use crate::fixtures::cluster;

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 64, ..ProptestConfig::default() })]

    #[test]
    fn a_rollout_ends_with_the_leader_and_moves_leadership_once(size in 0..3_i32, leader in any::<prop::sample::Index>()) {
        let count = 2 * size + 1;
        let mut simulation = Simulation::settled(cluster(count));
        let voters: Vec<u64> = simulation.raft.voters().collect();
        simulation.raft.leader = Some(voters[leader.index(voters.len())]);
        simulation.journal.clear();
        Edit::Version("3.5.30").happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
        let steps: Vec<&str> = simulation.journal.iter().filter_map(|action| match action {
            Action::Child(ChildAction::DeletePod { .. }) => Some("delete"),
            Action::MoveLeader { .. } => Some("move"),
            _ => None,
        }).collect();
        let mut expected = vec!["delete"; usize::try_from(count).unwrap()];
        if count > 1 {
            expected.insert(expected.len() - 1, "move");
        }
        prop_assert_eq!(steps, expected);
    }

    #[test]
    fn a_missing_image_costs_one_member(size in 1..3_i32) {
        let mut simulation = Simulation::settled(cluster(2 * size + 1));
        Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
        for _ in 0..40 {
            simulation.reconcile(&Mishap::default());
            simulation.time_passes();
        }
        prop_assert_eq!(simulation.raft.healthy().len() + 1, simulation.raft.voters().count());
        Edit::Image(None).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
}

/// The kubelet starts them again; their successors would be without image, too.
#[test]
fn crashing_members_stay_while_the_image_is_missing() {
    for count in [3, 5] {
        let mut simulation = Simulation::settled(cluster(count));
        Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
        simulation.works(20);
        let old: Vec<i32> =
            simulation.kubernetes.set.pods.iter().filter(|(_, pod)| pod.version.is_some()).map(|(at, _)| *at).collect();
        let uids = |simulation: &Simulation| -> Vec<String> {
            old.iter().map(|ordinal| simulation.kubernetes.set.pods[ordinal].uid.clone()).collect()
        };
        let before = uids(&simulation);
        for dying in [&old[..1], &old[1..], &old[..]] {
            for ordinal in dying {
                simulation.kubernetes.stop(*ordinal, Container::Ended(None, LONG_BACK_OFF), &mut simulation.raft);
                simulation.kubernetes.set.pods.get_mut(ordinal).unwrap().killed = true;
            }
            simulation.works(90);
            assert_eq!(uids(&simulation), before, "{count}");
        }
        assert_eq!(simulation.raft.healthy().len(), old.len(), "{count}: {:#?}", simulation.raft);
        Edit::Image(None).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
}

/// A quota, a label of the namespace or a webhook may refuse what an edit asks for.
#[test]
fn a_refused_pod_returns_with_the_last_working_spec() {
    for count in [1, 3] {
        let mut simulation = Simulation::settled(cluster(count));
        simulation.kubernetes.set.banned = Some("registry.example.com/banned");
        Edit::Image(Some("registry.example.com/banned")).happens(&mut simulation);
        simulation.works(60);
        let uids = |simulation: &Simulation| -> Vec<String> {
            simulation.kubernetes.set.pods.values().map(|pod| pod.uid.clone()).collect()
        };
        let before = uids(&simulation);
        assert_eq!(simulation.raft.healthy().len(), before.len(), "{:?}", simulation.health);
        assert_eq!(before.len(), usize::try_from(count).unwrap());
        let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
        let words = ["exceeded quota: small", "spec.resources", "rollout restart statefulset/prod-etcd"];
        assert!(cause.reason == "BroughtBack" && words.iter().all(|word| cause.message.contains(word)), "{cause:?}");
        simulation.works(120);
        assert_eq!(uids(&simulation), before, "no try costs a pod");
        simulation.kubernetes.set.banned = None;
        Edit::Image(None).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
}

/// Whatever a member reads when it starts again is what it has accepted.
#[test]
fn settings_of_earlier_members_stay_until_all_pods_are_replaced() {
    let mut simulation = Simulation::settled(cluster(3));
    let setting = |simulation: &Simulation| {
        let (_, map) = simulation.kubernetes.set.children.iter().find(|((kind, _), _)| kind == "ConfigMap").unwrap();
        map.value["data"]["ETCD_SNAPSHOT_COUNT"].as_str().map(str::to_owned)
    };
    Edit::Config(Some("5000")).happens(&mut simulation);
    simulation.settle();
    Edit::Config(Some("7000")).happens(&mut simulation);
    Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
    simulation.works(20);
    assert_eq!(setting(&simulation).as_deref(), Some("5000"), "no member has accepted another value");
    Edit::Image(None).happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(setting(&simulation).as_deref(), Some("7000"));
}

#[test]
fn a_rollout_restart_replaces_the_leader_last() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.journal.clear();
    restart(&mut simulation.kubernetes.set, "2026-11-28T10:00:00Z");
    simulation.settle();
    simulation.assert_settled();
    let steps = simulation.journal.iter().map(|action| match action {
        Action::Child(ChildAction::DeletePod { .. }) => "delete",
        Action::MoveLeader { .. } => "move",
        action => panic!("{action:?}"),
    });
    assert_eq!(steps.collect::<Vec<_>>(), ["delete", "delete", "move", "delete"]);
}

/// If the majority of the volumes is lost, the user must decide: nothing is deleted, and no other cluster is begun.
#[test]
fn without_a_majority_of_the_volumes_nothing_is_deleted() {
    for count in [1, 3, 5] {
        let mut simulation = Simulation::settled(cluster(count));
        simulation.journal.clear();
        for ordinal in 0..=count / 2 {
            simulation.kubernetes.delete_pod(ordinal, &mut simulation.raft);
            simulation.kubernetes.drop_claim(ordinal, &mut simulation.raft);
        }
        for _ in 0..60 {
            simulation.reconcile(&Mishap::default());
            simulation.time_passes();
        }
        assert_eq!(simulation.journal, [], "{count}");
        assert!(simulation.raft.leader.is_none());
    }
}

/// Scales a single member up until there is a learner, and, with `starts`, until it has started.
fn with_learner(starts: bool) -> Simulation {
    let mut simulation = Simulation::settled(cluster(1));
    if !starts {
        Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
    }
    Edit::Replicas(3).happens(&mut simulation);
    for _ in 0..20 {
        simulation.reconcile(&Mishap::default());
        if simulation.raft.members.values().any(|member| member.is_learner && member.client_urls.is_empty() != starts) {
            return simulation;
        }
        simulation.time_passes();
    }
    panic!("no learner: {:#?}", simulation.raft);
}

#[test]
fn a_stuck_learner_gets_another_pod_after_an_edit() {
    let mut simulation = with_learner(false);
    for _ in 0..5 {
        simulation.time_passes();
        simulation.reconcile(&Mishap::default());
    }
    Edit::Image(None).happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn a_learner_that_loses_its_data_is_replaced() {
    for damaged in [true, false] {
        let mut simulation = with_learner(true);
        // The operator writes to the settings that it has started.
        simulation.reconcile(&Mishap::default());
        simulation.lose_volume_of_learner(damaged);
        simulation.settle();
        simulation.assert_settled();
    }
}

/// A new pod would be like the one before.
#[test]
fn a_rejected_spec_deletes_no_pod_without_a_majority() {
    let mut simulation = Simulation::settled(cluster(3));
    for ordinal in 0..3 {
        simulation.kubernetes.stop(ordinal, Container::Waiting(Some("ImagePullBackOff")), &mut simulation.raft);
    }
    simulation.journal.clear();
    Edit::Mistake.happens(&mut simulation);
    for _ in 0..20 {
        simulation.reconcile(&Mishap::default());
        let deleted = |action: &Action| matches!(action, Action::Child(ChildAction::DeletePod { .. }));
        assert!(!simulation.journal.iter().any(deleted), "{:#?}", simulation.journal);
    }
}

/// Returns the facts if no member has ever answered the operator.
fn observe_unheard(simulation: &mut Simulation) -> Observed {
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    observed.statuses.clear();
    observed.quorum = None;
    observed
}

/// A firewall may have kept the operator from the members since the first day, while they serve their clients.
#[test]
fn ready_pods_never_heard_are_replaced_one_by_one() {
    let mut simulation = Simulation::settled(cluster(3));
    simulation.object.status = None;
    simulation.kubernetes.homeless = Some(2);
    Edit::Config(Some("5000")).happens(&mut simulation);
    let object = simulation.object.clone();
    let mut deleted: Vec<String> = Vec::new();
    for round in 0..60 {
        if round == 30 {
            assert_eq!(deleted, ["prod-etcd-2"], "its successor has no node yet");
            simulation.kubernetes.homeless = None;
        }
        let observed = observe_unheard(&mut simulation);
        let before = deleted.len();
        for action in decide(&object, &observed, simulation.now).actions {
            if let Action::Child(ChildAction::DeletePod { name, .. }) = &action {
                deleted.push(name.clone());
            }
            simulation.act(&action).unwrap();
        }
        assert!(deleted.len() <= before + 1, "at once: {deleted:?}");
        if deleted.len() > before {
            let mut later = observe_unheard(&mut simulation);
            // Probes do not fail while another leader is elected.
            for pod in later.set.pods.values_mut().filter(|pod| !pod.terminating) {
                pod.ready = true;
            }
            assert_eq!(decide(&object, &later, simulation.now).actions, [], "a pod terminates");
            later.set.pods.retain(|_, pod| !pod.terminating);
            let disturbs = |action: &Action| !matches!(action, Action::Child(ChildAction::Apply { .. }));
            let actions = decide(&object, &later, simulation.now).actions;
            assert!(!actions.iter().any(disturbs), "its successor is not there yet: {actions:?}");
        }
        simulation.time_passes();
    }
    assert_eq!(deleted, ["prod-etcd-2", "prod-etcd-1", "prod-etcd-0"]);
}
