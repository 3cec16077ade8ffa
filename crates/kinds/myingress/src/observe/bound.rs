//! Which bindings are in force, and since when target groups have none. Pure.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use crate::ownership::ObjectKey;
use crate::targets::Binding;

/// The bindings in force, by owner. An owner that follows nothing because that was decided is not the same as one about
/// which nothing was decided since the start.
#[derive(Clone, Debug, Default)]
pub struct Bound(HashMap<ObjectKey, Decided>);

/// The decision about an owner.
#[derive(Clone, Debug, Default)]
struct Decided {
    bindings: Vec<Binding>,
    /// When each target group lost its binding, by ARN. A group loses it when nothing forwards to it any more.
    idle: BTreeMap<String, Timestamp>,
}

impl Bound {
    /// The bindings of an owner.
    pub fn get(&self, owner: &ObjectKey) -> &[Binding] {
        self.0.get(owner).map(|decided| decided.bindings.as_slice()).unwrap_or_default()
    }

    /// When target groups of an owner that are still there lost their bindings, by ARN. The others are forgotten.
    pub fn idle(&mut self, owner: &ObjectKey, is_there: impl Fn(&String) -> bool) -> BTreeMap<String, Timestamp> {
        let Some(decided) = self.0.get_mut(owner) else { return BTreeMap::new() };
        decided.idle.retain(|arn, _| is_there(arn));
        decided.idle.clone()
    }

    /// The bindings of all owners.
    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &Binding> {
        self.0.values().flat_map(|decided| &decided.bindings)
    }

    /// Reports whether its bindings were decided, even if there are none.
    pub fn knows(&self, owner: &ObjectKey) -> bool {
        self.0.contains_key(owner)
    }

    /// Replaces the bindings of an owner.
    pub fn set(&mut self, owner: &ObjectKey, bindings: Vec<Binding>, now: Timestamp) {
        let decided = self.0.entry(owner.clone()).or_default();
        let before = std::mem::replace(&mut decided.bindings, bindings);
        for arn in before.into_iter().filter_map(|binding| binding.group_arn) {
            decided.idle.entry(arn).or_insert(now);
        }
        for arn in decided.bindings.iter().filter_map(|binding| binding.group_arn.as_ref()) {
            decided.idle.remove(arn);
        }
    }

    /// Forgets what was decided about an owner.
    pub fn forget(&mut self, owner: &ObjectKey) {
        self.0.remove(owner);
    }

    /// Forgets the owners that follow nothing, except for those that are needed.
    pub fn forget_idle(&mut self, is_needed: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|owner, decided| !decided.bindings.is_empty() || is_needed(owner));
    }
}
