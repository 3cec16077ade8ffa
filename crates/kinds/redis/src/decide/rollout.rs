//! Pods are replaced one by one: the sick first, the master last, after it has handed over.

use kube::ResourceExt;

use super::super::facts::{NodePod, Pod};
use super::super::names;
use super::{Step, View, delete_pod, failover, services};

/// The next pod to replace, or the pods to wait for.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    let outdated = |pod: &Pod| accepted && !pod.terminating && view.is_outdated(pod);
    let count = view.observed.set.pods.values().filter(|pod| outdated(pod)).count();
    let message = format!("{count} of {} pods to be replaced", view.observed.set.pods.len());
    let replace = |pod: &Pod| Step::act(vec![delete_pod(pod, view.why_replaced(pod))], "RollingOut", message.clone());
    let (master, _, _) = view.serving_master()?;
    let away: Vec<i32> =
        (0..view.wanted_nodes()).filter(|ordinal| *ordinal != master && !is_well(view, *ordinal)).collect();
    // It may never get well again: a lower version does not read what a newer one sends, and a container beside it fails for
    // what the spec was. All others have all data, whether their pods are ready or not. But one that was replaced already gets
    // ready first: if it does not, the spec is wrong again.
    let is_as_old = |other: i32| stays(view, other) && view.pod(other).is_some_and(outdated);
    let may_go = |ordinal: i32| away.iter().all(|other| *other == ordinal || is_as_old(*other));
    let mut sick = away.iter().rev().filter(|ordinal| may_go(**ordinal)).filter_map(|ordinal| view.pod(*ordinal));
    if let Some(pod) = sick.find(|pod| outdated(pod)) {
        return Some(replace(pod));
    }
    if !away.is_empty() {
        let reason = if count > 0 { "RollingOut" } else { "ReplicasNotReady" };
        let waiting = format!("waiting for {}", view.unwell(away));
        let waiting = if count > 0 { format!("{message}, {waiting}") } else { waiting };
        return Some(match view.pod_trouble() {
            Some((reason, text)) => Step::trouble(reason, format!("{waiting}; {text}")),
            None => Step::wait(reason, waiting),
        });
    }
    let replica = view.observed.set.pods.iter().rev().find(|(ordinal, pod)| **ordinal != master && outdated(pod));
    if let Some((_, pod)) = replica {
        return Some(replace(pod));
    }
    let pod = view.pod(master).filter(|pod| outdated(pod))?;
    if view.wanted_nodes() == 1 {
        // A single node has no other to stand in for it.
        return Some(replace(pod));
    }
    Some(failover::move_away(view, master, "RollingOut").unwrap_or_else(|| Step::wait("RollingOut", message)))
}

/// A pod whose node does not start, and that was made from an earlier spec: nothing is lost with it, whichever node is the
/// master. A node that runs may serve, whether the operator hears it or not, and whatever ails the containers beside it. One
/// that ran before stays while the present spec brings up no other. One that has never run goes first, and the master last.
pub fn hopeless(view: &View<'_>) -> Option<Step> {
    let is_down = |pod: &Pod| pod.trouble.is_some() && !pod.runs && pod.info().is_none() && !pod.terminating;
    let may_go = |pod: &&Pod| is_down(pod) && view.is_outdated(pod) && !view.must_stay(pod);
    let is_last = |pod: &&Pod| (pod.has_run, view.before.master.as_ref() == Some(&pod.name));
    let pod = view.observed.set.pods.values().filter(may_go).min_by_key(is_last)?;
    let why = "it does not start, and was made from an earlier spec";
    Some(Step::act(vec![delete_pod(pod, why)], "RollingOut", format!("replacing {}: {why}", pod.name)))
}

/// Waits for what is left: for surplus pods to go, for clients to be led to the master alone, and for its pod to be
/// ready. A master whose pod is not ready serves nevertheless: the operator's `EndpointSlice`s lead the Service to it.
pub fn unfinished(view: &View<'_>) -> Option<Step> {
    let Some((master, pod, _)) = view.serving_master() else {
        return Some(Step::wait("NoMaster", "waiting for the master to answer"));
    };
    if let Some((_, spare)) = view.observed.set.pods.iter().find(|(ordinal, _)| **ordinal >= view.wanted_nodes()) {
        return Some(Step::wait("ScalingDown", format!("waiting for pod {} to stop", spare.place())));
    }
    let name = names::pod(view.object, master);
    if pod.terminating {
        return Some(Step::wait(
            "Replacing",
            format!("waiting for pod {} to stop, and for its successor to serve", pod.place()),
        ));
    }
    if let Some(message) = services::strange(view) {
        return Some(Step::trouble("ForeignEndpoints", message));
    }
    let service = view.object.name_any();
    if !services::lead_to_master(view) {
        return Some(Step::wait("ServiceNotLed", format!("waiting for Service {service} to lead to {name}")));
    }
    if pod.ready {
        return None;
    }
    let message = format!("clients of Service {service} are served by {}; its pod is not ready", pod.place());
    Some(match view.pod_trouble() {
        Some((reason, text)) => Step::trouble(reason, format!("{message}; {text}")),
        // Whatever ends this trouble wakes the controller.
        None => Step::trouble("MasterNotReady", format!("{message} (kubectl describe pod {name} says why)")),
    })
}

/// The replica has all data and follows, and its pod serves.
fn is_well(view: &View<'_>, ordinal: i32) -> bool {
    stays(view, ordinal) && view.pod(ordinal).is_some_and(|pod| pod.ready)
}

/// The replica has all data and follows, and its pod is not about to go.
fn stays(view: &View<'_>, ordinal: i32) -> bool {
    view.follows(ordinal) && view.pod(ordinal).is_some_and(|pod| !pod.terminating)
}
