//! Whether the master takes writes: its own word for it, and what becomes of a master that does not.

use super::super::facts::Pod;
use super::{AT_ONCE, SELDOM, Step, View, switchover};
use crate::external::redis::Writes;
use crate::runtime::Health;

/// Why the role goes to another node.
const DISK_FAILED: &str = "DiskFailed";
/// The code of a refusal for what the disk does.
const DISK: &str = "MISCONF";
/// The code of a refusal because too few replicas follow.
const REPLICAS: &str = "NOREPLICAS";
/// The code of a refusal because memory is full.
const MEMORY: &str = "OOM";

/// A master whose disk takes nothing hands over to a replica whose disk does.
pub fn elsewhere(view: &View<'_>, master: i32, pod: &Pod) -> Option<Step> {
    let is_stuck = pod.writes.as_ref().is_some_and(|writes| writes.are_refused_for(DISK));
    is_stuck.then(|| switchover::away(view, master, DISK_FAILED)).flatten()
}

/// The step, and that writes are refused meanwhile: nobody is told ready then.
pub fn told(view: &View<'_>, mut step: Step) -> Step {
    let Some((_, pod, info)) = view.serving_master().filter(|_| view.before.failover.is_none()) else { return step };
    if info.handing_over {
        return step;
    }
    let is_ready = matches!(step.health, Health::Ready(_));
    let (reason, told) = match &pod.writes {
        None if is_ready => {
            let told = format!("waiting for {} to answer a write", pod.name);
            return Step { health: Health::progressing("Confirming", told), again: AT_ONCE * 4, ..step };
        }
        Some(Writes::Taken) | None => return step,
        Some(Writes::Waiting) => ("WritesWait", waiting(pod)),
        Some(Writes::Refused(words)) => ("WritesRefused", refused(pod, words)),
    };
    if is_ready {
        step.again = step.again.min(SELDOM);
        return Step { health: Health::progressing(reason, told), ..step };
    }
    let Health::Progressing(cause) = &step.health else { return step };
    // Replicas that are missing are what is waited for.
    let is_known = pod.writes.as_ref().is_some_and(|writes| writes.are_refused_for(REPLICAS));
    let reason = if is_known { cause.reason } else { reason };
    step.health = Health::progressing(reason, format!("{told}; {}", cause.message));
    step
}

fn refused(pod: &Pod, words: &str) -> String {
    let name = &pod.name;
    let advice = match words.split_whitespace().next().unwrap_or_default() {
        DISK => {
            return format!(
                "{name} refuses writes: {words}; no other node could take the role. Where its volume is full (kubectl exec \
                 {name} -- df -h /data), raise spec.storage.size; else kubectl logs {name} has what its disk said"
            );
        }
        MEMORY => {
            "; raise spec.config.maxmemory and the memory of spec.resources, or choose spec.config.maxmemory-policy"
        }
        REPLICAS => "; spec.failover.minReplicasToWrite asks for replicas that follow closely",
        _ => "",
    };
    format!("{name} refuses writes: {words}{advice}")
}

fn waiting(pod: &Pod) -> String {
    let name = &pod.name;
    format!("{name} answers, but lets writes wait: somebody paused its clients (CLIENT PAUSE; CLIENT UNPAUSE ends it)")
}
