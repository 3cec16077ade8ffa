//! Decides the next call that brings a target group to its endpoints. Pure: times and outcomes are parameters.
//!
//! New targets are registered before old ones are deregistered, so a group that serves goes on serving. One target that
//! AWS refuses must not keep the others out: a refused batch is halved until that target is alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::cache::TargetCache;
use crate::external::aws::AwsError;
use crate::external::elbv2::{Target, TargetHealth};
use crate::runtime::Class;

/// The most targets in one call.
const BATCH: usize = 200;
/// A target that AWS refused is offered again after this: its VPC's address ranges may have grown.
const REFUSED_FOR: Duration = Duration::from_mins(1);

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

/// What is known about the way of a group to its endpoints.
#[derive(Debug, Default)]
pub struct Planner {
    /// What AWS has.
    pub cache: TargetCache,
    refused: BTreeMap<Target, Refusal>,
    batch: usize,
    /// Why nothing more is registered in this attempt, if registering failed.
    stuck: Option<Stuck>,
    /// Whether deregistering failed in this attempt.
    kept: bool,
}

#[derive(Debug)]
struct Refusal {
    why: String,
    until: Instant,
}

/// Why nothing more is registered in this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// A quota is used up: deregistering makes room.
    Full,
    /// Something else.
    Failed,
}

impl Planner {
    /// A planner for a group with this cache.
    pub fn from(cache: TargetCache) -> Self {
        Self { cache, ..Self::default() }
    }

    /// Begins a new attempt: what failed in the last one is tried again.
    pub fn begin(&mut self, now: Instant) {
        self.refused.retain(|_, refusal| refusal.until > now);
        (self.batch, self.stuck, self.kept) = (BATCH, None, false);
    }

    /// The next call.
    pub fn next(&self, wanted: &BTreeSet<Target>) -> Step {
        if self.cache.unknown() {
            return Step::Read;
        }
        let mut difference = self.cache.difference(wanted);
        difference.register.retain(|target| !self.refused.contains_key(target));
        if !difference.register.is_empty() && self.stuck.is_none() {
            difference.register.truncate(self.batch.max(1));
            return Step::Register(difference.register);
        }
        // If no wanted target could be registered, the group is not emptied: its old targets may still serve.
        let safe = wanted.is_empty() || self.cache.serves(wanted) || self.stuck == Some(Stuck::Full);
        if !difference.deregister.is_empty() && !self.kept && safe {
            difference.deregister.truncate(BATCH);
            return Step::Deregister(difference.deregister);
        }
        Step::Rest
    }

    /// Whether nothing is left to do, except for targets that AWS refuses.
    pub fn arrived(&self, wanted: &BTreeSet<Target>) -> bool {
        let difference = self.cache.difference(wanted);
        !self.cache.unknown()
            && difference.deregister.is_empty()
            && difference.register.iter().all(|target| self.refused.contains_key(target))
    }

    /// Notes that the targets were registered.
    pub fn registered(&mut self, targets: &[Target], now: Instant) {
        self.cache.registered(targets, now);
        self.batch = (self.batch * 2).min(BATCH);
    }

    /// Notes that the targets were deregistered.
    pub fn deregistered(&mut self, targets: &[Target], now: Instant) {
        self.cache.deregistered(targets, now);
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
        match (error.class, targets) {
            (Class::Invalid, [target]) => {
                let refusal = Refusal { why: error.to_string(), until: now + REFUSED_FOR };
                self.refused.insert(target.clone(), refusal);
                true
            }
            (Class::Invalid, several) => {
                self.batch = several.len() / 2;
                true
            }
            _ => {
                let quota = error.code.as_deref().is_some_and(|code| code.starts_with("TooMany"));
                let full = quota && error.class == Class::Denied;
                self.stuck = Some(if full { Stuck::Full } else { Stuck::Failed });
                false
            }
        }
    }

    /// Notes that the targets were not deregistered, or that the outcome is unknown.
    pub fn not_deregistered(&mut self, error: &AwsError) {
        self.kept = true;
        if error.ambiguous {
            self.cache.invalidate();
        }
    }

    /// Why AWS refuses a wanted target.
    pub fn refusal(&self, wanted: &BTreeSet<Target>) -> Option<&str> {
        self.refused.iter().find(|(target, _)| wanted.contains(*target)).map(|(_, refusal)| refusal.why.as_str())
    }

    /// Whether AWS says that the group has no room.
    #[cfg(test)]
    pub fn full(&self) -> bool {
        self.stuck == Some(Stuck::Full)
    }

    /// When a refused target is tried again.
    pub fn offered_again(&self) -> Option<Instant> {
        self.refused.values().map(|refusal| refusal.until).min()
    }
}
