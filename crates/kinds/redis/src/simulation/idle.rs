//! A node that does not answer for a moment causes no write, and a node that was killed does not wait in vain.

use proptest::prelude::*;

use causeway_databases::ChildAction;
use causeway_runtime::Health;

use super::Simulation;
use super::kubernetes::PodState;
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures::redis;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_brief_silence_causes_no_writes(replicas in 0..4_i32, silent: [bool; 4]) {
        let mut simulation = Simulation::settled(redis(replicas));
        for (ordinal, pod) in &mut simulation.kubernetes.set.pods {
            pod.process.as_mut().unwrap().hangs = silent[usize::try_from(*ordinal).unwrap()].then_some(1);
        }
        let all_answer = simulation.kubernetes.set.pods.values().all(PodState::answers);
        let plan = decide(&simulation.object, &simulation.observe(), simulation.now);
        prop_assert_eq!(plan.actions, []);
        prop_assert_eq!(Some(plan.status), simulation.object.status.clone());
        prop_assert_eq!(matches!(plan.health, Health::Ready(_)), all_answer);
        prop_assert!(all_answer || matches!(plan.health, Health::Unchanged(_)));

        for pod in simulation.kubernetes.set.pods.values_mut().filter(|pod| !pod.answers()) {
            pod.process.as_mut().unwrap().hangs = Some(2);
        }
        let later = decide(&simulation.object, &simulation.observe(), simulation.now);
        prop_assert_eq!(matches!(later.health, Health::Ready(_)), all_answer, "a moment later it is reported");
    }
}

#[test]
fn nodes_in_a_long_back_off_are_restarted() {
    for count in 1..=3 {
        let mut simulation = Simulation::settled(redis(2));
        for ordinal in 0..count {
            simulation.kill_again(ordinal);
        }
        simulation.settle();
        simulation.assert_settled();
        let revived = simulation
            .journal
            .iter()
            .filter(|action| matches!(action, Action::Child(ChildAction::Revive { .. })))
            .count();
        assert_eq!(revived, usize::try_from(count).unwrap());
    }
}

/// Its data would be lost with the pod.
#[test]
fn a_node_without_a_volume_waits_for_the_kubelet() {
    let mut object = redis(1);
    object.spec.storage.ephemeral = true;
    let mut simulation = Simulation::settled(object);
    simulation.kill_again(1);
    simulation.settle();
    simulation.assert_settled();
    assert!(!simulation.journal.iter().any(|action| matches!(action, Action::Child(ChildAction::Revive { .. }))));
}
