//! Decides what to do about a master and its replicas. Pure.
//!
//! At most one step that disturbs somebody is taken at a time; then the world is observed again. What comes first: who is
//! the master, then children, then replicas and settings, then size, then version.

mod certificates;
mod children;
mod damaged;
mod failover;
mod nodes;
mod passwords;
mod restore;
mod rollout;
mod services;
mod size;
mod status;
mod switchover;
mod view;
mod writes;

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use super::action::{Action, Target};
use super::facts::{Observed, Pod};
use super::settings;
use crate::api::redis::{Failover, LastFailover};
use crate::api::{Redis, RedisStatus};
use crate::runtime::{Health, Plan};
use crate::stateful::restore_from::join;
use crate::stateful::step::{LATER, SELDOM, SOON};
use crate::stateful::{self, ChildAction};
use view::View;

/// Look again while a node is about to answer.
const AT_ONCE: Duration = Duration::from_millis(50);

/// A step, and how the object is meanwhile.
type Step = stateful::Step<Action, Record>;

/// What is recorded with a step.
#[derive(Clone, Debug, Default, PartialEq)]
enum Record {
    /// What was seen, and no more.
    #[default]
    Seen,
    /// Somebody is to become the master: written before anything is done about it.
    Begin(Failover),
    /// Somebody has become the master.
    Complete(LastFailover),
    /// The master stays what it is.
    GiveUp,
    /// Clients that had stayed with the earlier master are sent away.
    Close,
    /// No client is with an earlier master any more.
    Left,
    /// Nobody can become the master without loss.
    Masterless,
}

/// What to do so that the nodes are as the object says.
pub fn decide(object: &Redis, observed: &Observed, now: Timestamp) -> Plan<Action, RedisStatus> {
    let view = View::new(object, observed, now);
    let step = writes::describe(&view, led(&view, step(&view)));
    let status = status::status(&view, &step);
    let plan = Plan {
        parts: status::parts(&view, &status),
        write_status_first: !matches!(step.record, Record::Seen),
        status,
        health: step.health,
        actions: step.actions,
        requeue: Some(step.again),
    };
    let restore = |step| ChildAction::Restore(step).into();
    let joined = join(plan, &restore::database(&view), restore, |status, restored| status.restored = restored);
    unless_unheard(&view, restore::describe(joined))
}

/// The state of the failover, by its name in the table of [`failover`].
#[cfg(test)]
pub fn failover_state(object: &Redis, observed: &Observed, now: Timestamp) -> &'static str {
    failover::state_name(&View::new(object, observed, now))
}

/// Whoever does not answer for a moment may be as well as before: on a busy machine that happens all the time. Nothing is told
/// of it, nothing written, and it is looked at again soon.
fn unless_unheard(view: &View<'_>, plan: Plan<Action, RedisStatus>) -> Plan<Action, RedisStatus> {
    let idle = plan.actions.is_empty() && !plan.write_status_first && view.before.failover.is_none();
    let is_unsure = idle && view.observed.set.pods.values().any(Pod::is_unheard);
    if is_unsure { plan.unchanged(view.before.clone(), AT_ONCE * 4) } else { plan }
}

/// The step, after whoever must not be found was taken out of the Services.
fn led(view: &View<'_>, mut step: Step) -> Step {
    let mut first = services::out(view);
    first.retain(|action| !step.actions.contains(action));
    if first.is_empty() {
        return step;
    }
    if matches!(step.health, Health::Ready(_)) {
        step.health = Health::progressing("Following", "Services are led to the nodes that serve");
    }
    step.actions.splice(0..0, first);
    step
}

fn step(view: &View<'_>) -> Step {
    // What somebody else has of our names stops what is begun, not those who serve.
    let foreign = match children::foreign(view) {
        Some(step) if view.before.master.is_none() => return step,
        foreign => foreign,
    };
    // What cannot be accepted changes nothing; nodes that are in trouble are helped all the same.
    let complaint = settings::trouble(view.object)
        .map(|text| ("ConfigInvalid", text))
        .or_else(|| view.observed.set.complaint(view.object))
        .or_else(|| passwords::complaint(view))
        .or_else(|| children::complaint(view))
        .or_else(|| certificates::complaint(view));
    let accepted = complaint.is_none();
    // A step that waits for somebody must not keep the children from being made whom it waits for.
    let mastership = failover::step(view);
    let (urgent, waiting) = match mastership {
        Some(step) if step.actions.is_empty() && step.record == Record::Seen => (None, Some(step)),
        step => (step, None),
    };
    let step = urgent
        .or_else(|| view.observed.set.label())
        .or_else(|| killed(view))
        .or_else(|| view.observed.set.belated())
        .or_else(|| nodes::step(view))
        .or_else(|| nodes::stragglers(view))
        .or_else(|| nodes::mend(view))
        .or_else(|| damaged::step(view))
        .or(foreign)
        .or_else(|| view.observed.set.stranded())
        .or_else(|| certificates::step(view, accepted))
        .or_else(|| certificates::load(view))
        .or_else(|| accepted.then(|| passwords::step(view)).flatten())
        .or_else(|| accepted.then(|| nodes::configure(view)).flatten())
        .or_else(|| children::step(view, accepted))
        .or_else(|| view.observed.set.hurry(&view.object.name_any()))
        .or_else(|| accepted.then(|| rollout::hopeless(view)).flatten())
        .or_else(|| accepted.then(|| size::relieve(view)).flatten())
        .or(waiting)
        .or_else(|| accepted.then(|| size::shrink(view)).flatten())
        .or_else(|| rollout::step(view, accepted))
        .or_else(|| accepted.then(|| switchover::step(view)).flatten())
        .or_else(|| accepted.then(|| size::clean_up(view)).flatten())
        .or_else(|| rollout::unfinished(view));
    let step = match (step, complaint) {
        (Some(step), None) => step,
        (Some(step), Some((reason, message))) => Step { health: Health::stalled(reason, message), ..step },
        (None, Some((reason, message))) => Step::stalled(reason, message),
        (None, None) => {
            // Clients may still find their way to the earlier master for a moment.
            let again = match () {
                () if failover::since_change(view).is_some() => SOON,
                // Secrets are read, not watched.
                () if view.object.spec.auth.enabled || view.object.spec.tls.is_some() => SELDOM,
                // Whether there are data decides what is done when they are gone.
                () if view.before.nodes.iter().all(|node| node.keys == 0) => SELDOM,
                () => LATER,
            };
            let text = match view.object.spec.replicas {
                0 => "the master takes writes; it has no replica that could take over".into(),
                1 => "the master takes writes, and its replica has all data".into(),
                count => format!("the master takes writes, and all {count} replicas have all data"),
            };
            Step { health: Health::ready("Serving", text), again, ..Step::wait("Serving", "") }
        }
    };
    if step.record == Record::Seen && nodes::have_left(view) {
        // Readers are led there again.
        return Step { record: Record::Left, again: AT_ONCE, ..step };
    }
    step
}

/// Pods that would wait for minutes to be started again, for their processes were killed. Data that are only in memory, or on a
/// volume that goes with the pod, would go with it.
fn killed(view: &View<'_>) -> Option<Step> {
    view.observed.set.killed(|_| !view.object.spec.storage.ephemeral)
}

/// A pod and its process.
fn target(pod: &Pod) -> Target {
    Target { name: pod.name.clone(), uid: pod.uid.clone(), endpoint: pod.endpoint() }
}

/// Takes the label of its role from a pod.
fn hide(pod: &Pod) -> Action {
    Action::SetRole { pod: target(pod), role: None }
}

fn delete_pod(pod: &Pod, why: &str) -> Action {
    ChildAction::delete_pod(pod, why).into()
}
