//! Keeps urgent calls from waiting behind others. Calls to AWS share one budget, so each kind of work may have only a
//! few calls in that queue. Namespaces take turns.

use causeway_runtime::{Slot, Slots};

/// The purpose of a call, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Following the endpoints of a group that once agreed with them: requests may be failing right now.
    Follow,
    /// Asking for the health of targets whose pods wait.
    Gate,
    /// Filling a new group, or reading one for the first time: after a start, thousands at once.
    Fill,
    /// Asking for health that only a status waits for.
    Status,
    /// Asking once in a sweep whether others changed the group. This uses only calls that no other read needs.
    Recheck,
}

/// The slots of each kind of work: at most eleven calls at the same time in all. Each is held for one call.
pub struct Priorities {
    follow: Slots,
    gate: Slots,
    fill: Slots,
    status: Slots,
    recheck: Slots,
}

impl Default for Priorities {
    fn default() -> Self {
        Self {
            // One of these slots is for namespaces of which no target is being changed.
            follow: Slots::with_reserve(4, 1),
            gate: Slots::with_reserve(2, 0),
            // Here as well.
            fill: Slots::with_reserve(3, 1),
            status: Slots::with_reserve(1, 0),
            recheck: Slots::with_reserve(1, 0),
        }
    }
}

impl Priorities {
    /// Waits for a turn of that namespace. `None` is never returned, for no task closes the slots.
    pub async fn turn(&self, priority: Priority, namespace: &str) -> Option<Slot> {
        let slots = match priority {
            Priority::Follow => &self.follow,
            Priority::Gate => &self.gate,
            Priority::Fill => &self.fill,
            Priority::Status => &self.status,
            Priority::Recheck => &self.recheck,
        };
        slots.acquire(namespace).await
    }
}
