//! Joins the steps of a restore with what else is to be done about a database. Pure.

use std::time::Duration;

use causeway_api::databaserestore::{Restorable, Restored};
use causeway_runtime::{Health, Plan};

use super::Step;
use super::decide::{Database, Decision, decide};

/// Look again while it is not done, although its end wakes the controller.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// A plan with what the restore adds. Members and nodes never wait for it: while there is something to do about them, the
/// restore is neither begun nor recorded.
pub fn join<O: Restorable, A, S>(
    mut plan: Plan<A, S>,
    database: &Database<'_, O>,
    act: impl Fn(Step) -> A,
    note: impl FnOnce(&mut S, Option<Restored>),
) -> Plan<A, S> {
    let decision = decide(database);
    let news = decision.record.as_ref() != database.before || decision.step.is_some();
    let is_stalled = matches!(plan.health, Health::Stalled(_));
    let begins = matches!(decision.step, Some(Step::Make { .. }));
    let Decision { record, step, part, hold } = if plan.actions.is_empty() && !(begins && is_stalled) {
        decision
    } else if news {
        // It is reported when it can be recorded.
        let hold = Health::progressing("Restoring", "the restore goes on when nothing else is to be done");
        Decision { record: database.before.cloned(), step: None, part: None, hold: Some(hold) }
    } else {
        decision
    };
    plan.parts.extend(part);
    // A step is carried out only after its record was written.
    plan.write_status_first |= step.is_some();
    plan.actions.extend(step.map(act));
    if let Some(hold) = hold {
        if matches!(plan.health, Health::Ready(_)) {
            plan.health = hold;
        }
        plan.requeue = Some(plan.requeue.map_or(RETRY_INTERVAL, |requeue| requeue.min(RETRY_INTERVAL)));
    }
    note(&mut plan.status, record);
    plan
}
