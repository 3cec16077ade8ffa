//! Who is the master: the recorded one as long as it serves, and then another.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::action::Action;
use super::super::facts::{Pod, Voice};
use super::super::names::{self, MASTER};
use super::super::settings::NOBODY;
use super::{AT_ONCE, Record, SOON, Step, View, election, hide, nodes, services, status, switchover, target, writes};
use crate::api::redis::{Failover, LastFailover};
use crate::runtime::Health;

/// Why a master is succeeded that does not answer, though nothing tells that it is gone.
pub const SILENT: &str = "MasterSilent";

/// Why a master hands over whose node of Kubernetes does not answer.
const NODE_LOST: &str = "NodeLost";

/// What is to be done about the master, if anything.
pub fn step(view: &View<'_>) -> Option<Step> {
    if let Some(failover) = &view.before.failover {
        return ongoing(view, failover);
    }
    match view.master() {
        Some(master) => steady(view, master),
        None => Some(election::first(view)),
    }
}

/// A master was made: is it still one?
fn steady(view: &View<'_>, master: i32) -> Option<Step> {
    let Some(pod) = view.pod(master) else {
        return Some(election::succeed(view, master, "MasterGone"));
    };
    match &pod.voice {
        Voice::Answers(info) if info.is_master() && info.handing_over => {
            Some(Step { again: AT_ONCE, ..Step::wait("SwitchingOver", format!("{} hands over", pod.name)) })
        }
        Voice::Answers(info) if info.is_master() => {
            if pod.terminating {
                switchover::away(view, master, "MasterDeleted")
            } else if pod.lost_node.is_some() {
                // It serves, and may be gone any moment; its pod will be told to go.
                switchover::away(view, master, NODE_LOST)
            } else {
                writes::elsewhere(view, master, pod)
            }
        }
        Voice::Answers(info) => {
            // Somebody has let it hand over by hand.
            let link = info.link();
            let successor = view.observed.pods.iter().find(|(ordinal, other)| {
                let is_master = other.info().is_some_and(|it| it.is_master() && it.continues(&info.history));
                **ordinal != master && is_master && link.is_some_and(|link| Some(&link.host) == other.address.as_ref())
            });
            match successor {
                Some((ordinal, _)) => Some(begin(view, Some(master), *ordinal, "SwitchedByHand", true)),
                None => Some(election::succeed(view, master, "MasterRestarted")),
            }
        }
        Voice::Gone => Some(election::succeed(view, master, "MasterGone")),
        Voice::Refuses(told) => {
            let told = format!("{} refuses to answer: {told}", pod.name);
            Some(Step {
                health: Health::stalled("MasterRefuses", told.clone()),
                ..Step::trouble("MasterRefuses", told)
            })
        }
        Voice::Silent(silence) => {
            if hangs(view, master, *silence) {
                return Some(election::succeed(view, master, SILENT));
            }
            let told = format!("{} does not answer", pod.name);
            Some(Step { again: AT_ONCE * 4, ..Step::wait(SILENT, told) })
        }
    }
}

/// Whether a master counts as one that hangs.
fn hangs(view: &View<'_>, master: i32, silence: Duration) -> bool {
    let patience = view.patience();
    silence.as_secs_f64() >= patience_of(patience) && is_confirmed(view, master, patience)
}

/// The listener wakes us when that has passed, to the millisecond.
#[expect(clippy::cast_precision_loss, reason = "at most a few minutes")]
fn patience_of(seconds: u64) -> f64 {
    seconds as f64 - 0.05
}

/// Whether the replicas do not hear of their master either: whoever is cut off himself must not take the role from a
/// master that serves. A master is heard every second, and Redis counts in whole ones: that may be told as one, not two.
fn is_confirmed(view: &View<'_>, master: i32, patience: u64) -> bool {
    let mut witnesses = 0;
    for ordinal in view.observed.pods.keys().filter(|ordinal| **ordinal != master) {
        let Some(info) = view.info(*ordinal) else { continue };
        let Some(link) = info.link() else { continue };
        // Whoever follows somebody else, or nobody, knows nothing of it.
        if view.pod(master).is_none_or(|pod| pod.address.as_ref() != Some(&link.host)) {
            continue;
        }
        if link.up && info.quiet_seconds.is_some_and(|quiet| quiet < patience.max(2)) {
            return false;
        }
        witnesses += 1;
    }
    witnesses > 0
}

/// Records that somebody is to become the master, and does it.
pub fn begin(view: &View<'_>, from: Option<i32>, to: i32, reason: &str, planned: bool) -> Step {
    // What was lost stays lost, whoever takes over in the end.
    let lost = view.before.failover.as_ref().map(|earlier| earlier.reason.as_str());
    let reason = lost.filter(|earlier| election::CERTAIN_LOSSES.contains(earlier)).unwrap_or(reason);
    let failover = Failover {
        epoch: view.before.epoch.max(view.before.failover.as_ref().map_or(0, |earlier| earlier.epoch)) + 1,
        from: from.map(|ordinal| names::pod(view.object, ordinal)),
        target: names::pod(view.object, to),
        reason: reason.to_owned(),
        planned,
        begun: view.before.failover.as_ref().map_or_else(
            || k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(view.now),
            |earlier| earlier.begun.clone(),
        ),
    };
    let mut step = if planned { switchover::go_on(view, &failover) } else { promote(view, &failover) };
    step.record = Record::Begin(failover);
    step
}

/// Goes on with what was recorded, maybe by another process.
fn ongoing(view: &View<'_>, failover: &Failover) -> Option<Step> {
    let to = names::ordinal_of(view.object, &failover.target)?;
    if view.info(to).is_some_and(|info| info.is_master() && !info.handing_over) {
        return Some(finish(view, failover, to));
    }
    let from = failover.from.as_ref().and_then(|name| names::ordinal_of(view.object, name));
    if let Some(from) = from.filter(|_| failover.planned) {
        match view.pod(from).map(|pod| &pod.voice) {
            Some(Voice::Answers(_)) => return Some(switchover::go_on(view, failover)),
            // To whom it is not heard for a moment it may be handing over: it is a master until it counts as hung.
            Some(Voice::Silent(silence)) if !hangs(view, from, *silence) => {
                let told = format!(
                    "{} does not answer, and was to hand over to {}",
                    names::pod(view.object, from),
                    failover.target
                );
                return Some(Step { again: AT_ONCE * 4, ..Step::wait("SwitchingOver", told) });
            }
            _ => {}
        }
    }
    match from {
        // Chosen anew by what is known now: the target may have died, or lost its data.
        Some(from) => Some(election::succeed(view, from, &failover.reason)),
        None => Some(election::first(view)),
    }
}

/// Who was the master until a moment ago: the one before, and those of changes that followed closely upon each other.
fn left(view: &View<'_>, failover: &Failover) -> Vec<String> {
    let earlier = view.before.last_failover.as_ref().filter(|last| nodes::is_recent(view, last));
    let earlier = earlier.into_iter().flat_map(|last| &last.left);
    let all: BTreeSet<&String> = failover.from.iter().chain(earlier).filter(|name| **name != failover.target).collect();
    all.into_iter().cloned().collect()
}

/// What it is called while it is under way.
fn word(failover: &Failover) -> &'static str {
    match (&failover.from, failover.planned) {
        (None, _) => "Creating",
        (_, true) => "SwitchingOver",
        (_, false) => "FailingOver",
    }
}

/// Takes the role from the earlier master, and gives it to another.
pub fn promote(view: &View<'_>, failover: &Failover) -> Step {
    let told = format!("{} becomes the master: {}", failover.target, failover.reason);
    let found = view.observed.pods.iter().find(|(_, pod)| pod.name == failover.target);
    let Some((to, pod, info)) = found.and_then(|(ordinal, pod)| Some((*ordinal, pod, pod.info()?))) else {
        return Step::wait(word(failover), told);
    };
    let mut actions = services::close(view, pod);
    actions.extend(fences(view, pod));
    actions.extend(word_left(view, failover, pod));
    // A master that still has replicas may still have writes acknowledged. Without any it has none that wait for one; and
    // then the replicas stand still, and can be compared.
    let attached = nodes::attached_elsewhere(view, to);
    if !attached.is_empty() && !info.is_master() {
        actions.extend(attached);
        return Step { again: AT_ONCE, ..Step::act(actions, word(failover), told) };
    }
    if !info.is_master() {
        let why = if failover.from.is_some() { "the master failed" } else { "it is the first" };
        actions.push(Action::Promote { node: target(pod), run_id: info.run_id.clone(), why });
    }
    // The others follow before clients come: writes may need a replica.
    actions.extend(nodes::followers(view, to));
    actions.extend(services::to_master(view, to));
    actions.extend(services::not_as_replica(view, to));
    let labelled = |other: &&Pod| other.name != pod.name && other.has_role(MASTER);
    actions.extend(view.observed.pods.values().filter(labelled).map(hide));
    actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    Step { again: AT_ONCE, ..Step::act(actions, word(failover), told) }
}

/// What an earlier master that hangs is to find when it wakes up.
fn word_left(view: &View<'_>, failover: &Failover, successor: &Pod) -> Option<Action> {
    let (from, heir) = (failover.from.as_ref()?, successor.address.clone()?);
    let pod = view.observed.pods.values().find(|pod| pod.name == *from && pod.name != successor.name)?;
    let hangs = matches!(pod.voice, Voice::Silent(_)) && pod.endpoint().is_some();
    hangs.then(|| Action::StepDown { node: target(pod), successor: heir })
}

/// Masters that replicas still name, and whose pods are gone: deleted by force, a pod is gone before its process is.
fn fences(view: &View<'_>, successor: &Pod) -> Vec<Action> {
    let (Some(history), Some(heir)) = (&view.before.history, &successor.address) else { return Vec::new() };
    let pods = || view.observed.pods.values();
    let has_pod = |host: &str| pods().any(|pod| pod.address.as_deref() == Some(host));
    let named = pods().filter_map(|pod| pod.info().filter(|info| info.continues(history))?.link());
    let hosts: BTreeSet<&str> =
        named.map(|link| link.host.as_str()).filter(|host| *host != NOBODY && !has_pod(host)).collect();
    let fence = |host: &str| {
        let (login, tls) = (successor.login.clone(), successor.tls.clone());
        let at = Pod { address: Some(host.to_owned()), login, tls, ..Pod::default() }.endpoint()?;
        Some(Action::Fence { at, history: history.clone(), successor: heir.clone() })
    };
    hosts.into_iter().filter_map(fence).collect()
}

/// The target is a master: nobody else may be one, and clients are led to it.
fn finish(view: &View<'_>, failover: &Failover, to: i32) -> Step {
    let pod = view.observed.pods.get(&to);
    let mut actions = nodes::followers(view, to);
    actions.extend(services::to_master(view, to));
    actions.extend(services::not_as_replica(view, to));
    for (ordinal, other) in view.observed.pods.iter().filter(|(ordinal, _)| **ordinal != to) {
        if other.has_role(MASTER) {
            actions.push(hide(other));
        }
        let from = failover.from.as_ref() == Some(&other.name);
        let stepped_down = other.info().is_some_and(|info| !info.is_master());
        if from && failover.planned && stepped_down && pod.is_some_and(|pod| !pod.has_role(MASTER)) {
            // Its clients would go on to get errors from it, for as long as they keep their connections.
            actions.push(Action::DropClients { node: target(view.pod(*ordinal).unwrap_or(other)) });
        }
    }
    if let Some(pod) = pod.filter(|pod| !pod.has_role(MASTER)) {
        actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    }
    if !actions.is_empty() {
        let told = format!("clients are led to {}", failover.target);
        return Step { again: AT_ONCE, ..Step::act(actions, word(failover), told) };
    }
    let duration_ms = failover.duration_ms(view.now);
    let completed = LastFailover {
        epoch: failover.epoch,
        from: failover.from.clone(),
        to: failover.target.clone(),
        reason: failover.reason.clone(),
        duration_ms,
        at: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(view.now),
        left: left(view, failover),
        closed: None,
    };
    let note = match &failover.from {
        Some(from) if *from == failover.target => {
            format!("{from} is the master again after {duration_ms} ms: {}", failover.reason)
        }
        Some(from) => {
            format!("{} is the master in place of {from} after {duration_ms} ms: {}", failover.target, failover.reason)
        }
        None => format!("{} is the master", failover.target),
    };
    let reason = match (&failover.from, failover.planned) {
        (None, _) => "MasterMade",
        (_, true) => "SwitchedOver",
        (_, false) => "FailedOver",
    };
    let told = format!("clients are led to {}", failover.target);
    let lost = status::loss(&completed).map(|note| Action::Tell { reason: "DataLost", note });
    let actions = [Action::Tell { reason, note }].into_iter().chain(lost).collect();
    let step = Step::act(actions, word(failover), told);
    Step { record: Record::Complete(completed), again: SOON, ..step }
}
