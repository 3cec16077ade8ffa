//! Processes of an earlier version, which serve by one lease what has leases of its own now, and know nothing of these.

use jiff::Timestamp;

use super::step::{self, Observation};
use super::{Election, Lost, now};

/// Looks at the lease by which an earlier version leads. Nothing is written.
pub struct Predecessor {
    election: Election,
    /// A process of this version is to hold the lease, too: until one does, another of the earlier version may be next.
    has_successor: bool,
}

impl Predecessor {
    /// Looks with the eyes of a candidate for that lease. `has_successor` is whether processes like this one are candidates.
    pub fn new(election: Election, has_successor: bool) -> Self {
        Self { election, has_successor }
    }

    /// Waits until no process of an earlier version leads.
    pub async fn until_gone(&mut self) {
        let mut is_known = false;
        let mut observation = self.election.read().await;
        loop {
            is_known |= matches!(observation, Observation::Lease(_));
            self.see(observation);
            let view = &self.election.view;
            let is_gone = if self.has_successor { view.is_shared() } else { view.predecessor(now()).is_none() };
            if is_known && is_gone {
                return;
            }
            observation = self.election.watch(self.election.candidate.timing.retry_period).await;
        }
    }

    /// Waits until one leads again, as after a rollback.
    pub async fn until_back(&mut self) -> Lost {
        let mut observation = self.election.read().await;
        loop {
            self.see(observation);
            if let Some(holder) = self.election.view.predecessor(now()) {
                return Lost::Taken(holder.to_owned());
            }
            observation = self.election.watch(self.election.candidate.timing.retry_period).await;
        }
    }

    fn see(&mut self, observation: Observation) {
        let Election { candidate, view, .. } = &mut self.election;
        let (_, seen) = step::step(candidate, view.clone(), observation, now(), Timestamp::now());
        *view = seen;
    }
}
