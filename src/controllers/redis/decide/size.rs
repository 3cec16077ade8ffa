//! Fewer nodes than there were, and larger volumes.

use super::super::action::Action;
use super::super::facts::{Claim, Pod};
use super::super::names;
use super::{SOON, Step, View, switchover};
use crate::runtime::Health;
use crate::runtime::manifest::amount;

/// How many pods there are to be now: a master beyond the last stays until another took over.
pub fn pods(view: &View<'_>) -> i32 {
    let known = view.before.failover.as_ref().and_then(|failover| names::ordinal_of(view.object, &failover.target));
    let master = view.master().into_iter().chain(known).max();
    master.map_or(view.wanted(), |master| view.wanted().max(master + 1))
}

/// The master is beyond the last: another takes over first.
pub fn shrink(view: &View<'_>) -> Option<Step> {
    let (master, ..) = view.serving_master()?;
    if master < view.wanted() {
        return None;
    }
    let told = format!("waiting for a replica that can take over from {}", names::pod(view.object, master));
    Some(switchover::away(view, master, "ScaledDown").unwrap_or_else(|| Step::wait("ScalingDown", told)))
}

/// Volumes of nodes that are not wanted any more go, but those that an earlier object of this name left; larger ones are
/// asked for: last of all, for a storage class that cannot do it must keep nobody from anything else.
pub fn clean_up(view: &View<'_>) -> Option<Step> {
    let spare = view.observed.claims.iter().find(|(ordinal, claim)| {
        **ordinal >= pods(view) && claim.ours && !claim.terminating && view.pod(**ordinal).is_none()
    });
    if let Some((_, claim)) = spare.filter(|_| view.serving_master().is_some()) {
        let why = "its node is not wanted any more".to_owned();
        let action = Action::DeleteClaim { name: claim.name.clone(), uid: claim.uid.clone(), why };
        return Some(Step::act(vec![action], "ScalingDown", format!("deleting volume claim {}", claim.name)));
    }
    grow(view, |_| true)
}

/// A volume that is full grows before its node is waited for.
pub fn relieve(view: &View<'_>) -> Option<Step> {
    grow(view, |ordinal| view.pod(ordinal).is_some_and(is_full))
}

fn is_full(pod: &Pod) -> bool {
    let refuses = pod.writes.as_ref().is_some_and(|writes| writes.are_refused_for("MISCONF"));
    refuses || pod.info().is_some_and(|info| info.log_fails) || pod.has_no_space()
}

fn grow(view: &View<'_>, whose: impl Fn(i32) -> bool) -> Option<Step> {
    let wanted = amount(&view.object.spec.storage.size)?;
    let small = |(ordinal, claim): &(&i32, &Claim)| {
        whose(**ordinal) && !claim.terminating && amount(&claim.size).is_some_and(|size| size < wanted)
    };
    let (_, claim) = view.observed.claims.iter().find(small)?;
    let action = Action::GrowClaim {
        name: claim.name.clone(),
        uid: claim.uid.clone(),
        size: view.object.spec.storage.size.clone(),
    };
    let health = Health::progressing("GrowingVolumes", format!("volume claim {} grows", claim.name));
    Some(Step { health, again: SOON, ..Step::act(vec![action], "GrowingVolumes", "") })
}
