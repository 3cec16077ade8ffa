//! Services, settings and pods: what is missing or differs is applied.

use kube::ResourceExt;

use super::super::resources;
use super::{SELDOM, Step, View, services, size};
use crate::stateful::network::surplus;
use crate::stateful::step::of_others;

/// Somebody else's object of a child's name: nothing is touched.
pub fn foreign(view: &View<'_>) -> Option<Step> {
    let set = &view.observed.set;
    let pod = set.foreign.values().next().cloned().map(|message| Step::stalled("NameTaken", message));
    let slice = || services::foreign(view).map(|(name, slice)| of_others(view.object, "EndpointSlice", &name, slice));
    let step = pod.or_else(|| set.child_of_others(view.object)).or_else(slice)?;
    Some(Step { again: step.again.min(SELDOM), ..step })
}

/// Children that are missing or differ. A spec that cannot be accepted changes none.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    if !accepted {
        return None;
    }
    let mut wanted = resources::around(view.object, &view.observed.set.rules);
    wanted.push(resources::config_map(view.object));
    let set = &view.observed.set;
    let is_going = set.is_going(&view.object.name_any());
    if !is_going {
        wanted.push(resources::pods(view.object, size::pods(view)));
    }
    let message = if view.master().is_some() { "bringing the children up to date" } else { "creating the children" };
    let waiting = is_going.then(|| Step::wait("Applying", set.describe_going()));
    let actions = wanted.into_iter().filter_map(|child| set.unless_met(child)).chain(surplus(view.object, set));
    Step::children(actions, "Applying", message).or(waiting)
}
