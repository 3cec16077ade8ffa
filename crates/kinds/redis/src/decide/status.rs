//! Writes the status of a master and its replicas.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use causeway_api::RedisStatus;
use causeway_api::redis::{Connection, LastFailover, NodeStatus};
use causeway_databases::names::selector_text;
use causeway_databases::redis::Info;
use causeway_databases::step::numbers;
use causeway_databases::{memory_risk, node_failure, rivals};
use causeway_runtime::{ConditionStatus, ExtraCondition, Health};

use super::super::database::RedisDatabase;
use super::super::facts::{NodePod, Pod};
use super::super::{memory, names, tls};
use super::failover::{can_ask, is_heard, loss};
use super::{Record, Step, View, certificates, evictions};
use crate::sentinel;

/// A replica that lost its master less than this many seconds ago is about to find it again.
const LOST_SECONDS: u64 = 2;

/// The status without conditions. What is not known now stays as it was reported last.
pub fn status(view: &View<'_>, step: &Step) -> RedisStatus {
    let before = view.before.clone();
    let mut status = match &step.record {
        Record::Seen => before,
        Record::Begin(failover) => RedisStatus { failover: Some(failover.clone()), ..before },
        Record::Complete(completed) => RedisStatus {
            master: Some(completed.to.clone()),
            epoch: completed.epoch,
            failover: None,
            masterless_since: None,
            last_failover: Some(completed.clone()),
            // From the next look on, the nodes are compared with the new master.
            ..before
        },
        Record::Close => {
            let closed = Some(Time(view.now));
            let last = before.last_failover.clone().map(|last| LastFailover { closed, ..last });
            RedisStatus { last_failover: last, ..before }
        }
        Record::Left => {
            let last = before.last_failover.clone().map(|last| LastFailover { left: Vec::new(), ..last });
            RedisStatus { last_failover: last, ..before }
        }
        Record::GiveUp => RedisStatus { failover: None, ..before },
        Record::Masterless => RedisStatus { masterless_since: Some(Time(view.now)), ..before },
    };
    if let Some(wanted) = view.object.spec.switchover.as_ref().map(|switchover| &switchover.master) {
        if status.master.as_ref() == Some(wanted) || (step.record == Record::GiveUp && is_asked(view)) {
            status.switched_to = Some(wanted.clone());
        }
    } else {
        status.switched_to = None;
    }
    if view.observed.set.is_proven(|pod| view.is_outdated(pod)) {
        status.proven_revision = Some(view.revision().clone());
    }
    let serving = view.serving_master().filter(|_| view.before.failover.is_none());
    if let Some((_, _, info)) = serving {
        status.history = Some(info.history.clone());
        status.masterless_since = None;
    }
    let silent = view.master().and_then(|master| view.pod(master)).filter(|_| view.before.failover.is_none());
    if step.record == Record::Seen && silent.is_some_and(|pod| is_heard(view, pod)) {
        // A replica that loses it later waits for `spec.failover.dataLossTimeout` from then on.
        status.masterless_since = None;
    }
    // The clock of an operator before may have been ahead.
    let passed = |since: Option<Time>| since.map(|since| Time(since.0.min(view.now)));
    status.masterless_since = passed(status.masterless_since);
    status.candidate_since = passed(status.candidate_since);
    let counts = status.masterless_since.is_some() && can_ask(view);
    status.candidate_since = status.candidate_since.filter(|_| counts).or_else(|| counts.then_some(Time(view.now)));
    // The next step after a loss depends on whether there were data: those of an earlier object do not count.
    let nodes = if view.has_earlier_pods() { Vec::new() } else { nodes(view) };
    status.nodes = unless_trifling(&view.before.nodes, nodes);
    let alive = view.observed.set.pods.values().filter(|pod| !pod.terminating).count();
    status.replicas = i32::try_from(alive).unwrap_or(i32::MAX).saturating_sub(1).max(0);
    let ready = view.observed.set.pods.keys().filter(|ordinal| view.follows(**ordinal)).count();
    status.ready_replicas = i32::try_from(ready).unwrap_or(i32::MAX);
    status.selector = Some(selector_text::<RedisDatabase>(view.object));
    status.volume_size = view.observed.set.volume_size().or(status.volume_size);
    let versions = view.observed.set.pods.values().filter_map(|pod| Some(pod.info()?.version.clone()));
    status.version = versions.min_by_key(|version| numbers(version)).or(status.version);
    status.connection = Some(Connection {
        host: names::dns_name(view.object, &view.object.name_any()),
        port: names::PORT.into(),
        scheme: Some(names::scheme(view.object).to_owned()),
        authority_secret_name: tls::trusted_secret(view.object),
        sentinel: view
            .object
            .spec
            .sentinel
            .is_some()
            .then(|| format!("{}:{}", names::dns_name(view.object, &names::sentinel(view.object)), sentinel::PORT)),
    });
    status.phase = Some(phase(view, step, &status).to_owned());
    status
}

fn is_asked(view: &View<'_>) -> bool {
    view.before.failover.as_ref().is_some_and(|failover| failover.reason == "Asked")
}

fn phase(view: &View<'_>, step: &Step, status: &RedisStatus) -> &'static str {
    match (&step.health, &status.failover) {
        (_, Some(failover)) if failover.from.is_none() => "Creating",
        (_, Some(failover)) if failover.planned => "SwitchingOver",
        (_, Some(_)) => "FailingOver",
        (Health::Stalled(_), None) => "Stalled",
        (Health::Ready(_), None) => "Running",
        _ if status.master.is_none() => "Creating",
        _ if view.serving_master().is_none() || status.ready_replicas < view.object.spec.replicas => "Degraded",
        _ => "Updating",
    }
}

/// Returns the status of every node, by ordinal. While no master serves, a node whose pod is gone stays in the list:
/// whether it had data decides what is done when all data are gone.
fn nodes(view: &View<'_>) -> Vec<NodeStatus> {
    let mut nodes: BTreeMap<i32, NodeStatus> =
        view.observed.set.pods.iter().map(|(ordinal, pod)| (*ordinal, describe(view, *ordinal, pod))).collect();
    if view.serving_master().is_none() {
        for before in &view.before.nodes {
            let Some(ordinal) = names::ordinal_of(view.object, &before.name) else { continue };
            nodes.entry(ordinal).or_insert_with(|| silent(before.clone()));
        }
    }
    nodes.into_values().collect()
}

/// The status of a node that does not answer, or has no pod.
fn silent(before: NodeStatus) -> NodeStatus {
    NodeStatus { role: "unknown".into(), ready: false, link: None, ..before }
}

fn describe(view: &View<'_>, ordinal: i32, pod: &Pod) -> NodeStatus {
    let before = view.recorded(ordinal).cloned().unwrap_or_default();
    let is_master = view.master() == Some(ordinal) && pod.info().is_some_and(Info::is_master);
    let Some(info) = pod.info() else {
        // While the master serves, it reports which replicas follow.
        let in_sync = before.in_sync && (view.serving_master().is_none() || view.is_attached(pod));
        return silent(NodeStatus { name: pod.name.clone(), in_sync, ..before });
    };
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let link = info.link().map(|link| match (link.up, link.syncing) {
        (true, _) => "up",
        (false, true) => "syncing",
        (false, false) => "down",
    });
    NodeStatus {
        name: pod.name.clone(),
        role: if info.is_master() { names::MASTER } else { names::REPLICA }.into(),
        ready: (is_master && !pod.terminating) || view.follows(ordinal),
        offset: signed(info.offset),
        // While no master serves, the earlier number of keys is kept: whether there were any decides what is done when
        // they are gone.
        keys: if view.serving_master().is_some() { signed(info.keys) } else { signed(info.keys).max(before.keys) },
        lag_seconds: info.quiet_seconds.map(signed).filter(|lag| *lag > 1),
        link: link.map(str::to_owned),
        in_sync: in_sync(view, ordinal, info, before.in_sync),
    }
}

/// Reports whether a node may take over without loss. That changes only while a master serves: when it dies, all its
/// replicas lose it, and that makes none of them worse.
fn in_sync(view: &View<'_>, ordinal: i32, info: &Info, before: bool) -> bool {
    let Some((master, _, _)) = view.serving_master().filter(|_| view.before.failover.is_none()) else { return before };
    if ordinal == master || view.follows(ordinal) {
        return true;
    }
    let syncing = info.link().is_some_and(|link| link.syncing);
    let lost = info.lost_seconds.is_none_or(|seconds| seconds >= LOST_SECONDS);
    before && !syncing && !lost && !info.loading
}

/// The nodes as they were, if only offsets, numbers of keys and lags differ. Those change all the time, and are written
/// together with other changes.
fn unless_trifling(before: &[NodeStatus], after: Vec<NodeStatus>) -> Vec<NodeStatus> {
    let bare = |node: &NodeStatus| NodeStatus {
        offset: 0,
        // Only whether there are any keys matters.
        keys: node.keys.min(1),
        lag_seconds: None,
        ..node.clone()
    };
    let same = before.len() == after.len() && before.iter().zip(&after).all(|(one, other)| bare(one) == bare(other));
    if same { before.to_vec() } else { after }
}

/// The extra conditions, such as whether all replicas have all data, and whether data were lost.
pub fn parts(view: &View<'_>, status: &RedisStatus) -> Vec<ExtraCondition> {
    let wanted = view.object.spec.replicas;
    let ready = status.ready_replicas;
    let all = ready >= wanted && view.serving_master().is_some();
    let refused = evictions::refusal(view).map_or_else(String::new, |text| format!("; {text}"));
    let lost = status.last_failover.as_ref().and_then(|last| Some((loss(last)?, last.epoch)));
    vec![
        certificates::part(view),
        rivals::part::<RedisDatabase>(view.object, &view.observed.set.rivals),
        memory_risk::part(
            view.observed.set.pods.values().find_map(|pod| memory::risk(view.object, &pod.name, pod.own.memory_limit)),
        ),
        node_failure::part(view.observed.set.pods.values(), 1, "nothing is left that could take over"),
        ExtraCondition {
            type_: "Replicated",
            status: all.into(),
            reason: if all { "AllInSync" } else { "ReplicasBehind" },
            message: format!("{ready} of {wanted} replicas have all data and follow the master{refused}"),
        },
        ExtraCondition {
            type_: "DataLost",
            status: ConditionStatus::only_if(lost.is_some()),
            reason: "WritesLost",
            message: lost.map_or_else(String::new, |(how, epoch)| {
                format!("{how}, in epoch {epoch}. The next failover or switchover takes this condition away")
            }),
        },
    ]
}
