//! A limit of memory into which the data do not fit.

use serde_json::json;

use causeway_api::Redis;
use causeway_runtime::Health;

use super::Simulation;
use super::looks::says;
use super::story::Mishap;
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures::redis;

const USED: u64 = 1 << 30;

fn with_limit(object: &mut Redis, limit: &str) {
    object.spec.resources = serde_json::from_value(json!({ "limits": { "memory": limit } })).unwrap();
}

/// A set whose data take a GiB, and whose limit was lowered to a quarter of that.
fn shrunk(replicas: i32) -> Simulation {
    let mut object = redis(replicas);
    with_limit(&mut object, "2Gi");
    let mut simulation = Simulation::settled(object);
    simulation.kubernetes.used = USED;
    with_limit(&mut simulation.object, "256Mi");
    simulation
}

fn works(simulation: &mut Simulation, seconds: u32) {
    for _ in 0..seconds {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
}

fn uids(simulation: &Simulation) -> Vec<String> {
    simulation.kubernetes.set.pods.values().map(|pod| pod.uid.clone()).collect()
}

fn message_of(simulation: &Simulation) -> String {
    match &simulation.health {
        Some(Health::Stalled(cause)) if cause.reason == "MemoryTooSmall" => cause.message.clone(),
        health => panic!("{health:?}"),
    }
}

#[test]
fn no_pod_is_made_too_small_for_the_data() {
    for replicas in [0, 2] {
        let mut simulation = shrunk(replicas);
        let before = uids(&simulation);
        works(&mut simulation, 60);
        assert_eq!(uids(&simulation), before, "{replicas}");
        let message = message_of(&simulation);
        for words in ["1024 MiB", "256 MiB", "192 MiB", "kubectl -n shop patch redis cache", "1366Mi"] {
            assert!(message.contains(words), "{words} is not in: {message}");
        }
        // A drain meanwhile.
        for ordinal in 0..=replicas {
            simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().terminating = true;
        }
        works(&mut simulation, 60);
        assert!(message_of(&simulation).contains("1024 MiB"), "the pods are as large as before");
        simulation.kubernetes.used = 100 << 20;
        simulation.settle();
        simulation.assert_settled();
    }
}

/// The file may hold keys that were evicted since.
#[test]
fn append_only_files_are_rewritten_before_smaller_pods_read_them() {
    let mut simulation = shrunk(2);
    works(&mut simulation, 10);
    simulation.kubernetes.used = 100 << 20;
    let step = |rewrites: u64, rewrites_log: bool, note: Option<&String>| {
        let mut observed = simulation.observe();
        says(&mut observed, 1, |info| {
            (info.keys, info.log_rewrites, info.rewrites_log) = (1, Some(rewrites), rewrites_log);
        });
        observed.set.pods.get_mut(&1).unwrap().own.log_note = note.cloned();
        decide(&simulation.object, &observed, simulation.now).actions
    };
    let begun = step(3, false, None);
    let [Action::RewriteLog { node, note }] = begun.as_slice() else { panic!("{begun:?}") };
    assert!(node.name == "cache-1" && note.ends_with("/268435456/3"), "{node:?} {note}");
    assert_eq!(step(4, true, Some(note)), [], "it waits for that");
    let after = step(4, false, Some(note));
    assert!(!after.is_empty() && !after.iter().any(|it| matches!(it, Action::RewriteLog { .. })), "{after:?}");
    let again = step(0, false, Some(&note.replace("268435456", "1")));
    assert!(matches!(again.as_slice(), [Action::RewriteLog { .. }]), "another limit: {again:?}");
}

#[test]
fn only_a_bound_that_the_spec_asks_for_evicts() {
    let mut simulation = shrunk(0);
    simulation.object.spec.config.insert("maxmemory-policy".into(), "allkeys-lru".into());
    works(&mut simulation, 10);
    assert!(message_of(&simulation).contains(r#""config":{"maxmemory":"192mb"}"#), "{}", message_of(&simulation));
    let settings = |simulation: &Simulation| simulation.kubernetes.set.pods[&0].settings.clone();
    let before = settings(&simulation);
    simulation.object.spec.config.insert("maxmemory".into(), "192mb".into());
    works(&mut simulation, 10);
    assert_ne!(settings(&simulation), before, "the running master has the smaller bound");
    assert!(message_of(&simulation).contains("evicts"), "{}", message_of(&simulation));
    simulation.kubernetes.used = 192 << 20;
    simulation.settle();
    simulation.assert_settled();
}
