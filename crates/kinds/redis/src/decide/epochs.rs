//! The claim of each volume records the last epoch in which its node was the master.
//!
//! An object that is made again on retained volumes has no status. Then only these records say which node had the newest
//! data: a node that was away may have more keys, because it missed their deletion.

use causeway_databases::ChildAction;

use super::{Step, View};

/// Notes the epoch on the claim of the master that serves.
pub fn step(view: &View<'_>) -> Option<Step> {
    let (master, ..) = view.serving_master().filter(|_| view.before.failover.is_none())?;
    let (claim, epoch) = (view.observed.set.claims.get(&master)?, view.before.epoch);
    let is_due = !claim.terminating && claim.epoch < Some(epoch);
    let (name, uid) = (claim.name.clone(), claim.uid.clone());
    let action = is_due.then_some(ChildAction::NoteEpoch { name, uid, epoch });
    Step::children(action, "Applying", "noting which volume has the master's data")
}

/// The last epoch in which the node of that ordinal was the master, as the claim of its volume records it.
pub fn noted_epoch(view: &View<'_>, ordinal: i32) -> Option<i64> {
    view.observed.set.claims.get(&ordinal)?.epoch
}

/// The highest epoch that any claim records. The next one must be higher, also if the status was lost.
pub fn highest(view: &View<'_>) -> i64 {
    view.observed.set.claims.values().filter_map(|claim| claim.epoch).max().unwrap_or_default()
}
