//! The targets that AWS has in a group, as we believe. It is read once, then updated by our own calls. Pure: the time
//! is a parameter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use causeway_aws::elbv2::{Target, TargetHealth, TargetState};

use super::facts::canonical_address;

/// Reads lag behind writes: for this long after a call of ours, a read that contradicts it is not believed.
const READ_LAG: Duration = Duration::from_secs(10);

/// The targets of one group.
#[derive(Clone, Debug, Default)]
pub struct TargetCache {
    targets: BTreeMap<Target, Entry>,
    /// When it was last read; `None` while it must be read before anything is deregistered.
    read: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Entry {
    health: TargetHealth,
    /// When we last changed it; `None` once a read agrees.
    written: Option<Instant>,
}

/// The calls that a group needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Targets to register first.
    pub register: Vec<Target>,
    /// Targets to deregister after that.
    pub deregister: Vec<Target>,
}

impl Difference {
    /// Reports whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.register.is_empty() && self.deregister.is_empty()
    }
}

impl TargetCache {
    /// The cache of a group that we have just created.
    pub fn empty(now: Instant) -> Self {
        Self { targets: BTreeMap::new(), read: Some(now) }
    }

    /// Reports whether the group must be read before anything is done.
    pub fn unknown(&self) -> bool {
        self.read.is_none()
    }

    /// Notes that the outcome of a call is not known: the group must be read before anything else is done.
    pub fn invalidate(&mut self) {
        self.read = None;
        for entry in self.targets.values_mut() {
            entry.written = None;
        }
    }

    /// Enters AWS's answer to a read.
    pub fn read(&mut self, answer: BTreeMap<Target, TargetHealth>, now: Instant) {
        let lagging = |entry: &Entry| entry.written.is_some_and(|written| now.duration_since(written) < READ_LAG);
        let mut targets: BTreeMap<Target, Entry> =
            answer.into_iter().map(|(target, health)| (canonical(target), Entry { health, written: None })).collect();
        for (target, ours) in std::mem::take(&mut self.targets) {
            let agrees = match targets.get(&target) {
                Some(theirs) => registered(&theirs.health) == registered(&ours.health),
                None => !registered(&ours.health),
            };
            if !agrees && lagging(&ours) {
                targets.insert(target, ours);
            }
        }
        self.targets = targets;
        self.read = Some(now);
    }

    /// Enters that we registered targets.
    pub fn registered(&mut self, targets: &[Target], now: Instant) {
        for target in targets {
            // Registering a target that is registered changes nothing.
            if self.targets.get(target).is_none_or(|entry| !registered(&entry.health)) {
                self.targets.insert(target.clone(), written(TargetState::Initial, now));
            }
        }
    }

    /// Enters that we deregistered targets.
    pub fn deregistered(&mut self, targets: &[Target], now: Instant) {
        for target in targets {
            self.targets.insert(target.clone(), written(TargetState::Draining, now));
        }
    }

    /// How the group differs from what is wanted.
    pub fn difference(&self, wanted: &BTreeSet<Target>) -> Difference {
        if self.unknown() {
            return Difference::default();
        }
        let has = |target: &&Target| self.targets.get(*target).is_some_and(|entry| registered(&entry.health));
        let surplus =
            self.targets.iter().filter(|(target, entry)| registered(&entry.health) && !wanted.contains(target));
        Difference {
            register: wanted.iter().filter(|target| !has(target)).cloned().collect(),
            deregister: surplus.map(|(target, _)| target.clone()).collect(),
        }
    }

    /// Reports whether a wanted target is registered.
    pub fn serves(&self, wanted: &BTreeSet<Target>) -> bool {
        self.targets.iter().any(|(target, entry)| registered(&entry.health) && wanted.contains(target))
    }

    /// The health of a target in a read after `since`.
    pub fn health_after(&self, target: &Target, since: Instant) -> Option<&TargetHealth> {
        let entry = self.targets.get(target)?;
        (entry.written.is_none() && self.read.is_some_and(|read| read > since)).then_some(&entry.health)
    }

    /// The targets that were healthy when the group was last read.
    pub fn healthy(&self) -> impl Iterator<Item = &Target> {
        let healthy = self.targets.iter().filter(|(_, entry)| entry.health.state == TargetState::Healthy);
        healthy.map(|(target, _)| target)
    }

    /// The targets that are registered and do not drain.
    pub fn there(&self) -> BTreeSet<Target> {
        let there = self.targets.iter().filter(|(_, entry)| registered(&entry.health));
        there.map(|(target, _)| target.clone()).collect()
    }

    /// Every target with its health.
    pub fn targets(&self) -> impl Iterator<Item = (&Target, &TargetHealth)> {
        self.targets.iter().map(|(target, entry)| (target, &entry.health))
    }

    /// The state of each target. Only these matter for whether something changed.
    pub fn states(&self) -> BTreeMap<Target, TargetState> {
        self.targets().map(|(target, health)| (target.clone(), health.state)).collect()
    }
}

/// Returns the target with a canonical address, because AWS may write an IPv6 address in another way than Kubernetes.
fn canonical(target: Target) -> Target {
    Target { id: canonical_address(target.id), ..target }
}

fn registered(health: &TargetHealth) -> bool {
    health.state != TargetState::Draining
}

fn written(state: TargetState, now: Instant) -> Entry {
    Entry { health: TargetHealth { state, description: None }, written: Some(now) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TargetState::{Draining, Healthy, Initial};

    fn target(id: &str) -> Target {
        Target { id: id.into(), port: 80 }
    }

    fn answer(targets: &[(&str, TargetState)]) -> BTreeMap<Target, TargetHealth> {
        targets.iter().map(|(id, state)| (target(id), TargetHealth { state: *state, description: None })).collect()
    }

    fn wanted_targets(ids: &[&str]) -> BTreeSet<Target> {
        ids.iter().map(|id| target(id)).collect()
    }

    #[test]
    fn nothing_is_done_before_the_group_was_read() {
        let mut cache = TargetCache::default();
        assert!(cache.difference(&wanted_targets(&["a"])).is_empty());
        cache.read(answer(&[("b", Healthy)]), Instant::now());
        let difference = cache.difference(&wanted_targets(&["a"]));
        assert_eq!((difference.register, difference.deregister), (vec![target("a")], vec![target("b")]));
    }

    #[test]
    fn what_is_draining_is_not_registered() {
        let mut cache = TargetCache::default();
        cache.read(answer(&[("a", Draining), ("b", Draining)]), Instant::now());
        assert_eq!(cache.difference(&wanted_targets(&["a"])).register, [target("a")]);
        assert_eq!(cache.difference(&wanted_targets(&["a"])).deregister, []);
    }

    #[test]
    fn a_read_behind_our_calls_is_believed_only_later() {
        let now = Instant::now();
        let mut cache = TargetCache::empty(now);
        cache.registered(&[target("a")], now);
        let lagging = now + Duration::from_secs(1);
        cache.read(answer(&[]), lagging);
        assert!(cache.difference(&wanted_targets(&["a"])).is_empty());
        assert_eq!(cache.health_after(&target("a"), now), None, "it was not read");
        cache.deregistered(&[target("a")], lagging);
        cache.read(answer(&[("a", Healthy)]), lagging);
        assert!(cache.difference(&wanted_targets(&[])).is_empty());
        cache.read(answer(&[("a", Healthy)]), lagging + READ_LAG);
        assert_eq!(cache.difference(&wanted_targets(&[])).deregister, [target("a")]);
    }

    #[test]
    fn spellings_of_an_address_are_equal() {
        let mut cache = TargetCache::default();
        cache.read(answer(&[("fd00:0:0:0:0:0:0:1", Healthy), ("i-0abc", Healthy)]), Instant::now());
        assert!(cache.difference(&wanted_targets(&["fd00::1", "i-0abc"])).is_empty());
    }

    #[test]
    fn drift_is_seen_in_a_read() {
        let now = Instant::now();
        let mut cache = TargetCache::empty(now);
        cache.registered(&[target("a")], now);
        cache.read(answer(&[("a", Healthy)]), now);
        cache.read(answer(&[("x", Initial)]), now);
        let difference = cache.difference(&wanted_targets(&["a"]));
        assert_eq!((difference.register, difference.deregister), (vec![target("a")], vec![target("x")]));
    }

    #[test]
    fn an_unknown_outcome_is_read_before_the_next_change() {
        let now = Instant::now();
        let mut cache = TargetCache::empty(now);
        cache.registered(&[target("a")], now);
        cache.invalidate();
        assert!(cache.unknown() && cache.difference(&wanted_targets(&[])).is_empty());
        cache.read(answer(&[]), now);
        assert_eq!(cache.difference(&wanted_targets(&["a"])).register, [target("a")]);
    }

    #[test]
    fn health_counts_from_a_read_after_the_pod_could_serve() {
        let now = Instant::now();
        let mut cache = TargetCache::default();
        cache.read(answer(&[("a", Healthy)]), now);
        assert_eq!(cache.health_after(&target("a"), now), None);
        cache.read(answer(&[("a", Healthy)]), now + Duration::from_secs(1));
        assert_eq!(cache.health_after(&target("a"), now).map(|health| health.state), Some(Healthy));
    }
}
