//! Fewer nodes than there were, and larger volumes.

use kube::ResourceExt;

use causeway_databases::{ChildAction, Claim};

use super::super::names;
use super::{Step, View, failover, refused};

/// Moves the role away from a master with a surplus ordinal.
pub fn shrink(view: &View<'_>) -> Option<Step> {
    let (master, ..) = view.serving_master()?;
    if master < view.wanted_nodes() {
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
        **ordinal >= view.pods() && claim.ours && !claim.terminating && view.pod(**ordinal).is_none()
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
            grow(view, |_| true).or_else(|| Some(report_kept(view, &names, &because)))
        }
        (_, None) => None,
    }
}

/// Reports volumes that may hold the last copy of data.
fn report_kept(view: &View<'_>, names: &[&str], because: &str) -> Step {
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
    grow(view, |ordinal| view.is_full(ordinal))
}

fn grow(view: &View<'_>, whose: impl Fn(i32) -> bool) -> Option<Step> {
    let set = &view.observed.set;
    let may_grow = |ordinal: i32| set.claims.get(&ordinal).is_some_and(|claim| !refused::is_rigid(view, claim));
    set.grow(&view.object.spec.storage.size, |ordinal| whose(ordinal) && may_grow(ordinal))
}
