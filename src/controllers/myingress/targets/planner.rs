//! Decides the next call that brings a target group to its endpoints. Pure: time and outcomes are given.
//!
//! New targets are registered before old ones are deregistered, so that a group that serves goes on serving. One
//! target that AWS refuses must not keep the others out: a refused batch is halved until the culprit is alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::cache::TargetCache;
use crate::external::aws::AwsError;
use crate::external::elbv2::{Target, TargetHealth};
use crate::runtime::Class;

/// Targets of one call.
const BATCH: usize = 200;
/// A target that AWS refused is offered again after this: its VPC's address ranges may have grown.
const REFUSED_FOR: Duration = Duration::from_mins(1);

/// The next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// AWS must be asked what the group has.
    Read,
    /// These are to be registered.
    Register(Vec<Target>),
    /// These are to be deregistered.
    Deregister(Vec<Target>),
    /// Nothing more, for now.
    Rest,
}

/// Where a group is on its way to its endpoints.
#[derive(Debug, Default)]
pub struct Planner {
    /// What AWS has.
    pub cache: TargetCache,
    refused: BTreeMap<Target, Refusal>,
    batch: usize,
    /// Registering failed in this attempt.
    stuck: Option<Stuck>,
    /// Deregistering failed in this attempt.
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
    /// Of a group of which so much is known.
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
        // Where nothing that is wanted could be registered, the group is not emptied: old targets may still serve.
        let safe = wanted.is_empty() || self.cache.serves(wanted) || self.stuck == Some(Stuck::Full);
        if !difference.deregister.is_empty() && !self.kept && safe {
            difference.deregister.truncate(BATCH);
            return Step::Deregister(difference.deregister);
        }
        Step::Rest
    }

    /// Whether nothing is left to do but what AWS refuses.
    pub fn arrived(&self, wanted: &BTreeSet<Target>) -> bool {
        let difference = self.cache.difference(wanted);
        !self.cache.unknown()
            && difference.deregister.is_empty()
            && difference.register.iter().all(|target| self.refused.contains_key(target))
    }

    /// The targets were registered.
    pub fn registered(&mut self, targets: &[Target], now: Instant) {
        self.cache.registered(targets, now);
        self.batch = (self.batch * 2).min(BATCH);
    }

    /// The targets were deregistered.
    pub fn deregistered(&mut self, targets: &[Target], now: Instant) {
        self.cache.deregistered(targets, now);
    }

    /// The group was read.
    pub fn read(&mut self, answer: BTreeMap<Target, TargetHealth>, now: Instant) {
        self.cache.read(answer, now);
    }

    /// The targets were not registered, or nobody knows. True when that is dealt with here.
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

    /// The targets were not deregistered, or nobody knows.
    pub fn not_deregistered(&mut self, error: &AwsError) {
        self.kept = true;
        if error.ambiguous {
            self.cache.invalidate();
        }
    }

    /// Why AWS does not take a target that is wanted.
    pub fn refusal(&self, wanted: &BTreeSet<Target>) -> Option<&str> {
        self.refused.iter().find(|(target, _)| wanted.contains(*target)).map(|(_, refusal)| refusal.why.as_str())
    }

    /// AWS says that the group has no room.
    #[cfg(test)]
    pub fn full(&self) -> bool {
        self.stuck == Some(Stuck::Full)
    }

    /// When a refused target is offered again.
    pub fn offered_again(&self) -> Option<Instant> {
        self.refused.values().map(|refusal| refusal.until).min()
    }
}
