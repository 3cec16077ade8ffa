//! Which bindings are in force. Pure.

use std::collections::HashMap;

use super::ownership::ObjectKey;
use super::targets::Binding;

/// The bindings in force, by owner. An owner that follows nothing because that was decided is not the same as one about
/// which nothing was decided since the start.
#[derive(Clone, Debug, Default)]
pub struct Bound(HashMap<ObjectKey, Vec<Binding>>);

impl Bound {
    /// The bindings of an owner.
    pub fn get(&self, owner: &ObjectKey) -> &[Binding] {
        self.0.get(owner).map(Vec::as_slice).unwrap_or_default()
    }

    /// The bindings of all owners.
    #[cfg(test)]
    pub fn all(&self) -> impl Iterator<Item = &Binding> {
        self.0.values().flatten()
    }

    /// Whether its bindings were decided, even if there are none.
    pub fn knows(&self, owner: &ObjectKey) -> bool {
        self.0.contains_key(owner)
    }

    /// Replaces the bindings of an owner.
    pub fn set(&mut self, owner: &ObjectKey, bindings: Vec<Binding>) {
        self.0.insert(owner.clone(), bindings);
    }

    /// Forgets what was decided about an owner.
    pub fn forget(&mut self, owner: &ObjectKey) {
        self.0.remove(owner);
    }

    /// Forgets the owners that follow nothing, except for those that are needed.
    pub fn forget_idle(&mut self, is_needed: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|owner, bindings| !bindings.is_empty() || is_needed(owner));
    }
}
