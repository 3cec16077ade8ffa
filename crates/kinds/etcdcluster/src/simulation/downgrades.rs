//! How members go back to the minor version before theirs.

use proptest::prelude::*;

use causeway_api::EtcdCluster;
use causeway_databases::ChildAction;
use causeway_runtime::Health;

use super::Simulation;
use super::faults::{Edit, Fault, Mishap};
use crate::action::Action;
use crate::fixtures;

/// A cluster of 3.6.
fn later_cluster(count: i32) -> EtcdCluster {
    let mut object = fixtures::cluster(count);
    object.spec.version = "3.6.1".into();
    object
}

/// A cluster that goes back, after this many reconciles.
fn on_the_way(count: i32, passes: usize) -> Simulation {
    let mut simulation = Simulation::settled(later_cluster(count));
    simulation.journal.clear();
    Edit::Version("3.5.30").happens(&mut simulation);
    for _ in 0..passes {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    simulation
}

/// All members run that minor version, and no downgrade is left behind.
fn ends_at(simulation: &mut Simulation, minor: u16) {
    simulation.settle();
    simulation.assert_settled();
    assert_eq!((simulation.raft.agreed_minor, simulation.raft.downgrade), (minor, None));
    let status = simulation.object.status.as_ref().unwrap();
    assert_eq!(status.downgrade, None);
}

#[test]
fn data_are_downgraded_before_the_first_pod_is_replaced() {
    for count in [1, 3, 5] {
        let mut simulation = on_the_way(count, 0);
        ends_at(&mut simulation, 5);
        let steps: Vec<&str> = simulation
            .journal
            .iter()
            .filter_map(|action| match action {
                Action::EnableDowngrade { .. } => Some("enable"),
                Action::Child(ChildAction::DeletePod { .. }) => Some("delete"),
                Action::MoveLeader { .. } => Some("move"),
                Action::CancelDowngrade { .. } => Some("cancel"),
                _ => None,
            })
            .collect();
        let mut expected = vec!["delete"; usize::try_from(count).unwrap()];
        if count > 1 {
            expected.insert(expected.len() - 1, "move");
        }
        expected.insert(0, "enable");
        assert_eq!(steps, expected, "{count}");
    }
}

#[test]
fn a_version_that_revives_removed_members_is_refused() {
    let mut simulation = Simulation::settled(later_cluster(3));
    simulation.journal.clear();
    Edit::Version("3.5.25").happens(&mut simulation);
    simulation.settle();
    assert!(matches!(&simulation.health, Some(Health::Stalled(cause)) if cause.reason == "DowngradeRefused"));
    assert_eq!(simulation.journal, []);
}

/// Until the cluster has their version, members of 3.6 have data in the format of 3.5; a moment later, they do not.
#[test]
fn a_downgrade_waits_for_members_just_upgraded() {
    let mut earlier = fixtures::cluster(3);
    earlier.spec.version = "3.5.30".into();
    let mut simulation = Simulation::settled(earlier);
    Edit::Version("3.6.1").happens(&mut simulation);
    while simulation.raft.up.values().any(|minor| *minor < 6) || simulation.raft.up.len() < 3 {
        simulation.reconcile(&Mishap::default());
        simulation.time_passes();
    }
    assert_eq!(simulation.raft.agreed_minor, 5, "the cluster does not have their version yet");
    simulation.journal.clear();
    Edit::Version("3.5.30").happens(&mut simulation);
    ends_at(&mut simulation, 5);
    let place = |wanted: fn(&Action) -> bool| simulation.journal.iter().position(wanted);
    let enabled = place(|action| matches!(action, Action::EnableDowngrade { .. }));
    let deleted = place(|action| matches!(action, Action::Child(ChildAction::DeletePod { .. })));
    assert!(enabled.is_some() && enabled < deleted, "{:#?}", simulation.journal);
}

/// A user has enabled it by hand.
#[test]
fn a_downgrade_enabled_by_hand_is_cancelled() {
    let mut simulation = Simulation::settled(later_cluster(3));
    Fault::Downgrade(true).happens(&mut simulation);
    ends_at(&mut simulation, 6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    #[test]
    fn a_member_without_volume_rejoins_during_a_downgrade(
        size in 1..3_i32, passes in 0..12_usize, place in any::<prop::sample::Index>()
    ) {
        let mut simulation = on_the_way(2 * size + 1, passes);
        Fault::ReplaceVolume(place).happens(&mut simulation);
        ends_at(&mut simulation, 5);
    }

    #[test]
    fn a_user_may_give_a_downgrade_up_at_any_time(size in 0..3_i32, passes in 0..12_usize) {
        let mut simulation = on_the_way(2 * size + 1, passes);
        Edit::Version("3.6.1").happens(&mut simulation);
        ends_at(&mut simulation, 6);
    }

    #[test]
    fn a_downgrade_cancelled_by_hand_goes_on(size in 0..3_i32, passes in 0..12_usize, later in 0..3_usize) {
        let mut simulation = on_the_way(2 * size + 1, passes);
        Fault::Downgrade(false).happens(&mut simulation);
        for _ in 0..later {
            simulation.time_passes();
        }
        ends_at(&mut simulation, 5);
    }

    #[test]
    fn clusters_grow_and_shrink_on_the_way_back(wanted in 0..3_i32, passes in 0..12_usize) {
        let mut simulation = on_the_way(3, passes);
        Edit::Replicas(2 * wanted + 1).happens(&mut simulation);
        ends_at(&mut simulation, 5);
    }
}
