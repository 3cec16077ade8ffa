//! Decides what to do about a master and its replicas. Pure.
//!
//! At most one disruptive step is taken at a time; then everything is observed again. Who is the master comes first,
//! then replicas, then certificates, passwords and settings, then children, then size, then version.

mod certificates;
mod children;
mod clients;
mod damaged;
mod databases;
mod epochs;
mod evictions;
mod failover;
mod files;
mod nodes;
mod passwords;
mod refused;
mod restore;
mod rollout;
mod room;
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
use super::database::RedisDatabase;
use super::facts::{NodePod, Observed, Pod};
use super::{memory, settings};
use causeway_api::redis::{Failover, LastFailover};
use causeway_api::{Redis, RedisStatus};
use causeway_databases::ChildAction;
use causeway_databases::pod_trouble::beside;
use causeway_databases::restore_from::join;
use causeway_databases::step::{PROGRESS_INTERVAL, RESYNC_INTERVAL, RETRY_INTERVAL};
use causeway_runtime::{Health, Plan};
use view::View;

/// When to look again while a node is about to answer.
const AT_ONCE: Duration = Duration::from_millis(50);

/// A step, and the health of the object meanwhile.
type Step = causeway_databases::Step<Action, Record>;

/// The record that goes with a step.
#[derive(Clone, Debug, Default, PartialEq)]
enum Record {
    /// Only what was observed.
    #[default]
    Seen,
    /// A node is to become the master: written before anything is done about it.
    Begin(Failover),
    /// A node has become the master.
    Complete(LastFailover),
    /// A switchover is given up: the master keeps its role.
    GiveUp,
    /// The connections of clients that stayed with an earlier master are closed.
    Close,
    /// Clients have left the earlier masters.
    Left,
    /// No node can become the master without loss.
    Masterless,
}

/// The facts of one look that its steps share.
struct Turn<'a> {
    view: &'a View<'a>,
    /// True if the spec can be followed.
    accepted: bool,
    /// True if settings may be changed in running processes.
    may_configure: bool,
    /// The step about the master that does something.
    urgent: Option<Step>,
    /// The step about the master that only waits.
    waiting: Option<Step>,
    /// The step for a foreign object with the name of a child.
    foreign: Option<Step>,
}

impl Turn<'_> {
    /// The step, if the spec can be followed.
    fn if_accepted(&self, step: impl Fn(&View<'_>) -> Option<Step>) -> Option<Step> {
        self.accepted.then(|| step(self.view)).flatten()
    }
}

/// Returns a step if there is something to do.
type Attempt = fn(&Turn<'_>) -> Option<Step>;

/// The steps by their names in ARCHITECTURE.md, in their order: the first that has something to do is taken.
const STEPS: [(&str, Attempt); 29] = [
    ("change the master", |turn| turn.urgent.clone()),
    ("label pods and claims", |turn| turn.view.observed.set.label()),
    ("replace killed pods", |turn| killed(turn.view)),
    ("replace pods older than a Secret that they wait for", |turn| turn.view.observed.set.belated()),
    ("lead replicas to the master", |turn| nodes::step(turn.view)),
    ("write the disruption budget", |turn| evictions::step(turn.view)),
    ("note the epoch", |turn| epochs::step(turn.view)),
    ("send clients away from earlier masters", |turn| nodes::stragglers(turn.view)),
    ("replace nodes that hang", |turn| nodes::mend(turn.view)),
    ("empty replicas with damaged data", |turn| damaged::step(turn.view)),
    ("report foreign children", |turn| turn.foreign.clone()),
    ("replace pods without volumes", |turn| turn.view.observed.set.replace_stranded()),
    ("replace pods that never started", |turn| children::replace_never_started(turn.view, turn.accepted)),
    ("renew certificates", |turn| certificates::step(turn.view, turn.accepted)),
    ("load certificates", |turn| certificates::load(turn.view)),
    ("write passwords", |turn| turn.if_accepted(passwords::step)),
    ("configure running nodes", |turn| turn.may_configure.then(|| nodes::configure(turn.view)).flatten()),
    ("rewrite append-only files", |turn| turn.if_accepted(room::rewrite_logs)),
    ("apply children", |turn| children::step(turn.view, turn.accepted)),
    ("wake the controller of pods", |turn| turn.view.observed.set.hurry(&turn.view.object.name_any())),
    ("bring back the last spec that worked", |turn| children::bring_back(turn.view)),
    ("replace hopeless pods", |turn| turn.if_accepted(rollout::hopeless)),
    ("grow a full volume", |turn| turn.if_accepted(size::relieve)),
    ("wait for the master", |turn| turn.waiting.clone()),
    ("move the role off a surplus node", |turn| turn.if_accepted(size::shrink)),
    ("roll out", |turn| rollout::step(turn.view, turn.accepted)),
    ("switch over", |turn| turn.if_accepted(switchover::step)),
    ("delete and grow volumes", |turn| turn.if_accepted(size::clean_up)),
    ("wait for the rollout", |turn| rollout::unfinished(turn.view)),
];

/// Decides what to do so that the nodes are as the object says.
pub fn decide(object: &Redis, observed: &Observed, now: Timestamp) -> Plan<Action, RedisStatus> {
    let view = View::new(object, observed, now);
    let step = clients::describe(&view, writes::describe(&view, lead_clients(&view, step(&view))));
    let status = status::status(&view, &step);
    let plan = Plan {
        parts: status::parts(&view, &status),
        write_status_first: !matches!(step.record, Record::Seen),
        status,
        health: step.health,
        actions: step.actions,
        requeue: Some(certificates::unread_for(&view).map_or(step.again, |rest| rest.min(step.again))),
    };
    let restore = |step| ChildAction::Restore(step).into();
    let joined = join(plan, &restore::database(&view), restore, |status, restored| status.restored = restored);
    unless_briefly_silent(&view, restore::describe(joined))
}

/// The state of the failover, by its name in the table of [`failover`].
#[cfg(test)]
pub fn failover_state(object: &Redis, observed: &Observed, now: Timestamp) -> &'static str {
    failover::state_name(&View::new(object, observed, now))
}

/// The plan; but while a node does not answer for a moment, one that changes and reports nothing. On a busy machine
/// that happens all the time, and says nothing about the node. The next look comes soon.
fn unless_briefly_silent(view: &View<'_>, plan: Plan<Action, RedisStatus>) -> Plan<Action, RedisStatus> {
    let idle = plan.actions.is_empty() && !plan.write_status_first && view.before.failover.is_none();
    let is_unsure = idle && view.observed.set.pods.values().any(Pod::is_briefly_silent);
    if is_unsure { plan.leave_unchanged(view.before.clone(), AT_ONCE * 4) } else { plan }
}

/// The step, preceded by the actions that take nodes out of Services in which clients must not find them.
fn lead_clients(view: &View<'_>, mut step: Step) -> Step {
    let mut first = services::take_out(view);
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
    if let Some(step) = children::take_back(view) {
        return step;
    }
    // A foreign object with the name of a child stops a set that is being created, but not one that has a master.
    let foreign = match children::foreign(view) {
        Some(step) if view.before.master.is_none() => return step,
        foreign => foreign,
    };
    if view.has_earlier_pods() {
        return Step::wait("Applying", view.observed.set.describe_going());
    }
    // A spec that cannot be accepted changes nothing; nodes in trouble are helped all the same.
    let complaint = settings::trouble(view.object)
        .map(|text| ("ConfigInvalid", text))
        .or_else(|| view.observed.set.complaint::<RedisDatabase>(view.object))
        .or_else(|| databases::complaint(view))
        .or_else(|| passwords::complaint(view))
        .or_else(|| children::complaint(view))
        .or_else(|| certificates::complaint(view))
        .or_else(|| refused::complaint(view))
        .or_else(|| children::failed(view))
        .or_else(|| room::complaint(view));
    let accepted = complaint.is_none();
    // A smaller maxmemory may let the data fit.
    let may_configure = complaint.as_ref().is_none_or(|(reason, _)| *reason == room::TOO_SMALL);
    // A step that only waits must not block the creation of the children that it waits for.
    let mastership = failover::step(view);
    let (urgent, waiting) = match mastership {
        Some(step) if step.actions.is_empty() && step.record == Record::Seen => (None, Some(step)),
        step => (step, None),
    };
    let turn = Turn { view, accepted, may_configure, urgent, waiting, foreign };
    let step = STEPS.iter().find_map(|(_, step)| step(&turn));
    // A step that stops the set as a whole matters more than a child.
    let stalls = step.as_ref().is_some_and(|step| matches!(step.health, Health::Stalled(_)));
    let refusal = refused::report(view, step.is_none()).or_else(|| children::others(view)).filter(|_| !stalls);
    let complaint = complaint.map(|complaint| beside(complaint, view.pod_trouble()));
    let step = match (step, complaint.or(refusal)) {
        (Some(step), None) => step,
        (Some(step), Some((reason, message))) => Step { health: Health::stalled(reason, message), ..step },
        (None, Some((reason, message))) => Step { again: at_rest(view), ..Step::stalled(reason, message) },
        (None, None) => {
            let text = match view.object.spec.replicas {
                0 => "the master takes writes; it has no replica that could take over".into(),
                1 => "the master takes writes, and its replica has all data".into(),
                count => format!("the master takes writes, and all {count} replicas have all data"),
            };
            let text = format!("{text}{}", limited(view));
            Step { health: Health::ready("Serving", text), again: at_rest(view), ..Step::wait("Serving", "") }
        }
    };
    if step.record == Record::Seen && nodes::have_left(view) {
        // From now on, readers are led to the earlier master again.
        return Step { record: Record::Left, again: AT_ONCE, ..step };
    }
    step
}

/// Where the memory limit of the master comes from, if the spec has none.
fn limited(view: &View<'_>) -> String {
    let limit =
        view.serving_master().and_then(|(_, pod, _)| memory::given_by_others(view.object, pod.own.memory_limit));
    limit.map_or_else(String::new, |limit| {
        format!(
            "; its memory limit of {} MiB comes from a LimitRange or a webhook, not from spec.resources, and maxmemory follows it",
            limit >> 20
        )
    })
}

/// When to look again while nothing is left to do.
fn at_rest(view: &View<'_>) -> Duration {
    match () {
        // Clients may still reach the earlier master for a moment.
        () if failover::since_change(view).is_some() => PROGRESS_INTERVAL,
        // Secrets are read, not watched.
        () if view.object.spec.auth.enabled || view.object.spec.tls.is_some() => RETRY_INTERVAL,
        // No watch reports that the apiserver takes a pod.
        () if view.observed.set.asks_again(view.object) => RETRY_INTERVAL,
        // The status must soon show whether there are data: that decides what is done when they are gone.
        () if view.before.nodes.iter().all(|node| node.keys == 0) => RETRY_INTERVAL,
        () => RESYNC_INTERVAL,
    }
}

/// Replaces pods whose processes were killed, and which the kubelet would restart only after minutes. Pods with
/// ephemeral storage are left alone: their data would be lost with the pod. So are those of an earlier spec before the
/// present one has brought up another.
fn killed(view: &View<'_>) -> Option<Step> {
    let is_outdated = |pod: &Pod| view.is_outdated(pod);
    let set = &view.observed.set;
    set.killed(|pod| !view.object.spec.storage.ephemeral && (!is_outdated(pod) || set.is_proven(is_outdated)))
}

/// A pod and its process.
fn target(pod: &Pod) -> Target {
    Target { name: pod.name.clone(), uid: pod.uid.clone(), endpoint: pod.endpoint() }
}

/// Removes the role label of a pod.
fn hide(pod: &Pod) -> Action {
    Action::SetRole { pod: target(pod), role: None }
}

fn delete_pod(pod: &Pod, why: &str) -> Action {
    ChildAction::delete_pod(pod, why).into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_architecture_lists_the_steps_in_their_order() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../ARCHITECTURE.md"));
        let names: Vec<&str> = super::STEPS.iter().map(|(name, _)| *name).collect();
        assert!(page.contains(&format!("\n1. {}\n", names.join("\n1. "))), "{names:#?}");
    }
}
