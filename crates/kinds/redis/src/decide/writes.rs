//! Reports whether the master takes writes, by its own answer.

use kube::ResourceExt;

use causeway_databases::redis::Writes;
use causeway_runtime::Health;

use super::super::facts::{DISK, Pod};
use super::super::memory;
use super::{AT_ONCE, RETRY_INTERVAL, Step, View};

/// Redis's error code if too few replicas follow.
const REPLICAS: &str = "NOREPLICAS";
/// Redis's error code if memory is full.
const MEMORY: &str = "OOM";

/// The step, whose health says so if the master does not take writes: then the object is not ready.
pub fn describe(view: &View<'_>, mut step: Step) -> Step {
    let Some((_, pod, info)) = view.serving_master().filter(|_| view.before.failover.is_none()) else { return step };
    if info.handing_over {
        return step;
    }
    let is_ready = matches!(step.health, Health::Ready(_));
    let (reason, text) = match &pod.own.writes {
        None if is_ready => {
            let text = format!("waiting for {} to answer a write", pod.name);
            return Step { health: Health::progressing("Confirming", text), again: AT_ONCE * 4, ..step };
        }
        Some(Writes::Taken) | None => return step,
        Some(Writes::Waiting) => ("WritesWait", waiting(pod)),
        Some(Writes::Refused(words)) => ("WritesRefused", describe_refusal(view, pod, words)),
    };
    if is_ready {
        step.again = step.again.min(RETRY_INTERVAL);
        return Step { health: Health::progressing(reason, text), ..step };
    }
    let Health::Progressing(cause) = &step.health else { return step };
    step.health = Health::progressing(reason, format!("{text}; {}", cause.message));
    step
}

fn describe_refusal(view: &View<'_>, pod: &Pod, words: &str) -> String {
    let name = &pod.name;
    let advice = match words.split_whitespace().next().unwrap_or_default() {
        DISK => format!(
            "; no other node could take the role. Where its volume is full (kubectl exec {name} -- df -h /data), raise \
             spec.storage.size; else look for the disk error in kubectl logs {name}"
        ),
        MEMORY => memory_advice(view, pod),
        REPLICAS => "; spec.failover.minReplicasToWrite asks for replicas that follow closely".into(),
        _ => format!("; kubectl logs {name} has what it said"),
    };
    format!("{name} refuses writes: {words}{advice}")
}

fn memory_advice(view: &View<'_>, pod: &Pod) -> String {
    match memory::given_by_others(view.object, pod.own.memory_limit) {
        Some(limit) => format!(
            "; its memory limit of {} MiB comes from no field of the spec but from a LimitRange or a webhook (kubectl -n {} get \
             limitrange): set spec.resources.limits.memory, or choose spec.config.maxmemory-policy",
            limit >> 20,
            view.object.namespace().unwrap_or_default()
        ),
        None => {
            "; raise spec.config.maxmemory and the memory of spec.resources, or choose spec.config.maxmemory-policy"
                .into()
        }
    }
}

fn waiting(pod: &Pod) -> String {
    let name = &pod.name;
    format!(
        "{name} answers, but lets writes wait: its clients were paused (CLIENT PAUSE; CLIENT UNPAUSE ends it), or its disk \
         is too slow for its append-only file (kubectl logs {name} then says that an fsync takes too long)"
    )
}
