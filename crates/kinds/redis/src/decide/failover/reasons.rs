//! The reasons of the status for another master, and which of them are a loss.

use crate::applied_config::AppliedConfig;
use crate::facts::Pod;
use causeway_api::redis::LastFailover;
use causeway_databases::redis::Info;

/// The master does not answer, though nothing shows that it is gone.
pub const MASTER_SILENT: &str = "MasterSilent";
/// The process of the master was started again.
const MASTER_RESTARTED: &str = "MasterRestarted";
/// The process of the master runs, and was made a replica: by a client, or by the operator before it turned back.
const MASTER_DEMOTED: &str = "MasterDemoted";
/// The Kubernetes node of the master does not answer.
pub const NODE_LOST: &str = "NodeLost";
/// The disk of the master refuses writes.
pub const DISK_FAILED: &str = "DiskFailed";

/// Reasons that are reported as a loss.
const LOSSES: [&str; 3] = ["MasterLost", "MasterEmptied", "DataGone"];
/// Losses that no returning node can undo: the data are gone, whichever node becomes the master.
const CERTAIN_LOSSES: [&str; 2] = ["MasterEmptied", "DataGone"];

/// Returns the reason for a master that answers as a replica. Each process has its settings from the operator once, which is
/// recorded with the process.
pub fn role_lost(pod: &Pod, info: &Info) -> &'static str {
    let is_same = AppliedConfig::read(pod).is_some_and(|note| note.run_id == info.run_id);
    if is_same { MASTER_DEMOTED } else { MASTER_RESTARTED }
}

/// Reports whether the data are gone for good.
pub fn is_certain_loss(reason: &str) -> bool {
    CERTAIN_LOSSES.contains(&reason)
}

/// How writes were lost with a change of the master, if they were.
pub fn loss(last: &LastFailover) -> Option<String> {
    let from = last.from.as_deref().unwrap_or_default();
    LOSSES.contains(&last.reason.as_str()).then(|| match last.reason.as_str() {
        "DataGone" => format!("no node had the data of {from} any more, and {} began empty", last.to),
        _ => format!("{} took over from {from} without all of its data", last.to),
    })
}
