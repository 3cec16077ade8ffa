//! Fewer nodes than there were, and larger volumes.

use kube::ResourceExt;

use super::super::names;
use super::{Step, View, failover, refused, writes};
use crate::stateful::{ChildAction, Claim};

/// How many pods there are to be now: a master with a surplus ordinal stays until another node has taken over. While no
/// master serves, all pods stay: the only ones with the data may be among those that are not wanted any more.
pub fn pods(view: &View<'_>) -> i32 {
    let known = view.before.failover.as_ref().and_then(|failover| names::ordinal_of(view.object, &failover.target));
    let needed = view.master().into_iter().chain(known).max().map_or(0, |master| master + 1);
    let fails_over = view.before.failover.as_ref().is_some_and(|failover| !failover.planned);
    let kept = if fails_over || view.serving_master().is_none() { present(view) } else { 0 };
    view.wanted().max(needed).max(kept)
}

/// One more than the highest ordinal that has a pod, or is to have one as the `StatefulSet` is now.
fn present(view: &View<'_>) -> i32 {
    let last = view.observed.set.pods.keys().last().map_or(0, |last| last + 1);
    let live = view.observed.set.child("StatefulSet", &view.object.name_any()).filter(|live| live.ours);
    let asked = live.and_then(|live| i32::try_from(live.value["spec"]["replicas"].as_i64()?).ok());
    last.max(asked.unwrap_or_default())
}

/// Moves the role away from a master with a surplus ordinal.
pub fn shrink(view: &View<'_>) -> Option<Step> {
    let (master, ..) = view.serving_master()?;
    if master < view.wanted() {
        return None;
    }
    let message = format!("waiting for a replica that can take over from {}", names::pod(view.object, master));
    Some(failover::move_away(view, master, "ScaledDown").unwrap_or_else(|| Step::wait("ScalingDown", message)))
}

/// Deletes the volumes of nodes that are not wanted any more, but not those that an earlier object of this name left, nor
/// those that may have data which the master lacks. Then asks for larger volumes. That comes last: a storage class that
/// cannot expand volumes must not block anything else.
pub fn clean_up(view: &View<'_>) -> Option<Step> {
    let is_spare = |(ordinal, claim): &(&i32, &Claim)| {
        **ordinal >= pods(view) && claim.ours && !claim.terminating && view.pod(**ordinal).is_none()
    };
    let mut spare = view.observed.set.claims.iter().filter(is_spare).map(|(_, claim)| claim).peekable();
    let Some((master, _, info)) = view.serving_master().filter(|_| spare.peek().is_some()) else {
        return grow(view, |_| true);
    };
    let is_emptied = info.keys == 0 && view.before.nodes.iter().any(|node| node.keys > 0);
    let lost = view.before.last_failover.as_ref().and_then(failover::loss);
    let because = lost.or_else(|| is_emptied.then(|| format!("{} is empty", names::pod(view.object, master))));
    match (because, spare.next()) {
        (None, Some(claim)) => {
            let action = ChildAction::delete_claim(claim, "its node is not wanted any more");
            Step::children([action], "ScalingDown", format!("deleting volume claim {}", claim.name))
        }
        (Some(because), Some(first)) => {
            let names: Vec<&str> = std::iter::once(first).chain(spare).map(|claim| claim.name.as_str()).collect();
            grow(view, |_| true).or_else(|| Some(kept(view, &names, &because)))
        }
        (_, None) => None,
    }
}

/// Reports volumes that may hold the last copy of data.
fn kept(view: &View<'_>, names: &[&str], because: &str) -> Step {
    let message = format!(
        "volumes of nodes that are not wanted any more are not deleted, for {because}: save what you need of them, then run \
         kubectl -n {} delete pvc {}",
        view.object.namespace().unwrap_or_default(),
        names.join(" ")
    );
    Step::trouble("VolumesKept", message)
}

/// Expands a full volume before its node is waited for.
pub fn relieve(view: &View<'_>) -> Option<Step> {
    grow(view, |ordinal| is_full(view, ordinal))
}

/// Whether the volume of that node has no space.
pub fn is_full(view: &View<'_>, ordinal: i32) -> bool {
    view.pod(ordinal).is_some_and(|pod| {
        let refuses = writes::is_refused_by_disk(pod);
        refuses || pod.info().is_some_and(|info| info.log_fails) || pod.has_no_space()
    })
}

fn grow(view: &View<'_>, whose: impl Fn(i32) -> bool) -> Option<Step> {
    let set = &view.observed.set;
    let may_grow = |ordinal: i32| set.claims.get(&ordinal).is_some_and(|claim| !refused::is_rigid(view, claim));
    set.grow(&view.object.spec.storage.size, |ordinal| whose(ordinal) && may_grow(ordinal))
}
