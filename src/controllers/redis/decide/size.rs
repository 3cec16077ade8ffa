//! Fewer nodes than there were, and larger volumes.

use super::super::facts::Pod;
use super::super::names;
use super::{Step, View, failover, writes};
use crate::stateful::ChildAction;

/// How many pods there are to be now: a master with a surplus ordinal stays until another node has taken over.
pub fn pods(view: &View<'_>) -> i32 {
    let known = view.before.failover.as_ref().and_then(|failover| names::ordinal_of(view.object, &failover.target));
    let master = view.master().into_iter().chain(known).max();
    master.map_or(view.wanted(), |master| view.wanted().max(master + 1))
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

/// Deletes the volumes of nodes that are not wanted any more, but not those that an earlier object of this name left.
/// Then asks for larger volumes. That comes last: a storage class that cannot expand volumes must not block anything
/// else.
pub fn clean_up(view: &View<'_>) -> Option<Step> {
    let spare = view.observed.set.claims.iter().find(|(ordinal, claim)| {
        **ordinal >= pods(view) && claim.ours && !claim.terminating && view.pod(**ordinal).is_none()
    });
    if let Some((_, claim)) = spare.filter(|_| view.serving_master().is_some()) {
        let action = ChildAction::delete_claim(claim, "its node is not wanted any more");
        return Step::children([action], "ScalingDown", format!("deleting volume claim {}", claim.name));
    }
    grow(view, |_| true)
}

/// Expands a full volume before its node is waited for.
pub fn relieve(view: &View<'_>) -> Option<Step> {
    grow(view, |ordinal| view.pod(ordinal).is_some_and(is_full))
}

fn is_full(pod: &Pod) -> bool {
    let refuses = writes::is_refused_by_disk(pod);
    refuses || pod.info().is_some_and(|info| info.log_fails) || pod.has_no_space()
}

fn grow(view: &View<'_>, whose: impl Fn(i32) -> bool) -> Option<Step> {
    view.observed.set.grow(&view.object.spec.storage.size, whose)
}
