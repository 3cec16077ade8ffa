//! Planned changes of the master: it hands over by itself, when its replica has everything.

use super::super::action::Action;
use super::super::names;
use super::mastership::begin;
use super::{AT_ONCE, Record, Step, View, services, target};
use crate::api::redis::Failover;

/// A replica that is further behind would keep writes waiting for long.
const CLOSE: u64 = 1 << 20;
/// After so long a switch that does not come about is given up.
const PATIENCE_MS: i64 = 15_000;
/// After so long a master that has stepped down, and whose successor does not take over, takes its role back.
const LIMBO_MS: i64 = 5_000;

/// The switch that the spec asks for.
pub fn asked(view: &View<'_>) -> Option<Step> {
    let wanted = &view.object.spec.switchover.as_ref()?.master;
    if view.before.switched_to.as_ref() == Some(wanted) || view.before.master.as_ref() == Some(wanted) {
        return None;
    }
    let (master, ..) = view.serving_master()?;
    let ordinal = names::ordinal_of(view.object, wanted).filter(|ordinal| *ordinal < view.wanted());
    let Some(ordinal) = ordinal else {
        let told = format!(
            "spec.switchover.master: {wanted} is none of the pods {} to {}",
            names::pod(view.object, 0),
            names::pod(view.object, view.wanted() - 1)
        );
        return Some(Step::stalled("SwitchoverInvalid", told));
    };
    if !is_ready(view, master, ordinal) {
        return Some(Step::wait("SwitchingOver", format!("waiting for {wanted} to have all data")));
    }
    Some(begin(view, Some(master), ordinal, "Asked", true))
}

/// Moves the role away from a node; none where nobody could take it.
pub fn away(view: &View<'_>, master: i32, reason: &str) -> Option<Step> {
    best(view, master, |_| true).map(|to| begin(view, Some(master), to, reason, true))
}

/// The replica that can take over best.
pub fn best(view: &View<'_>, master: i32, fits: impl Fn(i32) -> bool) -> Option<i32> {
    let fit = |ordinal: &i32| *ordinal < view.wanted() && fits(*ordinal) && is_ready(view, master, *ordinal);
    let all = view.observed.pods.keys().copied().filter(fit);
    let rank = |ordinal: &i32| {
        let current = view.pod(*ordinal).is_some_and(|pod| !view.is_outdated(pod));
        let ready = view.pod(*ordinal).is_some_and(|pod| pod.ready);
        (ready, current, view.info(*ordinal).map_or(0, |info| info.offset), std::cmp::Reverse(*ordinal))
    };
    all.max_by_key(rank)
}

/// Whether the master could hand over to that replica at once.
fn is_ready(view: &View<'_>, master: i32, ordinal: i32) -> bool {
    let (Some(own), Some(info), Some(pod)) = (view.info(ordinal), view.info(master), view.pod(ordinal)) else {
        return false;
    };
    let attached = info.attached.iter().any(|it| it.online && Some(&it.host) == pod.address.as_ref());
    let is_near = own.offset + CLOSE >= info.offset;
    // Clients reach it whether its pod is ready or not; but a node that does not answer may be gone any moment.
    let is_there = !pod.terminating && pod.lost_node.is_none();
    view.follows(ordinal) && attached && is_there && is_near && view.persists(own)
}

/// Goes on with a switch, wherever it is. The successor is not a master yet.
pub fn go_on(view: &View<'_>, failover: &Failover) -> Step {
    let told = format!("{} takes over from {}", failover.target, failover.from.as_deref().unwrap_or_default());
    let waiting = Step { again: AT_ONCE, ..Step::wait("SwitchingOver", told.clone()) };
    let ordinal = |name: &String| names::ordinal_of(view.object, name);
    let (Some(from), Some(to)) = (failover.from.as_ref().and_then(ordinal), ordinal(&failover.target)) else {
        return waiting;
    };
    let (Some(pod), Some(info)) = (view.pod(from), view.info(from)) else { return waiting };
    let elapsed = failover.duration_ms(view.now);
    match (info.is_master(), info.handing_over) {
        // Writes wait for the replica to have everything. Nothing has happened yet, and can be called off.
        (true, true) if elapsed > PATIENCE_MS => Step {
            again: AT_ONCE,
            ..Step::act(vec![Action::KeepMastership { node: target(pod) }], "SwitchingOver", told)
        },
        (true, false) => {
            let successor = view.pod(to).filter(|_| elapsed <= PATIENCE_MS && could_take(view, from, to));
            let address = successor.and_then(|successor| successor.address.clone());
            let Some(address) = address else {
                let note = format!("{} stays the master: {} could not take over", pod.name, failover.target);
                let actions = vec![Action::Tell { reason: "SwitchoverFailed", note: note.clone() }];
                return Step { record: Record::GiveUp, ..Step::act(actions, "SwitchoverFailed", note) };
            };
            let (to, hide) = (failover.target.clone(), services::handing_over(view, pod));
            let action = Action::HandOver { from: target(pod), to, address, hide };
            Step { again: AT_ONCE, ..Step::act(vec![action], "SwitchingOver", told) }
        }
        // It has stepped down. As long as its successor may be told so any moment, nobody interferes: there could be two.
        (false, true) if elapsed > LIMBO_MS => Step {
            again: AT_ONCE,
            ..Step::act(vec![Action::KeepMastership { node: target(pod) }], "SwitchingOver", told)
        },
        (_, true) => waiting,
        // It was started anew meanwhile.
        (false, false) => super::election::succeed(view, from, "MasterRestarted"),
    }
}

/// Whether it still makes sense to hand over to that replica.
fn could_take(view: &View<'_>, from: i32, to: i32) -> bool {
    let address = view.pod(from).and_then(|pod| pod.address.as_ref());
    let link = view.info(to).and_then(|info| info.link());
    link.is_some_and(|link| link.up && Some(&link.host) == address)
}
