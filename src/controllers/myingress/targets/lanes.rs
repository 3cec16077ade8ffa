//! Keeps what is urgent from waiting behind what is not: calls to AWS share one budget, first come first served, so
//! each kind of work may have only a few calls in that queue.

use tokio::sync::{Semaphore, SemaphorePermit};

/// What a call is for, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Following the endpoints of a group that once agreed with them: requests may be failing right now.
    Follow,
    /// Asking for the health of targets whose pods wait.
    Gate,
    /// Filling a new group, or reading one for the first time: after a start, thousands at once.
    Fill,
    /// Asking for health that only a status waits for.
    Status,
    /// Asking once in a sweep whether others changed the group: with calls that nobody else needs.
    Recheck,
}

/// At most nine calls at the same time in all.
pub struct Lanes {
    follow: Semaphore,
    gate: Semaphore,
    fill: Semaphore,
    status: Semaphore,
    recheck: Semaphore,
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            follow: Semaphore::new(3),
            gate: Semaphore::new(2),
            fill: Semaphore::new(2),
            status: Semaphore::new(1),
            recheck: Semaphore::new(1),
        }
    }
}

impl Lanes {
    /// Waits for a turn. `None` never comes: nobody closes a lane.
    pub async fn turn(&self, lane: Lane) -> Option<SemaphorePermit<'_>> {
        let semaphore = match lane {
            Lane::Follow => &self.follow,
            Lane::Gate => &self.gate,
            Lane::Fill => &self.fill,
            Lane::Status => &self.status,
            Lane::Recheck => &self.recheck,
        };
        semaphore.acquire().await.ok()
    }
}
