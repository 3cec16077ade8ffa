//! `SwitchingOver`: the master hands over by itself (`FAILOVER`) once its successor has everything.

use super::super::{AT_ONCE, Record, Step, View, services, target};
use crate::action::Action;
use crate::facts::Pod;
use crate::names;
use causeway_api::redis::Failover;
use causeway_databases::redis::Info;

/// A switchover that has not happened within this time is given up.
const SWITCHOVER_TIMEOUT_MS: i64 = 15_000;
/// A master that has stepped down takes its role back if its successor has not taken over within this time.
const STEPPED_DOWN_TIMEOUT_MS: i64 = 5_000;

/// Continues a switchover from wherever it is. The successor is not a master yet.
pub fn step(view: &View<'_>, failover: &Failover, pod: &Pod, info: &Info) -> Step {
    let message = format!("{} takes over from {}", failover.target, failover.from.as_deref().unwrap_or_default());
    let elapsed = failover.duration_ms(view.now);
    let is_over = match (info.is_master(), info.handing_over) {
        (true, false) if elapsed <= SWITCHOVER_TIMEOUT_MS => {
            return hand_over(view, failover, pod).unwrap_or_else(|| give_up(failover, pod));
        }
        (true, false) => return give_up(failover, pod),
        // Writes wait until the replica has everything. The master has not stepped down yet, so the handover can still
        // be called off.
        (true, true) => elapsed > SWITCHOVER_TIMEOUT_MS,
        // It has stepped down, and its successor may be promoted any moment. Giving the role back too early could make
        // two masters.
        (false, _) => elapsed > STEPPED_DOWN_TIMEOUT_MS,
    };
    let actions = if is_over { vec![Action::KeepMastership { node: target(pod) }] } else { Vec::new() };
    Step { again: AT_ONCE, ..Step::act(actions, "SwitchingOver", message) }
}

/// Lets the master hand over; `None` if its successor could not take over any more.
fn hand_over(view: &View<'_>, failover: &Failover, pod: &Pod) -> Option<Step> {
    let to = names::ordinal_of(view.object, &failover.target)?;
    let link = view.info(to)?.link();
    let follows = link.is_some_and(|link| link.up && Some(&link.host) == pod.address.as_ref());
    let address = view.pod(to).filter(|_| follows)?.address.clone()?;
    let (to, hide) = (failover.target.clone(), services::handing_over(view, pod));
    let message = format!("{to} takes over from {}", failover.from.as_deref().unwrap_or_default());
    let action = Action::HandOver { from: target(pod), to, address, hide };
    Some(Step { again: AT_ONCE, ..Step::act(vec![action], "SwitchingOver", message) })
}

fn give_up(failover: &Failover, pod: &Pod) -> Step {
    let note = format!("{} stays the master: {} could not take over", pod.name, failover.target);
    let actions = vec![Action::Tell { reason: "SwitchoverFailed", note: note.clone() }];
    Step { record: Record::GiveUp, ..Step::act(actions, "SwitchoverFailed", note) }
}
