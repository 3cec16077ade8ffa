//! `kubectl rollout restart` of the StatefulSet.

use causeway_databases::ChildAction;
use causeway_databases::simulation::restart;

use super::Simulation;
use crate::action::Action;
use crate::fixtures::redis;

#[test]
fn a_rollout_restart_replaces_the_master_last() {
    for replicas in [0, 2] {
        let mut simulation = Simulation::settled(redis(replicas));
        let master = simulation.object.status.clone().unwrap().master;
        for at in ["2026-11-28T10:00:00Z", "2026-11-28T11:00:00Z"] {
            simulation.journal.clear();
            restart(&mut simulation.kubernetes.set, at);
            simulation.settle();
            simulation.assert_settled();
            let deleted: Vec<&String> = simulation
                .journal
                .iter()
                .filter_map(|action| match action {
                    Action::Child(ChildAction::DeletePod { name, .. }) => Some(name),
                    _ => None,
                })
                .collect();
            assert_eq!(deleted.len(), usize::try_from(replicas + 1).unwrap(), "{deleted:?}");
            if at.contains("T10") {
                assert_eq!(deleted.last().copied(), master.as_ref());
            }
            assert!(simulation.acknowledged.iter().all(|write| simulation.data().contains(write)));
        }
    }
}
