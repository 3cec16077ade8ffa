//! The facts about a set, and conclusions from them.

use std::cell::OnceCell;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use causeway_api::redis::NodeStatus;
use causeway_api::{Redis, RedisStatus};
use causeway_databases::pod_trouble::Fields;
use causeway_databases::redis::{Attached, Info};

use super::super::applied_config::AppliedConfig;
use super::super::damage::DamagedPod;
use super::super::facts::{LastWord, NodePod, NodeState, Observed, Pod};
use super::super::{damage, modules, names, resources, settings};
use super::failover::{MEASURED_BEFORE, is_cut_off};

/// The fields that messages about pods name.
const FIELDS: Fields = Fields {
    image: "spec.version and spec.image",
    others: &[("exporter", "spec.exporter"), ("sentinel", "spec.sentinel")],
    apart: "spec.spread and spec.affinity",
    storage: "spec.storage",
};

/// A healthy replica acknowledges every second, so the master reports at most this lag.
const LAG_SECONDS: u64 = 2;

/// The facts about a set, and conclusions from them.
pub struct View<'a> {
    pub object: &'a Redis,
    pub observed: &'a Observed,
    /// The status as it was recorded last.
    pub before: RedisStatus,
    pub now: Timestamp,
    /// Hash of what pods are to be made from; computed when it is needed first.
    revision: OnceCell<String>,
}

impl<'a> View<'a> {
    pub fn new(object: &'a Redis, observed: &'a Observed, now: Timestamp) -> Self {
        let before = object.status.clone().unwrap_or_default();
        Self { object, observed, before, now, revision: OnceCell::new() }
    }
}

impl View<'_> {
    /// Seconds of silence after which a node counts as one that hangs.
    pub fn hang_timeout(&self) -> u64 {
        self.object.spec.failover.hang_timeout.seconds()
    }

    /// Reports whether no master was ever recorded, and the pods are those of an earlier object of the name, which stop. They
    /// still answer for a while, but their data go with them, unless volumes stay.
    pub fn has_earlier_pods(&self) -> bool {
        self.before.master.is_none() && self.before.failover.is_none() && self.observed.set.is_leaving(self.object)
    }

    /// The ordinal of the recorded master.
    pub fn master(&self) -> Option<i32> {
        names::ordinal_of(self.object, self.before.master.as_ref()?)
    }

    /// How many pods there are to be.
    pub fn wanted_nodes(&self) -> i32 {
        self.object.spec.replicas + 1
    }

    /// How many pods there are to be now: a master with a surplus ordinal stays until another node has taken over. While
    /// no master serves, all pods stay: the only ones with the data may be among those that are not wanted any more.
    pub fn pods(&self) -> i32 {
        let known = self.before.failover.as_ref().and_then(|failover| names::ordinal_of(self.object, &failover.target));
        let needed = self.master().into_iter().chain(known).max().map_or(0, |master| master + 1);
        let fails_over = self.before.failover.as_ref().is_some_and(|failover| !failover.planned);
        let kept = if fails_over || self.serving_master().is_none() { self.present() } else { 0 };
        self.wanted_nodes().max(needed).max(kept)
    }

    /// One more than the highest ordinal that has a pod, or is to have one as the `StatefulSet` is now.
    fn present(&self) -> i32 {
        let last = self.observed.set.pods.keys().last().map_or(0, |last| last + 1);
        let live = self.observed.set.child("StatefulSet", &self.object.name_any()).filter(|live| live.ours);
        let asked = live.and_then(|live| i32::try_from(live.value["spec"]["replicas"].as_i64()?).ok());
        last.max(asked.unwrap_or_default())
    }

    /// Reports whether the volume of that node has no space.
    pub fn is_full(&self, ordinal: i32) -> bool {
        self.pod(ordinal).is_some_and(|pod| {
            let refuses = pod.is_refused_by_disk();
            refuses || pod.info().is_some_and(|info| info.log_fails) || pod.has_no_space()
        })
    }

    pub fn pod(&self, ordinal: i32) -> Option<&Pod> {
        self.observed.set.pods.get(&ordinal)
    }

    /// Returns the answer of the node of that ordinal.
    pub fn info(&self, ordinal: i32) -> Option<&Info> {
        self.pod(ordinal)?.info()
    }

    /// Returns the answer of a node, unless it is still reading its data.
    pub fn loaded(&self, ordinal: i32) -> Option<&Info> {
        self.info(ordinal).filter(|info| !info.loading)
    }

    /// Seconds since there has been neither a master nor a replica that could take over without loss.
    pub fn masterless_seconds(&self) -> i64 {
        self.before.masterless_since.as_ref().map_or(0, |since| self.now.duration_since(since.0).as_secs())
    }

    /// For how many seconds `spec.failover.dataLossTimeout` has run. The clock may be ahead of the one by which its start was
    /// recorded: an operator counts only what it has seen of it.
    pub fn waited_seconds(&self) -> i64 {
        let seen = i64::try_from(self.observed.candidate_seen.as_secs()).unwrap_or(i64::MAX);
        self.before.candidate_since.as_ref().map_or(0, |since| self.now.duration_since(since.0).as_secs().min(seen))
    }

    /// The recorded master, while it answers as one.
    pub fn serving_master(&self) -> Option<(i32, &Pod, &Info)> {
        let ordinal = self.master()?;
        let pod = self.pod(ordinal)?;
        let info = pod.info().filter(|info| info.is_master())?;
        Some((ordinal, pod, info))
    }

    /// Returns the last answer of a node as a master, if it has not followed another since.
    pub fn last_word(&self, ordinal: i32) -> Option<LastWord> {
        self.observed.words.get(&names::pod(self.object, ordinal)).copied()
    }

    /// Reports whether that node is a replica that has all data of the master, and follows it. A replica that is cut off calls
    /// its link up for a minute: so what the master hears of it counts as well.
    pub fn follows(&self, ordinal: i32) -> bool {
        let Some((master, pod, info)) = self.serving_master() else { return false };
        let link = || self.info(ordinal)?.link();
        ordinal != master
            && link().is_some_and(|link| link.up && Some(&link.host) == pod.address.as_ref())
            && self.info(ordinal).is_some_and(|own| {
                !own.loading && own.continues(&info.history) && !is_cut_off(self, own, Duration::ZERO)
            })
            && self.pod(ordinal).is_some_and(|own| !self.is_unheard(own) && !has_fewer_databases(own, pod))
    }

    /// Reports whether the serving master has had no acknowledgement of that replica for a while.
    pub fn is_unheard(&self, pod: &Pod) -> bool {
        let Some((_, _, master)) = self.serving_master() else { return false };
        let most = self.hang_timeout() + MEASURED_BEFORE;
        let known = master.attached.iter().filter(|it| Some(&it.host) == pod.address.as_ref());
        // An address may be known twice, after the replica has connected again.
        pod.own.stalled || known.map(|it| it.lag_seconds).min().is_some_and(|lag| lag > most)
    }

    /// Reports whether the serving master has a node as an online replica that acknowledged lately.
    pub fn is_attached(&self, pod: &Pod) -> bool {
        let Some((_, _, master)) = self.serving_master() else { return false };
        let is_this = |it: &Attached| Some(&it.host) == pod.address.as_ref();
        let hears = |it: &Attached| is_this(it) && it.online && it.lag_seconds <= LAG_SECONDS;
        !pod.own.stalled && master.attached.iter().any(hears)
    }

    /// Returns the record of a node.
    pub fn recorded(&self, ordinal: i32) -> Option<&NodeStatus> {
        let name = names::pod(self.object, ordinal);
        self.before.nodes.iter().find(|node| node.name == name)
    }

    /// Reports whether a node could take writes as a master, as far as its disk is concerned.
    pub fn persists(&self, info: &Info) -> bool {
        let makes_snapshots = settings::settings(self.object).get("save").is_some_and(|save| !save.is_empty());
        !(info.log_fails || (info.snapshot_fails && makes_snapshots))
    }

    /// Reports whether the pod was made from another spec, or before a restart that was asked for.
    pub fn is_outdated(&self, pod: &Pod) -> bool {
        pod.revision != *self.revision()
            || self.needs_another_process(pod)
            || self.observed.set.is_to_restart(self.object, pod)
    }

    /// The revision of the template from which pods are made.
    pub fn revision(&self) -> &String {
        self.revision.get_or_init(|| resources::revision(self.object))
    }

    /// Returns the reason to replace a pod that is well.
    pub fn why_replaced(&self, pod: &Pod) -> &'static str {
        if self.observed.set.is_to_restart(self.object, pod) {
            "kubectl rollout restart asks for it"
        } else {
            "the spec changed"
        }
    }

    /// Reports whether the pod has worked, and its successor might not.
    pub fn must_stay(&self, pod: &Pod) -> bool {
        self.observed.set.must_stay(self.object, pod, |pod| self.is_outdated(pod))
    }

    /// Reports whether only a new process gets the settings: this one still has a setting that was removed from the spec, and
    /// the value before it is not known; or it refuses to change one.
    fn needs_another_process(&self, pod: &Pod) -> bool {
        let note = AppliedConfig::read(pod).filter(|note| pod.info().is_some_and(|info| info.run_id == note.run_id));
        note.is_some_and(|note| {
            note.names.iter().any(|name| !self.object.spec.config.contains_key(name))
                || (!note.fixed.is_empty() && note.needs_another_process(&settings::settings(self.object)))
        })
    }

    /// Describes nodes with their places and what is seen of them, and names the command that shows more.
    pub fn unwell(&self, ordinals: impl IntoIterator<Item = i32>) -> String {
        let describe = |ordinal: i32| {
            let Some(pod) = self.pod(ordinal) else {
                return format!("{}, whose pod is missing", names::pod(self.object, ordinal));
            };
            let seen = match &pod.own.state {
                _ if pod.terminating => "which is terminating",
                NodeState::Gone | NodeState::Silent(_) if self.is_attached(pod) => {
                    "which Causeway cannot reach, although the master hears it: look for a NetworkPolicy or a firewall \
                     between Causeway and the pod"
                }
                NodeState::Gone => "whose process does not run",
                NodeState::Silent(_) if pod.own.busy => "which runs a script, and answers BUSY to everything else",
                NodeState::Silent(_) => "which does not answer",
                NodeState::Refuses(_) => "which refuses to answer",
                NodeState::Answers(info) if info.loading => "which reads its data",
                NodeState::Answers(info) => match info.link() {
                    Some(link) if link.syncing => "which copies all data from the master",
                    Some(link) if !link.up => "which has no connection to the master",
                    _ if self.is_unheard(pod) || is_cut_off(self, info, Duration::ZERO) => {
                        "which does not receive what the master sends, although their connection is open: look for a \
                         NetworkPolicy, a firewall or a lost Kubernetes node between them"
                    }
                    _ if self.serving_master().is_some_and(|(_, master, _)| has_fewer_databases(pod, master)) => {
                        "which has fewer databases than the master"
                    }
                    _ if !pod.ready => "whose pod is not ready",
                    _ => "which is about to follow",
                },
            };
            format!("{}, {seen}", pod.place())
        };
        let all: Vec<i32> = ordinals.into_iter().collect();
        let more = all.first().map(|first| format!(" (kubectl describe pod {})", names::pod(self.object, *first)));
        let described: Vec<String> = all.into_iter().map(describe).collect();
        described.join("; ") + &more.unwrap_or_default()
    }

    /// Trouble of a pod that does not pass by itself, in words that do not change at every try.
    pub fn pod_trouble(&self) -> Option<(&'static str, String)> {
        self.observed.set.pod_trouble(trouble_of)
    }
}

/// Reports whether a node has fewer databases than another. It executes writes to those that it lacks in one that it has.
fn has_fewer_databases(pod: &Pod, than: &Pod) -> bool {
    pod.own.databases.zip(than.own.databases).is_some_and(|(own, other)| own < other)
}

fn trouble_of(pod: &Pod, word: &str) -> Option<(&'static str, String)> {
    let name = &pod.name;
    if let Some(text) = FIELDS.describe(name, word, &pod.evidence) {
        return Some(text);
    }
    match word {
        "CrashLoopBackOff" | "RunContainerError" | "CreateContainerError" | "CreateContainerConfigError" => {
            if pod.has_no_space() {
                let text = format!("the volume of pod {name} is full: raise spec.storage.size");
                return Some(("VolumeFull", text));
            }
            let words = pod.last_words.as_deref().unwrap_or_default();
            if let Some(text) = modules::trouble(name, words) {
                return Some(("NodeCrashing", text));
            }
            let refused = words.lines().rfind(|line| line.starts_with(">>> "));
            let text = match refused {
                None if let Some(evidence) = pod.damage() => format!(
                    "pod {name} cannot read its data ({evidence}): a replica is emptied as soon as a master with all data \
                     serves; the only node with data is left as it is: repair its file (redis-check-aof --fix, or \
                     redis-check-rdb) or restore a backup. kubectl logs {name} --previous has all that it said"
                ),
                Some(line) => format!("pod {name} does not start; Redis refuses spec.config at {line}"),
                None => {
                    let api_message = pod.last_words.as_deref().and_then(damage::log_message);
                    FIELDS.crash(name, &pod.evidence, api_message.as_deref())
                }
            };
            Some(("NodeCrashing", text))
        }
        _ => None,
    }
}
