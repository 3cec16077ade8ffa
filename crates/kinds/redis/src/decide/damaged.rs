//! A replica that cannot read its data starts empty, and fetches all data from the master.

use causeway_databases::ChildAction;

use super::super::damage::DamagedPod;
use super::super::facts::{NodePod, Pod};
use super::{Step, View, failover};

/// Empties such a replica while a master with all data serves. It never empties the last volume with data: if the
/// master lacks data, or is empty although the replica was not, a user may want to repair the file.
pub fn step(view: &View<'_>) -> Option<Step> {
    let (master, _, info) = view.serving_master()?;
    if view.before.failover.is_some() || info.loading || info.handing_over {
        return None;
    }
    let is_damaged = |(ordinal, pod): &(&i32, &Pod)| {
        **ordinal != master
            && !pod.terminating
            && pod.info().is_none()
            && pod.trouble.is_some()
            && pod.damage().is_some()
    };
    let (ordinal, pod) = view.observed.set.pods.iter().find(is_damaged)?;
    let (name, evidence) = (&pod.name, pod.damage()?);
    let lost = view.before.last_failover.as_ref().and_then(failover::loss);
    let had_more = info.keys == 0 && view.recorded(*ordinal).is_some_and(|node| node.keys > 0);
    let why = format!("its data cannot be read: {evidence}");
    let claim = view.observed.set.claims.get(ordinal);
    let kept = claim.is_some_and(|claim| !claim.ours && !claim.terminating);
    if lost.is_some() || had_more || kept {
        let because = match lost {
            Some(how) => how,
            None if had_more => "the master is empty".into(),
            None => "an earlier object of this name left its volume".into(),
        };
        let message = format!(
            "{name} cannot read its data ({evidence}), and is not emptied, for {because}: repair its files, or delete its \
             volume claim data-{name} and then the pod"
        );
        return Some(Step::trouble("NodeDamaged", message));
    }
    let mut actions = Vec::new();
    if let Some(claim) = claim.filter(|claim| !claim.terminating && !view.object.spec.storage.ephemeral) {
        actions.push(ChildAction::delete_claim(claim, why.as_str()));
    }
    actions.push(ChildAction::delete_pod(pod, why.as_str()));
    Step::children(actions, "Replacing", format!("emptying {name}, which fetches all data from the master: {why}"))
}
