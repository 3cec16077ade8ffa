//! `Promoting`: takes the role from the earlier master, and gives it to another.

use std::collections::BTreeSet;

use super::super::{AT_ONCE, Step, View, hide, services, target};
use super::{change, following};
use crate::action::Action;
use crate::facts::{NodePod, NodeState, Pod};
use crate::names::MASTER;
use crate::settings::NO_MASTER;
use causeway_api::redis::Failover;

/// Closes the Service, detaches the replicas, and promotes the target once the replicas receive nothing any more.
pub fn step(view: &View<'_>, failover: &Failover) -> Step {
    let message = change::describe(failover);
    let found = view.observed.set.pods.iter().find(|(_, pod)| pod.name == failover.target);
    let Some((to, pod, info)) = found.and_then(|(ordinal, pod)| Some((*ordinal, pod, pod.info()?))) else {
        return Step::wait(change::reason(failover), message);
    };
    let mut actions = services::close(view, pod);
    actions.extend(fences(view, pod));
    actions.extend(word_left(view, failover, pod));
    // The replicas of the earlier master may still acknowledge its writes. Once they are detached, no write that waits
    // for a replica succeeds, and the offsets of the replicas stand still and can be compared.
    let attached = following::attached_elsewhere(view, to);
    if !attached.is_empty() && !info.is_master() {
        actions.extend(attached);
        return Step { again: AT_ONCE, ..Step::act(actions, change::reason(failover), message) };
    }
    let labelled = |other: &&Pod| other.name != pod.name && other.has_role(MASTER);
    let mut labels: Vec<Action> = view.observed.set.pods.values().filter(labelled).map(hide).collect();
    if pod.has_role(MASTER) {
        // A user labelled the target too early. The others lose the label before the promotion, or two pods would be
        // called the master.
        actions.append(&mut labels);
    }
    if !info.is_master() {
        let why = if failover.from.is_some() { "the master failed" } else { "it is the first" };
        actions.push(Action::Promote { node: target(pod), run_id: info.run_id.clone(), why });
    }
    // The others follow before clients come: a write may need a replica (`min-replicas-to-write`).
    actions.extend(following::followers(view, to));
    actions.extend(services::to_master(view, to));
    actions.extend(services::not_as_replica(view, to));
    actions.append(&mut labels);
    actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    Step { again: AT_ONCE, ..Step::act(actions, change::reason(failover), message) }
}

/// The commands that a hung earlier master is to find when it wakes up. One that runs a script ends at once.
fn word_left(view: &View<'_>, failover: &Failover, successor: &Pod) -> Option<Action> {
    let (from, heir) = (failover.from.as_ref()?, successor.address.clone()?);
    let pod = view.observed.set.pods.values().find(|pod| pod.name == *from && pod.name != successor.name)?;
    let hangs = matches!(pod.own.state, NodeState::Silent(_)) && pod.endpoint().is_some();
    let word = || {
        if pod.own.busy {
            // It would refuse to step down, and take writes again as soon as its script ends.
            return Action::EndBusy { node: target(pod), successor: heir };
        }
        Action::StepDown { node: target(pod), successor: heir }
    };
    hangs.then(word)
}

/// Fences masters that replicas still follow, but whose pods are gone: a pod that is deleted by force is gone before
/// its process is.
fn fences(view: &View<'_>, successor: &Pod) -> Vec<Action> {
    let (Some(history), Some(heir)) = (&view.before.history, &successor.address) else { return Vec::new() };
    let pods = || view.observed.set.pods.values();
    let has_pod = |host: &str| pods().any(|pod| pod.address.as_deref() == Some(host));
    let named = pods().filter_map(|pod| pod.info().filter(|info| info.continues(history))?.link());
    let hosts: BTreeSet<&str> =
        named.map(|link| link.host.as_str()).filter(|host| *host != NO_MASTER && !has_pod(host)).collect();
    let fence = |host: &str| {
        let at = Pod { address: Some(host.to_owned()), own: successor.own.clone(), ..Pod::default() }.endpoint()?;
        Some(Action::Fence { at, history: history.clone(), successor: heir.clone() })
    };
    hosts.into_iter().filter_map(fence).collect()
}
