//! `Creating`, `MasterSilent` and `MasterGone`: the operator waits for nodes, and for what replicas say about the master.

use std::time::Duration;

use kube::ResourceExt;

use causeway_api::redis::Failover;
use causeway_databases::names::selector_text;
use causeway_runtime::Health;

use super::super::{AT_ONCE, PROGRESS_INTERVAL, RETRY_INTERVAL, Record, Step, View, clients, hide};
use super::choice::{Wait, later_elsewhere, unheard_nodes};
use super::state::{MASTER_SILENT, has_witness, hearers};
use super::steps::without_master;
use crate::action::Action;
use crate::busy;
use crate::database::RedisDatabase;
use crate::facts::{NodePod, NodeState, Pod};
use crate::names::{self, MASTER};

/// For how long a replica may still read what its master sent before it went.
const READING: Duration = Duration::from_secs(5);

/// Waits for the nodes before one of them becomes the first master.
pub fn creating(view: &View<'_>) -> Step {
    if view.observed.set.pods.is_empty() {
        let message = "waiting for the first pod to be made";
        return match view.pod_trouble() {
            Some((reason, text)) => Step::trouble(reason, format!("{message}; {text}")),
            None => Step::wait("Creating", message),
        };
    }
    if let Some((ordinal, claim)) = later_elsewhere(view) {
        let (namespace, name) = (view.object.namespace().unwrap_or_default(), view.object.name_any());
        let message = format!(
            "the node of volume claim {claim} was the master later than the nodes of this object, and spec.replicas leaves it \
             out: set spec.replicas to {ordinal} or more, and its data win (kubectl -n {namespace} scale redises.example.com {name} \
             --replicas={ordinal}). If they are not wanted, delete the claim (kubectl -n {namespace} delete pvc {claim})"
        );
        let health = Health::stalled("LaterDataElsewhere", message.clone());
        return Step { health, again: PROGRESS_INTERVAL, ..Step::trouble("LaterDataElsewhere", message) };
    }
    let (answering, silent): (Vec<i32>, Vec<i32>) = (0..view.wanted_nodes()).partition(|it| view.loaded(*it).is_some());
    let (count, all) = (answering.len(), view.wanted_nodes());
    let message =
        format!("{count} of {all} nodes answer; before one is made the master, waiting for {}", view.unwell(silent));
    let step = match view.pod_trouble() {
        Some((reason, text)) => Step::trouble(reason, format!("{message}; {text}")),
        None => Step::wait("Creating", message),
    };
    Step { again: PROGRESS_INTERVAL, record: masterless(view), ..step }
}

/// Waits for a master that does not answer now, and may answer again any moment. Nodes that follow no master follow it.
pub fn master_silent(view: &View<'_>, pod: &Pod, failover: Option<&Failover>) -> Step {
    let place = pod.place();
    let actions = if failover.is_none() { without_master(view, pod) } else { Vec::new() };
    if let NodeState::Refuses(words) = &pod.own.state {
        let message = refusal(view, pod, words);
        let health = Health::stalled("MasterRefuses", message.clone());
        return Step { actions, health, ..Step::trouble("MasterRefuses", message) };
    }
    if pod.own.busy && failover.is_none() {
        return Step { actions, again: AT_ONCE * 4, ..Step::trouble("MasterBusy", describe_busy(view, pod)) };
    }
    let lost = view.pod_trouble().filter(|_| pod.lost_node.is_some());
    let step = match failover {
        None if let Some((reason, text)) = lost => Step::trouble(reason, format!("{place} does not answer; {text}")),
        None if view.pods() == 1 => Step::wait(MASTER_SILENT, describe_alone(view, pod)),
        None => Step::wait(MASTER_SILENT, describe_unanswered(view, pod)),
        Some(failover) => {
            Step::wait("SwitchingOver", format!("{place} does not answer, and was to hand over to {}", failover.target))
        }
    };
    // A process that has just died may be refused before its replicas notice.
    let again = if pod.own.state == NodeState::Gone { AT_ONCE * 2 } else { AT_ONCE * 4 };
    Step { actions, again, ..step }
}

/// Explains why a master refuses the operator, and what helps against that and harms nothing else.
fn refusal(view: &View<'_>, pod: &Pod, words: &str) -> String {
    let (place, namespace) = (pod.place(), view.object.namespace().unwrap_or_default());
    let seen = format!("{place} refuses to answer: {words}");
    let is_about_login = ["NOAUTH", "WRONGPASS", "NOPERM"].iter().any(|code| words.contains(code));
    if words.contains("max number of clients reached") {
        return format!(
            "{seen}. It refuses new clients too: close connections that applications do not need, for example by scaling them \
             down. As soon as Causeway gets in, it sets spec.config.maxclients"
        );
    }
    if words.contains("NOPERM") && !view.object.spec.auth.enabled {
        return format!(
            "{seen}. Rights of the user default were taken by hand (ACL SETUSER), and spec.auth gives Causeway no other user: {}",
            clients::restart(view, pod)
        );
    }
    if is_about_login && !view.object.spec.auth.enabled {
        return format!(
            "{seen}. Its password or users were changed by hand, and spec.auth asks for none. Take that back with the password \
             that was set: kubectl -n {namespace} exec {} -c redis -- redis-cli -a PASSWORD CONFIG SET requirepass ''. Where \
             it is not known, {}",
            pod.name,
            clients::restart(view, pod)
        );
    }
    let lost = if is_about_login {
        "It accepts neither Causeway's user nor the clients' password in the Secret"
    } else if words.contains("TLS") {
        "If the Secrets of its certificates were lost, it has other ones than Causeway"
    } else {
        return format!("{seen} (kubectl -n {namespace} logs {} -c redis has what it said)", pod.name);
    };
    let cost = if view.object.spec.storage.ephemeral {
        "which DELETES ALL DATA, because spec.storage.ephemeral is set: save them first"
    } else {
        "data stay on the volumes, and clients wait meanwhile"
    };
    format!(
        "{seen}. {lost}. All nodes start with the present ones by kubectl -n {namespace} delete pod -l {} ({cost})",
        selector_text::<RedisDatabase>(view.object)
    )
}

/// Describes a master that runs a script for long, and how to end that. <https://redis.io/docs/latest/commands/script-kill/>
fn describe_busy(view: &View<'_>, pod: &Pod) -> String {
    let (place, name) = (pod.place(), &pod.name);
    let next = if has_witness(view, pod) {
        "Another node takes over if this lasts for spec.failover.hangTimeout; what the script wrote is lost then"
    } else {
        "No replica could take over"
    };
    format!(
        "{place} runs a script or function, and answers BUSY to everything else. {next}. To end the script: kubectl -n {} exec \
         {name} -c redis -- redis-cli SCRIPT KILL (or FUNCTION KILL), with a log-in if spec.auth asks for one. If it has \
         written already, Redis answers UNKILLABLE: then only SHUTDOWN NOSAVE ends it, which restarts the process and loses \
         what the script wrote, and nothing that was acknowledged before",
        view.object.namespace().unwrap_or_default()
    )
}

/// Describes a master without replicas that does not answer, and what comes next. Only the kubelet can know that its process
/// hangs, and only a pod that was made while there were no replicas has a liveness probe.
fn describe_alone(view: &View<'_>, pod: &Pod) -> String {
    let (place, name) = (pod.place(), &pod.name);
    let seen = format!("{place} does not answer, and has no replica that could take over");
    if pod.own.probed {
        return format!(
            "{seen}: the kubelet restarts it after a minute and a half without an answer (kubectl describe pod {name})"
        );
    }
    let excluded = busy::excluded_after(view.object);
    let silence = if let NodeState::Silent(silence) = pod.own.state { silence } else { Duration::MAX };
    if excluded.is_some_and(|after| silence < after) {
        return format!("{seen}. It may run a script or function: Redis says so only after its busy-reply-threshold");
    }
    let unless = if excluded.is_some() { "" } else { ", and runs no script (its busy-reply-threshold is off)" };
    let lost = if view.object.spec.storage.ephemeral { ", which deletes its data," } else { "" };
    format!(
        "{seen}. Its pod was made while there were replicas, and has no liveness probe: if its process hangs{unless}, nothing \
         restarts it. Replace the pod{lost} with kubectl -n {} delete pod {name}",
        view.object.namespace().unwrap_or_default()
    )
}

/// Describes a master with replicas that does not answer, and what comes next.
fn describe_unanswered(view: &View<'_>, pod: &Pod) -> String {
    let (place, name, hearers) = (pod.place(), &pod.name, hearers(view, pod));
    let seen =
        if pod.own.state == NodeState::Gone { "refuses Causeway's connections" } else { "does not answer Causeway" };
    if !hearers.is_empty() {
        let namespace = view.object.namespace().unwrap_or_default();
        let cause = if pod.own.state == NodeState::Gone {
            "its port or bind may have been changed by hand while Causeway was not connected (CONFIG SET)"
        } else {
            "its clients may be paused (CLIENT PAUSE ALL, which holds back Causeway and even CLIENT UNPAUSE, and ends by itself)"
        };
        return format!(
            "{place} {seen}, but it still sends data to {}, so it stays the master: {cause}, or a NetworkPolicy or a firewall \
             may be between Causeway and the pod (kubectl -n {namespace} get networkpolicy). Where its clients cannot wait, a \
             replica takes over after kubectl -n {namespace} delete pod {name}",
            hearers.join(", "),
        );
    }
    let next = if has_witness(view, pod) {
        "another node takes over if its replicas receive nothing from it for spec.failover.hangTimeout"
    } else {
        "no replica can say whether it serves. Replicas that answer are made to follow it. If they cannot connect to it, the \
         node with most of the data takes over after spec.failover.dataLossTimeout"
    };
    format!("{place} {seen}: {next} (kubectl describe pod {name})")
}

/// The master is gone, and no node may take over yet.
pub fn master_gone(view: &View<'_>, from: i32, wait: Wait) -> Step {
    match wait {
        Wait::Replica(replica) => {
            let [name, replica] = [from, replica].map(|ordinal| names::pod(view.object, ordinal));
            let message =
                format!("{name} is no master any more, waiting for a word of {replica}, which had all of its data");
            Step { record: masterless(view), again: AT_ONCE * 4, ..Step::act(hide_replicas(view), "NoMaster", message) }
        }
        Wait::DataGone => {
            let name = names::pod(view.object, from);
            let message = format!(
                "all nodes answer and none of them has the data that {name} had: after \
                 spec.failover.dataLossTimeout it begins empty. To restore volumes first, set spec.suspend"
            );
            let health = Health::stalled("DataGone", message);
            Step {
                health,
                record: masterless(view),
                again: PROGRESS_INTERVAL,
                ..Step::act(hide_replicas(view), "", "")
            }
        }
        Wait::Data => for_data(view, from),
    }
}

fn for_data(view: &View<'_>, from: i32) -> Step {
    let name = names::pod(view.object, from);
    let found = view.pod_trouble();
    let trouble = found.as_ref().map_or_else(String::new, |(_, text)| format!("; {text}"));
    let waits_for_data = view.loaded(from).is_some();
    let message = if waits_for_data {
        format!(
            "{name} came back empty, and others may have its data: waiting for {}. Where their data are lost too, delete their \
             volume claims and pods{trouble}",
            view.unwell(unheard_nodes(view))
        )
    } else {
        let otherwise = match view.pods() {
            1 => "nothing else has them",
            _ => "after spec.failover.dataLossTimeout the node with most of them takes over",
        };
        format!("no replica has all data of {name}: waiting for {}; {otherwise}{trouble}", view.unwell([from]))
    };
    // With a single node, the trouble of its pod is the reason.
    let reason = match found.filter(|_| view.pods() == 1) {
        Some((reason, _)) => reason,
        None if waits_for_data => "MasterEmptied",
        None => "NoMaster",
    };
    // A replica may still read what the master sent before it went.
    let is_fresh = view.last_word(from).is_some_and(|word| word.ago < READING);
    let again = if !trouble.is_empty() {
        RETRY_INTERVAL
    } else if is_fresh {
        AT_ONCE * 4
    } else {
        PROGRESS_INTERVAL
    };
    let mut actions = hide_replicas(view);
    // A firewall may refuse the operator: replicas that follow no master find out whether the master serves.
    let unseen = view.pod(from).filter(|pod| pod.info().is_none() && view.before.failover.is_none());
    actions.extend(unseen.into_iter().flat_map(|pod| without_master(view, pod)));
    Step { again, record: masterless(view), ..Step::act(actions, reason, message) }
}

/// Removes the role label from pods that are labelled as the master, but answer as replicas. Clients that select pods by the
/// label would come to them, and keep connections over which they can only read.
fn hide_replicas(view: &View<'_>) -> Vec<Action> {
    let is_none = |pod: &&Pod| pod.has_role(MASTER) && pod.info().is_some_and(|info| !info.is_master());
    view.observed.set.pods.values().filter(is_none).map(hide).collect()
}

fn masterless(view: &View<'_>) -> Record {
    if view.before.masterless_since.is_some() { Record::Seen } else { Record::Masterless }
}
