//! Replicas follow the master, Services find who serves, and processes have their settings.

use std::time::Duration;

use jiff::SignedDuration;

use super::super::action::Action;
use super::super::facts::{Pod, Voice};
use super::super::names::{MASTER, PORT, REPLICA};
use super::super::notes::Note;
use super::super::settings::NOBODY;
use super::super::{resources, settings};
use super::mastership::SILENT;
use super::{Record, Step, View, hide, passwords, services, target};
use crate::api::redis::LastFailover;

/// A node that is silent for so long while the master is well is started anew: one that hangs does not get well by
/// waiting, and one that was a master before must not wake up as one.
const HUNG: Duration = Duration::from_secs(10);

/// So long clients may be led to the earlier master.
const STRAGGLE: SignedDuration = SignedDuration::from_secs(5);
/// How often those are sent away at most.
const PACE: SignedDuration = SignedDuration::from_millis(900);

/// Nodes that do not follow the recorded master while it serves, and labels that are not as they should be.
pub fn step(view: &View<'_>) -> Option<Step> {
    let (master, pod, info) = view.serving_master()?;
    if view.before.failover.is_some() || info.handing_over {
        return None;
    }
    let mut actions = Vec::new();
    for (ordinal, other) in &view.observed.pods {
        let wanted = role(view, *ordinal, other);
        if *ordinal != master && other.role.is_some() && other.role.as_deref() != wanted {
            actions.push(hide(other));
        }
    }
    actions.extend(followers(view, master));
    actions.extend(services::to_master(view, master));
    if !pod.has_role(MASTER) {
        actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    }
    for (ordinal, other) in &view.observed.pods {
        let wanted = role(view, *ordinal, other);
        if *ordinal != master && wanted.is_some() && other.role.as_deref() != wanted {
            actions.push(Action::SetRole { pod: target(other), role: wanted });
        }
    }
    let is_found = |ordinal: i32, other: &Pod| ordinal != master && role(view, ordinal, other).is_some();
    actions.extend(services::to_replicas(view, is_found));
    actions.extend(services::taken_over(view));
    (!actions.is_empty())
        .then(|| Step::act(actions, "Following", "replicas are led to the master, and clients to both"))
}

/// As what readers are to find a node that is not the master. Whoever was the master until a moment ago is not found
/// at all: clients that come to it nevertheless are led there by rules that are out of date.
fn role(view: &View<'_>, ordinal: i32, pod: &Pod) -> Option<&'static str> {
    let was_master = since_change(view).is_some_and(|last| last.left.contains(&pod.name));
    let was_found = || pod.is_unheard() && pod.has_role(REPLICA);
    ((view.follows(ordinal) || was_found()) && !pod.terminating && !was_master).then_some(REPLICA)
}

/// The last failover, if the network may not know of it everywhere.
pub fn since_change<'a>(view: &'a View<'_>) -> Option<&'a LastFailover> {
    let last = view.before.last_failover.as_ref().filter(|_| view.before.failover.is_none())?;
    is_recent(view, last).then_some(last)
}

/// Whether the network may not know of it everywhere.
pub fn is_recent(view: &View<'_>, last: &LastFailover) -> bool {
    view.now.duration_since(last.at.0) < STRAGGLE
}

/// Clients that came to an earlier master after its connections were closed, for the network led them there: it refuses
/// their writes, and they would stay as long as it lives.
pub fn stragglers(view: &View<'_>) -> Option<Step> {
    let last = since_change(view)?;
    if last.closed.as_ref().is_some_and(|closed| view.now.duration_since(closed.0) < PACE) {
        return None;
    }
    // One connection is ours.
    let has_clients = |pod: &&Pod| pod.info().is_some_and(|info| !info.is_master() && info.clients > 1);
    let left = view.observed.pods.values().filter(|pod| last.left.contains(&pod.name) && has_clients(pod));
    let actions: Vec<Action> = left.map(|pod| Action::DropClients { node: target(pod) }).collect();
    if actions.is_empty() {
        return None;
    }
    let told = format!("clients that have stayed with {} are sent away", last.left.join(", "));
    Some(Step { record: Record::Close, ..Step::act(actions, "Following", told) })
}

/// Makes all others follow that node. Whoever took writes loses its clients.
pub fn followers(view: &View<'_>, master: i32) -> Vec<Action> {
    let Some(address) = view.pod(master).and_then(|pod| pod.address.clone()) else { return Vec::new() };
    let mut actions = Vec::new();
    for (_, pod) in view.observed.pods.iter().filter(|(ordinal, _)| **ordinal != master) {
        let Some(info) = pod.info().filter(|info| !info.loading && !info.handing_over) else { continue };
        let follows = info.link().is_some_and(|link| link.host == address && link.port == PORT);
        if !follows {
            let drop_clients = info.is_master();
            actions.push(Action::Follow { node: target(pod), master: address.clone(), drop_clients });
        }
    }
    actions
}

/// Takes replicas from whatever master they have, unless that is the node that is to be one.
pub fn attached_elsewhere(view: &View<'_>, to: i32) -> Vec<Action> {
    let heir = view.pod(to).and_then(|pod| pod.address.as_ref());
    let is_attached = |pod: &&Pod| {
        let link = pod.info().filter(|info| !info.loading && !info.handing_over).and_then(|info| info.link());
        link.is_some_and(|link| (link.up || link.syncing) && Some(&link.host) != heir)
    };
    let detach = |pod: &Pod| Action::Follow { node: target(pod), master: NOBODY.into(), drop_clients: false };
    view.observed.pods.values().filter(is_attached).map(detach).collect()
}

/// Processes that have not been told the settings as they are, or in which somebody changed some of them.
pub fn configure(view: &View<'_>) -> Option<Step> {
    view.serving_master()?;
    let users = passwords::users(view);
    let wanted = resources::live_settings(view.object, users.as_ref());
    let mut actions = Vec::new();
    for pod in view.observed.pods.values().filter(|pod| !pod.terminating) {
        let Some(info) = pod.info() else { continue };
        // What was set once is set until the process ends, whether it still is in the spec or not.
        let told = Note::of(pod).filter(|note| note.run_id == info.run_id);
        let is_told = told.as_ref().is_some_and(|note| note.hash == wanted);
        if !is_told || !pod.drift.is_empty() {
            let mended = pod.drift.iter().filter(|_| is_told).cloned().collect();
            let earlier = told.map(|note| note.names).unwrap_or_default();
            let names = view.object.spec.config.keys().cloned().chain(earlier).collect();
            let note = Note { hash: wanted.clone(), run_id: info.run_id.clone(), names }.to_string();
            actions.push(Action::Configure {
                node: target(pod),
                settings: settings::live(view.object),
                users: resources::rules(view.object, users.as_ref()),
                follow_as: passwords::internal(view),
                note,
                mended,
            });
        }
    }
    (!actions.is_empty()).then(|| Step::act(actions, "Configuring", "processes are told their settings"))
}

/// Whether a process has a setting that was taken from the spec: nobody knows what it was before.
pub fn has_more(view: &View<'_>, pod: &Pod) -> bool {
    let note = Note::of(pod).filter(|note| pod.info().is_some_and(|info| info.run_id == note.run_id));
    note.is_some_and(|note| note.names.iter().any(|name| !view.object.spec.config.contains_key(name)))
}

/// Nodes that hang are started anew.
pub fn mend(view: &View<'_>) -> Option<Step> {
    let (master, ..) = view.serving_master()?;
    let hung = |(ordinal, pod): (&i32, &Pod)| {
        // Whoever lost the role by its silence would take the writes that wait in its sockets as soon as it wakes.
        let last = view.before.last_failover.as_ref();
        let silenced = last.is_some_and(|last| last.from.as_ref() == Some(&pod.name) && last.reason == SILENT);
        let patience = if silenced { Duration::from_secs(1) } else { HUNG };
        let silent = matches!(pod.voice, Voice::Silent(silence) if silence >= patience);
        *ordinal != master && silent && !pod.terminating
    };
    let (_, pod) = view.observed.pods.iter().find(|(ordinal, pod)| hung((ordinal, pod)))?;
    let why = "it does not answer";
    let action = Action::DeletePod { name: pod.name.clone(), uid: pod.uid.clone(), why: why.to_owned(), at_once: true };
    Some(Step::act(vec![action], "Replacing", format!("replacing {}: {why}", pod.name)))
}
