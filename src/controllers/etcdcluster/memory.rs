//! What the operator remembers of clusters while it runs. All of it may be forgotten: then it is found out once more.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::ResourceExt;

use super::auth::Access;
use super::facts::Compaction;
use crate::api::EtcdCluster;
use crate::external::etcd::Password;

/// How members let us in is asked so seldom: to compare a password costs them much, and each login is a write.
const LOGIN_HOLDS: Duration = Duration::from_secs(20);

/// What became of logins with those passwords.
struct Login {
    passwords: Vec<Password>,
    access: Access,
    at: Instant,
}

/// Of all clusters, by their uids.
#[derive(Default)]
pub struct Memory {
    /// Something was changed: the watches may not show it yet.
    changed: Mutex<HashSet<String>>,
    /// What history was forgotten for want of space.
    compacted: Mutex<HashMap<String, Compaction>>,
    /// Generations of specs whose pods the apiserver refused, with its words.
    refused: Mutex<HashMap<String, (Option<i64>, String)>>,
    /// How members let us in.
    logins: Mutex<HashMap<String, Login>>,
    /// Since when no majority answers that did before; nothing while one does.
    quorate: Mutex<HashMap<String, Option<Instant>>>,
}

impl Memory {
    /// Something is about to be changed: the next look goes to the apiserver.
    pub fn expect_change(&self, object: &EtcdCluster) {
        locked(&self.changed).insert(uid(object));
    }

    /// Whether something was changed since this was asked last.
    pub fn take_change(&self, object: &EtcdCluster) -> bool {
        locked(&self.changed).remove(&uid(object))
    }

    /// History was forgotten up to a revision.
    pub fn note_compaction(&self, object: &EtcdCluster, revision: i64) {
        locked(&self.compacted).insert(uid(object), Compaction { revision, measured: false });
    }

    /// A member gave back all space that it does not use.
    pub fn note_defragmentation(&self, object: &EtcdCluster) {
        if let Some(compaction) = locked(&self.compacted).get_mut(&uid(object)) {
            compaction.measured = true;
        }
    }

    /// All is well: who runs out of space later has other history to forget.
    pub fn forget_compaction(&self, object: &EtcdCluster) {
        locked(&self.compacted).remove(&uid(object));
    }

    /// What history was forgotten last for want of space.
    pub fn compacted(&self, object: &EtcdCluster) -> Option<Compaction> {
        locked(&self.compacted).get(&uid(object)).copied()
    }

    /// The apiserver refused the pods of this very spec.
    pub fn note_refusal(&self, object: &EtcdCluster, words: String) {
        locked(&self.refused).insert(uid(object), (object.metadata.generation, words));
    }

    /// With which words the apiserver refused the pods of this very spec.
    pub fn refusal(&self, object: &EtcdCluster) -> Option<String> {
        let refused = locked(&self.refused);
        let (generation, words) = refused.get(&uid(object))?;
        (*generation == object.metadata.generation).then(|| words.clone())
    }

    /// How members let us in, with which of these passwords.
    pub fn note_access(&self, object: &EtcdCluster, passwords: Vec<Password>, access: Access) {
        locked(&self.logins).insert(uid(object), Login { passwords, access, at: Instant::now() });
    }

    /// How members let us in, where that was found out with these passwords moments ago.
    pub fn access(&self, object: &EtcdCluster, passwords: &[Password]) -> Option<Access> {
        let logins = locked(&self.logins);
        let login = logins.get(&uid(object))?;
        (login.passwords == passwords && login.at.elapsed() < LOGIN_HOLDS).then(|| login.access.clone())
    }

    /// How members let us in with these passwords when that was found out last, be it long ago.
    pub fn last_access(&self, object: &EtcdCluster, passwords: &[Password]) -> Access {
        let logins = locked(&self.logins);
        let login = logins.get(&uid(object)).filter(|login| login.passwords == passwords);
        login.map(|login| login.access.clone()).unwrap_or_default()
    }

    /// A majority answers.
    pub fn note_quorum(&self, object: &EtcdCluster) {
        locked(&self.quorate).insert(uid(object), None);
    }

    /// No majority answers: since when; nothing where none ever did.
    pub fn without_quorum(&self, object: &EtcdCluster) -> Option<Duration> {
        let mut quorate = locked(&self.quorate);
        Some(quorate.get_mut(&uid(object))?.get_or_insert_with(Instant::now).elapsed())
    }

    /// The object with that UID is gone.
    pub fn forget(&self, uid: &str) {
        locked(&self.quorate).remove(uid);
        locked(&self.changed).remove(uid);
        locked(&self.compacted).remove(uid);
        locked(&self.refused).remove(uid);
        locked(&self.logins).remove(uid);
    }

    /// It may have changed.
    pub fn forget_access(&self, object: &EtcdCluster) {
        locked(&self.logins).remove(&uid(object));
    }
}

fn uid(object: &EtcdCluster) -> String {
    object.uid().unwrap_or_default()
}

/// Whoever panicked with it left it whole: each change is one call.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::cluster;
    use super::*;

    #[test]
    fn a_login_is_one_with_those_passwords() {
        let (memory, object) = (Memory::default(), cluster(3));
        let password = |text: &str| Password(text.into());
        memory.note_access(&object, vec![password("a")], Access::Refused);
        assert_eq!(memory.access(&object, &[password("a")]), Some(Access::Refused));
        assert_eq!(memory.access(&object, &[password("a"), password("b")]), None);
        assert_eq!(memory.last_access(&object, &[password("a"), password("b")]), Access::Unknown);
        memory.forget_access(&object);
        assert_eq!(memory.access(&object, &[password("a")]), None);
    }

    #[test]
    fn a_majority_is_missed_only_where_there_was_one() {
        let (memory, object) = (Memory::default(), cluster(3));
        assert_eq!(memory.without_quorum(&object), None);
        memory.note_quorum(&object);
        let first = memory.without_quorum(&object).expect("one was there");
        assert!(memory.without_quorum(&object).expect("and is not back") >= first);
    }

    #[test]
    fn a_refusal_is_one_of_the_spec_that_was_refused() {
        let (memory, mut object) = (Memory::default(), cluster(3));
        object.metadata.generation = Some(1);
        memory.note_refusal(&object, "no".into());
        assert_eq!(memory.refusal(&object).as_deref(), Some("no"));
        object.metadata.generation = Some(2);
        assert_eq!(memory.refusal(&object), None);
    }
}
