//! The memory of a controller about each object while it runs.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

/// A value for each object, by its uid. All values may be lost: a new process determines them again.
///
/// The runtime calls [`Kind::forget`](super::Kind::forget) for objects that are no longer in the watch's store. It also
/// does so after a reconcile that was running meanwhile. The kind must remove each of its values there.
#[derive(Debug)]
pub struct PerObject<T>(Mutex<HashMap<String, T>>);

impl<T> Default for PerObject<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerObject<T> {
    /// Stores a value, and returns the previous one.
    pub fn set(&self, uid: &str, value: T) -> Option<T> {
        self.lock().insert(uid.to_owned(), value)
    }

    /// Returns a copy of the value.
    pub fn get(&self, uid: &str) -> Option<T>
    where
        T: Clone,
    {
        self.lock().get(uid).cloned()
    }

    /// Removes and returns the value.
    pub fn take(&self, uid: &str) -> Option<T> {
        self.lock().remove(uid)
    }

    /// Removes the value, if there is one.
    pub fn forget(&self, uid: &str) {
        drop(self.take(uid));
    }

    /// Reads or changes the value, if there is one. `with` must not block.
    pub fn with<R>(&self, uid: &str, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().get_mut(uid).map(with)
    }

    /// Like [`Self::with`], but inserts a value first if there is none.
    pub fn change<R>(&self, uid: &str, begin: impl FnOnce() -> T, change: impl FnOnce(&mut T) -> R) -> R {
        change(self.lock().entry(uid.to_owned()).or_insert_with(begin))
    }

    /// Each change is a single call that cannot panic half-way, so the map is valid even after a panic.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, T>> {
        self.0.lock()
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
