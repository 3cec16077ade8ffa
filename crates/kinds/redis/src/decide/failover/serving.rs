//! `Serving`: the recorded master answers as one. The role moves to a replica before the master is lost.

use super::super::{AT_ONCE, Step, View};
use super::reasons::{DISK_FAILED, NODE_LOST};
use super::{Next, change, successor};
use crate::facts::{NodePod, Pod};
use causeway_databases::redis::Info;

pub fn step(view: &View<'_>, master: i32, pod: &Pod, info: &Info) -> Next {
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
    let successor = successor::best(view, master);
    successor.map_or(Next::Nothing, |to| Next::Begin(change::failover(view, Some(master), to, reason, true)))
}
