//! Bounds the memory for a namespace's objects. Tenants decide how many there are and how large they are, and all
//! namespaces share the operator's memory.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tracing::warn;

/// The most bytes of JSON that are kept of all objects of our kinds in a namespace, and as much of all others. In memory
/// they take about three times as much, and while a watch lists again, its objects are there twice. A database takes
/// about 30 KiB with its children, a `MyIngress` 3 to 10 KiB.
pub const ROOM: usize = 16 << 20;

/// Bytes by namespace, apart for objects of our kinds and for others.
type Taken = HashMap<(bool, String), usize>;

/// The bytes that all stores keep.
static KEPT: LazyLock<Mutex<Taken>> = LazyLock::new(Mutex::default);

fn lock_kept() -> MutexGuard<'static, Taken> {
    KEPT.lock()
}

/// Namespace and name of an object.
type Key = (String, String);

/// The objects that one store keeps. Their room is free again when this is dropped.
#[derive(Default)]
pub struct Kept {
    /// True for objects that are reconciled. Children take no room of these.
    ours: bool,
    sizes: HashMap<Key, usize>,
    /// Keys in the list that is being received.
    listed: Option<HashSet<Key>>,
    /// Namespaces of which it was logged that they have no room.
    full: HashSet<String>,
}

impl Kept {
    /// Bounds the objects that are reconciled.
    pub fn of_ours() -> Self {
        Self { ours: true, sizes: HashMap::new(), listed: None, full: HashSet::new() }
    }

    /// Passes on the event, or what is left of it: an object without room does not get into the store, and leaves it if
    /// it was there.
    pub fn take<K: Resource + Serialize>(
        &mut self,
        event: Result<Event<K>, watcher::Error>,
    ) -> Option<Result<Event<K>, watcher::Error>> {
        let event = match event {
            Ok(Event::Apply(object)) if self.has_room(&object) => Event::Apply(object),
            Ok(Event::Apply(object)) => self.remove(&object).then_some(Event::Delete(object))?,
            Ok(Event::InitApply(object)) if self.has_room(&object) => Event::InitApply(object),
            Ok(Event::InitApply(object)) => {
                self.remove(&object);
                return None;
            }
            Ok(Event::Delete(object)) => {
                self.remove(&object);
                Event::Delete(object)
            }
            Ok(Event::Init) => {
                self.list_begins();
                Event::Init
            }
            Ok(Event::InitDone) => {
                self.list_ends();
                Event::InitDone
            }
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(event))
    }

    /// Reserves room for the object in this version; returns false if there is none. Then the version before it keeps
    /// its room.
    pub fn has_room<K: Resource + Serialize>(&mut self, object: &K) -> bool {
        self.fits(&key_of(object), size_of(object))
    }

    /// Reserves `size` bytes for the object of that namespace and name; returns false if there are not as many.
    pub fn fits(&mut self, key: &Key, size: usize) -> bool {
        let before = self.sizes.get(key).copied();
        let has_room = {
            let mut kept = lock_kept();
            let taken = kept.entry((self.ours, key.0.clone())).or_default();
            let after = *taken - before.unwrap_or_default() + size;
            let has_room = after <= ROOM;
            if has_room {
                *taken = after;
            }
            has_room
        };
        if has_room {
            self.sizes.insert(key.clone(), size);
        } else if self.full.insert(key.0.clone()) {
            let (namespace, name) = key;
            warn!(
                namespace,
                name,
                bytes = ROOM,
                "the objects of this namespace are too large to be kept, so some are left out"
            );
        }
        if (has_room || before.is_some())
            && let Some(listed) = &mut self.listed
        {
            listed.insert(key.clone());
        }
        has_room
    }

    /// Frees the room of an object that is not kept any more. Returns true if it was kept.
    pub fn remove(&mut self, object: &impl Resource) -> bool {
        self.free(&key_of(object))
    }

    /// Keeps the version of an object that is stored, although the list has another one.
    pub fn stays(&mut self, metadata: &ObjectMeta) {
        let key = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
        if self.sizes.contains_key(&key)
            && let Some(listed) = &mut self.listed
        {
            listed.insert(key);
        }
    }

    /// Begins a list, whose end frees the room of objects that it does not have.
    pub fn list_begins(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// Ends a list, and frees the room of objects that it did not have.
    pub fn list_ends(&mut self) {
        let listed = self.listed.take().unwrap_or_default();
        let gone: Vec<Key> = self.sizes.keys().filter(|key| !listed.contains(*key)).cloned().collect();
        for key in &gone {
            self.free(key);
        }
        self.full.clear();
    }

    /// Frees the room of that namespace and name. Returns true if it was kept.
    pub fn free(&mut self, key: &Key) -> bool {
        let Some(size) = self.sizes.remove(key) else { return false };
        let (mut kept, place) = (lock_kept(), (self.ours, key.0.clone()));
        if let Some(taken) = kept.get_mut(&place) {
            *taken -= size;
            if *taken == 0 {
                kept.remove(&place);
            }
        }
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let all: Vec<Key> = self.sizes.keys().cloned().collect();
        for key in &all {
            self.free(key);
        }
    }
}

fn key_of(object: &impl Resource) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns the length of an object's JSON.
pub fn size_of(object: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    // Nothing that came as JSON fails to become JSON.
    let _ = serde_json::to_writer(&mut counted, object);
    counted.0
}

/// Counts the bytes that are written.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(namespace: &str, name: &str, bytes: usize) -> ConfigMap {
        let value = json!({ "metadata": { "namespace": namespace, "name": name }, "data": { "x": "x".repeat(bytes) } });
        serde_json::from_value(value).expect("a ConfigMap")
    }

    fn take(kept: &mut Kept, event: Event<ConfigMap>) -> Option<&'static str> {
        match kept.take(Ok(event))?.expect("no error") {
            Event::Apply(_) | Event::InitApply(_) => Some("kept"),
            Event::Delete(_) => Some("removed"),
            Event::Init | Event::InitDone => Some("list"),
        }
    }

    #[test]
    fn a_namespace_that_is_full_takes_nothing_from_another() {
        let (mut one, mut other) = (Kept::default(), Kept::default());
        for number in 0..15 {
            let event = Event::Apply(object("room-a", &format!("x{number}"), 1 << 20));
            assert_eq!(take(if number % 2 == 0 { &mut one } else { &mut other }, event), Some("kept"));
        }
        assert_eq!(take(&mut one, Event::Apply(object("room-a", "y", 1 << 20))), None);
        assert_eq!(take(&mut one, Event::Apply(object("room-b", "y", 1 << 20))), Some("kept"));
        // One that grows leaves the store, and what is freed is free for all.
        assert_eq!(take(&mut one, Event::Apply(object("room-a", "x0", 3 << 20))), Some("removed"));
        assert_eq!(take(&mut other, Event::Apply(object("room-a", "y", 1 << 20))), Some("kept"));
        drop(other);
        assert_eq!(take(&mut one, Event::Apply(object("room-a", "x0", 3 << 20))), Some("kept"));
    }

    #[test]
    fn children_take_no_room_of_the_objects_that_are_reconciled() {
        let (mut children, mut ours) = (Kept::default(), Kept::of_ours());
        assert!(children.has_room(&object("room-e", "a", 15 << 20)));
        assert!(!children.has_room(&object("room-e", "b", 15 << 20)));
        assert!(ours.has_room(&object("room-e", "b", 15 << 20)));
        assert!(!ours.has_room(&object("room-e", "c", 15 << 20)));
    }

    #[test]
    fn a_version_that_stays_keeps_its_room() {
        let mut kept = Kept::default();
        assert!(kept.has_room(&object("room-d", "a", 10 << 20)));
        for round in 0..3 {
            assert!(!kept.has_room(&object("room-d", "a", 17 << 20)));
            assert!(!kept.has_room(&object("room-d", "b", 10 << 20)), "{round}");
            kept.list_begins();
            kept.stays(&object("room-d", "a", 1).metadata);
            kept.list_ends();
        }
    }

    #[test]
    fn what_a_new_list_lacks_is_free_again() {
        let mut kept = Kept::default();
        for number in 0..15 {
            take(&mut kept, Event::Apply(object("room-c", &format!("x{number}"), 1 << 20)));
        }
        take(&mut kept, Event::Init);
        assert_eq!(take(&mut kept, Event::InitApply(object("room-c", "x0", 1 << 20))), Some("kept"));
        assert_eq!(take(&mut kept, Event::InitApply(object("room-c", "y", 1 << 20))), None);
        take(&mut kept, Event::InitDone);
        assert_eq!(take(&mut kept, Event::Apply(object("room-c", "y", 1 << 20))), Some("kept"));
        take(&mut kept, Event::Delete(object("room-c", "x0", 1)));
        assert_eq!(kept.sizes.len(), 1);
    }
}
