//! Checks that the data fit into a node that is made from the spec, where that gives nodes less memory than they have.
//!
//! Such a node reads all data of the master before it evicts any, and the kernel kills it at its limit: replicas would be
//! lost one after the other, and a single node with its only data. So no pod is made before the data fit. Nothing is evicted
//! for it either, unless `config.maxmemory` asks for that: a limit may be a slip.
//!
//! A node reads its append-only file before that: also keys that were evicted or deleted since. How much memory they take
//! is not known from the file, which is compressed. So each node that has more memory now rewrites its file first.

use kube::ResourceExt;

use causeway_databases::Child;
use causeway_databases::redis::Info;
use causeway_runtime::quantity::amount;

use super::super::action::Action;
use super::super::facts::{NodePod, Pod};
use super::super::memory;
use super::{Step, View, target};

/// The reason while the data do not fit.
pub const TOO_SMALL: &str = "MemoryTooSmall";
/// The policy by which no key is evicted.
const NO_EVICTION: &str = "noeviction";

/// Explains why the memory limit that the spec asks for is not followed.
pub fn complaint(view: &View<'_>) -> Option<(&'static str, String)> {
    let next = memory::limit_of_spec(view.object)?;
    let Some((_, pod, _)) = view.serving_master() else { return report_unknown(view, next) };
    let room = memory::room_after(view.object, pod.own.memory_limit)?;
    // The last write may exceed the bound.
    let used = pod.own.used.filter(|used| *used > room + room / 16)?;
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let message = format!(
        "the data of {} take {} MiB of memory, and a node with the memory limit that spec.resources asks for ({} MiB) has room for \
         {} MiB: the kernel would kill it while it reads them. No pod is replaced before they fit: {}",
        pod.name,
        mib(used),
        mib(next),
        mib(room),
        advice(view, used, room)
    );
    Some((TOO_SMALL, message))
}

/// Has the append-only files rewritten that nodes with less memory are to read, and waits for that.
pub fn rewrite_logs(view: &View<'_>) -> Option<Step> {
    let next = memory::limit_of_spec(view.object)?;
    let has_history = |(pod, info): &(&Pod, &Info)| {
        let is_smaller = memory::room_after(view.object, pod.own.memory_limit).is_some();
        is_smaller && info.keys > 0 && info.log_rewrites.is_some() && !is_rewritten(pod, info, next)
    };
    let pods = view.observed.set.pods.values().filter(|pod| !pod.terminating);
    let pods: Vec<(&Pod, &Info)> = pods.filter_map(|pod| Some((pod, pod.info()?))).filter(has_history).collect();
    let (first, _) = pods.first()?;
    let idle = pods.iter().filter(|(_, info)| !info.rewrites_log);
    let rewrite = |(pod, info): &(&Pod, &Info)| {
        let note = format!("{}{}", note_of(info, next), info.log_rewrites.unwrap_or_default());
        Action::RewriteLog { node: target(pod), note }
    };
    let text = format!(
        "waiting for {} to rewrite its append-only file: a pod with the new memory limit might not be able to read what was \
         written and is gone",
        first.name
    );
    Some(Step::act(idle.map(rewrite).collect(), "RollingOut", text))
}

/// Reports whether the process has rewritten its file since that was asked for this limit.
fn is_rewritten(pod: &Pod, info: &Info, next: u64) -> bool {
    let note = pod.own.log_note.as_deref().and_then(|note| note.strip_prefix(&note_of(info, next)));
    let before = note.and_then(|count| count.parse::<u64>().ok());
    !info.rewrites_log && before.is_some_and(|before| info.log_rewrites.is_some_and(|now| now > before))
}

/// The beginning of [`LOG`](super::super::names::LOG): the process and the limit.
fn note_of(info: &Info, next: u64) -> String {
    format!("{}/{next}/", info.run_id)
}

fn advice(view: &View<'_>, used: u64, room: u64) -> String {
    let needed = (used + used / 3).div_ceil(1 << 20);
    let patch = |spec: String| {
        let namespace = view.object.namespace().unwrap_or_default();
        format!(
            "kubectl -n {namespace} patch redis {} --type merge -p '{{\"spec\":{{{spec}}}}}'",
            view.object.name_any()
        )
    };
    let more = patch(format!("\"resources\":{{\"limits\":{{\"memory\":\"{needed}Mi\"}}}}"));
    let evicts = view.object.spec.config.get("maxmemory-policy").is_some_and(|policy| policy != NO_EVICTION);
    let is_asked = memory::asked_maxmemory(view.object).is_some_and(|most| most > 0 && most <= room);
    match (evicts, is_asked) {
        (true, true) => format!("the master evicts what is beyond spec.config.maxmemory; or give them room ({more})"),
        (true, false) => {
            let evict = patch(format!("\"config\":{{\"maxmemory\":\"{}mb\"}}", room >> 20));
            format!("let the master evict what is too much ({evict}), or give them room ({more})")
        }
        (false, _) => format!("delete keys, or give them room ({more})"),
    }
}

/// While no master serves, it is not known how much its data take: pods that are made meanwhile have what they had.
fn report_unknown(view: &View<'_>, next: u64) -> Option<(&'static str, String)> {
    let live = view.observed.set.child("StatefulSet", &view.object.name_any()).filter(|live| live.ours)?;
    let had_data = view.before.nodes.iter().any(|node| node.keys > 0);
    let is_smaller = limit_of(live).is_none_or(|limit| limit > next);
    (view.before.master.is_some() && had_data && is_smaller && view.pod_trouble().is_none()).then(|| {
        let message = format!(
            "spec.resources asks for a memory limit of {} MiB, which is less than pods have: whether the data fit shows when the \
             master serves",
            next >> 20
        );
        (TOO_SMALL, message)
    })
}

/// The memory limit in bytes of the nodes that are made from a `StatefulSet`.
fn limit_of(live: &Child) -> Option<u64> {
    let containers = live.value["spec"]["template"]["spec"]["containers"].as_array()?;
    let own = containers.iter().find(|container| container["name"] == "redis")?;
    u64::try_from(amount(own["resources"]["limits"]["memory"].as_str()?)? / 1000).ok()
}
