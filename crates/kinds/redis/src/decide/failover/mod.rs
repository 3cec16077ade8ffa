//! Which node is the master, as a state machine.
//!
//! Every round computes the state from what it observed and from what the status records: nothing yet, a master, a failover or
//! a (planned) switchover. Nothing else is remembered, so another process continues where one died.
//!
//! | State | Recorded | When | Step | Records |
//! |---|---|---|---|---|
//! | `Creating` | nothing, failover | no node was the master before, and none can be chosen yet | waits for the nodes | |
//! | `Electing` | nothing, master, failover, switchover | there is no master, and a node was chosen that is not recorded | records it, and begins to promote it | failover, switchover |
//! | `Promoting` | failover | the recorded target is still the right one, and no master yet | closes the Service, detaches replicas, promotes the target | |
//! | `Finishing` | failover, switchover | the recorded target answers as a master | leads clients and replicas to it, then records the end | master |
//! | `Serving` | master | the recorded master answers as one | moves the role away if the pod goes, its node is lost or its disk fails | switchover |
//! | `SwitchingOver` | switchover | the earlier master answers as one, or hands over | lets it hand over; gives up when that takes too long | master |
//! | `MasterSilent` | master, switchover | the master does not answer, but does not count as hung or gone | leads replicas without a master to it, and waits | |
//! | `MasterGone` | master, failover, switchover | the master is gone, and no node may take the role | waits for its data | |
//!
//! The record changes only as the last column says. While it stays the same, the observed facts choose among the states
//! that have this record in the second column. [`State::derive`] implements the third column, [`transition`] the fourth.

mod choice;
mod state;
mod steps;
mod waiting;

use super::{AT_ONCE, Record, Step, View};
use crate::action::Action;
use crate::names;
use causeway_api::redis::Failover;
use state::State;

pub use choice::{can_ask, is_ready};
pub use state::{MASTER_SILENT, MEASURED_BEFORE, is_cut_off, is_heard, loss};
pub use steps::{followers, since_change};

/// The outcome of a state.
enum Next {
    /// Nothing about the master: other decisions take their turn.
    Nothing,
    /// Do this, or wait.
    Do(Step),
    /// Record this change of the master, and take the first step of the state that it leads to.
    Begin(Failover),
}

/// Returns the next step about the master, if there is one.
pub fn step(view: &View<'_>) -> Option<Step> {
    match transition(view, &State::derive(view, view.before.failover.as_ref())) {
        Next::Nothing => None,
        Next::Do(step) => Some(step),
        Next::Begin(failover) => Some(begin(view, failover)),
    }
}

/// The step of each state. None of these functions calls another.
fn transition(view: &View<'_>, state: &State<'_>) -> Next {
    match state {
        State::Creating => Next::Do(waiting::creating(view)),
        State::Serving { master, pod, info } => steps::serve(view, *master, pod, info),
        State::SwitchingOver { failover, pod, info } => Next::Do(steps::switch(view, failover, pod, info)),
        State::MasterSilent { pod, failover } => Next::Do(waiting::master_silent(view, pod, *failover)),
        State::MasterGone { from, wait } => Next::Do(waiting::master_gone(view, *from, *wait)),
        State::Electing { from, to, reason, planned } => {
            Next::Begin(steps::begin_change(view, *from, *to, reason, *planned))
        }
        State::Promoting(failover) => Next::Do(steps::promote(view, failover)),
        State::Finishing { failover, to } => Next::Do(steps::finish(view, failover, *to)),
    }
}

/// Records a change of the master before anything is done about it, and takes the first step of the state that it leads to.
fn begin(view: &View<'_>, failover: Failover) -> Step {
    let first = match transition(view, &State::derive_begun(view, &failover)) {
        Next::Do(step) if step.record == Record::Seen => step,
        // A step that records something itself comes after this change is recorded.
        _ => {
            Step { again: AT_ONCE, ..Step::wait(steps::reason_of_change(&failover), steps::describe_change(&failover)) }
        }
    };
    // The event comes first, so that users see it even if a later action fails.
    let announced = announcement(view, &failover).map(|note| Action::Tell { reason: "DataChosen", note });
    let actions = announced.into_iter().chain(first.actions).collect();
    Step { record: Record::Begin(failover), actions, ..first }
}

/// Returns the event about the choice of the first master.
fn announcement(view: &View<'_>, failover: &Failover) -> Option<String> {
    let to = names::ordinal_of(view.object, &failover.target).filter(|_| failover.from.is_none())?;
    choice::choice(view, to)
}

/// A planned switchover from a serving master to that replica.
pub fn switch_over(view: &View<'_>, master: i32, to: i32, reason: &str) -> Step {
    begin(view, steps::begin_change(view, Some(master), to, reason, true))
}

/// Moves the role away from a serving master; `None` if no replica could take it.
pub fn move_away(view: &View<'_>, master: i32, reason: &str) -> Option<Step> {
    choice::successor(view, master).map(|to| switch_over(view, master, to, reason))
}

/// The state's name in the table.
#[cfg(test)]
pub fn state_name(view: &View<'_>) -> &'static str {
    State::derive(view, view.before.failover.as_ref()).name()
}
