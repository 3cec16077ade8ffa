//! A member that does not answer for a moment causes no write, and one that was killed does not wait in vain.

use proptest::prelude::*;

use causeway_databases::ChildAction;
use causeway_runtime::Health;

use super::Simulation;
use super::faults::{Edit, Mishap};
use super::kubernetes::Container;
use crate::action::Action;
use crate::decide::decide;
use crate::fixtures::cluster;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_brief_silence_causes_no_writes(
        size in 0..3_i32,
        silent: [bool; 5],
        majority: bool,
    ) {
        let mut simulation = Simulation::settled(cluster(2 * size + 1));
        let object = simulation.object.clone();
        let mut observed = simulation.observe(&object, false);
        observed.statuses.retain(|ordinal, _| !silent[usize::try_from(*ordinal).unwrap()]);
        observed.quorum = observed.quorum.filter(|_| majority);
        observed.unsure = true;
        let plan = decide(&object, &observed, simulation.now);
        prop_assert_eq!(plan.actions, []);
        prop_assert_eq!(Some(plan.status), object.status.clone());
        prop_assert!(matches!(plan.health, Health::Unchanged(_)), "{:?}", plan.health);

        observed.unsure = false;
        let later = decide(&object, &observed, simulation.now);
        let is_well = majority && observed.statuses.len() == observed.set.pods.len();
        prop_assert_eq!(matches!(later.health, Health::Ready(_)), is_well, "a moment later it is reported");
    }
}

fn revived(simulation: &Simulation) -> usize {
    simulation.journal.iter().filter(|action| matches!(action, Action::Child(ChildAction::Revive { .. }))).count()
}

#[test]
fn members_in_a_long_back_off_are_restarted() {
    for count in 1..=3 {
        let mut simulation = Simulation::settled(cluster(3));
        for ordinal in 0..count {
            simulation.kill_again(ordinal);
        }
        simulation.settle();
        simulation.assert_settled();
        assert_eq!(revived(&simulation), usize::try_from(count).unwrap());
    }
}

/// An operator that waits for the member before it grows the volume waits forever.
#[test]
fn a_member_starts_once_its_full_volume_grew() {
    for size in [1, 3] {
        let mut simulation = Simulation::settled(cluster(size));
        let full = simulation.object.spec.volume_size().to_owned();
        simulation.kubernetes.full = Some((0, full));
        simulation.kubernetes.stop(0, Container::Waiting(None), &mut simulation.raft);
        for _ in 0..10 {
            simulation.reconcile(&Mishap::default());
            simulation.time_passes();
        }
        Edit::Size("20Gi").happens(&mut simulation);
        simulation.settle();
        simulation.assert_settled();
    }
}
