//! Who does not answer for a moment costs no write, and who was killed does not wait in vain.

use proptest::prelude::*;

use super::World;
use super::kubernetes::PodState;
use crate::controllers::redis::action::Action;
use crate::controllers::redis::decide::decide;
use crate::controllers::redis::fixtures::redis;
use crate::runtime::Health;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn one_at_rest_writes_nothing_whoever_does_not_answer_for_a_moment(replicas in 0..4_i32, silent: [bool; 4]) {
        let mut world = World::settled(redis(replicas));
        for (ordinal, pod) in &mut world.kubernetes.pods {
            pod.process.as_mut().unwrap().hangs = silent[usize::try_from(*ordinal).unwrap()].then_some(1);
        }
        let all_answer = world.kubernetes.pods.values().all(PodState::answers);
        let plan = decide(&world.object, &world.observe(), world.now);
        prop_assert_eq!(plan.actions, []);
        prop_assert_eq!(Some(plan.status), world.object.status.clone());
        prop_assert_eq!(matches!(plan.health, Health::Ready(_)), all_answer);
        prop_assert!(all_answer || matches!(plan.health, Health::Unchanged(_)));

        for pod in world.kubernetes.pods.values_mut().filter(|pod| !pod.answers()) {
            pod.process.as_mut().unwrap().hangs = Some(2);
        }
        let told = decide(&world.object, &world.observe(), world.now);
        prop_assert_eq!(matches!(told.health, Health::Ready(_)), all_answer, "a moment later it is told");
    }
}

#[test]
fn nodes_that_were_killed_again_and_again_are_started_at_once() {
    for count in 1..=3 {
        let mut world = World::settled(redis(2));
        for ordinal in 0..count {
            world.kill_again(ordinal);
        }
        world.settle();
        world.assert_settled();
        let revived = world.journal.iter().filter(|action| matches!(action, Action::Revive { .. })).count();
        assert_eq!(revived, usize::try_from(count).unwrap());
    }
}

/// Its data would go with the pod.
#[test]
fn a_node_without_a_volume_waits_for_the_kubelet() {
    let mut object = redis(1);
    object.spec.storage.ephemeral = true;
    let mut world = World::settled(object);
    world.kill_again(1);
    world.settle();
    world.assert_settled();
    assert!(!world.journal.iter().any(|action| matches!(action, Action::Revive { .. })));
}
