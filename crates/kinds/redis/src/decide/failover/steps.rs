//! The steps of a serving master, of a failover and of a switchover. `waiting.rs` has those of a master that does not answer.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::redis::{Failover, LastFailover};
use causeway_databases::redis::Info;

use super::super::{AT_ONCE, PROGRESS_INTERVAL, Record, Step, View, epochs, hide, services, target};
use super::Next;
use super::choice::successor;
use super::state::{DISK_FAILED, NODE_LOST, is_certain_loss, loss};
use crate::action::Action;
use crate::facts::{NodePod, NodeState, Pod};
use crate::names::{self, MASTER, PORT};
use crate::settings::NO_MASTER;

/// A switchover that has not happened within this time is given up.
const SWITCHOVER_TIMEOUT_MS: i64 = 15_000;
/// A master that has stepped down takes its role back if its successor has not taken over within this time.
const STEPPED_DOWN_TIMEOUT_MS: i64 = 5_000;

/// `Serving`: the recorded master answers as one. The role moves to a replica before the master is lost.
pub fn serve(view: &View<'_>, master: i32, pod: &Pod, info: &Info) -> Next {
    if info.handing_over {
        // A user started this handover by hand, not through the object.
        return Next::Do(Step { again: AT_ONCE, ..Step::wait("SwitchingOver", format!("{} hands over", pod.name)) });
    }
    let reason = if pod.terminating {
        "MasterDeleted"
    } else if pod.lost_node.is_some() {
        // It still serves, but may be gone any moment: Kubernetes deletes pods of lost nodes.
        NODE_LOST
    } else if pod.is_refused_by_disk() {
        DISK_FAILED
    } else {
        return Next::Nothing;
    };
    let successor = successor(view, master);
    successor.map_or(Next::Nothing, |to| Next::Begin(begin_change(view, Some(master), to, reason, true)))
}

/// `Promoting`: takes the role from the earlier master. Closes the Service, detaches the replicas, and promotes the target once the replicas receive nothing any more.
pub fn promote(view: &View<'_>, failover: &Failover) -> Step {
    let message = describe_change(failover);
    let found = view.observed.set.pods.iter().find(|(_, pod)| pod.name == failover.target);
    let Some((to, pod, info)) = found.and_then(|(ordinal, pod)| Some((*ordinal, pod, pod.info()?))) else {
        return Step::wait(reason_of_change(failover), message);
    };
    let mut actions = services::close(view, pod);
    actions.extend(fences(view, pod));
    actions.extend(word_left(view, failover, pod));
    // The replicas of the earlier master may still acknowledge its writes. Once they are detached, no write that waits
    // for a replica succeeds, and the offsets of the replicas stand still and can be compared.
    let attached = attached_elsewhere(view, to);
    if !attached.is_empty() && !info.is_master() {
        actions.extend(attached);
        return Step { again: AT_ONCE, ..Step::act(actions, reason_of_change(failover), message) };
    }
    let labelled = |other: &&Pod| other.name != pod.name && other.has_role(MASTER);
    let mut labels: Vec<Action> = view.observed.set.pods.values().filter(labelled).map(hide).collect();
    if pod.has_role(MASTER) {
        // A user labelled the target too early. The others lose the label before the promotion, or two pods would be
        // called the master.
        actions.append(&mut labels);
    }
    if !info.is_master() {
        let why = if failover.from.is_some() { "the master failed" } else { "it is the first" };
        actions.push(Action::Promote { node: target(pod), run_id: info.run_id.clone(), why });
    }
    // The others follow before clients come: a write may need a replica (`min-replicas-to-write`).
    actions.extend(followers(view, to));
    actions.extend(services::to_master(view, to));
    actions.extend(services::not_as_replica(view, to));
    actions.append(&mut labels);
    actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    Step { again: AT_ONCE, ..Step::act(actions, reason_of_change(failover), message) }
}

/// The commands that a hung earlier master is to find when it wakes up. One that runs a script ends at once.
fn word_left(view: &View<'_>, failover: &Failover, successor: &Pod) -> Option<Action> {
    let (from, heir) = (failover.from.as_ref()?, successor.address.clone()?);
    let pod = view.observed.set.pods.values().find(|pod| pod.name == *from && pod.name != successor.name)?;
    let hangs = matches!(pod.own.state, NodeState::Silent(_)) && pod.endpoint().is_some();
    let word = || {
        if pod.own.busy {
            // It would refuse to step down, and take writes again as soon as its script ends.
            return Action::EndBusy { node: target(pod), successor: heir };
        }
        Action::StepDown { node: target(pod), successor: heir }
    };
    hangs.then(word)
}

/// Fences masters that replicas still follow, but whose pods are gone: a pod that is deleted by force is gone before
/// its process is.
fn fences(view: &View<'_>, successor: &Pod) -> Vec<Action> {
    let (Some(history), Some(heir)) = (&view.before.history, &successor.address) else { return Vec::new() };
    let pods = || view.observed.set.pods.values();
    let has_pod = |host: &str| pods().any(|pod| pod.address.as_deref() == Some(host));
    let named = pods().filter_map(|pod| pod.info().filter(|info| info.continues(history))?.link());
    let hosts: BTreeSet<&str> =
        named.map(|link| link.host.as_str()).filter(|host| *host != NO_MASTER && !has_pod(host)).collect();
    let fence = |host: &str| {
        let at = Pod { address: Some(host.to_owned()), own: successor.own.clone(), ..Pod::default() }.endpoint()?;
        Some(Action::Fence { at, history: history.clone(), successor: heir.clone() })
    };
    hosts.into_iter().filter_map(fence).collect()
}

/// `SwitchingOver`: the master hands over by itself (`FAILOVER`) once its successor has everything. Continues a switchover from
/// wherever it is. The successor is not a master yet.
pub fn switch(view: &View<'_>, failover: &Failover, pod: &Pod, info: &Info) -> Step {
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

/// `Finishing`: the target is a master. Makes all others follow it, and leads clients to it. Once nothing of that is left to do, records the end.
pub fn finish(view: &View<'_>, failover: &Failover, to: i32) -> Step {
    let pod = view.observed.set.pods.get(&to);
    let mut actions = followers(view, to);
    actions.extend(services::to_master(view, to));
    actions.extend(services::not_as_replica(view, to));
    for (ordinal, other) in view.observed.set.pods.iter().filter(|(ordinal, _)| **ordinal != to) {
        if other.has_role(MASTER) {
            actions.push(hide(other));
        }
        let from = failover.from.as_ref() == Some(&other.name);
        let stepped_down = other.info().is_some_and(|info| !info.is_master());
        if from && failover.planned && stepped_down && pod.is_some_and(|pod| !pod.has_role(MASTER)) {
            // Its clients would keep getting errors for as long as they keep their connections.
            actions.push(Action::DropClients { node: target(view.pod(*ordinal).unwrap_or(other)) });
        }
    }
    if let Some(pod) = pod.filter(|pod| !pod.has_role(MASTER)) {
        actions.push(Action::SetRole { pod: target(pod), role: Some(MASTER) });
    }
    if !actions.is_empty() {
        let message = format!("clients are led to {}", failover.target);
        return Step { again: AT_ONCE, ..Step::act(actions, reason_of_change(failover), message) };
    }
    let duration_ms = failover.duration_ms(view.now);
    let completed = LastFailover {
        epoch: failover.epoch,
        from: failover.from.clone(),
        to: failover.target.clone(),
        reason: failover.reason.clone(),
        duration_ms,
        at: Time(view.now),
        left: left_masters(view, failover),
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
    let message = format!("clients are led to {}", failover.target);
    let lost = loss(&completed).map(|note| Action::Tell { reason: "DataLost", note });
    let actions = [Action::Tell { reason, note }].into_iter().chain(lost).collect();
    let step = Step::act(actions, reason_of_change(failover), message);
    Step { record: Record::Complete(completed), again: PROGRESS_INTERVAL, ..step }
}

/// The last failover, as long as clients may still be connected to an earlier master.
pub fn since_change<'a>(view: &'a View<'_>) -> Option<&'a LastFailover> {
    view.before.last_failover.as_ref().filter(|last| view.before.failover.is_none() && !last.left.is_empty())
}

/// The nodes that were the master until a moment ago: the previous one, and those of earlier changes that clients may
/// not have left yet.
fn left_masters(view: &View<'_>, failover: &Failover) -> Vec<String> {
    let earlier = view.before.last_failover.iter().flat_map(|last| &last.left);
    let all: BTreeSet<&String> = failover.from.iter().chain(earlier).filter(|name| **name != failover.target).collect();
    all.into_iter().cloned().collect()
}

/// Makes all others follow that node. A node that took writes loses its clients.
pub fn followers(view: &View<'_>, master: i32) -> Vec<Action> {
    let Some(address) = view.pod(master).and_then(|pod| pod.address.clone()) else { return Vec::new() };
    let mut actions = Vec::new();
    for (_, pod) in view.observed.set.pods.iter().filter(|(ordinal, _)| **ordinal != master) {
        let Some(info) = pod.info().filter(|info| !info.loading && !info.handing_over) else { continue };
        let follows = info.link().is_some_and(|link| link.host == address && link.port == PORT);
        if !follows {
            let drop_clients = info.is_master();
            actions.push(Action::Follow { node: target(pod), master: address.clone(), drop_clients });
        }
    }
    actions
}

/// Makes nodes that follow no master follow a master that does not answer the operator. If it serves, they say so; if
/// they do not reach it either, they confirm that it hangs.
///
/// They lose no data by that. A process that was started again, maybe without data, is itself a replica without a
/// master, and gives nothing to replicas (`NOMASTERLINK`). Only the process that was made the recorded master does.
/// <https://github.com/redis/redis/blob/7.0/src/replication.c> (`syncCommand`)
pub fn without_master(view: &View<'_>, master: &Pod) -> Vec<Action> {
    let Some(address) = &master.address else { return Vec::new() };
    let has_no_master = |pod: &&Pod| {
        let info = pod.info().filter(|info| !info.loading && !info.handing_over && !pod.terminating);
        info.and_then(|info| info.link()).is_some_and(|link| link.host == NO_MASTER)
    };
    let follow = |pod: &Pod| Action::Follow { node: target(pod), master: address.clone(), drop_clients: false };
    view.observed.set.pods.values().filter(has_no_master).map(follow).collect()
}

/// Detaches replicas from their master, unless that is the node that is to become the master.
pub fn attached_elsewhere(view: &View<'_>, to: i32) -> Vec<Action> {
    let heir = view.pod(to).and_then(|pod| pod.address.as_ref());
    let is_attached = |pod: &&Pod| {
        let link = pod.info().filter(|info| !info.loading && !info.handing_over).and_then(|info| info.link());
        link.is_some_and(|link| (link.up || link.syncing) && Some(&link.host) != heir)
    };
    let detach = |pod: &Pod| Action::Follow { node: target(pod), master: NO_MASTER.into(), drop_clients: false };
    view.observed.set.pods.values().filter(is_attached).map(detach).collect()
}

/// The change of the master that begins now, as the status records it before anything is done about it. If a change is recorded already, this one continues it: the duration
/// counts from the earlier beginning, and a certain loss stays the reason, whichever node takes over in the end.
pub fn begin_change(view: &View<'_>, from: Option<i32>, to: i32, reason: &str, planned: bool) -> Failover {
    let earlier = view.before.failover.as_ref();
    let reason = earlier.map(|it| it.reason.as_str()).filter(|it| is_certain_loss(it)).unwrap_or(reason);
    let latest = view.before.epoch.max(earlier.map_or(0, |it| it.epoch)).max(epochs::highest(view));
    Failover {
        epoch: latest.saturating_add(1),
        from: from.map(|ordinal| names::pod(view.object, ordinal)),
        target: names::pod(view.object, to),
        reason: reason.to_owned(),
        planned,
        begun: earlier.map_or(Time(view.now), |it| it.begun.clone()),
    }
}

/// The condition's reason while the change is under way.
pub fn reason_of_change(failover: &Failover) -> &'static str {
    match (&failover.from, failover.planned) {
        (None, _) => "Creating",
        (_, true) => "SwitchingOver",
        (_, false) => "FailingOver",
    }
}

/// The condition's message while the change is under way.
pub fn describe_change(failover: &Failover) -> String {
    format!("{} becomes the master: {}", failover.target, failover.reason)
}
