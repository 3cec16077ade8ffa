//! A majority is lost for good, and the cluster is rebuilt from the member that is left.

use std::collections::BTreeMap;

use causeway_api::EtcdCluster;
use causeway_api::etcdcluster::Recovery;
use causeway_databases::etcd::Status;
use causeway_runtime::{ConditionStatus, Health, merge_conditions};

use super::Simulation;
use super::faults::Mishap;
use crate::decide::decide;
use crate::facts::Pod;
use crate::fixtures::cluster;

/// Reports whether the member of that pod belongs to the cluster that is recorded, or rebuilds it.
pub fn is_ours(object: &EtcdCluster, pod: &Pod, status: &Status) -> bool {
    let recorded = object.status.as_ref().and_then(|status| status.cluster_id.clone());
    pod.own.forced || recorded.is_none_or(|recorded| recorded == format!("{:x}", status.cluster_id))
}

/// A cluster of three of which only the last has its data.
pub fn lost_majority() -> Simulation {
    let mut simulation = Simulation::settled(cluster(3));
    for ordinal in [0, 1] {
        simulation.kubernetes.delete_pod(ordinal, &mut simulation.raft);
        simulation.kubernetes.drop_claim(ordinal, &mut simulation.raft);
    }
    for _ in 0..20 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert!(matches!(simulation.health, Some(Health::Stalled(_))), "{:?}", simulation.health);
    assert!(simulation.raft.healthy().is_empty(), "a majority was given up unasked");
    simulation
}

/// A pod that is terminating stays ready until the kubelet has stopped it.
#[test]
fn members_whose_pods_are_being_replaced_are_on_their_way() {
    let mut simulation = Simulation::settled(cluster(3));
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    observed.remembered = simulation.raft.members.values().cloned().collect();
    observed.quorum = None;
    for ordinal in [0, 1] {
        observed.statuses.remove(&ordinal);
    }
    observed.statuses.values_mut().for_each(|status| status.leader = 0);
    for (terminating, ready, expected) in
        [(false, true, "MembersUnreachable"), (false, false, "MembersStarting"), (true, true, "MembersStarting")]
    {
        for ordinal in [0, 1] {
            let pod = observed.set.pods.get_mut(&ordinal).unwrap();
            (pod.young, pod.terminating, pod.ready) = (true, terminating, ready);
        }
        let health = decide(&object, &observed, simulation.now).health;
        assert!(format!("{health:?}").contains(expected), "terminating: {terminating}, ready: {ready}: {health:?}");
    }
}

pub fn ask_for_recovery(mut simulation: Simulation) -> Simulation {
    let recovery = Recovery { from_member: "prod-etcd-2".into(), token: "first".into(), image: None };
    simulation.object.spec.recovery = Some(recovery);
    simulation
}

fn assert_recovered(simulation: &mut Simulation, before: Option<u64>) {
    simulation.settle();
    simulation.assert_settled();
    assert_ne!(simulation.raft.cluster, before, "it is another cluster");
    let status = simulation.object.status.clone().unwrap();
    assert_eq!(status.cluster_id, simulation.raft.cluster.map(|id| format!("{id:x}")));
    assert_eq!(status.recovered.as_deref(), Some("first"));
    assert!(status.recovered_revisions.is_some_and(|revisions| revisions.skipped));
}

#[test]
fn a_rebuilt_cluster_follows_the_surviving_member() {
    let mut simulation = ask_for_recovery(lost_majority());
    let before = simulation.raft.cluster;
    assert_recovered(&mut simulation, before);
}

#[test]
fn a_recovery_survives_operator_crashes() {
    let begun = ask_for_recovery(lost_majority());
    let before = begun.raft.cluster;
    for pass in 0..12 {
        for action in 0..3 {
            let mut simulation = begun.clone();
            for _ in 0..pass {
                simulation.reconcile(&Mishap::default());
                simulation.time_passes();
            }
            simulation.reconcile(&Mishap { dies_after: Some(action), ..Mishap::default() });
            simulation.time_passes();
            assert_recovered(&mut simulation, before);
        }
    }
}

#[test]
fn a_recovery_is_void_while_a_majority_answers() {
    let mut simulation = ask_for_recovery(Simulation::settled(cluster(3)));
    let before = simulation.raft.cluster;
    simulation.settle();
    simulation.assert_settled();
    assert_eq!(simulation.raft.cluster, before);
    let status = simulation.object.status.unwrap();
    assert_eq!((status.recovered.as_deref(), status.recovered_revisions), (Some("first"), None));
}

#[test]
fn a_lost_majority_is_reported_with_the_remedy() {
    let simulation = lost_majority();
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "QuorumLost");
    let text = &cause.message;
    for words in
        ["the volume of prod-etcd-0 is empty", "the volume of prod-etcd-1 is empty", "kubectl -n", "\"prod-etcd-2\""]
    {
        assert!(text.contains(words), "{words} is not in: {text}");
    }
    assert!(!text.contains("Bring"), "nothing can be brought back: {text}");
}

#[test]
fn a_waiting_recovery_names_the_member_and_node() {
    let mut simulation = ask_for_recovery(lost_majority());
    simulation.kubernetes.set.pods.get_mut(&1).unwrap().lost = true;
    for _ in 0..10 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    let Some(Health::Progressing(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert!(cause.message.contains("waiting for prod-etcd-1 to stop"), "{}", cause.message);
    assert!(cause.message.contains("kubectl delete node node-1"), "{}", cause.message);
}

#[test]
fn an_impossible_recovery_names_the_members_left() {
    let mut simulation = ask_for_recovery(lost_majority());
    simulation.object.spec.recovery.as_mut().unwrap().from_member = "prod-etcd-7".into();
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    let message = |observed: &_| {
        let Health::Stalled(cause) = decide(&object, observed, simulation.now).health else { panic!("it goes on") };
        assert_eq!(cause.reason, "RecoveryInvalid");
        cause.message
    };
    assert!(message(&observed).ends_with("prod-etcd-2"), "{}", message(&observed));
    observed.set.claims.clear();
    assert!(message(&observed).contains("spec.restoreFrom"), "{}", message(&observed));
}

/// etcd would begin an empty cluster on it, and the volume with the last data would be deleted for that.
#[test]
fn a_member_whose_volume_is_empty_begins_nothing_anew() {
    let mut simulation = ask_for_recovery(lost_majority());
    simulation.object.spec.recovery.as_mut().unwrap().from_member = "prod-etcd-0".into();
    let (before, at) = (simulation.raft.cluster, simulation.journal.len());
    for _ in 0..30 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "RecoveryInvalid");
    assert!(cause.message.ends_with("not empty: prod-etcd-2"), "{}", cause.message);
    assert!(simulation.journal[at..].is_empty(), "{:?}", &simulation.journal[at..]);
    assert!(simulation.kubernetes.set.claims[&2].volume.is_some() && simulation.raft.cluster == before);
    simulation.object.spec.recovery.as_mut().unwrap().from_member = "prod-etcd-2".into();
    assert_recovered(&mut simulation, before);
}

/// The volume was not known to be empty when the recovery began: another member is named while its pod runs alone.
#[test]
fn a_recovery_may_change_its_member() {
    let mut simulation = ask_for_recovery(lost_majority());
    let before = simulation.raft.cluster;
    simulation.object.spec.recovery.as_mut().unwrap().from_member = "prod-etcd-0".into();
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    observed.set.pods.get_mut(&0).unwrap().last_words = None;
    for action in decide(&object, &observed, simulation.now).actions {
        simulation.act(&action).unwrap();
    }
    for _ in 0..30 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(simulation.kubernetes.set.pods.keys().collect::<Vec<_>>(), [&0], "it is alone");
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    assert_eq!(cause.reason, "RecoveryInvalid");
    simulation.object.spec.recovery.as_mut().unwrap().from_member = "prod-etcd-2".into();
    assert_recovered(&mut simulation, before);
}

/// Causeway alone is cut off: by a network policy, or because its certificate is refused.
#[test]
fn ready_members_are_never_called_lost() {
    let mut simulation = ask_for_recovery(Simulation::settled(cluster(3)));
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    (observed.quorum, observed.statuses) = (None, BTreeMap::new());
    let plan = decide(&object, &observed, simulation.now);
    assert_eq!(plan.actions, []);
    let Health::Stalled(cause) = &plan.health else { panic!("{:?}", plan.health) };
    assert_eq!(cause.reason, "MembersUnreachable");
    for words in ["prod-etcd-0", "port 2379", "NetworkPolicies", "spec.recovery is not followed"] {
        assert!(cause.message.contains(words), "{words} is not in: {}", cause.message);
    }
    assert!(!cause.message.contains("refused. Bring"), "{}", cause.message);
    for type_ in ["Quorate", "AllMembersReady"] {
        let part = plan.parts.iter().find(|part| part.type_ == type_).unwrap();
        assert_eq!((part.status, part.reason), (ConditionStatus::Unknown, "MembersUnreachable"), "it cannot be known");
    }
    let conditions = merge_conditions(&[], &plan.health, &plan.parts, None, simulation.now);
    let quorate = conditions.iter().find(|condition| condition.type_ == "Quorate").unwrap();
    assert_eq!(quorate.status, "Unknown");

    // The last report of a kubelet before its node was lost is no evidence, and a pod that stops will not serve.
    for (lost, terminating) in [(true, false), (false, true)] {
        let mut observed = observed.clone();
        for ordinal in [0, 1] {
            let pod = observed.set.pods.get_mut(&ordinal).unwrap();
            pod.terminating = terminating;
            pod.lost_node = lost.then(|| "node-1".to_owned());
        }
        let plan = decide(&object, &observed, simulation.now);
        assert!(plan.parts.iter().any(|part| part.reason == "QuorumLost"), "lost: {lost}: {:?}", plan.health);
    }
}

#[test]
fn one_leaderless_member_does_not_deny_a_majority() {
    let mut simulation = Simulation::settled(cluster(3));
    let object = simulation.object.clone();
    let mut observed = simulation.observe(&object, false);
    observed.quorum = None;
    observed.statuses.retain(|ordinal, _| *ordinal == 2);
    observed.statuses.values_mut().for_each(|status| status.leader = 0);
    let reason = |observed: &_| match decide(&object, observed, simulation.now).health {
        Health::Stalled(cause) => cause.reason,
        health => panic!("{health:?}"),
    };
    assert_eq!(reason(&observed), "MembersUnreachable");
    observed.set.pods.get_mut(&0).unwrap().ready = false;
    assert_eq!(reason(&observed), "QuorumLost", "one of them is not ready any more");
}
