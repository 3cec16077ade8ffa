//! Decides the next call that brings a target group to its endpoints. Pure: times and outcomes are parameters.
//!
//! New targets are registered before old ones are deregistered, so a group that serves goes on serving. One target that
//! AWS refuses must not keep the others out: a refused batch is halved until that target is alone. Where a quota has no
//! room, what fits is registered, and then old targets give way in portions, each of which is replaced before the next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use causeway_aws::aws::AwsError;
use causeway_aws::elbv2::{Target, TargetHealth};
use causeway_runtime::Class;

use super::cache::{Difference, TargetCache};

/// The most targets in one call.
const BATCH: usize = 200;
/// A target that AWS refused is offered again after this: its VPC's address ranges may have grown.
const REFUSED_FOR: Duration = Duration::from_mins(1);

/// AWS's code where a group or a balancer has no room for so many targets.
/// <https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_RegisterTargets.html>
pub const FULL: &str = "TooManyTargets";

/// The next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask AWS for the group's targets.
    Read,
    /// Register these.
    Register(Vec<Target>),
    /// Deregister these.
    Deregister(Vec<Target>),
    /// Nothing to do for now.
    Rest,
}

/// Everything known about the way of a group to its endpoints.
#[derive(Debug, Default)]
pub struct Planner {
    /// The targets that AWS has.
    pub cache: TargetCache,
    refused: BTreeMap<Target, Refusal>,
    batch: usize,
    /// How many more targets AWS has room for at most; `None` unless a quota refused some.
    room: Option<usize>,
    /// How many targets were deregistered to make room, and are not replaced yet.
    owed: usize,
    /// True if registering failed in this attempt, and not for a quota.
    stuck: bool,
    /// True if deregistering failed in this attempt.
    kept: bool,
}

#[derive(Debug)]
struct Refusal {
    why: String,
    until: Instant,
}

impl Planner {
    /// A planner for a group with this cache.
    pub fn from(cache: TargetCache) -> Self {
        Self { cache, ..Self::default() }
    }

    /// Begins a new attempt: what failed in the last one is tried again. `full` says whether the quota that refused
    /// targets is not tried yet; then only what is deregistered makes room. Otherwise one target shows whether there is
    /// room again: halving a whole batch would cost many calls each time if there is none.
    pub fn begin(&mut self, now: Instant, full: bool) {
        self.refused.retain(|_, refusal| refusal.until > now);
        (self.batch, self.stuck, self.kept) = (BATCH, false, false);
        if !full && self.room.take().is_some() {
            self.batch = 1;
        }
    }

    /// The next call. `gone` are registered targets that serve no client any more; they matter only while the planner
    /// is [full](Self::full).
    pub fn next(&self, wanted: &BTreeSet<Target>, gone: &BTreeSet<Target>) -> Step {
        if self.cache.unknown() {
            return Step::Read;
        }
        let Difference { mut register, deregister } = self.cache.difference(wanted);
        register.retain(|target| !self.refused.contains_key(target));
        let room = self.room.unwrap_or(BATCH);
        if !register.is_empty() && !self.stuck && room > 0 {
            register.truncate(self.batch.max(1).min(room));
            return Step::Register(register);
        }
        let mut leaving = if self.full() && !register.is_empty() {
            self.giving_way(deregister, gone, register.len())
        } else if wanted.is_empty() || self.cache.serves(wanted) {
            deregister
        } else {
            // If no wanted target could be registered, the group is not emptied: its old targets may still serve.
            Vec::new()
        };
        if leaving.is_empty() || self.kept {
            return Step::Rest;
        }
        leaving.truncate(BATCH);
        Step::Deregister(leaving)
    }

    /// Which of the surplus targets leave while so many others wait for room. At least half of the targets that may
    /// serve stay, except for a last one. It is not known whether AWS gives the room to this group, for the quota of a
    /// balancer is shared by its groups, so a portion is replaced before the next one leaves.
    fn giving_way(&self, surplus: Vec<Target>, gone: &BTreeSet<Target>, waiting: usize) -> Vec<Target> {
        let serving = self.cache.there().len().saturating_sub(surplus.len());
        let (dead, mut alive): (Vec<Target>, Vec<Target>) =
            surplus.into_iter().partition(|target| gone.contains(target));
        if !dead.is_empty() {
            return dead;
        }
        if serving < alive.len() {
            let may = self.owed == 0 && self.room == Some(0);
            alive.truncate(if may { waiting.min((alive.len() / 2).max(1)) } else { 0 });
        }
        alive
    }

    /// Reports whether nothing is left to do, except for targets that AWS refuses. If so, forgets what a quota refused.
    pub fn arrived(&mut self, wanted: &BTreeSet<Target>) -> bool {
        let difference = self.cache.difference(wanted);
        let arrived = !self.cache.unknown()
            && difference.deregister.is_empty()
            && difference.register.iter().all(|target| self.refused.contains_key(target));
        if arrived {
            (self.room, self.owed) = (None, 0);
        }
        arrived
    }

    /// Notes that the targets were registered.
    pub fn registered(&mut self, targets: &[Target], now: Instant) {
        self.cache.registered(targets, now);
        self.batch = (self.batch * 2).min(BATCH);
        self.room = self.room.map(|room| room.saturating_sub(targets.len()));
        self.owed = self.owed.saturating_sub(targets.len());
    }

    /// Notes that the targets were deregistered.
    pub fn deregistered(&mut self, targets: &[Target], now: Instant) {
        self.cache.deregistered(targets, now);
        if let Some(room) = &mut self.room {
            *room += targets.len();
            self.owed += targets.len();
            self.batch = BATCH;
        }
    }

    /// Enters AWS's answer to a read of the group.
    pub fn read(&mut self, answer: BTreeMap<Target, TargetHealth>, now: Instant) {
        self.cache.read(answer, now);
    }

    /// Notes that the targets were not registered, or that the outcome is unknown. Returns true if nothing else needs
    /// to handle the failure.
    pub fn not_registered(&mut self, targets: &[Target], error: &AwsError, now: Instant) -> bool {
        if error.ambiguous {
            self.cache.invalidate();
            return false;
        }
        if error.is(FULL) {
            (self.room, self.batch) = (Some(targets.len().saturating_sub(1)), targets.len() / 2);
            return false;
        }
        if error.class != Class::Invalid {
            self.stuck = true;
            return false;
        }
        if let [target] = targets {
            let refusal = Refusal { why: error.to_string(), until: now + REFUSED_FOR };
            self.refused.insert(target.clone(), refusal);
        } else {
            self.batch = targets.len() / 2;
        }
        true
    }

    /// Notes that the targets were not deregistered, or that the outcome is unknown.
    pub fn not_deregistered(&mut self, error: &AwsError) {
        self.kept = true;
        if error.ambiguous {
            self.cache.invalidate();
        }
    }

    /// Returns the reason why AWS refuses a wanted target.
    pub fn refusal(&self, wanted: &BTreeSet<Target>) -> Option<&str> {
        self.refused.iter().find(|(target, _)| wanted.contains(*target)).map(|(_, refusal)| refusal.why.as_str())
    }

    /// Reports whether a quota refused targets, so others may have to give way.
    pub fn full(&self) -> bool {
        self.room.is_some()
    }

    /// When a refused target is tried again.
    pub fn offered_again(&self) -> Option<Instant> {
        self.refused.values().map(|refusal| refusal.until).min()
    }
}
