//! Decides what to do about a master and its replicas. Pure.
//!
//! At most one step that disturbs somebody is taken at a time; then the world is observed again. What comes first: who is
//! the master, then children, then replicas and settings, then size, then version.

mod certificates;
mod children;
mod damaged;
mod election;
mod mastership;
mod nodes;
mod passwords;
mod restore;
mod rollout;
mod services;
mod size;
mod status;
mod switchover;
mod writes;

use std::cell::OnceCell;
use std::time::Duration;

use jiff::Timestamp;

use super::action::{Action, Target};
use super::damage;
use super::facts::{Observed, Pod};
use super::{names, resources, settings};
use crate::api::redis::{Failover, LastFailover};
use crate::api::{Redis, RedisStatus};
use crate::controllers::pod_trouble::{Fields, Unmade};
use crate::controllers::restore_from::join;
use crate::external::redis::Info;
use crate::runtime::{Health, Plan};

/// What decides about pods.
const FIELDS: Fields = Fields {
    image: "spec.version and spec.image",
    others: &[("exporter", "spec.exporter")],
    apart: "spec.spread and spec.affinity",
    storage: "spec.storage",
};

/// Look again while a node is about to answer.
const AT_ONCE: Duration = Duration::from_millis(50);
/// Look again while something is on its way that may not tell.
const SOON: Duration = Duration::from_secs(1);
/// Look again while something is in trouble.
const SELDOM: Duration = Duration::from_secs(5);
/// Look again while all is well: changes wake us.
const LATER: Duration = Duration::from_mins(1);

/// What is known, and what follows from it.
struct View<'a> {
    object: &'a Redis,
    observed: &'a Observed,
    /// What was recorded last.
    before: RedisStatus,
    now: Timestamp,
    /// What pods are to be made from.
    revision: OnceCell<String>,
}

/// A step, and how the object is meanwhile.
struct Step {
    actions: Vec<Action>,
    health: Health,
    /// Look again after this.
    again: Duration,
    record: Record,
}

/// What is recorded with a step.
#[derive(Clone, Debug, PartialEq)]
enum Record {
    /// What was seen, and no more.
    Seen,
    /// Somebody is to become the master: written before anything is done about it.
    Begin(Failover),
    /// Somebody has become the master.
    Complete(LastFailover),
    /// The master stays what it is.
    GiveUp,
    /// Clients that had stayed with the earlier master are sent away.
    Close,
    /// Nobody can become the master without loss.
    Masterless,
}

impl Step {
    /// Act, and say why.
    fn act(actions: Vec<Action>, reason: &'static str, message: impl Into<String>) -> Self {
        Self { actions, health: Health::progressing(reason, message), again: SOON, record: Record::Seen }
    }

    /// Nothing to do now but to wait.
    fn wait(reason: &'static str, message: impl Into<String>) -> Self {
        Self::act(Vec::new(), reason, message)
    }

    /// Trouble that somebody outside may have to end: whatever ends it wakes us.
    fn trouble(reason: &'static str, message: impl Into<String>) -> Self {
        Self { again: SELDOM, ..Self::wait(reason, message) }
    }

    /// Nothing can be done until somebody outside does something.
    fn stalled(reason: &'static str, message: impl Into<String>) -> Self {
        Self { health: Health::stalled(reason, message), again: LATER, ..Self::wait(reason, "") }
    }
}

/// What to do so that the nodes are as the object says.
pub fn decide(object: &Redis, observed: &Observed, now: Timestamp) -> Plan<Action, RedisStatus> {
    let before = object.status.clone().unwrap_or_default();
    let view = View { object, observed, before, now, revision: OnceCell::new() };
    let step = writes::told(&view, led(&view, step(&view)));
    let status = status::status(&view, &step);
    let plan = Plan {
        parts: status::parts(&view, &status),
        record_first: !matches!(step.record, Record::Seen),
        status,
        health: step.health,
        actions: step.actions,
        requeue: Some(step.again),
    };
    let joined = join(plan, &restore::database(&view), Action::Restore, |status, restored| status.restored = restored);
    unless_unheard(&view, restore::told(joined))
}

/// Whoever does not answer for a moment may be as well as before: on a busy machine that happens all the time. Nothing is told
/// of it, nothing written, and it is looked at again soon.
fn unless_unheard(view: &View<'_>, plan: Plan<Action, RedisStatus>) -> Plan<Action, RedisStatus> {
    let idle = plan.actions.is_empty() && !plan.record_first && view.before.failover.is_none();
    if !idle || !view.observed.pods.values().any(Pod::is_unheard) {
        return plan;
    }
    let requeue = plan.requeue.map(|again| again.min(AT_ONCE * 4));
    Plan {
        status: view.before.clone(),
        parts: Vec::new(),
        health: Health::Unchanged(Box::new(plan.health)),
        requeue,
        ..plan
    }
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
        .map(|told| ("ConfigInvalid", told))
        .or_else(|| passwords::complaint(view))
        .or_else(|| certificates::complaint(view));
    let accepted = complaint.is_none();
    // A step that waits for somebody must not keep the children from being made whom it waits for.
    let mastership = mastership::step(view);
    let (urgent, waiting) = match mastership {
        Some(step) if step.actions.is_empty() && step.record == Record::Seen => (None, Some(step)),
        step => (step, None),
    };
    let step = urgent
        .or_else(|| children::label(view))
        .or_else(|| killed(view))
        .or_else(|| nodes::step(view))
        .or_else(|| nodes::stragglers(view))
        .or_else(|| nodes::mend(view))
        .or_else(|| damaged::step(view))
        .or(foreign)
        .or_else(|| stranded(view))
        .or_else(|| certificates::step(view, accepted))
        .or_else(|| certificates::load(view))
        .or_else(|| accepted.then(|| passwords::step(view)).flatten())
        .or_else(|| accepted.then(|| nodes::configure(view)).flatten())
        .or_else(|| children::step(view, accepted))
        .or_else(|| accepted.then(|| rollout::hopeless(view)).flatten())
        .or_else(|| accepted.then(|| size::relieve(view)).flatten())
        .or(waiting)
        .or_else(|| accepted.then(|| size::shrink(view)).flatten())
        .or_else(|| rollout::step(view, accepted))
        .or_else(|| accepted.then(|| switchover::asked(view)).flatten())
        .or_else(|| accepted.then(|| size::clean_up(view)).flatten())
        .or_else(|| rollout::unfinished(view));
    match (step, complaint) {
        (Some(step), None) => step,
        (Some(step), Some((reason, message))) => Step { health: Health::stalled(reason, message), ..step },
        (None, Some((reason, message))) => Step::stalled(reason, message),
        (None, None) => {
            // Clients may still find their way to the earlier master for a moment.
            let again = match () {
                () if nodes::since_change(view).is_some() => SOON,
                // Secrets are read, not watched.
                () if view.object.spec.auth.enabled || view.object.spec.tls.is_some() => SELDOM,
                // Whether there are data decides what is done when they are gone.
                () if view.before.nodes.iter().all(|node| node.keys == 0) => SELDOM,
                () => LATER,
            };
            let told = match view.object.spec.replicas {
                0 => "the master takes writes; it has no replica that could take over".into(),
                1 => "the master takes writes, and its replica has all data".into(),
                count => format!("the master takes writes, and all {count} replicas have all data"),
            };
            Step { health: Health::ready("Serving", told), again, ..Step::wait("Serving", "") }
        }
    }
}

impl View<'_> {
    /// Seconds of silence after which a node counts as one that hangs.
    fn patience(&self) -> u64 {
        u64::try_from(self.object.spec.failover.hang_timeout_seconds).unwrap_or(1)
    }

    /// The ordinal of the recorded master.
    fn master(&self) -> Option<i32> {
        names::ordinal_of(self.object, self.before.master.as_ref()?)
    }

    /// How many pods there are to be.
    fn wanted(&self) -> i32 {
        self.object.spec.replicas + 1
    }

    fn pod(&self, ordinal: i32) -> Option<&Pod> {
        self.observed.pods.get(&ordinal)
    }

    /// What the node of that ordinal says of itself.
    fn info(&self, ordinal: i32) -> Option<&Info> {
        self.pod(ordinal)?.info()
    }

    /// The recorded master, while it answers as one.
    fn serving_master(&self) -> Option<(i32, &Pod, &Info)> {
        let ordinal = self.master()?;
        let pod = self.pod(ordinal)?;
        let info = pod.info().filter(|info| info.is_master())?;
        Some((ordinal, pod, info))
    }

    /// Whether that node is a replica that has all data of the master, and follows it.
    fn follows(&self, ordinal: i32) -> bool {
        let Some((master, pod, info)) = self.serving_master() else { return false };
        let link = || self.info(ordinal)?.link();
        ordinal != master
            && link().is_some_and(|link| link.up && Some(&link.host) == pod.address.as_ref())
            && self.info(ordinal).is_some_and(|own| !own.loading && own.continues(&info.history))
    }

    /// What was recorded of a node.
    fn recorded(&self, ordinal: i32) -> Option<&crate::api::redis::NodeStatus> {
        let name = names::pod(self.object, ordinal);
        self.before.nodes.iter().find(|node| node.name == name)
    }

    /// Whether a node could take writes as a master, as far as its disk is concerned.
    fn persists(&self, info: &Info) -> bool {
        let makes_snapshots = settings::settings(self.object).get("save").is_some_and(|save| !save.is_empty());
        !(info.log_fails || (info.snapshot_fails && makes_snapshots))
    }

    /// Whether the pod was made from another spec.
    fn is_outdated(&self, pod: &Pod) -> bool {
        pod.revision != *self.revision.get_or_init(|| resources::revision(self.object)) || nodes::has_more(self, pod)
    }

    /// Trouble of a pod that does not pass by itself, told without words that change at every try.
    fn pod_trouble(&self) -> Option<(&'static str, String)> {
        let unmade = || self.observed.unmade.as_ref().map(Unmade::told);
        self.observed.pods.values().find_map(trouble_of).or_else(unmade)
    }
}

/// Pods that got a node before their claims were made anew. Where volumes are provided for the node of the pod that wants
/// one, nobody provides these: only a pod without a node asks for that.
/// <https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode>
fn stranded(view: &View<'_>) -> Option<Step> {
    let waits = |(ordinal, pod): &(&i32, &Pod)| {
        let claim = view.observed.claims.get(ordinal);
        pod.placed && !pod.ready && !pod.terminating && claim.is_some_and(|claim| !claim.bound && !claim.terminating)
    };
    let why = "its volume claim was made after it got its node";
    let actions: Vec<Action> = view.observed.pods.iter().filter(waits).map(|(_, pod)| delete_pod(pod, why)).collect();
    (!actions.is_empty()).then(|| Step::act(actions, "Replacing", "replacing pods whose volumes nobody provides"))
}

/// Pods that would wait for minutes to be started again, for their processes were killed. Data that are only in memory, or on a
/// volume that goes with the pod, would go with it.
fn killed(view: &View<'_>) -> Option<Step> {
    if view.object.spec.storage.ephemeral {
        return None;
    }
    let helped = |pod: &Pod| {
        let why = pod.revival.clone().filter(|_| !pod.terminating && pod.lost_node.is_none())?;
        Some(Action::Revive { name: pod.name.clone(), uid: pod.uid.clone(), why })
    };
    let actions: Vec<Action> = view.observed.pods.values().filter_map(helped).collect();
    (!actions.is_empty()).then(|| Step::act(actions, "Replacing", "replacing pods whose processes were killed"))
}

fn trouble_of(pod: &Pod) -> Option<(&'static str, String)> {
    let name = &pod.name;
    if let Some(node) = &pod.lost_node {
        let told = format!(
            "pod {name} is on node {node}, which does not answer: its volume cannot follow it before the node is back or \
             deleted (kubectl delete node {node}, once it is surely off)"
        );
        return Some(("NodeLost", told));
    }
    let word = pod.trouble.as_deref()?;
    if let Some(told) = FIELDS.told(name, word, &pod.evidence) {
        return Some(told);
    }
    match word {
        "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError" | "CreateContainerConfigError" => {
            if pod.has_no_space() {
                let told = format!("the volume of pod {name} is full: raise spec.storage.size");
                return Some(("VolumeFull", told));
            }
            let refused = pod.last_words.as_deref().unwrap_or_default().lines().rfind(|line| line.starts_with(">>> "));
            let told = match refused {
                None if let Some(evidence) = pod.damage() => format!(
                    "pod {name} cannot read its data ({evidence}): a replica is emptied as soon as a master with all data \
                     serves; the only node with data is left as it is: repair its file (redis-check-aof --fix, or \
                     redis-check-rdb) or restore a backup. kubectl logs {name} --previous has all that it said"
                ),
                Some(line) => format!("pod {name} does not start; Redis refuses spec.config at {line}"),
                None => {
                    let said = pod.last_words.as_deref().and_then(damage::said);
                    FIELDS.crash(name, &pod.evidence, said.as_deref())
                }
            };
            Some(("NodeCrashing", told))
        }
        _ => None,
    }
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
    Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone(), why: why.to_owned(), at_once: false }
}
