//! Pods are replaced one by one: the sick first, the leader last.

use super::super::facts::Pod;
use super::{Step, View, delete_pod, leadership};

/// How many entries a member may lag behind the leader and still be well: it applies them in moments.
const LAG: u64 = 5_000;

/// Replaces a pod that was made from an earlier spec and will not get well by waiting; one that has run only if the present
/// spec is not about to fail. This comes before changes of the members, because those wait for all to be well.
pub fn mend(view: &View<'_>, accepted: bool) -> Option<Step> {
    let may_go = |pod: &Pod| view.is_outdated(pod) && !view.must_stay(pod);
    let outdated = |ordinal: &i32| view.observed.set.pods.get(ordinal).is_some_and(may_go);
    let stuck = |ordinal: &i32| is_stuck(view, *ordinal) && view.can_miss(*ordinal);
    let ordinal = view.members.keys().find(|ordinal| accepted && stuck(ordinal) && outdated(ordinal))?;
    let pod = view.observed.set.pods.get(ordinal)?;
    let why = "it is not well, and was made from an earlier spec";
    Some(Step::act(vec![delete_pod(pod, why)], "RollingOut", format!("replacing {}: {why}", pod.name)))
}

/// The next pod to replace, or the members to wait for.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let outdated = |pod: &Pod| accepted && view.is_outdated(pod);
    let count = view.pods().filter(|pod| outdated(pod)).count();
    let message = format!("{count} of {} pods to be replaced", view.pods().count());
    let away: Vec<i32> = view.members.keys().copied().filter(|ordinal| !is_well(view, *ordinal)).collect();
    let is_outdated = |ordinal: &i32| view.observed.set.pods.get(ordinal).is_some_and(outdated);
    if !away.is_empty() {
        let reason = if count > 0 { "RollingOut" } else { "MembersUnhealthy" };
        let waiting = format!("waiting for {}", view.unwell(away));
        let waiting = if count > 0 { format!("{message}, {waiting}") } else { waiting };
        return Some(match view.pod_trouble() {
            Some((reason, text)) => Step::trouble(reason, format!("{waiting}; {text}")),
            None => Step::wait(reason, waiting),
        });
    }
    let leader = view.leader();
    let follower = view.members.keys().rev().find(|ordinal| is_outdated(ordinal) && Some(**ordinal) != leader);
    let next = follower.copied().or_else(|| leader.filter(is_outdated))?;
    let pod = view.observed.set.pods.get(&next)?;
    if Some(next) == leader && view.members.len() > 1 {
        let current = |ordinal: i32| !is_outdated(&ordinal);
        return Some(leadership::hand_over(view, next, current).unwrap_or_else(|| Step::wait("RollingOut", message)));
    }
    // A single member has no other to stand in for it.
    if view.members.len() > 1 && !view.can_miss(next) {
        let others = view.unwell(view.unhealthy_voters_without(next));
        return Some(Step::wait("RollingOut", format!("{message}, waiting for a majority of the others: {others}")));
    }
    Some(Step::act(vec![delete_pod(pod, view.why_replaced(pod))], "RollingOut", message))
}

/// Reports whether the member answers and keeps up with the leader, and its pod serves.
fn is_well(view: &View<'_>, ordinal: i32) -> bool {
    let index = |ordinal: i32| {
        let member = view.members.get(&ordinal)?;
        Some(view.observed.status_of(ordinal, member)?.applied_index)
    };
    // If a stranger leads, the leader's index is not known.
    let furthest = || view.observed.statuses.values().map(|status| status.applied_index).max();
    let leader = view.leader().and_then(index).or_else(furthest);
    let follows = leader.zip(index(ordinal)).is_some_and(|(leader, own)| own + LAG >= leader);
    let serves = view.observed.set.pods.get(&ordinal).is_some_and(|pod| pod.ready && !pod.terminating);
    view.is_healthy(ordinal) && follows && serves
}

/// Reports whether the member will not get well by waiting.
fn is_stuck(view: &View<'_>, ordinal: i32) -> bool {
    let pod = view.observed.set.pods.get(&ordinal);
    !view.is_healthy(ordinal) && pod.is_some_and(|pod| !pod.terminating && !pod.ready)
}

impl View<'_> {
    /// Returns the reason to replace a pod that is well.
    pub fn why_replaced(&self, pod: &Pod) -> &'static str {
        if self.observed.set.is_to_restart(self.object, pod) {
            "kubectl rollout restart asks for it"
        } else {
            "the spec changed"
        }
    }

    /// Reports whether a pod that was made from the present spec works.
    pub fn is_proven(&self) -> bool {
        self.observed.set.is_proven(|pod| self.is_outdated(pod))
    }

    /// Reports whether the pod has worked, and its successor might not.
    pub fn must_stay(&self, pod: &Pod) -> bool {
        self.observed.set.must_stay(self.object, pod, |pod| self.is_outdated(pod))
    }
}
