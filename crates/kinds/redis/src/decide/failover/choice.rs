//! Which node becomes the master when there is none, and which replica a serving master can hand over to.
//!
//! A replica that has all data of the master takes over at once: by what the replica says itself now, and by what the
//! master said last. Without such a replica, the operator waits for the master: its volume has all writes but those of
//! the last second. A node without all writes takes over only after `spec.failover.dataLossTimeout`, or if the master
//! came back empty. That time counts while such a node answers. Nodes that are starting, or read their data, are waited
//! for beyond it. An empty node never takes over while another node may have data.

use std::cmp::Reverse;
use std::time::Duration;

use causeway_api::redis::Failover;
use causeway_databases::redis::Info;

use super::super::{View, epochs};
use super::state::{MEASURED_BEFORE, has_missed_its_end, is_cut_off, role_lost};
use crate::facts::{LastWord, Node, NodePod, NodeState, Pod};
use crate::{names, settings};

/// How many bytes a successor may lag behind: writes wait until it has caught up.
const CLOSE: u64 = 1 << 20;

/// How long the choice of the first master waits for pods that do not start. New volumes hold no data that would be
/// worth a longer wait.
const FIRST_SECONDS: i64 = 10;

/// How long a restart of a process may take. A replica that lost its master even earlier had lost it before the process
/// died.
const RESTART_SECONDS: u64 = 10;

/// For how long after a master was succeeded its replicas may not have connected to the next one yet. A candidate that
/// lacks what the earlier master had is none if the next one goes that soon.
const PREDECESSOR: Duration = Duration::from_secs(10);

/// The seconds for which a new pod may start: for so long its node is waited for, even beyond
/// `spec.failover.dataLossTimeout`.
const STARTING_SECONDS: i64 = 60;

/// The node that is to be the master.
#[derive(Clone, Copy, Debug)]
pub struct Elected<'a> {
    /// The ordinal of the elected node.
    pub to: i32,
    /// The reason, in one word.
    pub reason: &'a str,
}

/// The event that the operator waits for while no node may take over.
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
pub fn elect_after<'a>(
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
    let is_over = is_over(view);
    let all = unheard_nodes(view).next().is_none();
    let wait = if all { Wait::DataGone } else { Wait::Data };
    let back = view.pod(from).zip(view.loaded(from)).map_or(reason, |(pod, info)| role_lost(pod, info));
    match view.loaded(from) {
        Some(info) if info.keys > 0 || is_emptied(info) || said_empty(view, from) => match pausing(view, from) {
            Some(replica) => Err(Wait::Replica(replica)),
            None => elected(from, back),
        },
        // The master is empty, so another node with data takes over. But all nodes must answer first, or the timeout
        // must pass.
        Some(_) if all || is_over => match richest(view) {
            Some(best) => elected(best, "MasterEmptied"),
            None if !had_data(view) && all => elected(from, back),
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

/// Reports whether a node without keys has its data nevertheless: all keys were deleted, or they expired. A volume that lost
/// its data has a file that was begun a moment ago.
fn is_emptied(info: &Info) -> bool {
    info.keys == 0 && info.log_has_writes
}

/// Reports whether that master said before it went that it had no key left: nothing is lost with it.
fn said_empty(view: &View<'_>, from: i32) -> bool {
    view.last_word(from).is_some_and(|word| word.empty)
}

/// Reports whether nodes were waited for long enough, and none is about to answer.
fn is_over(view: &View<'_>) -> bool {
    let timeout = view.object.spec.failover.data_loss_timeout.signed_seconds();
    view.waited_seconds() >= timeout && !unheard_nodes(view).any(|ordinal| is_coming(view, ordinal, timeout))
}

/// Reports whether a node reads its data, or has a pod that was made a moment ago, and that nothing keeps from starting.
fn is_coming(view: &View<'_>, ordinal: i32, timeout: i64) -> bool {
    let Some(pod) = view.pod(ordinal) else { return false };
    let is_new = pod.made.is_some_and(|made| view.now.duration_since(made).as_secs() < timeout.min(STARTING_SECONDS));
    let starts = is_new && !pod.terminating && pod.trouble.is_none() && pod.lost_node.is_none();
    view.info(ordinal).is_some_and(|info| info.loading) || (starts && !pod.own.has_answered)
}

/// Reports whether a node with data could be asked to take over, or all nodes have answered: `spec.failover.dataLossTimeout`
/// counts while that is so. A node that is silent for a moment does not end that.
pub fn can_ask(view: &View<'_>) -> bool {
    let recorded = view.before.failover.as_ref().and_then(|failover| failover.from.as_ref());
    let from = recorded.or(view.before.master.as_ref()).and_then(|name| names::ordinal_of(view.object, name));
    let has_data = |ordinal: i32| view.loaded(ordinal).is_some_and(|info| info.keys > 0);
    let recorded_data = |ordinal: i32| view.recorded(ordinal).is_some_and(|node| node.keys > 0);
    let may_take_over = |ordinal: i32| has_data(ordinal) || (recorded_data(ordinal) && is_pausing(view, ordinal));
    (0..view.pods()).any(|ordinal| Some(ordinal) != from && may_take_over(ordinal))
        || unheard_nodes(view).all(|ordinal| is_pausing(view, ordinal))
}

/// The nodes that may have data, and have not said so. A pod that is not wanted any more, and that had no data as far
/// as the record says, is not waited for: it may never start.
pub fn unheard_nodes(view: &View<'_>) -> impl Iterator<Item = i32> {
    let may_have_data =
        |ordinal: i32| ordinal < view.wanted_nodes() || view.recorded(ordinal).is_some_and(|node| node.keys > 0);
    (0..view.pods()).filter(move |ordinal| view.loaded(*ordinal).is_none() && may_have_data(*ordinal))
}

/// The first master, if one can be chosen yet. Volumes of an earlier object may hold data: then all nodes must answer
/// first, and the one that was the master last is preferred.
pub fn elect_first(view: &View<'_>) -> Option<Elected<'static>> {
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
    if later_elsewhere(view).is_some() {
        return None;
    }
    let all = (0..view.wanted_nodes()).all(|ordinal| view.loaded(ordinal).is_some());
    let fresh = view.observed.set.claims.values().all(|claim| claim.ours);
    if !all && (view.masterless_seconds() < FIRST_SECONDS || !fresh) {
        return None;
    }
    let lowest = || (0..view.wanted_nodes()).find(|ordinal| view.loaded(*ordinal).is_some());
    newest(view).or_else(lowest).map(elected)
}

/// A volume of an earlier object whose node was the master later than all nodes of this one, and that has no pod because the
/// spec has fewer nodes: its ordinal and the name of its claim.
pub fn later_elsewhere<'a>(view: &View<'a>) -> Option<(i32, &'a str)> {
    let claims = &view.observed.set.claims;
    let own =
        claims.iter().filter(|(ordinal, _)| **ordinal < view.wanted_nodes()).filter_map(|(_, claim)| claim.epoch).max();
    let others =
        claims.iter().filter(|(ordinal, claim)| **ordinal >= view.wanted_nodes() && !claim.ours && !claim.terminating);
    let last = others.filter(|(_, claim)| claim.epoch > own).max_by_key(|(_, claim)| claim.epoch);
    last.map(|(ordinal, claim)| (*ordinal, claim.name.as_str()))
}

/// Returns the event about the choice of the first master if volumes that an earlier object left have different data. All nodes
/// get the data of the first master.
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
    let (own, lost) = (epochs::noted_epoch(view, to), others.collect::<Vec<String>>());
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
        (keys > 0).then_some((epochs::noted_epoch(view, ordinal), keys, Reverse(ordinal)))
    };
    let pods = view.observed.set.pods.keys();
    pods.filter_map(|ordinal| Some((rank(*ordinal)?, *ordinal))).max().map(|(_, ordinal)| ordinal)
}

/// The replica with the highest offset among those that had all data when the master last answered.
fn best_replica(view: &View<'_>, from: i32) -> Option<i32> {
    let history = view.before.history.as_deref()?;
    let fit = |ordinal: &i32| {
        let is_syncing = |info: &Info| info.link().is_some_and(|link| link.syncing);
        let info = view.loaded(*ordinal).filter(|info| info.continues(history) && !is_syncing(info))?;
        // The master itself is a candidate too, if its process is still the one that had the data.
        if *ordinal == from {
            return Some(info.offset);
        }
        let known = view.recorded(*ordinal).is_some_and(|node| node.in_sync) || has_data_of(view, from, *ordinal, info);
        (known && !lacks_data_of(view, from, info)).then_some(info.offset)
    };
    let candidates = view.observed.set.pods.keys().filter_map(|ordinal| Some((*ordinal, fit(ordinal)?)));
    let rank = |(ordinal, offset): &(i32, u64)| {
        let pod = view.pod(*ordinal);
        let terminating = pod.is_none_or(|pod| pod.terminating);
        // A command that a newer process executed may mean something else to an older one.
        let outdated = pod.is_none_or(|pod| view.is_outdated(pod));
        (*offset, !terminating, !outdated, Reverse(*ordinal))
    };
    candidates.max_by_key(rank).map(|(ordinal, _)| ordinal)
}

/// Reports whether a replica has all that the earlier master had when it last answered, although the status does not call the
/// replica in sync: the master paused before it died, for example, and the replica received nothing meanwhile.
fn has_data_of(view: &View<'_>, from: i32, ordinal: i32, info: &Info) -> bool {
    let is_recent = |word: &LastWord| word.ago.as_secs() <= view.hang_timeout() + MEASURED_BEFORE;
    let has_all_databases = view
        .pod(ordinal)
        .is_some_and(|pod| pod.own.databases.is_none_or(|count| count >= settings::databases(view.object)));
    has_all_databases && view.last_word(from).filter(is_recent).is_some_and(|word| info.offset >= word.offset)
}

/// Reports whether a replica lacks data that the earlier master has, although the status calls the replica in sync. It is the
/// same question whatever happened to the master: it is silent, its process has ended or was started again, or its pod is gone.
fn lacks_data_of(view: &View<'_>, from: i32, info: &Info) -> bool {
    let word = view.last_word(from);
    // The data of the master before that matter as well, until its replicas have them from the next one.
    let earlier = view.observed.words.values().filter(|word| word.ago < PREDECESSOR);
    if earlier.chain(&word).any(|word| info.offset < word.offset) {
        return true;
    }
    let was_cut_off = match view.pod(from).map(|pod| &pod.own) {
        Some(Node { state: NodeState::Silent(silence), has_answered: true, .. }) => is_cut_off(view, info, *silence),
        Some(Node { state: NodeState::Gone, .. }) => has_missed_its_end(info),
        Some(Node { state: NodeState::Answers(own), .. }) if !own.is_master() => has_missed_its_end(info),
        _ => word.is_some_and(|word| is_cut_off(view, info, word.ago)),
    };
    if was_cut_off {
        return true;
    }
    // It was restarted and has data. The replica has none, or received nothing long before, while no operator was looking.
    let back = view.loaded(from).filter(|own| own.keys > 0 && !own.is_master());
    let last_received = info.lost_seconds.or(info.quiet_seconds);
    let before = |own: &Info| last_received.is_some_and(|lost| lost > own.uptime_seconds + RESTART_SECONDS);
    back.is_some_and(|own| info.keys == 0 || before(own))
}

/// A replica that had all data, and has been silent for less than the hang timeout. The election waits for it: while
/// the disk is busy, Redis acknowledges writes up to two seconds before they are in its file, so a process that was
/// killed may come back without writes that this replica has.
/// <https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/#append-only-file>
fn pausing(view: &View<'_>, from: i32) -> Option<i32> {
    let pauses = |ordinal: &i32| {
        let in_sync = || view.recorded(*ordinal).is_some_and(|node| node.in_sync);
        *ordinal != from && is_pausing(view, *ordinal) && in_sync()
    };
    view.observed.set.pods.keys().copied().find(pauses)
}

/// Reports whether a node has been silent for less than the hang timeout.
fn is_pausing(view: &View<'_>, ordinal: i32) -> bool {
    let timeout = Duration::from_secs(view.hang_timeout());
    view.pod(ordinal).is_some_and(|pod| matches!(pod.own.state, NodeState::Silent(time) if time < timeout))
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

/// The replica that can take over best.
pub fn successor(view: &View<'_>, master: i32) -> Option<i32> {
    let fit = |ordinal: &i32| *ordinal < view.wanted_nodes() && is_ready(view, master, *ordinal);
    let rank = |ordinal: &i32| {
        let current = view.pod(*ordinal).is_some_and(|pod| !view.is_outdated(pod));
        let ready = view.pod(*ordinal).is_some_and(|pod| pod.ready);
        (ready, current, view.info(*ordinal).map_or(0, |info| info.offset), Reverse(*ordinal))
    };
    view.observed.set.pods.keys().copied().filter(fit).max_by_key(rank)
}

/// Reports whether the master could hand over to that replica at once.
pub fn is_ready(view: &View<'_>, master: i32, ordinal: i32) -> bool {
    let (Some(own), Some(info), Some(pod)) = (view.info(ordinal), view.info(master), view.pod(ordinal)) else {
        return false;
    };
    let attached = info.attached.iter().any(|it| it.online && Some(&it.host) == pod.address.as_ref());
    let is_near = own.offset + CLOSE >= info.offset;
    // Clients reach it whether its pod is ready or not. But a pod on a Kubernetes node that does not answer may be gone
    // any moment.
    let is_there = !pod.terminating && pod.lost_node.is_none();
    view.follows(ordinal) && attached && is_there && is_near && view.persists(own)
}
