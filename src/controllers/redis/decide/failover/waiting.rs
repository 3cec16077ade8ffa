//! `Creating`, `MasterUnheard` and `MasterGone`: nothing can be done about the master but to wait.

use super::super::{AT_ONCE, Record, SELDOM, SOON, Step, View, hide};
use super::election::Wait;
use super::reasons::SILENT;
use crate::api::redis::Failover;
use crate::controllers::redis::action::Action;
use crate::controllers::redis::facts::{NodeState, Pod};
use crate::controllers::redis::names::{self, MASTER};
use crate::runtime::Health;

/// The nodes are awaited before one of them becomes the first master.
pub fn creating(view: &View<'_>) -> Step {
    if view.observed.set.pods.is_empty() {
        return Step::wait("Creating", "waiting for the first pod to be made");
    }
    let answering = (0..view.wanted()).filter(|ordinal| view.loaded(*ordinal).is_some()).count();
    let message =
        format!("{answering} of {} nodes answer, waiting for all before one is made the master", view.wanted());
    let step = match view.pod_trouble() {
        Some((reason, text)) => Step::trouble(reason, format!("{message}; {text}")),
        None => Step::wait("Creating", message),
    };
    Step { again: SOON, record: masterless(view), ..step }
}

/// The master does not answer, and may do so any moment.
pub fn master_unheard(pod: &Pod, failover: Option<&Failover>) -> Step {
    if let NodeState::Refuses(message) = &pod.own.state {
        let message = format!("{} refuses to answer: {message}", pod.name);
        let health = Health::stalled("MasterRefuses", message.clone());
        return Step { health, ..Step::trouble("MasterRefuses", message) };
    }
    let step = match failover {
        None => Step::wait(SILENT, format!("{} does not answer", pod.name)),
        Some(failover) => Step::wait(
            "SwitchingOver",
            format!("{} does not answer, and was to hand over to {}", pod.name, failover.target),
        ),
    };
    Step { again: AT_ONCE * 4, ..step }
}

/// The master is gone, and nobody may take over yet.
pub fn master_gone(view: &View<'_>, from: i32, wait: Wait) -> Step {
    match wait {
        Wait::Replica(replica) => {
            let [name, replica] = [from, replica].map(|ordinal| names::pod(view.object, ordinal));
            let message =
                format!("{name} is no master any more, waiting for a word of {replica}, which had all of its data");
            Step { record: masterless(view), again: AT_ONCE * 4, ..Step::act(hidden(view), "NoMaster", message) }
        }
        Wait::DataGone => {
            let name = names::pod(view.object, from);
            let message = format!(
                "all nodes answer and none of them has the data that {name} had: after \
                 spec.failover.dataLossTimeout it begins empty. To restore volumes first, set spec.suspend"
            );
            let health = Health::stalled("DataGone", message);
            Step { health, record: masterless(view), again: SOON, ..Step::act(hidden(view), "", "") }
        }
        Wait::Data => for_data(view, from),
    }
}

fn for_data(view: &View<'_>, from: i32) -> Step {
    let name = names::pod(view.object, from);
    let silent: Vec<String> = (0..view.wanted())
        .filter(|ordinal| view.loaded(*ordinal).is_none())
        .map(|ordinal| names::pod(view.object, ordinal))
        .collect();
    let found = view.pod_trouble();
    let trouble = found.as_ref().map_or_else(String::new, |(_, text)| format!("; {text}"));
    let waits_for_data = view.loaded(from).is_some();
    let message = if waits_for_data {
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
    Step { again, record: masterless(view), ..Step::act(hidden(view), reason, message) }
}

/// Takes those out of the master's Service who answer there and are none: clients would come, and keep connections over
/// which they can only read.
fn hidden(view: &View<'_>) -> Vec<Action> {
    let is_none = |pod: &&Pod| pod.has_role(MASTER) && pod.info().is_some_and(|info| !info.is_master());
    view.observed.set.pods.values().filter(is_none).map(hide).collect()
}

fn masterless(view: &View<'_>) -> Record {
    if view.before.masterless_since.is_some() { Record::Seen } else { Record::Masterless }
}
