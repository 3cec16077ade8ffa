//! Which evictions Kubernetes may allow: a drain of one node after the other takes no data, and blocks no node for a pod
//! that nothing needs.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::Redis;
use causeway_databases::ChildAction;
use causeway_databases::redis::Role;

use super::Simulation;
use super::looks::{dies, says};
use super::story::Mishap;
use crate::action::Action;
use crate::decide::decide;
use crate::facts::{NodeState, Observed};
use crate::fixtures::redis;

fn allowed(simulation: &Simulation) -> i64 {
    let key = ("PodDisruptionBudget".to_owned(), "cache".to_owned());
    simulation.kubernetes.set.children[&key].value["spec"]["maxUnavailable"].as_i64().unwrap()
}

/// Returns how many evictions a settled set allows after a look at which something has changed.
fn evictions_after(object: Redis, change: impl Fn(&mut Observed)) -> i64 {
    let mut simulation = Simulation::settled(object);
    let mut observed = simulation.observe();
    change(&mut observed);
    for _ in 0..8 {
        let plan = decide(&simulation.object, &observed, simulation.now);
        if plan.actions.is_empty() {
            break;
        }
        for action in &plan.actions {
            simulation.kubernetes.act(&simulation.object, action).ok();
        }
        let now = simulation.observe();
        (observed.set.children, observed.slices) = (now.set.children, now.slices);
        for (ordinal, pod) in &mut observed.set.pods {
            pod.own.role.clone_from(&now.set.pods[ordinal].own.role);
        }
    }
    allowed(&simulation)
}

fn copies(observed: &mut Observed, ordinals: &[i32]) {
    for ordinal in ordinals {
        says(observed, *ordinal, |info| {
            if let Role::Replica(link) = &mut info.role {
                (link.up, link.syncing) = (false, true);
            }
        });
    }
}

#[test]
fn a_pod_may_be_evicted_beside_a_full_replica() {
    for (replicas, copying, expected) in
        [(0, 0, 1), (1, 0, 1), (1, 1, 0), (2, 0, 1), (2, 1, 0), (3, 1, 1), (3, 2, 0), (4, 2, 1)]
    {
        let ordinals: Vec<i32> = (1..=copying).collect();
        let found = evictions_after(redis(replicas), |observed| copies(observed, &ordinals));
        assert_eq!(found, expected, "{copying} of {replicas} replicas copy all data");
    }
    let mut object = redis(3);
    object.spec.failover.min_replicas_to_write = Some(2);
    assert_eq!(evictions_after(object, |observed| copies(observed, &[1])), 0, "writes would be refused");
}

/// Kubernetes counts it as unavailable, and so evicts no other.
#[test]
fn a_broken_replica_does_not_block_a_drain() {
    let fails = |observed: &mut Observed| {
        let pod = observed.set.pods.get_mut(&1).unwrap();
        (pod.ready, pod.trouble) = (false, Some("CrashLoopBackOff".into()));
        pod.own.state = NodeState::Gone;
    };
    assert_eq!(evictions_after(redis(2), fails), 1);
    let listens = |observed: &mut Observed| {
        fails(observed);
        observed.set.pods.get_mut(&1).unwrap().ready = true;
    };
    assert_eq!(evictions_after(redis(2), listens), 0);
}

#[test]
fn without_a_master_nothing_is_evicted() {
    let mut simulation = Simulation::settled(redis(1));
    let mut observed = simulation.observe();
    let budget = |simulation: &Simulation, observed: &Observed| {
        let actions = decide(&simulation.object, observed, simulation.now).actions;
        let child = actions.iter().find_map(|action| match action {
            Action::Child(ChildAction::Apply { child, .. }) if child.kind() == "PodDisruptionBudget" => {
                Some(child.clone())
            }
            _ => None,
        });
        child.map(|child| child.value["spec"]["maxUnavailable"].clone())
    };
    dies(&mut observed, 0);
    assert_eq!(budget(&simulation, &observed), None);
    dies(&mut observed, 1);
    assert_eq!(budget(&simulation, &observed), None, "what is known changes nothing yet");
    simulation.object.status.as_mut().unwrap().masterless_since = Some(Time(simulation.now));
    assert_eq!(budget(&simulation, &observed), Some(0.into()));
}

/// Each replica listens long before it has all data, and its volume stays on the node that is drained.
#[test]
fn successive_drains_lose_no_data() {
    for replicas in 1..4 {
        let mut simulation = Simulation::settled(redis(replicas));
        let mut left: Vec<i32> = (0..=replicas).collect();
        for _ in 0..100 {
            let pods = &simulation.kubernetes.set.pods;
            let available = pods.values().filter(|pod| pod.process.is_some() && !pod.terminating).count();
            let away = i64::from(replicas + 1) - i64::try_from(available).unwrap();
            if away < allowed(&simulation)
                && let Some(ordinal) = left.pop()
            {
                simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().terminating = true;
            }
            simulation.reconcile(&Mishap::default());
            let before: BTreeMap<i32, String> =
                simulation.kubernetes.set.pods.iter().map(|(ordinal, pod)| (*ordinal, pod.uid.clone())).collect();
            simulation.time_passes();
            for (ordinal, pod) in &mut simulation.kubernetes.set.pods {
                if before.get(ordinal) != Some(&pod.uid) {
                    pod.process.as_mut().unwrap().writes.clear();
                    simulation.kubernetes.set.claims.get_mut(ordinal).unwrap().volume.writes.clear();
                }
            }
        }
        assert!(left.is_empty(), "the drain ends: {left:?}");
        simulation.settle();
        simulation.assert_settled();
        assert_eq!(allowed(&simulation), 1);
        assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)), "{replicas}");
    }
}
