//! The backup that new nodes begin with.

use causeway_api::{Redis, RedisStatus};
use causeway_databases::redis::Writes;
use causeway_databases::restore_from::Database;
use causeway_runtime::{Health, Plan};

use super::super::action::Action;
use super::super::{names, settings};
use super::{View, services};

/// The nodes, as far as a restore is concerned.
pub fn database<'a>(view: &'a View<'_>) -> Database<'a, Redis> {
    Database {
        object: view.object,
        asked: view.object.spec.restore_from.as_ref(),
        before: view.before.restored.as_ref(),
        seen: &view.observed.set.restore,
        serves: takes_writes(view),
        found_volumes: view.observed.set.claims.values().any(|claim| !claim.ours && !claim.terminating),
        labels: names::labels(view.object),
    }
}

/// Reports whether a master is behind the Service, is not about to lose its role, and has the replicas without which it
/// refuses writes.
fn takes_writes(view: &View<'_>) -> bool {
    let leads =
        view.serving_master().is_some_and(|(_, pod, _)| pod.own.writes == Some(Writes::Taken) && !pod.terminating)
            && services::lead_to_master(view);
    let following = view.observed.set.pods.keys().filter(|ordinal| view.follows(**ordinal)).count();
    let minimum = usize::try_from(settings::minimum(view.object)).unwrap_or_default();
    leads && view.before.failover.is_none() && following >= minimum
}

/// The plan with the phase that follows from its health: nodes that wait for their data do not run.
pub fn describe(mut plan: Plan<Action, RedisStatus>) -> Plan<Action, RedisStatus> {
    if plan.status.phase.as_deref() == Some("Running") && !matches!(plan.health, Health::Ready(_)) {
        let stalled = matches!(plan.health, Health::Stalled(_));
        plan.status.phase = Some(if stalled { "Stalled" } else { "Restoring" }.into());
    }
    plan
}
