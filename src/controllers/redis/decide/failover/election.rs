//! Which node becomes the master when there is none.
//!
//! A replica that had all data of the master takes over at once. Without such a replica, the operator waits for the
//! master: its volume has all writes but those of the last second. A node without all writes takes over only after
//! `spec.failover.dataLossTimeout`, or if the master came back empty. An empty node never takes over while another node
//! may have data.

use std::cmp::Reverse;
use std::time::Duration;

use super::super::{View, epochs};
use super::silence::is_cut_off;
use crate::api::redis::Failover;
use crate::controllers::redis::facts::{Node, NodeState, Pod};
use crate::controllers::redis::names;
use crate::external::redis::Info;

/// How long the choice of the first master waits for pods that do not start. New volumes hold no data that would be
/// worth a longer wait.
const FIRST_SECONDS: i64 = 10;

/// How long a restart of a process may take. A replica that lost its master even earlier had lost it before the process
/// died.
const RESTART_SECONDS: u64 = 10;

/// The node that is to be the master.
#[derive(Clone, Copy, Debug)]
pub struct Elected<'a> {
    /// Its ordinal.
    pub to: i32,
    /// The reason, in one word.
    pub reason: &'a str,
}

/// What the operator waits for while no node may take over.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    /// An answer of this replica: it had all data, and is silent for a moment.
    Replica(i32),
    /// An answer of a node that may have data.
    Data,
    /// `spec.failover.dataLossTimeout`: all nodes answer, and none has the data.
    DataGone,
}

/// The master after `from`, or what the operator waits for.
pub fn after<'a>(
    view: &View<'_>,
    recorded: Option<&Failover>,
    from: i32,
    reason: &'a str,
) -> Result<Elected<'a>, Wait> {
    let elected = |to, reason| Ok(Elected { to, reason });
    if let Some(best) = best_replica(view, from) {
        // Only the first choice waits for a silent replica: a failover that has begun waits for no further node.
        return match pausing(view, from).filter(|_| recorded.is_none()) {
            Some(replica) => Err(Wait::Replica(replica)),
            None => elected(best, reason),
        };
    }
    let waited = view.masterless_seconds();
    let is_over = waited >= view.object.spec.failover.data_loss_timeout.signed_seconds();
    let all = unheard(view).next().is_none();
    let wait = if all { Wait::DataGone } else { Wait::Data };
    match view.loaded(from) {
        Some(info) if info.keys > 0 => match pausing(view, from) {
            Some(replica) => Err(Wait::Replica(replica)),
            None => elected(from, "MasterRestarted"),
        },
        // The master is empty, so another node with data takes over. But all nodes must answer first, or the timeout
        // must pass.
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

/// The nodes that may have data, and have not said so. A pod that is not wanted any more, and that had no data as far as
/// anybody knows, is not waited for: it may never start.
pub fn unheard(view: &View<'_>) -> impl Iterator<Item = i32> {
    let may_have_data =
        |ordinal: i32| ordinal < view.wanted() || view.recorded(ordinal).is_some_and(|node| node.keys > 0);
    (0..view.pods()).filter(move |ordinal| view.loaded(*ordinal).is_none() && may_have_data(*ordinal))
}

/// The first master, if one can be chosen yet. Volumes of an earlier object may hold data: then all nodes must answer
/// first, and the one that was the master last is preferred.
pub fn first(view: &View<'_>) -> Option<Elected<'static>> {
    let pods = &view.observed.set.pods;
    if pods.is_empty() {
        return None;
    }
    let elected = |to| Elected { to, reason: "FirstMaster" };
    // The status was lost, but a master serves: it stays the master.
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
    newest(view).or_else(lowest).map(elected)
}

/// What is told about the choice of the first master if volumes that an earlier object left have different data. All
/// nodes get the data of the first master.
pub fn choice(view: &View<'_>, to: i32) -> Option<String> {
    let claims = &view.observed.set.claims;
    if claims.values().all(|claim| claim.ours) {
        return None;
    }
    let keys = view.loaded(to).filter(|info| !info.is_master())?.keys;
    let name = |ordinal: i32| names::pod(view.object, ordinal);
    let differs = |ordinal: &i32| {
        let other = view.loaded(*ordinal)?.keys;
        (other > 0 && other != keys).then_some((*ordinal, other))
    };
    let others = view.observed.set.pods.keys().filter_map(differs);
    let others = others.map(|(ordinal, keys)| format!("{} ({keys} keys)", name(ordinal)));
    // An earlier object may have had more nodes than this one.
    let (own, pods) = (epochs::noted(view, to), &view.observed.set.pods);
    let newer = claims.iter().filter(|(ordinal, claim)| claim.epoch > own && !pods.contains_key(ordinal));
    let newer = newer.map(|(_, claim)| format!("volume claim {} (no pod; its node was the master later)", claim.name));
    let lost: Vec<String> = others.chain(newer).collect();
    if lost.is_empty() {
        return None;
    }
    let why = match own {
        Some(epoch) => format!("it was the master in epoch {epoch}, the last that the volumes of these nodes record"),
        None => "it has the most keys, for no volume of these nodes records when its node was the master".to_owned(),
    };
    let (name, lost) = (name(to), lost.join(", "));
    Some(format!("{name} ({keys} keys) becomes the master: {why}. Its data replace those of {lost}"))
}

/// The node that was the master last, among those that have data. Where no volume records that, the one with the most
/// keys.
fn newest(view: &View<'_>) -> Option<i32> {
    let rank = |ordinal: i32| {
        let keys = view.loaded(ordinal)?.keys;
        (keys > 0).then_some((epochs::noted(view, ordinal), keys, Reverse(ordinal)))
    };
    let pods = view.observed.set.pods.keys();
    pods.filter_map(|ordinal| Some((rank(*ordinal)?, *ordinal))).max().map(|(_, ordinal)| ordinal)
}

/// The replica with the highest offset among those that had all data when the master last answered.
fn best_replica(view: &View<'_>, from: i32) -> Option<i32> {
    let history = view.before.history.as_deref()?;
    let fit = |ordinal: &i32| {
        let known = view.recorded(*ordinal).is_some_and(|node| node.in_sync);
        let info = view.loaded(*ordinal).filter(|info| info.continues(history) && !lacks_data_of(view, from, info))?;
        let syncing = info.link().is_some_and(|link| link.syncing);
        // The master itself is a candidate too, if its process is still the one that had the data.
        ((known || *ordinal == from) && !syncing).then_some(info.offset)
    };
    let candidates = view.observed.set.pods.keys().filter_map(|ordinal| Some((*ordinal, fit(ordinal)?)));
    let rank = |(ordinal, offset): &(i32, u64)| {
        let terminating = view.pod(*ordinal).is_none_or(|pod| pod.terminating);
        (*offset, !terminating, Reverse(*ordinal))
    };
    candidates.max_by_key(rank).map(|(ordinal, _)| ordinal)
}

/// Whether a replica lacks data that the earlier master has, although the status calls the replica in sync.
///
/// That is so if the master was restarted and has data, but the replica is empty or had lost its master long before the
/// restart, while no operator was looking. A master that is silent may have more data as well, if it still answered
/// after the replica was cut off.
fn lacks_data_of(view: &View<'_>, from: i32, info: &Info) -> bool {
    if let Some(Node { state: NodeState::Silent(silence), has_answered: true, .. }) = view.pod(from).map(|pod| &pod.own)
    {
        return is_cut_off(view, info, *silence);
    }
    let back = view.loaded(from).filter(|own| own.keys > 0 && !own.is_master());
    let before = |own: &Info| info.lost_seconds.is_some_and(|lost| lost > own.uptime_seconds + RESTART_SECONDS);
    back.is_some_and(|own| info.keys == 0 || before(own))
}

/// A replica that had all data, and has been silent for less than the hang timeout. The election waits for it: while
/// the disk is busy, Redis acknowledges writes up to two seconds before they are in its file, so a process that was
/// killed may come back without writes that this replica has.
/// <https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/#append-only-file>
fn pausing(view: &View<'_>, from: i32) -> Option<i32> {
    let timeout = Duration::from_secs(view.hang_timeout());
    let pauses = |ordinal: &i32| {
        let silent =
            view.pod(*ordinal).is_some_and(|pod| matches!(pod.own.state, NodeState::Silent(time) if time < timeout));
        *ordinal != from && silent && view.recorded(*ordinal).is_some_and(|node| node.in_sync)
    };
    view.observed.set.pods.keys().copied().find(pauses)
}

/// The node with the most data, as far as the operator knows; `None` if no node has any.
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
