//! Watches for processes of an earlier version. They serve all kinds by one lease. Some of these kinds have a lease of
//! their own now, which those processes do not know.

use jiff::Timestamp;

use super::step::{self, Observation};
use super::{Election, Lost, now};

/// Watches the lease by which an earlier version leads. It never writes that lease.
pub struct Predecessor {
    election: Election,
    /// Whether processes of this version also take that lease. If so, the earlier version is gone only when one of them
    /// holds it: until then, another process of the earlier version may take it.
    has_successor: bool,
}

impl Predecessor {
    /// Watches the lease of `election`. `has_successor` is whether processes of this version are candidates for it.
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

    /// Waits until a process of an earlier version leads again, as after a rollback.
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
