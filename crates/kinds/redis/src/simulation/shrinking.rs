//! Fewer nodes are asked for while the data are in danger.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::redis::LastFailover;
use causeway_databases::{ChildAction, Claim};
use causeway_runtime::{Health, Plan};

use super::Simulation;
use super::looks::says;
use super::story::{Edit, Mishap};
use crate::action::Action;
use crate::decide::decide;
use crate::facts::NodeState;
use crate::fixtures::redis;

/// How many pods the `StatefulSet` is asked for.
fn asked_replicas(actions: &[Action]) -> Option<i64> {
    actions.iter().find_map(|action| match action {
        Action::Child(ChildAction::Apply { child, .. }) if child.kind() == "StatefulSet" => {
            child.value["spec"]["replicas"].as_i64()
        }
        _ => None,
    })
}

fn deletes_a_claim(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Child(ChildAction::DeleteClaim { .. })))
}

#[test]
fn no_pod_goes_before_a_master_serves() {
    let mut simulation = Simulation::settled(redis(3));
    Edit::Replicas(0).happens(&mut simulation);
    let mut observed = simulation.observe();
    let look = |observed: &_| decide(&simulation.object, observed, simulation.now).actions;
    observed.set.pods.get_mut(&0).unwrap().own.state = NodeState::Silent(Duration::from_millis(700));
    let actions = look(&observed);
    assert!(!actions.is_empty(), "the other children follow the spec");
    assert!(asked_replicas(&actions).is_none_or(|count| count >= 4), "{actions:?}");
    // Pods that are missing for a moment have volumes.
    observed.set.pods.retain(|ordinal, _| *ordinal < 2);
    let actions = look(&observed);
    assert!(asked_replicas(&actions).is_none_or(|count| count >= 4), "{actions:?}");
}

#[test]
fn acknowledged_writes_survive_shrinking_while_the_master_hangs() {
    for size in 1..4 {
        let mut simulation = Simulation::settled(redis(size));
        let kept = simulation.acknowledged.clone();
        let master = simulation.kubernetes.set.pods.get_mut(&0).unwrap();
        master.process.as_mut().unwrap().hangs = Some(0);
        simulation.kubernetes.set.claims.get_mut(&0).unwrap().volume.writes.clear();
        Edit::Replicas(0).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
        assert!(kept.iter().all(|write| simulation.data().contains(write)), "{size}");
    }
}

/// Only a node that is not wanted any more has the data, and it cannot start for a while.
#[test]
fn a_surplus_node_with_data_is_waited_for() {
    let mut simulation = Simulation::settled(redis(2));
    let kept = simulation.acknowledged.clone();
    for ordinal in 0..=2 {
        simulation.kubernetes.kill(ordinal);
    }
    for ordinal in 0..=1 {
        simulation.kubernetes.set.claims.get_mut(&ordinal).unwrap().volume.writes.clear();
    }
    simulation.kubernetes.set.pods.get_mut(&2).unwrap().startable = false;
    Edit::Replicas(0).happens(&mut simulation);
    for _ in 0..100 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    let Some(Health::Progressing(cause) | Health::Stalled(cause)) = &simulation.health else {
        panic!("{:?}", simulation.health)
    };
    assert!(cause.message.contains("cache-2"), "{cause:?}");
    simulation.kubernetes.set.pods.get_mut(&2).unwrap().startable = true;
    simulation.settle();
    simulation.assert_settled();
    assert!(kept.iter().all(|write| simulation.data().contains(write)), "{:#?}", simulation.object.status);
}

#[test]
fn volumes_with_a_possible_last_copy_are_kept() {
    let settled = Simulation::settled(redis(1));
    let last = |reason: &str| LastFailover {
        epoch: 2,
        from: Some("cache-0".into()),
        to: "cache-0".into(),
        reason: reason.into(),
        duration_ms: 1,
        at: Time(settled.now),
        left: Vec::new(),
        closed: None,
    };
    let look = |reason: &str, is_empty: bool| -> Plan<_, _> {
        let mut simulation = settled.clone();
        simulation.object.status.as_mut().unwrap().last_failover = Some(last(reason));
        let mut observed = simulation.observe();
        let claim =
            Claim { name: "data-cache-4".into(), uid: "u".into(), ours: true, size: "1Gi".into(), ..Claim::default() };
        observed.set.claims.insert(4, claim);
        if is_empty {
            says(&mut observed, 0, |info| info.keys = 0);
        }
        decide(&simulation.object, &observed, simulation.now)
    };
    assert!(deletes_a_claim(&look("MasterGone", false).actions), "nothing was lost");
    for (reason, is_empty) in
        [("DataGone", false), ("MasterEmptied", false), ("MasterLost", false), ("MasterGone", true)]
    {
        let plan = look(reason, is_empty);
        assert!(!deletes_a_claim(&plan.actions), "{reason}: {:?}", plan.actions);
        let Health::Progressing(cause) = &plan.health else { panic!("{:?}", plan.health) };
        assert_eq!(cause.reason, "VolumesKept");
        assert!(cause.message.contains("kubectl -n shop delete pvc data-cache-4"), "{}", cause.message);
    }
}
