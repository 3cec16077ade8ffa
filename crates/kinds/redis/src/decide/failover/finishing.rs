//! `Finishing`: the target is a master. Clients and replicas are led to it, and the status records the end.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::super::{AT_ONCE, PROGRESS_INTERVAL, Record, Step, View, hide, services, target};
use super::{change, following, reasons};
use crate::action::Action;
use crate::facts::NodePod;
use crate::names::MASTER;
use causeway_api::redis::{Failover, LastFailover};

/// Makes all others follow the target, and leads clients to it. Once nothing of that is left to do, records the end.
pub fn step(view: &View<'_>, failover: &Failover, to: i32) -> Step {
    let pod = view.observed.set.pods.get(&to);
    let mut actions = following::followers(view, to);
    actions.extend(services::to_master(view, to));
    actions.extend(services::not_as_replica(view, to));
    for (ordinal, other) in view.observed.set.pods.iter().filter(|(ordinal, _)| **ordinal != to) {
        if other.has_role(MASTER) {
            actions.push(hide(other));
        }
        let from = failover.from.as_ref() == Some(&other.name);
        let stepped_down = other.info().is_some_and(|info| !info.is_master());
        if from && failover.planned && stepped_down && pod.is_some_and(|pod| !pod.has_role(MASTER)) {
            // Its clients would keep getting errors for as long as they keep their connections.
            actions.push(Action::DropClients { node: target(view.pod(*ordinal).unwrap_or(other)) });
        }
    }
    if let Some(pod) = pod.filter(|pod| !pod.has_role(MASTER)) {
        actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    }
    if !actions.is_empty() {
        let message = format!("clients are led to {}", failover.target);
        return Step { again: AT_ONCE, ..Step::act(actions, change::reason(failover), message) };
    }
    let duration_ms = failover.duration_ms(view.now);
    let completed = LastFailover {
        epoch: failover.epoch,
        from: failover.from.clone(),
        to: failover.target.clone(),
        reason: failover.reason.clone(),
        duration_ms,
        at: Time(view.now),
        left: left_masters(view, failover),
        closed: None,
    };
    let note = match &failover.from {
        Some(from) if *from == failover.target => {
            format!("{from} is the master again after {duration_ms} ms: {}", failover.reason)
        }
        Some(from) => {
            format!("{} is the master in place of {from} after {duration_ms} ms: {}", failover.target, failover.reason)
        }
        None => format!("{} is the master", failover.target),
    };
    let reason = match (&failover.from, failover.planned) {
        (None, _) => "MasterMade",
        (_, true) => "SwitchedOver",
        (_, false) => "FailedOver",
    };
    let message = format!("clients are led to {}", failover.target);
    let lost = reasons::loss(&completed).map(|note| Action::Tell { reason: "DataLost", note });
    let actions = [Action::Tell { reason, note }].into_iter().chain(lost).collect();
    let step = Step::act(actions, change::reason(failover), message);
    Step { record: Record::Complete(completed), again: PROGRESS_INTERVAL, ..step }
}

/// The last failover, as long as clients may still be connected to an earlier master.
pub fn since_change<'a>(view: &'a View<'_>) -> Option<&'a LastFailover> {
    view.before.last_failover.as_ref().filter(|last| view.before.failover.is_none() && !last.left.is_empty())
}

/// The nodes that were the master until a moment ago: the previous one, and those of earlier changes that clients may
/// not have left yet.
fn left_masters(view: &View<'_>, failover: &Failover) -> Vec<String> {
    let earlier = view.before.last_failover.iter().flat_map(|last| &last.left);
    let all: BTreeSet<&String> = failover.from.iter().chain(earlier).filter(|name| **name != failover.target).collect();
    all.into_iter().cloned().collect()
}
