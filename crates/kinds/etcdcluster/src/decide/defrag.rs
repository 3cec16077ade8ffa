//! Defragmentation on a schedule: one member at a time, the leader last.
//!
//! A member does not answer while it is defragmented, so the next one has its turn only when all are well again. The
//! status records each turn before it begins: a member is disturbed once each time, even if the operator dies meanwhile.
//! <https://etcd.io/docs/v3.5/op-guide/maintenance/#defragmentation>

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::etcdcluster::{Defrag, DefragStatus};
use causeway_runtime::Health;
use causeway_runtime::schedule::Schedule;

use super::super::action::Action;
use super::super::names;
use super::{Step, View, leadership};

/// In bytes. Less is not worth a disturbance: databases grow by this much at once.
pub const LEAST: i64 = 16 * 1024 * 1024;
/// A turn that could not begin for this long waits for the next scheduled time: the user may have chosen a quiet hour.
const LATEST: SignedDuration = SignedDuration::from_hours(1);

/// The next member's turn. When this is called, all members are well and nothing else is left to do.
pub fn step(view: &View<'_>) -> Option<Step> {
    let (asked, followed) = (view.object.spec.defrag.as_ref()?, current_record(view)?);
    if !is_due(view, asked, followed) {
        return None;
    }
    let waste = |ordinal: &i32| {
        let pod = names::pod(view.object, *ordinal);
        let had_turn = followed.members.contains(&pod) && !view.observed.deferred.contains(&pod);
        waste(view, asked, *ordinal).filter(|_| !had_turn)
    };
    let leader = view.leader()?;
    let other = view.members.keys().copied().find(|ordinal| *ordinal != leader && waste(ordinal).is_some());
    let next = other.or_else(|| Some(leader).filter(|leader| waste(leader).is_some()))?;
    if next == leader && view.members.len() > 1 {
        return leadership::hand_over(view, leader, |_| true);
    }
    let name = names::pod(view.object, next);
    let message = format!("giving back {} MiB that {name} does not use", waste(&next)? >> 20);
    let action = Action::Defragment { name, via: view.observed.endpoint(next)?, others: view.other_voters(next) };
    // The cluster stays ready: this is planned, and a majority serves meanwhile.
    Some(Step {
        health: Health::ready("Defragmenting", message.clone()),
        ..Step::act(vec![action], "Defragmenting", message)
    })
}

/// Returns the record of the step for the status; `rests` if nothing else is left to do.
pub fn record(view: &View<'_>, step: &Step, rests: bool) -> Option<DefragStatus> {
    let asked = view.object.spec.defrag.as_ref()?;
    let now = Time(Timestamp::from_second(view.now.as_second()).unwrap_or(view.now));
    let Some(followed) = current_record(view) else {
        // The schedule is new: times before now do not count.
        let last_defragmented = recorded_status(view).and_then(|before| before.last_defragmented.clone());
        return Some(DefragStatus {
            schedule: asked.schedule.clone(),
            done_until: now,
            members: Vec::new(),
            last_defragmented,
        });
    };
    let mut record = followed.clone();
    if let Some(name) = turn(view, step) {
        record.members.push(name.to_owned());
        record.last_defragmented = Some(now.clone());
    }
    if overdue(view, asked, followed).is_some_and(|late| rests || late > LATEST) {
        record.done_until = now;
        record.members.clear();
    }
    Some(record)
}

/// Reports whether a member has its turn in this step.
pub fn takes_turn(view: &View<'_>, step: &Step) -> bool {
    turn(view, step).is_some()
}

/// How long it is until the next scheduled time.
pub fn next(view: &View<'_>) -> Option<Duration> {
    let next = Schedule::read(&view.object.spec.defrag.as_ref()?.schedule, None).ok()?.next_after(view.now)?;
    Duration::try_from(next.duration_since(view.now)).ok()
}

/// The member that has its turn in this step. A defragmentation for lack of space counts as its turn, too.
fn turn<'a>(view: &View<'_>, step: &'a Step) -> Option<&'a str> {
    let (asked, followed) = (view.object.spec.defrag.as_ref()?, current_record(view)?);
    let name = step.actions.iter().find_map(|action| match action {
        Action::Defragment { name, .. } => Some(name),
        _ => None,
    })?;
    (is_due(view, asked, followed) && !followed.members.contains(name)).then_some(name.as_str())
}

fn recorded_status<'a>(view: &View<'a>) -> Option<&'a DefragStatus> {
    view.object.status.as_ref()?.defrag.as_ref()
}

/// Returns the record of the status, if it is about this very schedule.
fn current_record<'a>(view: &View<'a>) -> Option<&'a DefragStatus> {
    let asked = view.object.spec.defrag.as_ref()?;
    recorded_status(view).filter(|before| before.schedule == asked.schedule)
}

/// How long ago the last scheduled time was, if its turns are not over yet.
fn overdue(view: &View<'_>, asked: &Defrag, followed: &DefragStatus) -> Option<SignedDuration> {
    let last = Schedule::read(&asked.schedule, None).ok()?.last_before(view.now)?;
    (last > followed.done_until.0).then(|| view.now.duration_since(last))
}

fn is_due(view: &View<'_>, asked: &Defrag, followed: &DefragStatus) -> bool {
    overdue(view, asked, followed).is_some_and(|late| late <= LATEST)
}

/// Bytes that the member would give back, if that is worth it.
fn waste(view: &View<'_>, asked: &Defrag, ordinal: i32) -> Option<i64> {
    let status = view.observed.status_of(ordinal, view.members.get(&ordinal)?)?;
    let unused = status.db_size - status.db_in_use;
    (unused >= LEAST && unused >= status.db_size / 100 * i64::from(asked.threshold_percent)).then_some(unused)
}
