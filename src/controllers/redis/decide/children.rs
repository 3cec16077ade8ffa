//! Services, settings and pods: what is missing or differs is applied.

use kube::ResourceExt;

use super::super::{names, resources};
use super::{SELDOM, Step, View, evictions, files, refused, services};
use crate::stateful::ChildAction;
use crate::stateful::network::surplus;
use crate::stateful::step::of_others;

/// Somebody else's object has the name of a child: nothing is touched.
pub fn foreign(view: &View<'_>) -> Option<Step> {
    let set = &view.observed.set;
    let pod = set.foreign.values().next().cloned().map(|message| Step::stalled("NameTaken", message));
    let slice = || services::foreign(view).map(|(name, slice)| of_others(view.object, "EndpointSlice", &name, slice));
    let step = pod.or_else(|| set.child_of_others(view.object)).or_else(slice)?;
    Some(Step { again: step.again.min(SELDOM), ..step })
}

/// Why no container can answer as Redis Sentinel does.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    let sentinel = view.object.spec.sentinel.as_ref()?;
    (sentinel.image.is_none() && view.observed.own_image.is_none()).then(|| {
        let message = "spec.sentinel runs the operator's own image, which it does not know: set its option JOB_IMAGE, or \
                       spec.sentinel.image";
        ("ImageUnknown", message.to_owned())
    })
}

/// The Service of the sentinel containers, if the spec does not ask for them any more.
fn surplus_sentinel(view: &View<'_>) -> Option<ChildAction> {
    let name = names::sentinel(view.object);
    let live = view.observed.set.child("Service", &name).filter(|live| live.ours)?;
    view.object.spec.sentinel.is_none().then(|| ChildAction::Abandon { uid: live.uid.clone(), name })
}

/// Children that are missing or differ. A spec that cannot be accepted changes none.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    if !accepted {
        return None;
    }
    let mut wanted = resources::around(view.object, &view.observed.set.rules);
    wanted.push(evictions::budget(view));
    wanted.retain(|child| !refused::is_set_aside(view, child.kind(), child.name()));
    let set = &view.observed.set;
    let is_going = set.is_going(&view.object.name_any());
    if !is_going {
        let own_image = view.observed.own_image.as_deref().unwrap_or_default();
        wanted.push(resources::pods(view.object, view.pods(), own_image, files::of_template(view)));
    }
    let message = if view.master().is_some() { "bringing the children up to date" } else { "creating the children" };
    let waiting = is_going.then(|| Step::wait("Applying", set.describe_going()));
    let actions = wanted.into_iter().filter_map(|child| set.unless_met(child)).chain(surplus(view.object, set));
    let actions = actions.chain(surplus_sentinel(view));
    Step::children(actions, "Applying", message).or_else(|| files::step(view)).or(waiting)
}
