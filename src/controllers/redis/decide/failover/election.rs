//! Which node becomes the master when there is none.
//!
//! A replica that had all data of the master takes over at once. Where there is none, the master is waited for, whose
//! volume has all but the last second. Only after a while, or where that is empty, somebody takes over with whom writes
//! are lost; and an empty node never does so while another may have data.

use std::cmp::Reverse;
use std::time::Duration;

use super::super::View;
use super::silence::is_cut_off;
use crate::api::redis::Failover;
use crate::controllers::redis::facts::{Node, NodeState, Pod};
use crate::controllers::redis::names;
use crate::external::redis::Info;

/// Nothing that has data can be waited for in the beginning, but so long for pods that do not start.
const FIRST_SECONDS: i64 = 10;

/// So long a process may take to be started again, for its replicas to have lost it when it died.
const RESTART_SECONDS: u64 = 10;

/// The node that is to be the master.
#[derive(Clone, Copy, Debug)]
pub struct Elected<'a> {
    /// Its ordinal.
    pub to: i32,
    /// Why, in a word.
    pub reason: &'a str,
}

/// What is waited for while no node may take over.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// This replica had all data, and is silent for a moment.
    Replica(i32),
    /// A node that may have data.
    Data,
    /// All nodes answer, and none has the data.
    DataGone,
}

/// The master after that one, or what is waited for.
pub fn after<'a>(
    view: &View<'_>,
    recorded: Option<&Failover>,
    from: i32,
    reason: &'a str,
) -> Result<Elected<'a>, Wait> {
    let elected = |to, reason| Ok(Elected { to, reason });
    if let Some(best) = best_replica(view, from) {
        // The choice is made once: a failover that has begun waits for no further node.
        return match pausing(view, from).filter(|_| recorded.is_none()) {
            Some(replica) => Err(Wait::Replica(replica)),
            None => elected(best, reason),
        };
    }
    let waited = view.masterless_seconds();
    let is_over = waited >= view.object.spec.failover.data_loss_timeout.signed_seconds();
    let all = (0..view.wanted()).all(|ordinal| view.loaded(ordinal).is_some());
    let wait = if all { Wait::DataGone } else { Wait::Data };
    match view.loaded(from) {
        Some(info) if info.keys > 0 => match pausing(view, from) {
            Some(replica) => Err(Wait::Replica(replica)),
            None => elected(from, "MasterRestarted"),
        },
        // Whatever the others have is more than nothing; but all of them are asked first.
        Some(_) if all || is_over => match richest(view) {
            Some(best) => elected(best, "MasterEmptied"),
            None if !had_data(view) && all => elected(from, "MasterRestarted"),
            None if all && (view.object.spec.storage.ephemeral || is_over) => elected(from, "DataGone"),
            None => Err(wait),
        },
        None if is_over => match richest(view) {
            Some(best) => elected(best, "MasterLost"),
            None => Err(Wait::Data),
        },
        _ => Err(wait),
    }
}

/// The first master, if one can be chosen yet. Volumes that were there before may hold data: then all nodes are asked first.
pub fn first(view: &View<'_>) -> Option<Elected<'static>> {
    let pods = &view.observed.set.pods;
    if pods.is_empty() {
        return None;
    }
    let elected = |to| Elected { to, reason: "FirstMaster" };
    // The status was lost, and a master serves.
    let serving = pods.iter().filter(|(_, pod)| pod.info().is_some_and(Info::is_master));
    let known = |pod: &Pod| (pod.has_role(names::MASTER), pod.info().map_or(0, |info| info.attached.len()));
    if let Some((ordinal, _)) = serving.max_by_key(|(ordinal, pod)| (known(pod), Reverse(**ordinal))) {
        return Some(elected(*ordinal));
    }
    let all = (0..view.wanted()).all(|ordinal| view.loaded(ordinal).is_some());
    let fresh = view.observed.set.claims.values().all(|claim| claim.ours);
    if !all && (view.masterless_seconds() < FIRST_SECONDS || !fresh) {
        return None;
    }
    let lowest = || (0..view.wanted()).find(|ordinal| view.loaded(*ordinal).is_some());
    richest(view).or_else(lowest).map(elected)
}

/// The replica that is furthest among those that had all data when the master answered last.
fn best_replica(view: &View<'_>, from: i32) -> Option<i32> {
    let history = view.before.history.as_deref()?;
    let fit = |ordinal: &i32| {
        let known = view.recorded(*ordinal).is_some_and(|node| node.in_sync);
        let info = view.loaded(*ordinal).filter(|info| info.continues(history) && !lacks_data_of(view, from, info))?;
        let syncing = info.link().is_some_and(|link| link.syncing);
        // The master itself goes on where its process still is the one that had the data.
        ((known || *ordinal == from) && !syncing).then_some(info.offset)
    };
    let candidates = view.observed.set.pods.keys().filter_map(|ordinal| Some((*ordinal, fit(ordinal)?)));
    let rank = |(ordinal, offset): &(i32, u64)| {
        let terminating = view.pod(*ordinal).is_none_or(|pod| pod.terminating);
        (*offset, !terminating, Reverse(*ordinal))
    };
    candidates.max_by_key(rank).map(|(ordinal, _)| ordinal)
}

/// Whether a replica lacks what a master has that was started again: it is empty, or had lost its master long before, of
/// which nobody was told who did not look. Or what one may have that is silent: it still answered when the replica was cut off.
fn lacks_data_of(view: &View<'_>, from: i32, info: &Info) -> bool {
    if let Some(Node { state: NodeState::Silent(silence), heard: true, .. }) = view.pod(from).map(|pod| &pod.own) {
        return is_cut_off(view, info, *silence);
    }
    let back = view.loaded(from).filter(|own| own.keys > 0 && !own.is_master());
    let before = |own: &Info| info.lost_seconds.is_some_and(|lost| lost > own.uptime_seconds + RESTART_SECONDS);
    back.is_some_and(|own| info.keys == 0 || before(own))
}

/// A replica that had all data, and is silent for less long than one that hangs. While the disk is busy, Redis answers
/// writes up to two seconds before they are in its file: a process that was killed then comes back without what such a
/// replica has. <https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/#append-only-file>
fn pausing(view: &View<'_>, from: i32) -> Option<i32> {
    let patience = Duration::from_secs(view.hang_timeout());
    let pauses = |ordinal: &i32| {
        let silent =
            view.pod(*ordinal).is_some_and(|pod| matches!(pod.own.state, NodeState::Silent(time) if time < patience));
        *ordinal != from && silent && view.recorded(*ordinal).is_some_and(|node| node.in_sync)
    };
    view.observed.set.pods.keys().copied().find(pauses)
}

/// The node with the most of the data, by what is known; none where nobody has any.
fn richest(view: &View<'_>) -> Option<i32> {
    let history = view.before.history.as_deref().unwrap_or_default();
    let rank = |ordinal: &i32| {
        let info = view.loaded(*ordinal)?;
        let recorded = view.recorded(*ordinal);
        let offset = if info.continues(history) { info.offset } else { 0 };
        let synced = recorded.is_some_and(|node| node.in_sync);
        (info.keys > 0).then_some((offset, synced, info.keys, Reverse(*ordinal)))
    };
    view.observed
        .set
        .pods
        .keys()
        .filter_map(|ordinal| Some((rank(ordinal)?, *ordinal)))
        .max()
        .map(|(_, ordinal)| ordinal)
}

fn had_data(view: &View<'_>) -> bool {
    view.before.nodes.iter().any(|node| node.keys > 0)
}
