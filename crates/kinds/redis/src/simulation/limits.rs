//! A limit that is reached is said, with its name, and no failover answers it that meets the same one.

use causeway_databases::redis::{Admission, Writes};
use causeway_runtime::Health;

use super::super::action::Action;
use super::super::fixtures::redis;
use super::Simulation;
use super::doors::{cause, plan};
use super::looks::says;

fn changes_the_master(action: &Action) -> bool {
    matches!(action, Action::HandOver { .. } | Action::Promote { .. } | Action::StepDown { .. })
}

#[test]
fn refused_writes_are_reported_and_cost_no_role() {
    for (words, field, all_disks) in [
        ("OOM command not allowed when used memory > 'maxmemory'.", "spec.config.maxmemory", false),
        ("MISCONF Errors writing to the AOF file: No space left on device", "spec.storage.size", true),
        ("NOREPLICAS Not enough good replicas to write.", "spec.failover.minReplicasToWrite", false),
    ] {
        let simulation = Simulation::settled(redis(2));
        let plan = plan(&simulation, |observed| {
            observed.set.pods.get_mut(&0).unwrap().own.writes = Some(Writes::Refused(words.into()));
            for ordinal in 0..3 {
                says(observed, ordinal, |info| info.log_fails = all_disks);
            }
        });
        let (reason, message) = cause(&plan.health);
        assert!(matches!(plan.health, Health::Progressing(_)) && reason == "WritesRefused", "{reason}: {message}");
        assert!(message.contains(words) && message.contains(field) && message.contains("cache-0"), "{message}");
        assert!(!plan.actions.iter().any(changes_the_master), "{words}: {:?}", plan.actions);
        assert_eq!(plan.status.failover, None, "{words}");
    }
}

/// Redis answers who is in already; a new connection is closed, or gets no answer.
#[test]
fn used_up_file_descriptors_are_told_and_cost_no_role() {
    for seen in ["closes the connection without a word", "gives no answer"] {
        let simulation = Simulation::settled(redis(2));
        let plan = plan(&simulation, |observed| {
            observed.set.pods.get_mut(&0).unwrap().own.turned_away = Some(Admission::Ignored(seen));
        });
        let (reason, message) = cause(&plan.health);
        assert!(reason == "ClientsRefused" && message.contains("file descriptors"), "{reason}: {message}");
        assert_eq!(plan.actions, []);
    }
}
