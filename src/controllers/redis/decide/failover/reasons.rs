//! The reasons of the status for another master, and which of them are a loss.

use crate::api::redis::LastFailover;

/// The master does not answer, though nothing shows that it is gone.
pub const MASTER_SILENT: &str = "MasterSilent";
/// The Kubernetes node of the master does not answer.
pub const NODE_LOST: &str = "NodeLost";
/// The disk of the master refuses writes.
pub const DISK_FAILED: &str = "DiskFailed";

/// Reasons that are reported as a loss.
const LOSSES: [&str; 3] = ["MasterLost", "MasterEmptied", "DataGone"];
/// Losses that no returning node can undo: the data are gone, whichever node becomes the master.
const CERTAIN_LOSSES: [&str; 2] = ["MasterEmptied", "DataGone"];

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
