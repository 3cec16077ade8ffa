//! A setting that Redis has not accepted is in no file that a process which works would start with.

use super::Simulation;
use super::kubernetes::REFUSED;
use super::story::Mishap;
use crate::fixtures::redis;
use crate::names;

fn works(simulation: &mut Simulation, seconds: u32) {
    for _ in 0..seconds {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
}

/// Reports whether the pods that are made now would start with that value.
fn is_in_template(simulation: &Simulation) -> bool {
    let set = &simulation.kubernetes.set.children[&("StatefulSet".to_owned(), "cache".to_owned())];
    set.value["spec"]["template"]["metadata"]["annotations"][names::CONF].as_str().unwrap().contains(REFUSED)
}

/// How many pods would start a process with that value.
fn files_with_it(simulation: &Simulation) -> usize {
    let pods = simulation.kubernetes.set.pods.values();
    pods.filter(|pod| pod.conf.as_ref().is_some_and(|file| file.contains(REFUSED))).count()
}

fn set(simulation: &mut Simulation, name: &str, value: &str) {
    simulation.object.spec.config.insert(name.into(), value.into());
}

#[test]
fn a_refused_setting_is_in_no_file_without_master() {
    for replicas in [0, 2] {
        let mut simulation = Simulation::settled(redis(replicas));
        set(&mut simulation, "timeout", "5");
        simulation.settle();
        for ordinal in 0..=replicas {
            simulation.kubernetes.kill(ordinal);
        }
        simulation.kubernetes.dark = 20;
        set(&mut simulation, "timeout", REFUSED);
        works(&mut simulation, 10);
        assert!(!is_in_template(&simulation) && files_with_it(&simulation) == 0, "{replicas}");
        let file = simulation.kubernetes.set.pods[&0].conf.clone().unwrap();
        assert!(file.contains("timeout 5\n"), "the last accepted value stays: {file}");
        works(&mut simulation, 60);
        assert_eq!(simulation.data(), simulation.acknowledged, "{replicas}: {:?}", simulation.health);
        assert!(!is_in_template(&simulation) && files_with_it(&simulation) == 0, "{replicas}");
        set(&mut simulation, "timeout", "7");
        simulation.settle();
        simulation.assert_settled();
    }
}

#[test]
fn an_immutable_setting_is_tried_by_one_pod() {
    let mut simulation = Simulation::settled(redis(2));
    set(&mut simulation, "io-threads", REFUSED);
    works(&mut simulation, 30);
    // A pod that is lost meanwhile comes back with what worked.
    assert!(!is_in_template(&simulation));
    assert_eq!(files_with_it(&simulation), 1, "{:#?}", simulation.kubernetes.set.pods);
    for ordinal in 0..2 {
        simulation.kubernetes.kill(ordinal);
    }
    works(&mut simulation, 60);
    assert_eq!(simulation.data(), simulation.acknowledged, "{:?}", simulation.health);
    simulation.object.spec.config.clear();
    simulation.settle();
    simulation.assert_settled();
}

/// An edit of the StatefulSet by hand put it there.
#[test]
fn a_refused_setting_in_all_files_can_be_corrected() {
    let mut simulation = Simulation::settled(redis(1));
    let template = simulation.kubernetes.set.children.get_mut(&("StatefulSet".to_owned(), "cache".to_owned())).unwrap();
    let file = &mut template.value["spec"]["template"]["metadata"]["annotations"][names::CONF];
    let wrong = format!("{}timeout {REFUSED}\n", file.as_str().unwrap());
    *file = wrong.clone().into();
    for ordinal in 0..2 {
        simulation.kubernetes.set.pods.get_mut(&ordinal).unwrap().conf = Some(wrong.clone());
        simulation.kubernetes.kill(ordinal);
    }
    set(&mut simulation, "timeout", "5");
    simulation.settle();
    simulation.assert_settled();
}
