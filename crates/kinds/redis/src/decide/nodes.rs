//! Replicas follow the master, Services lead to the nodes that serve, and processes have their settings.

use std::cmp::Reverse;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use causeway_api::redis::LastFailover;
use causeway_databases::ChildAction;

use super::super::action::Action;
use super::super::applied_config::AppliedConfig;
use super::super::facts::{NodePod, NodeState, Pod};
use super::super::names::{MASTER, REPLICA};
use super::super::{busy, resources, settings};
use super::failover::{MASTER_SILENT, followers, since_change};
use super::{Record, Step, View, clients, hide, passwords, services, target};

/// A node that has been silent for this long while the master serves and does not hear it either is replaced: a hung
/// node does not recover by waiting, and one that was the master before must not wake up as a master.
const HUNG: Duration = Duration::from_secs(10);
/// For so long, a new pod that has never answered may still do so. Meanwhile no node is replaced for its silence: what
/// silences all of them may lie between them and the operator.
const STARTING: SignedDuration = SignedDuration::from_mins(5);

/// How long the network may still lead clients to an earlier master.
const STRAGGLE: SignedDuration = SignedDuration::from_secs(5);
/// How long clients that reconnect are sent away.
const INSIST: SignedDuration = SignedDuration::from_secs(30);
/// The shortest time between two rounds of sending them away.
const PACE: SignedDuration = SignedDuration::from_millis(900);

/// Nodes that do not follow the recorded master while it serves, and labels that are not as they should be.
pub fn step(view: &View<'_>) -> Option<Step> {
    let (master, pod, info) = view.serving_master()?;
    if view.before.failover.is_some() || info.handing_over {
        return None;
    }
    let mut actions = Vec::new();
    for (ordinal, other) in &view.observed.set.pods {
        let wanted = role(view, *ordinal, other);
        if *ordinal != master && other.own.role.is_some() && other.own.role.as_deref() != wanted {
            actions.push(hide(other));
        }
    }
    actions.extend(followers(view, master));
    actions.extend(services::to_master(view, master));
    if !pod.has_role(MASTER) {
        actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    }
    for (ordinal, other) in &view.observed.set.pods {
        let wanted = role(view, *ordinal, other);
        if *ordinal != master && wanted.is_some() && other.own.role.as_deref() != wanted {
            actions.push(Action::SetRole { pod: target(other), role: wanted });
        }
    }
    let is_found = |ordinal: i32, other: &Pod| ordinal != master && role(view, ordinal, other).is_some();
    actions.extend(services::to_replicas(view, is_found));
    actions.extend(services::remove_selectors(view));
    (!actions.is_empty())
        .then(|| Step::act(actions, "Following", "replicas are led to the master, and clients to both"))
}

/// The role in which readers are to find a node that is not the master. A node that was the master until a moment ago
/// is not to be found at all: clients that still come to it are led there by outdated network rules.
fn role(view: &View<'_>, ordinal: i32, pod: &Pod) -> Option<&'static str> {
    let was_master = since_change(view).is_some_and(|last| last.left.contains(&pod.name));
    let was_found = || pod.is_briefly_silent() && pod.has_role(REPLICA);
    ((view.follows(ordinal) || was_found()) && !pod.terminating && !was_master).then_some(REPLICA)
}

/// Sends away clients that came to an earlier master after its connections were closed, because the network still led
/// them there. It refuses their writes, and they would stay for as long as it lives.
pub fn stragglers(view: &View<'_>) -> Option<Step> {
    let last = since_change(view)?;
    if last.closed.as_ref().is_some_and(|closed| view.now.duration_since(closed.0) < PACE) || have_left(view) {
        return None;
    }
    let with_clients = earlier_masters(view, last).filter(|pod| has_clients(pod));
    let actions: Vec<Action> = with_clients.map(|pod| Action::DropClients { node: target(pod) }).collect();
    if actions.is_empty() {
        return None;
    }
    let message = format!("clients that have stayed with {} are sent away", last.left.join(", "));
    Some(Step { record: Record::Close, ..Step::act(actions, "Following", message) })
}

/// Reports whether all clients that the network led to an earlier master have left it. However late an operator looks,
/// it closes the connections once after the network knows the new master (`STRAGGLE`). After `INSIST`, clients that are
/// still there do not count: a client that reconnects again and again does not come through the Service.
pub fn have_left(view: &View<'_>) -> bool {
    let Some(last) = since_change(view) else { return false };
    let since = |time: Timestamp| time.duration_since(last.at.0);
    let is_late = since(view.now) >= INSIST && last.closed.as_ref().is_some_and(|closed| since(closed.0) >= STRAGGLE);
    let is_without = |pod: &Pod| match &pod.own.state {
        NodeState::Gone => true,
        NodeState::Answers(info) => !info.is_master() && (is_late || !has_clients(pod)),
        NodeState::Silent(_) | NodeState::Refuses(_) => false,
    };
    since(view.now) >= STRAGGLE && earlier_masters(view, last).all(is_without)
}

fn earlier_masters<'a>(view: &'a View<'_>, last: &'a LastFailover) -> impl Iterator<Item = &'a Pod> {
    view.observed.set.pods.values().filter(|pod| last.left.contains(&pod.name))
}

fn has_clients(pod: &Pod) -> bool {
    pod.own.clients > 0 && pod.info().is_some_and(|info| info.link().is_some())
}

/// Configures processes that do not have the current settings yet, or in which a user changed some of them.
pub fn configure(view: &View<'_>) -> Option<Step> {
    view.serving_master()?;
    let users = passwords::users(view);
    let mut actions = Vec::new();
    for pod in view.observed.set.pods.values().filter(|pod| !pod.terminating) {
        let Some(info) = pod.info() else { continue };
        // A directive that was set once stays set until the process ends, even if it is removed from the spec.
        let wanted = resources::live_settings(view.object, users.as_ref(), pod.own.memory_limit);
        let applied = AppliedConfig::read(pod).filter(|note| note.run_id == info.run_id);
        let is_applied = applied.as_ref().is_some_and(|note| note.hash == wanted);
        // A directive that the process refuses to change was not changed by hand.
        let is_fixed = |name: &String| applied.as_ref().is_some_and(|note| note.fixed.contains_key(name));
        let mut drift: Vec<String> = pod.own.drift.iter().filter(|name| !is_fixed(name)).cloned().collect();
        drift.extend(clients::users_changed(pod).then(|| "users and passwords".to_owned()));
        if !is_applied || !drift.is_empty() {
            let mended = if is_applied { drift } else { Vec::new() };
            let is_new = applied.is_none();
            let (earlier, fixed) = applied.map(|note| (note.names, note.fixed)).unwrap_or_default();
            let names = view.object.spec.config.keys().cloned().chain(earlier).collect();
            let note = AppliedConfig { hash: wanted, run_id: info.run_id.clone(), names, fixed };
            actions.push(Action::Configure {
                node: target(pod),
                settings: settings::live_of(view.object, pod.own.memory_limit),
                users: resources::rules(view.object, users.as_ref()),
                follow_as: passwords::internal(view),
                note,
                is_new,
                mended,
            });
        }
    }
    (!actions.is_empty()).then(|| Step::act(actions, "Configuring", "applying settings to the running processes"))
}

/// Replaces nodes that hang, one after the other. A replica that the master hears is well: only the operator cannot
/// reach it, and could not lead its successor to the master.
pub fn mend(view: &View<'_>) -> Option<Step> {
    let (master, ..) = view.serving_master()?;
    let pods = &view.observed.set.pods;
    let is_silent = |pod: &Pod, timeout| matches!(pod.own.state, NodeState::Silent(silence) if silence >= timeout);
    let hung = |(ordinal, pod): &(&i32, &Pod)| {
        let silent = if is_silenced(view, pod) {
            is_silent(pod, Duration::from_secs(1))
        } else {
            // A script is over, or the process says that it runs one.
            let hung = busy::excluded_after(view.object).map_or(HUNG, |after| after.max(HUNG));
            is_silent(pod, hung) && !is_starting(view, pod) && !view.must_stay(pod)
        };
        // A process that runs a script is not hung, unless it was the master before.
        let runs = pod.own.busy && !is_silenced(view, pod);
        **ordinal != master && silent && !runs && !pod.terminating && !view.is_attached(pod)
    };
    let (ordinal, pod) =
        pods.iter().filter(hung).max_by_key(|(ordinal, pod)| (is_silenced(view, pod), Reverse(**ordinal)))?;
    let is_coming = |other: i32| match view.pod(other) {
        // A pod that is refused may never come.
        None => view.observed.set.unmade.is_none(),
        Some(pod) => (pod.terminating && pod.young) || is_starting(view, pod),
    };
    let is_replacing = (0..view.wanted_nodes()).any(|other| other != *ordinal && other != master && is_coming(other));
    if is_replacing && !is_silenced(view, pod) {
        return None;
    }
    let why = "it answers neither Causeway nor the master";
    let (name, uid) = (pod.name.clone(), pod.uid.clone());
    let action = ChildAction::DeletePod { name, uid, why: why.to_owned(), at_once: true };
    Step::children([action], "Replacing", format!("replacing {}: {why}", pod.name))
}

/// Reports whether a pod is that of a master that lost the role by its silence. It would execute the writes that wait
/// in its sockets as soon as it wakes up.
fn is_silenced(view: &View<'_>, pod: &Pod) -> bool {
    let last = view.before.last_failover.as_ref();
    last.filter(|last| last.from.as_ref() == Some(&pod.name) && last.reason == MASTER_SILENT)
        .is_some_and(|last| pod.made.is_none_or(|made| made <= last.at.0))
}

/// Reports whether a pod was made lately, nothing shows that it cannot start, and it has not answered yet.
fn is_starting(view: &View<'_>, pod: &Pod) -> bool {
    let is_new = pod.made.is_some_and(|made| view.now.duration_since(made) < STARTING);
    is_new && pod.trouble.is_none() && !pod.own.has_answered && pod.info().is_none()
}
