//! Services, settings and pods: what is missing or differs is applied.

use kube::ResourceExt;

use causeway_databases::foreign::{self, NAME_TAKEN};
use causeway_databases::last_worked::Present;
use causeway_databases::network::surplus;
use causeway_databases::refusals::ChildKey;
use causeway_databases::{Child, ChildAction};
use causeway_runtime::manifest::Manifest;

use super::super::damage::DamagedPod;
use super::super::database::RedisDatabase;
use super::super::facts::Node;
use super::super::{names, resources};
use super::{RETRY_INTERVAL, Step, View, evictions, files, refused, services};

/// Takes children back that lost their owner.
pub fn take_back(view: &View<'_>) -> Option<Step> {
    let all = with_slices(view);
    let actions = foreign::take_back::<RedisDatabase>(
        view.object,
        all.iter().map(|(key, child)| (key, *child)),
        &view.observed.refused,
    );
    Step::children(actions, "Applying", "taking children back that lost their owner")
}

/// If something else has a child's name, a set does not begin. Once there is a master, only a child that pods need stops what
/// changes pods. Others are reported and left alone ([`others`]).
pub fn foreign(view: &View<'_>) -> Option<Step> {
    let pod = view.observed.set.foreign.values().next().cloned().map(|message| Step::stalled(NAME_TAKEN, message));
    let is_needed = |kind: &str| view.before.master.is_none() || ["StatefulSet", "Secret"].contains(&kind);
    let all = with_slices(view);
    let step = pod.or_else(|| foreign::stops(view.object, all.iter().map(|(key, child)| (key, *child)), is_needed))?;
    Some(Step { again: step.again.min(RETRY_INTERVAL), ..step })
}

/// Children of other owners, while everything else goes on.
pub fn others(view: &View<'_>) -> Option<(&'static str, String)> {
    let all = with_slices(view);
    foreign::report(view.object, all.iter().map(|(key, child)| (key, *child)))
}

/// The children, and the slices that have names of ours.
fn with_slices<'a>(view: &View<'a>) -> Vec<(ChildKey, &'a Child)> {
    let children = view.observed.set.children.iter().map(|(key, child)| (key.clone(), child));
    let slices = services::slices_by_name(view).map(|(name, slice)| (("EndpointSlice".to_owned(), name), slice));
    children.chain(slices).collect()
}

/// Explains why no container can answer as Redis Sentinel does.
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

/// Says that the spec is not followed: it brought up no pod, and those of the last one that worked are back.
pub fn failed(view: &View<'_>) -> Option<(&'static str, String)> {
    view.observed.set.failed(view.object, view.revision(), |pod| view.is_outdated(pod))
}

/// Replaces pods of an earlier edit that never started, whatever the settings of the present spec are.
pub fn replace_never_started(view: &View<'_>, accepted: bool) -> Option<Step> {
    let (set, only) = (&view.observed.set, accepted.then(|| view.revision().as_str()));
    let worked = with_present(view, |present| set.with_template_that_worked(|| pods(view), present, only));
    let worked = worked.filter(|set| !refused::is_set_aside(view, set.kind(), set.name()));
    Step::children(worked.and_then(|child| set.unless_met(child)), "Replacing", "bringing back what worked")
        .or_else(|| with_present(view, |present| set.replace_never_started(view.object, present, accepted)))
}

/// Brings back pods of the last spec that worked where none of the present one starts.
pub fn bring_back(view: &View<'_>) -> Option<Step> {
    with_present(view, |present| view.observed.set.bring_back(view.object, view.revision(), present))
}

fn with_present<T>(view: &View<'_>, then: impl FnOnce(&Present<'_, Node>) -> T) -> T {
    then(&Present {
        is_outdated: &|pod| view.is_outdated(pod),
        // Redis reads its settings before its data.
        is_untouched: &|pod| !pod.has_run || files::refuses(pod).is_some(),
        has_bad_data: &|pod| pod.damage().is_some(),
        proven: view.before.proven_revision.as_deref(),
        now: view.now,
    })
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
        let trouble = view.pod_trouble().map(|(_, text)| text);
        wanted.push(with_present(view, |present| set.with_last_worked(pods(view), present, trouble)));
    }
    let message = if view.master().is_some() { "bringing the children up to date" } else { "creating the children" };
    let waiting = is_going.then(|| Step::wait("Applying", set.describe_going()));
    let actions =
        wanted.into_iter().filter_map(|child| set.unless_met(child)).chain(surplus::<RedisDatabase>(view.object, set));
    let actions = actions.chain(surplus_sentinel(view));
    Step::children(actions, "Applying", message).or_else(|| files::step(view)).or(waiting)
}

/// The pods as the spec has them.
fn pods(view: &View<'_>) -> Manifest {
    let own_image = view.observed.own_image.as_deref().unwrap_or_default();
    resources::pods(view.object, view.pods(), own_image, files::of_template(view))
}
