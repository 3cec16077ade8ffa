//! Who becomes the master when there is none.
//!
//! A replica that had all data of the master takes over at once. Where there is none, the master is waited for, whose
//! volume has all but the last second. Only after a while, or where that is empty, somebody takes over with whom writes
//! are lost; and an empty node never does so while another may have data.

use std::cmp::Reverse;
use std::time::Duration;

use super::super::action::Action;
use super::super::facts::{Pod, Voice};
use super::super::names;
use super::mastership::{begin, promote};
use super::{AT_ONCE, Record, SELDOM, SOON, Step, View, hide};
use crate::external::redis::Info;
use crate::runtime::Health;

/// Reasons that are told as a loss.
pub const LOSSES: &[&str] = &["MasterLost", "MasterEmptied", "DataGone"];

/// Those of them that nobody can make good who comes back later: the data are gone, whoever becomes the master.
pub const CERTAIN_LOSSES: &[&str] = &["MasterEmptied", "DataGone"];

/// Nothing that has data can be waited for in the beginning, but so long for pods that do not start.
const FIRST_SECONDS: i64 = 10;

/// So long a process may take to be started again, for its replicas to have lost it when it died.
const RESTART_SECONDS: u64 = 10;

/// Makes somebody the master after another.
pub fn succeed(view: &View<'_>, from: i32, reason: &str) -> Step {
    if let Some(best) = best_replica(view, from) {
        // It is chosen once: who is on the way is not held up.
        return match pausing(view, from).filter(|_| view.before.failover.is_none()) {
            Some(replica) => wait_for_replica(view, from, replica),
            None => take(view, from, best, reason),
        };
    }
    let waited = view.before.masterless_since.as_ref().map_or(0, |since| view.now.duration_since(since.0).as_secs());
    let is_over = waited >= i64::from(view.object.spec.failover.data_loss_timeout_seconds);
    let all = (0..view.wanted()).all(|ordinal| answers(view, ordinal).is_some());
    match answers(view, from) {
        Some(info) if info.keys > 0 => match pausing(view, from) {
            Some(replica) => wait_for_replica(view, from, replica),
            None => take(view, from, from, "MasterRestarted"),
        },
        // Whatever the others have is more than nothing; but all of them are asked first.
        Some(_) if all || is_over => match richest(view) {
            Some(best) => take(view, from, best, "MasterEmptied"),
            None if !had_data(view) && all => take(view, from, from, "MasterRestarted"),
            None if all && (view.object.spec.storage.ephemeral || is_over) => take(view, from, from, "DataGone"),
            None => wait(view, from, all),
        },
        None if is_over => match richest(view) {
            Some(best) => take(view, from, best, "MasterLost"),
            None => wait(view, from, false),
        },
        _ => wait(view, from, all),
    }
}

/// Makes the first master. Volumes that were there before may hold data: then all of them are asked first.
pub fn first(view: &View<'_>) -> Step {
    let pods = &view.observed.pods;
    if pods.is_empty() {
        return Step::wait("Creating", "waiting for the first pod to be made");
    }
    // The status was lost, and a master serves.
    let serving = pods.iter().filter(|(_, pod)| pod.info().is_some_and(Info::is_master));
    let known = |pod: &super::Pod| (pod.has_role(names::MASTER), pod.info().map_or(0, |info| info.attached.len()));
    if let Some((ordinal, _)) = serving.max_by_key(|(ordinal, pod)| (known(pod), Reverse(**ordinal))) {
        return first_is(view, *ordinal);
    }
    let answering = (0..view.wanted()).filter(|ordinal| answers(view, *ordinal).is_some()).count();
    let waited = view.before.masterless_since.as_ref().map_or(0, |since| view.now.duration_since(since.0).as_secs());
    let all = i32::try_from(answering).is_ok_and(|count| count == view.wanted());
    let fresh = view.observed.claims.values().all(|claim| claim.ours);
    if all || (waited >= FIRST_SECONDS && fresh) {
        let lowest = || (0..view.wanted()).find(|ordinal| answers(view, *ordinal).is_some());
        if let Some(best) = richest(view).or_else(lowest) {
            return first_is(view, best);
        }
    }
    let told = format!("{answering} of {} nodes answer, waiting for all before one is made the master", view.wanted());
    let step = match view.pod_trouble() {
        Some((reason, text)) => Step::trouble(reason, format!("{told}; {text}")),
        None => Step::wait("Creating", told),
    };
    Step { again: SOON, record: masterless(view), ..step }
}

fn first_is(view: &View<'_>, ordinal: i32) -> Step {
    let name = names::pod(view.object, ordinal);
    match view.before.failover.as_ref().filter(|failover| failover.target == name) {
        Some(failover) => promote(view, failover),
        None => begin(view, None, ordinal, "FirstMaster", false),
    }
}

/// Goes on with what was begun, or begins anew with another.
fn take(view: &View<'_>, from: i32, to: i32, reason: &str) -> Step {
    let name = names::pod(view.object, to);
    let same = |failover: &&crate::api::redis::Failover| failover.target == name && !failover.planned;
    match view.before.failover.as_ref().filter(same) {
        Some(failover) => promote(view, failover),
        None => begin(view, Some(from), to, reason, false),
    }
}

/// The replica that is furthest among those that had all data when the master answered last.
fn best_replica(view: &View<'_>, from: i32) -> Option<i32> {
    let history = view.before.history.as_deref()?;
    let fit = |ordinal: &i32| {
        let known = view.recorded(*ordinal).is_some_and(|node| node.in_sync);
        let info =
            answers(view, *ordinal).filter(|info| info.continues(history) && !lacks_data_of(view, from, info))?;
        let syncing = info.link().is_some_and(|link| link.syncing);
        // The master itself goes on where its process still is the one that had the data.
        ((known || *ordinal == from) && !syncing).then_some(info.offset)
    };
    let candidates = view.observed.pods.keys().filter_map(|ordinal| Some((*ordinal, fit(ordinal)?)));
    let rank = |(ordinal, offset): &(i32, u64)| {
        let terminating = view.pod(*ordinal).is_none_or(|pod| pod.terminating);
        (*offset, !terminating, Reverse(*ordinal))
    };
    candidates.max_by_key(rank).map(|(ordinal, _)| ordinal)
}

/// Whether a replica lacks what a master has that was started anew: it is empty, or had lost its master long before, of
/// which nobody was told who did not look.
fn lacks_data_of(view: &View<'_>, from: i32, info: &Info) -> bool {
    let back = answers(view, from).filter(|own| own.keys > 0 && !own.is_master());
    let before = |own: &Info| info.lost_seconds.is_some_and(|lost| lost > own.uptime_seconds + RESTART_SECONDS);
    back.is_some_and(|own| info.keys == 0 || before(own))
}

/// A replica that had all data, and is silent for less long than one that hangs. While the disk is busy, Redis answers
/// writes up to two seconds before they are in its file: a process that was killed then comes back without what such a
/// replica has. <https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/#append-only-file>
fn pausing(view: &View<'_>, from: i32) -> Option<i32> {
    let patience = Duration::from_secs(view.patience());
    let pauses = |ordinal: &i32| {
        let silent = view.pod(*ordinal).is_some_and(|pod| matches!(pod.voice, Voice::Silent(time) if time < patience));
        *ordinal != from && silent && view.recorded(*ordinal).is_some_and(|node| node.in_sync)
    };
    view.observed.pods.keys().copied().find(pauses)
}

/// The node with the most of the data, by what is known; none where nobody has any.
fn richest(view: &View<'_>) -> Option<i32> {
    let history = view.before.history.as_deref().unwrap_or_default();
    let rank = |ordinal: &i32| {
        let info = answers(view, *ordinal)?;
        let recorded = view.recorded(*ordinal);
        let offset = if info.continues(history) { info.offset } else { 0 };
        let synced = recorded.is_some_and(|node| node.in_sync);
        (info.keys > 0).then_some((offset, synced, info.keys, Reverse(*ordinal)))
    };
    view.observed.pods.keys().filter_map(|ordinal| Some((rank(ordinal)?, *ordinal))).max().map(|(_, ordinal)| ordinal)
}

/// What a node says that could become the master.
fn answers<'a>(view: &'a View<'_>, ordinal: i32) -> Option<&'a Info> {
    view.info(ordinal).filter(|info| !info.loading)
}

fn had_data(view: &View<'_>) -> bool {
    view.before.nodes.iter().any(|node| node.keys > 0)
}

fn wait_for_replica(view: &View<'_>, from: i32, replica: i32) -> Step {
    let [name, replica] = [from, replica].map(|ordinal| names::pod(view.object, ordinal));
    let told = format!("{name} is no master any more, waiting for a word of {replica}, which had all of its data");
    Step { record: masterless(view), again: AT_ONCE * 4, ..Step::act(hidden(view), "NoMaster", told) }
}

/// Takes those out of the master's Service who answer there and are none: clients would come, and keep connections over
/// which they can only read.
fn hidden(view: &View<'_>) -> Vec<Action> {
    let is_none = |pod: &&Pod| pod.has_role(names::MASTER) && pod.info().is_some_and(|info| !info.is_master());
    view.observed.pods.values().filter(is_none).map(hide).collect()
}

fn masterless(view: &View<'_>) -> Record {
    if view.before.masterless_since.is_some() { Record::Seen } else { Record::Masterless }
}

fn wait(view: &View<'_>, from: i32, all: bool) -> Step {
    let name = names::pod(view.object, from);
    let record = masterless(view);
    let silent: Vec<String> = (0..view.wanted())
        .filter(|ordinal| answers(view, *ordinal).is_none())
        .map(|ordinal| names::pod(view.object, ordinal))
        .collect();
    let found = view.pod_trouble();
    let trouble = found.as_ref().map_or_else(String::new, |(_, text)| format!("; {text}"));
    if all {
        let told = format!(
            "all nodes answer and none of them has the data that {name} had: after \
             spec.failover.dataLossTimeoutSeconds it begins empty. To restore volumes first, set spec.suspend"
        );
        let health = Health::stalled("DataGone", told);
        return Step { health, record, again: SOON, ..Step::act(hidden(view), "", "") };
    }
    let waits_for_data = answers(view, from).is_some();
    let told = if waits_for_data {
        format!(
            "{name} came back empty, and {} may have its data: waiting for them to answer. Where their data are lost too, \
             delete their volume claims and pods{trouble}",
            silent.join(", ")
        )
    } else {
        format!("no replica has all data of {name}, waiting for it to come back{trouble}")
    };
    // Without others, it is that pod alone that everybody waits for.
    let reason = match found.filter(|_| view.wanted() == 1) {
        Some((reason, _)) => reason,
        None if waits_for_data => "MasterEmptied",
        None => "NoMaster",
    };
    let again = if trouble.is_empty() { SOON } else { SELDOM };
    Step { again, record, ..Step::act(hidden(view), reason, told) }
}
