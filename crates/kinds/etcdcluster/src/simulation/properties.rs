//! Whatever happens, no data are lost; and when it stops, all becomes as the object says.

use proptest::prelude::*;

use causeway_runtime::Health;

use super::Simulation;
use super::faults::{Edit, Event, story};
use crate::fixtures::cluster;

/// Lets all of it happen, and then nothing more.
fn tell(simulation: &mut Simulation, story: &[Event]) {
    for event in story {
        event.happens(simulation);
    }
    simulation.nodes_return();
    let spec = &mut simulation.object.spec;
    spec.config.clear();
    spec.image = None;
    // If no operator saw the members before their version was lowered, only their user knows which one they ran.
    let status = simulation.object.status.as_ref();
    let is_seen = status.is_some_and(|status| status.current_version.is_some() || status.downgrade.is_some());
    // The cluster has its version before members write their data in that format.
    let raft = &simulation.raft;
    let is_later = raft.agreed_minor > 5 || raft.storage.values().any(|minor| *minor > 5);
    spec.version = if is_seen || !is_later { "3.5.30" } else { "3.6.1" }.into();
    simulation.settle();
    simulation.hand_in_password();
    simulation.settle();
    simulation.assert_settled();
}

/// Each case is a long story; `PROPTEST_CASES` asks for more of them.
fn cases() -> ProptestConfig {
    ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn whatever_happens_at_the_beginning_a_cluster_is_made(size in 0..3_i32, story in story(40)) {
        tell(&mut Simulation::new(cluster(2 * size + 1)), &story);
    }

    #[test]
    fn a_cluster_recovers_from_faults_and_keeps_its_promises(size in 0..3_i32, story in story(60)) {
        tell(&mut Simulation::settled(cluster(2 * size + 1)), &story);
    }

    #[test]
    fn a_mistake_changes_no_pod_and_no_setting(size in 0..3_i32, wanted in 0..3_i32, downgrade: bool) {
        let mut before = cluster(2 * size + 1);
        before.spec.version = "3.6.1".into();
        let mut simulation = Simulation::settled(before);
        let kept = format!("{:?} {:?}", simulation.kubernetes, simulation.raft.members);
        Edit::Replicas(2 * wanted + 1).happens(&mut simulation);
        if downgrade { Edit::Version("3.5.9") } else { Edit::Mistake }.happens(&mut simulation);
        simulation.settle();
        prop_assert!(matches!(simulation.health, Some(Health::Stalled(_))));
        prop_assert_eq!(format!("{:?} {:?}", simulation.kubernetes, simulation.raft.members), kept);
    }
}
