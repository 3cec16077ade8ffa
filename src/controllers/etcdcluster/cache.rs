//! What the operator remembers of clusters while it runs. All of it may be forgotten: it is then found out again.

use std::time::{Duration, Instant};

use kube::ResourceExt;

use super::auth::Access;
use super::facts::Compaction;
use crate::api::EtcdCluster;
use crate::external::etcd::Password;
use crate::runtime::PerObject;

/// How long the outcome of a login holds. Logins are kept rare: comparing a password is expensive for a member, and each
/// login is a write.
const LOGIN_HOLDS: Duration = Duration::from_secs(20);

/// The outcome of logins with those passwords.
struct Login {
    passwords: Vec<Password>,
    access: Access,
    at: Instant,
}

/// Of all clusters, by their uids.
#[derive(Default)]
pub struct Cache {
    /// Which history was compacted for lack of space.
    compacted: PerObject<Compaction>,
    /// How members let us in.
    logins: PerObject<Login>,
    /// Since when no majority answers; `None` while one does. No entry if none ever did.
    quorate: PerObject<Option<Instant>>,
}

impl Cache {
    /// Notes that history was compacted up to a revision.
    pub fn note_compaction(&self, object: &EtcdCluster, revision: i64) {
        self.compacted.set(&uid(object), Compaction { revision, measured: false, disarmed: false });
    }

    /// Notes that a member was defragmented.
    pub fn note_defragmentation(&self, object: &EtcdCluster) {
        self.compacted.with(&uid(object), |compaction| {
            compaction.measured = true;
            compaction.disarmed = false;
        });
    }

    /// Notes that an alarm was disarmed that was raised for lack of space.
    pub fn note_disarm(&self, object: &EtcdCluster) {
        self.compacted.with(&uid(object), |compaction| compaction.disarmed = true);
    }

    /// Forgets which history was compacted: there is space again, and if it runs out later, there is other history to compact.
    pub fn forget_compaction(&self, object: &EtcdCluster) {
        self.compacted.forget(&uid(object));
    }

    /// Which history was compacted last for lack of space.
    pub fn compacted(&self, object: &EtcdCluster) -> Option<Compaction> {
        self.compacted.get(&uid(object))
    }

    /// Notes how members let us in, if at all, when these passwords were tried.
    pub fn note_access(&self, object: &EtcdCluster, passwords: Vec<Password>, access: Access) {
        self.logins.set(&uid(object), Login { passwords, access, at: Instant::now() });
    }

    /// How members let us in, if that was found out with these passwords less than 20 s ago.
    pub fn access(&self, object: &EtcdCluster, passwords: &[Password]) -> Option<Access> {
        let is_fresh = |login: &Login| login.passwords == passwords && login.at.elapsed() < LOGIN_HOLDS;
        self.logins.with(&uid(object), |login| is_fresh(login).then(|| login.access.clone())).flatten()
    }

    /// How members let us in with these passwords when that was found out last, even if long ago.
    pub fn last_access(&self, object: &EtcdCluster, passwords: &[Password]) -> Access {
        let access = |login: &mut Login| (login.passwords == passwords).then(|| login.access.clone());
        self.logins.with(&uid(object), access).flatten().unwrap_or_default()
    }

    /// Notes that a majority answers.
    pub fn note_quorum(&self, object: &EtcdCluster) {
        self.quorate.set(&uid(object), None);
    }

    /// Notes that no majority answers, and returns for how long; `None` if none ever did.
    pub fn without_quorum(&self, object: &EtcdCluster) -> Option<Duration> {
        self.quorate.with(&uid(object), |since| since.get_or_insert_with(Instant::now).elapsed())
    }

    /// Forgets the object with that UID, which is gone.
    pub fn forget(&self, uid: &str) {
        self.quorate.forget(uid);
        self.compacted.forget(uid);
        self.logins.forget(uid);
    }

    /// Forgets how members let us in: it may have changed.
    pub fn forget_access(&self, object: &EtcdCluster) {
        self.logins.forget(&uid(object));
    }
}

fn uid(object: &EtcdCluster) -> String {
    object.uid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::cluster;
    use super::*;

    #[test]
    fn a_login_is_one_with_those_passwords() {
        let (cache, object) = (Cache::default(), cluster(3));
        let password = |text: &str| Password(text.into());
        cache.note_access(&object, vec![password("a")], Access::Refused);
        assert_eq!(cache.access(&object, &[password("a")]), Some(Access::Refused));
        assert_eq!(cache.access(&object, &[password("a"), password("b")]), None);
        assert_eq!(cache.last_access(&object, &[password("a"), password("b")]), Access::Unknown);
        cache.forget_access(&object);
        assert_eq!(cache.access(&object, &[password("a")]), None);
    }

    #[test]
    fn an_alarm_counts_as_disarmed_in_vain_until_a_member_gives_back_space() {
        let (cache, object) = (Cache::default(), cluster(3));
        cache.note_disarm(&object);
        assert_eq!(cache.compacted(&object), None, "nothing was compacted");
        let noted = |measured, disarmed| Some(Compaction { revision: 7, measured, disarmed });
        cache.note_compaction(&object, 7);
        assert_eq!(cache.compacted(&object), noted(false, false));
        cache.note_disarm(&object);
        assert_eq!(cache.compacted(&object), noted(false, true));
        cache.note_defragmentation(&object);
        assert_eq!(cache.compacted(&object), noted(true, false));
    }

    #[test]
    fn a_majority_is_missed_only_where_there_was_one() {
        let (cache, object) = (Cache::default(), cluster(3));
        assert_eq!(cache.without_quorum(&object), None);
        cache.note_quorum(&object);
        let first = cache.without_quorum(&object).expect("one was there");
        assert!(cache.without_quorum(&object).expect("and is not back") >= first);
    }
}
