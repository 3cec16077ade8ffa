//! Services, settings and pods: what is missing or differs is applied.

use kube::ResourceExt;

use super::super::action::Action;
use super::super::resources;
use super::{SELDOM, SOON, Step, View, services, size, target};
use crate::runtime::manifest::Manifest;

/// Somebody else's object of a child's name: nothing is touched.
pub fn foreign(view: &View<'_>) -> Option<Step> {
    let told = view.observed.foreign.values().next().cloned().or_else(|| child_of_others(view))?;
    Some(Step { again: SELDOM, ..Step::stalled("NameTaken", told) })
}

fn child_of_others(view: &View<'_>) -> Option<String> {
    let child = view.observed.children.iter().find(|(_, child)| !child.ours).map(|(key, _)| key.clone());
    let slice = || services::foreign(view).map(|name| ("EndpointSlice".to_owned(), name));
    let (kind, name) = child.or_else(slice)?;
    Some(format!("{kind} {name} exists and does not belong to this object: delete it, or choose another metadata.name"))
}

/// Pods and volume claims of ours whose label somebody took off: no Service leads to such a pod, and its `StatefulSet` lets
/// go of it and cannot make another of its name.
pub fn label(view: &View<'_>) -> Option<Step> {
    let pods = view.observed.pods.values().filter(|pod| pod.unlabelled && !pod.terminating);
    let pods = pods.map(|pod| Action::LabelPod(target(pod)));
    let claims = view.observed.claims.values().filter(|claim| claim.unlabelled && !claim.terminating);
    let claims = claims.map(|claim| Action::LabelClaim { name: claim.name.clone(), uid: claim.uid.clone() });
    let actions: Vec<Action> = pods.chain(claims).collect();
    let told = "putting the label back that somebody took off";
    (!actions.is_empty()).then(|| Step::act(actions, "Applying", told))
}

/// Children that are missing or differ. A spec that cannot be accepted changes none.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    if !accepted {
        return None;
    }
    let mut wanted = resources::around(view.object);
    wanted.push(resources::config_map(view.object));
    let missing_set = view.observed.child("StatefulSet", &view.object.name_any()).is_none();
    // Somebody deleted the set, and its pods go with it. A new one that meets their names waits for minutes.
    let going = missing_set && view.observed.pods.values().any(|pod| pod.controlled);
    if !going {
        wanted.push(resources::pods(view.object, size::pods(view)));
    }
    let actions: Vec<Action> = wanted.into_iter().filter_map(|child| unless_met(view, child)).collect();
    if actions.is_empty() {
        return going.then(|| Step::wait("Applying", "waiting for the pods of a StatefulSet that was deleted to stop"));
    }
    let told = if view.master().is_some() { "bringing the children up to date" } else { "creating the children" };
    Some(Step { again: SOON, ..Step::act(actions, "Applying", told) })
}

fn unless_met(view: &View<'_>, child: Manifest) -> Option<Action> {
    let live = view.observed.child(child.kind(), child.name());
    if live.is_some_and(|live| child.is_met_by(&live.value)) {
        return None;
    }
    // Templates of volumes cannot be changed: the set is made anew around its pods.
    if let Some(live) = live.filter(|live| child.needs_another(&live.value)) {
        return Some(Action::Orphan { name: child.name().to_owned(), uid: live.uid.clone() });
    }
    Some(Action::Apply { uid: live.map(|live| live.uid.clone()), child: Box::new(child) })
}
