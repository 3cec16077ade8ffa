//! What a controller remembers of each object while it runs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value for each object, by its uid. All of it may be lost: a new process finds it out again.
///
/// The runtime calls [`Kind::forget`](super::Kind::forget) for objects that the watch's store does not have any more, also after
/// a reconcile that was under way meanwhile: a kind forgets each of its values there.
#[derive(Debug)]
pub struct PerObject<T>(Mutex<HashMap<String, T>>);

impl<T> Default for PerObject<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerObject<T> {
    /// Remembers a value, and returns the one before.
    pub fn set(&self, uid: &str, value: T) -> Option<T> {
        self.locked().insert(uid.to_owned(), value)
    }

    /// The value.
    pub fn get(&self, uid: &str) -> Option<T>
    where
        T: Clone,
    {
        self.locked().get(uid).cloned()
    }

    /// Takes the value away.
    pub fn take(&self, uid: &str) -> Option<T> {
        self.locked().remove(uid)
    }

    /// Forgets the value.
    pub fn forget(&self, uid: &str) {
        drop(self.take(uid));
    }

    /// Reads or changes the value where there is one. `with` must not wait for anything.
    pub fn with<R>(&self, uid: &str, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.locked().get_mut(uid).map(with)
    }

    /// The same, beginning with a value where there is none.
    pub fn change<R>(&self, uid: &str, begin: impl FnOnce() -> T, change: impl FnOnce(&mut T) -> R) -> R {
        change(self.locked().entry(uid.to_owned()).or_insert_with(begin))
    }

    /// Each change is one call that cannot panic half-way: after a panic the map is as good as before.
    fn locked(&self) -> MutexGuard<'_, HashMap<String, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_has_its_own_value_until_it_is_forgotten() {
        let all = PerObject::default();
        assert_eq!(all.set("one", 1), None);
        assert_eq!(all.change("two", || 5, |value| std::mem::replace(value, 6)), 5);
        assert_eq!(
            (all.get("one"), all.with("two", |value| *value), all.with("three", |value| *value)),
            (Some(1), Some(6), None)
        );
        all.forget("one");
        assert_eq!((all.get("one"), all.take("two"), all.take("two")), (None, Some(6), None));
    }
}
