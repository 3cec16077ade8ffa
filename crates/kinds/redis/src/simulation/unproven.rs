//! A spec that brings up no pod: those of the last one that worked go on.

use causeway_databases::simulation::restart;
use causeway_runtime::Health;

use super::Simulation;
use super::kubernetes::REFUSED;
use super::story::{Edit, Mishap};
use crate::fixtures::redis;

fn works(simulation: &mut Simulation, seconds: u32) {
    for _ in 0..seconds {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
}

/// A set of which one pod waits in vain for its image.
fn without_image(replicas: i32) -> Simulation {
    let mut simulation = Simulation::settled(redis(replicas));
    Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
    works(&mut simulation, 20);
    let waits = simulation.kubernetes.set.pods.values().filter(|pod| !pod.startable);
    assert_eq!(waits.count(), 1, "{:#?}", simulation.kubernetes.set.pods);
    simulation
}

#[test]
fn crashing_pods_stay_while_the_image_is_missing() {
    for replicas in 1..4 {
        let mut simulation = without_image(replicas);
        let uids = |simulation: &Simulation| {
            let pods = simulation.kubernetes.set.pods.values().filter(|pod| pod.startable);
            pods.map(|pod| pod.uid.clone()).collect::<Vec<_>>()
        };
        let before = uids(&simulation);
        for _ in 0..2 {
            for ordinal in 0..replicas {
                simulation.kill_again(ordinal);
            }
            works(&mut simulation, 90);
        }
        assert_eq!(uids(&simulation), before, "{replicas}");
        simulation.write();
        assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)), "{replicas}");
        Edit::Image(None).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn a_replica_that_hangs_stays_while_an_image_is_missing() {
    let mut simulation = without_image(2);
    let uid = simulation.kubernetes.set.pods[&1].uid.clone();
    let hangs = |simulation: &mut Simulation, pod: i32| {
        let process = simulation.kubernetes.set.pods.get_mut(&pod).unwrap().process.as_mut();
        process.unwrap().hangs = Some(0);
    };
    hangs(&mut simulation, 1);
    works(&mut simulation, 60);
    assert_eq!(simulation.kubernetes.set.pods[&1].uid, uid);
    simulation.resume();
    Edit::Image(None).happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
}

/// The earlier spec makes them crash: a limit of memory that is too low, for example.
#[test]
fn pods_that_all_crash_are_replaced_one_after_the_other() {
    let mut simulation = Simulation::settled(redis(2));
    Edit::Image(Some("registry.example.com/redis")).happens(&mut simulation);
    let uids: Vec<String> = simulation.kubernetes.set.pods.values().map(|pod| pod.uid.clone()).collect();
    for _ in 0..40 {
        let pods = simulation.kubernetes.set.pods.iter();
        let old: Vec<i32> = pods.filter(|(_, pod)| uids.contains(&pod.uid)).map(|(ordinal, _)| *ordinal).collect();
        for ordinal in old {
            simulation.kill_again(ordinal);
        }
        works(&mut simulation, 1);
    }
    let pods = simulation.kubernetes.set.pods.values();
    assert!(pods.clone().all(|pod| !uids.contains(&pod.uid)), "{:#?}", pods.collect::<Vec<_>>());
    simulation.settle();
    simulation.assert_settled();
}

#[test]
fn a_single_node_comes_back_with_the_spec_that_worked() {
    let mut simulation = Simulation::settled(redis(0));
    Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
    works(&mut simulation, 60);
    let before = simulation.kubernetes.set.pods[&0].uid.clone();
    assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)), "{:?}", simulation.health);
    let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
    let words = ["spec.image", "rollout restart statefulset/cache"];
    assert!(cause.reason == "BroughtBack" && words.iter().all(|word| cause.message.contains(word)), "{cause:?}");
    works(&mut simulation, 120);
    assert_eq!(simulation.kubernetes.set.pods[&0].uid, before, "it is not tried again by itself");
    simulation.kubernetes.set.pods.get_mut(&0).unwrap().terminating = true;
    works(&mut simulation, 20);
    assert!(simulation.kubernetes.set.pods[&0].process.is_some(), "a drain takes nothing");
    Edit::Image(None).happens(&mut simulation);
    simulation.settle();
    simulation.assert_settled();
}

/// The edit that takes the image back has a mistake in the settings: Causeway refuses the one, Redis the other.
#[test]
fn a_pod_without_image_comes_back_although_a_setting_is_refused() {
    for replicas in [0, 1, 2] {
        for (name, value) in [("port", "1"), ("timeout", REFUSED)] {
            for image in [None, Some("registry.example.com/nothing")] {
                let mut simulation = Simulation::settled(redis(replicas));
                Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
                let waits = |simulation: &Simulation| {
                    let mut pods = simulation.kubernetes.set.pods.values();
                    pods.any(|pod| !pod.startable)
                };
                while !waits(&simulation) {
                    works(&mut simulation, 1);
                }
                if image.is_some() && name == "timeout" {
                    // Redis is asked only while a master serves, and that spec brings up no pod.
                    continue;
                }
                Edit::Image(image).happens(&mut simulation);
                simulation.object.spec.config.insert(name.into(), value.into());
                works(&mut simulation, 60);
                let pods = &simulation.kubernetes.set.pods;
                assert!(pods.values().all(|pod| pod.process.is_some()), "{replicas} {name} {image:?}: {pods:#?}");
                simulation.write();
                assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)));
                let uids = |simulation: &Simulation| {
                    simulation.kubernetes.set.pods.values().map(|pod| pod.uid.clone()).collect::<Vec<_>>()
                };
                let before = uids(&simulation);
                works(&mut simulation, 60);
                assert_eq!(uids(&simulation), before, "{replicas} {name} {image:?}");
                simulation.object.spec.config.clear();
                Edit::Image(None).happens(&mut simulation);
                simulation.settle();
                simulation.assert_settled();
            }
        }
    }
}

#[test]
fn a_lost_pod_comes_back_while_an_image_is_missing() {
    for ordinal in 0..3 {
        let mut simulation = without_image(2);
        simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().terminating = true;
        works(&mut simulation, 60);
        let serving = simulation.kubernetes.set.pods.values().filter(|pod| pod.process.is_some());
        assert!(serving.count() >= 2, "{ordinal}: {:#?}", simulation.kubernetes.set.pods);
        Edit::Image(None).happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn a_restart_retries_a_failed_spec() {
    let mut simulation = Simulation::settled(redis(0));
    Edit::Image(Some("registry.example.com/nothing")).happens(&mut simulation);
    works(&mut simulation, 60);
    let before = simulation.kubernetes.set.pods[&0].uid.clone();
    for at in ["morning", "evening"] {
        restart(&mut simulation.kubernetes.set, at);
        works(&mut simulation, 60);
        assert_ne!(simulation.kubernetes.set.pods[&0].uid, before);
        assert!(simulation.kubernetes.set.pods[&0].process.is_some(), "{at}: {:?}", simulation.health);
    }
}

/// A quota, a label of the namespace or a webhook may refuse what an edit asks for.
#[test]
fn a_refused_pod_returns_with_the_last_working_spec() {
    for replicas in [0, 1, 3] {
        let mut simulation = Simulation::settled(redis(replicas));
        simulation.kubernetes.set.banned = Some("registry.example.com/banned");
        Edit::Image(Some("registry.example.com/banned")).happens(&mut simulation);
        works(&mut simulation, 60);
        let pods = &simulation.kubernetes.set.pods;
        let uids: Vec<String> = pods.values().map(|pod| pod.uid.clone()).collect();
        assert_eq!(uids.len(), usize::try_from(replicas + 1).unwrap(), "{:?}", simulation.health);
        assert!(pods.values().all(|pod| pod.process.is_some()), "{pods:#?}");
        assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)));
        let Some(Health::Stalled(cause)) = &simulation.health else { panic!("{:?}", simulation.health) };
        let words = ["exceeded quota: small", "spec.resources", "rollout restart statefulset/cache"];
        assert!(cause.reason == "BroughtBack" && words.iter().all(|word| cause.message.contains(word)), "{cause:?}");
        works(&mut simulation, 120);
        let pods = simulation.kubernetes.set.pods.values();
        assert_eq!(pods.map(|pod| pod.uid.clone()).collect::<Vec<_>>(), uids, "no try costs a pod");
        simulation.kubernetes.set.banned = None;
        simulation.settle();
        simulation.assert_settled();
    }
}
