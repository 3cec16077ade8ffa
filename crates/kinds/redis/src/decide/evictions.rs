//! How many pods Kubernetes may evict: none while too few replicas have all data.
//!
//! Kubernetes counts pods that listen. A process that was started a moment ago listens long before it has copied all
//! data from the master, so a drain of one node after the other would take the last copy.

use kube::ResourceExt;

use causeway_runtime::manifest::Manifest;

use super::super::facts::{NodePod, Pod};
use super::super::{resources, settings};
use super::{Step, View, refused};

/// The disruption budget as it is to be now.
pub fn budget(view: &View<'_>) -> Manifest {
    resources::disruption_budget(view.object, allowed(view))
}

/// Writes the budget that there is, if it allows more or less than it should. A spec that cannot be accepted does not
/// keep it from that.
pub fn step(view: &View<'_>) -> Option<Step> {
    let name = view.object.name_any();
    view.observed.set.child("PodDisruptionBudget", &name).filter(|live| live.ours)?;
    if refused::is_set_aside(view, "PodDisruptionBudget", &name) {
        return None;
    }
    let message = "evictions are allowed as far as replicas have all data";
    Step::children(view.observed.set.unless_met(budget(view)), "Applying", message)
}

/// Returns the message of the status while no pod can be evicted.
pub fn refusal(view: &View<'_>) -> Option<String> {
    let name = view.object.name_any();
    (allowed(view) == 0).then(|| {
        let needed = needed(view);
        format!("PodDisruptionBudget {name} lets no pod be evicted until {needed} of them do")
    })
}

/// How many pods may be unavailable at the same time.
fn allowed(view: &View<'_>) -> i32 {
    i32::from(may_evict(view).unwrap_or_else(|| {
        // A budget that the operator does not know now changes nothing.
        let live = view.observed.set.child("PodDisruptionBudget", &view.object.name_any());
        live.is_some_and(|live| live.value["spec"]["maxUnavailable"].as_i64() != Some(0))
    }))
}

/// Reports whether a pod may be evicted; `None` while nodes change their roles, or do not answer for a moment.
fn may_evict(view: &View<'_>) -> Option<bool> {
    if view.object.spec.replicas == 0 {
        return Some(true);
    }
    let pods = &view.observed.set.pods;
    if view.before.failover.is_some() || pods.values().any(Pod::is_briefly_silent) {
        return None;
    }
    let Some((master, ..)) = view.serving_master() else {
        return view.before.masterless_since.is_some().then_some(false);
    };
    let has_all =
        |(ordinal, pod): &(&i32, &Pod)| view.follows(**ordinal) && !pod.terminating && pod.lost_node.is_none();
    let in_sync = i32::try_from(pods.iter().filter(has_all).count()).unwrap_or(i32::MAX);
    // While such a pod counts as unavailable, Kubernetes evicts no other. Nothing needs it, and it may never get well:
    // its node must not wait for that.
    let is_useless = |(ordinal, pod): (&i32, &Pod)| {
        let fails = pod.trouble.is_some() || pod.lost_node.is_some();
        *ordinal != master && fails && !pod.ready && pod.info().is_none()
    };
    Some(in_sync >= needed(view) || pods.iter().any(is_useless))
}

/// With so many replicas that have all data, one of them or the master may go: another is left that can take over, and
/// the master takes writes.
fn needed(view: &View<'_>) -> i32 {
    let left = settings::minimum(view.object).max(1);
    view.object.spec.replicas.min(left + 1)
}
