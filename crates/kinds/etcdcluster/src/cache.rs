//! Facts about clusters that the operator remembers while it runs. All of it may be forgotten: it is then found out again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kube::ResourceExt;

use causeway_api::EtcdCluster;
use causeway_databases::etcd::{AlarmKind, Password, Trouble};
use causeway_runtime::PerObject;

use super::action::Action;
use super::auth::Access;
use super::error::Error;
use super::facts::Compaction;

/// How long the outcome of a login holds. Logins are kept rare: comparing a password is expensive for a member, and each
/// login is a write.
const LOGIN_HOLDS: Duration = Duration::from_secs(20);
/// How long a member is left alone that refused to be defragmented: its volume may have no room for the copy, and may have
/// grown until then.
const DEFRAG_RETRY: Duration = Duration::from_mins(2);
/// The same for one that took longer than about a minute, in which it served no client. It would take as long again.
const SLOW_DEFRAG_RETRY: Duration = Duration::from_mins(30);
/// A defragmentation without an answer for so long was slow: the liveness probe may end it before the minute is over.
/// One that ended sooner was cut off by something else.
const SLOW: Duration = Duration::from_secs(45);

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
    /// Pods of members that could not be defragmented since then, and when that may be tried again.
    undefragmented: PerObject<BTreeMap<String, Instant>>,
    /// Pods of members whose recorded turn to be defragmented did not begin, because another member served no client.
    deferred: PerObject<BTreeSet<String>>,
    /// How members let us in.
    logins: PerObject<Login>,
    /// Since when no majority answers; `None` while one does. No entry if none ever did.
    quorate: PerObject<Option<Instant>>,
}

impl Cache {
    /// Notes what a change led to that is made for lack of space, after which time; `failure` if it failed.
    pub fn note_outcome(&self, object: &EtcdCluster, action: &Action, failure: Option<&Error>, took: Duration) {
        if let Action::Defragment { name, .. } = action {
            let waits = matches!(failure, Some(Error::OthersBusy(_)));
            self.deferred.change(&uid(object), BTreeSet::new, |all| {
                if waits { all.insert(name.clone()) } else { all.remove(name) }
            });
        }
        match (action, failure) {
            (Action::Compact { revision, .. }, None) => self.note_compaction(object, *revision),
            (Action::Defragment { name, .. }, None) => self.note_defragmentation(object, name),
            (Action::Defragment { name, .. }, Some(Error::Etcd(error)))
                if !error.is_about_login() && error.trouble != Trouble::NotLeading =>
            {
                let is_slow = error.trouble == Trouble::Unanswered && took >= SLOW;
                let pause = if is_slow { SLOW_DEFRAG_RETRY } else { DEFRAG_RETRY };
                let again = Instant::now() + pause;
                self.undefragmented.change(&uid(object), BTreeMap::new, |tried| tried.insert(name.clone(), again));
            }
            (Action::Disarm { alarm, .. }, None) if alarm.kind == AlarmKind::NoSpace => self.note_disarm(object),
            _ => {}
        }
    }

    /// Notes that history was compacted up to a revision.
    fn note_compaction(&self, object: &EtcdCluster, revision: i64) {
        self.compacted.set(&uid(object), Compaction { revision, measured: false, disarmed: false });
        self.undefragmented.forget(&uid(object));
    }

    /// Notes that a member was defragmented.
    fn note_defragmentation(&self, object: &EtcdCluster, name: &str) {
        self.compacted.with(&uid(object), |compaction| {
            compaction.measured = true;
            compaction.disarmed = false;
        });
        self.undefragmented.with(&uid(object), |tried| tried.remove(name));
    }

    /// Notes that an alarm was disarmed that was raised for lack of space.
    fn note_disarm(&self, object: &EtcdCluster) {
        self.compacted.with(&uid(object), |compaction| compaction.disarmed = true);
    }

    /// Forgets which history was compacted: there is space again, and if it runs out later, there is other history to compact.
    pub fn forget_compaction(&self, object: &EtcdCluster) {
        self.compacted.forget(&uid(object));
        self.undefragmented.forget(&uid(object));
    }

    /// Which history was compacted last for lack of space.
    pub fn compacted(&self, object: &EtcdCluster) -> Option<Compaction> {
        self.compacted.get(&uid(object))
    }

    /// Pods of members that could not be defragmented since history was compacted last, and are not tried again yet.
    pub fn undefragmented(&self, object: &EtcdCluster) -> BTreeSet<String> {
        let tried = self.undefragmented.get(&uid(object)).unwrap_or_default();
        tried.into_iter().filter(|(_, again)| Instant::now() < *again).map(|(name, _)| name).collect()
    }

    /// Pods of members whose turn to be defragmented is recorded and did not begin.
    pub fn deferred(&self, object: &EtcdCluster) -> BTreeSet<String> {
        self.deferred.get(&uid(object)).unwrap_or_default()
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
        self.undefragmented.forget(uid);
        self.deferred.forget(uid);
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
    use causeway_databases::etcd::{Endpoint, EtcdError};

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
    fn an_alarm_is_disarmed_in_vain_before_space_is_freed() {
        let (cache, object) = (Cache::default(), cluster(3));
        cache.note_disarm(&object);
        assert_eq!(cache.compacted(&object), None, "nothing was compacted");
        let noted = |measured, disarmed| Some(Compaction { revision: 7, measured, disarmed });
        cache.note_compaction(&object, 7);
        assert_eq!(cache.compacted(&object), noted(false, false));
        cache.note_disarm(&object);
        assert_eq!(cache.compacted(&object), noted(false, true));
        cache.note_defragmentation(&object, "prod-etcd-0");
        assert_eq!(cache.compacted(&object), noted(true, false));
    }

    #[test]
    fn a_defragmentation_that_failed_is_remembered_until_history_is_compacted() {
        let (cache, object) = (Cache::default(), cluster(3));
        let defragment = |name: &str, trouble: Option<Trouble>| {
            let action = Action::Defragment { name: name.into(), via: Endpoint::default(), others: Vec::new() };
            let failure = trouble.map(|it| Error::Etcd(EtcdError::new("Defragment", it, String::new())));
            cache.note_outcome(&object, &action, failure.as_ref(), Duration::from_mins(1));
            cache.undefragmented(&object).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(defragment("a", Some(Trouble::NotLoggedIn)), [""; 0], "the member was not asked");
        assert_eq!(defragment("a", Some(Trouble::Other)), ["a"]);
        assert_eq!(defragment("b", Some(Trouble::Unanswered)), ["a", "b"]);
        assert_eq!(defragment("a", None), ["b"]);
        let busy = Error::OthersBusy(EtcdError::new("Range", Trouble::Unanswered, String::new()));
        let action = Action::Defragment { name: "c".into(), via: Endpoint::default(), others: Vec::new() };
        let waited = Duration::from_secs(27);
        cache.note_outcome(&object, &action, Some(&busy), waited);
        assert_eq!(cache.undefragmented(&object).len(), 1, "c was not asked");
        assert_eq!(cache.deferred(&object), BTreeSet::from(["c".to_owned()]));
        cache.note_outcome(&object, &action, None, waited);
        assert!(cache.deferred(&object).is_empty(), "its turn has begun");
        cache.note_compaction(&object, 7);
        assert!(cache.undefragmented(&object).is_empty());
    }

    #[test]
    fn an_interrupted_defragmentation_is_retried_before_a_slow_one() {
        let (cache, object) = (Cache::default(), cluster(3));
        let retried_in = |took: u64| {
            let action = Action::Defragment { name: "a".into(), via: Endpoint::default(), others: Vec::new() };
            let cut = Error::Etcd(EtcdError::new("Defragment", Trouble::Unanswered, "connection reset".into()));
            cache.note_outcome(&object, &action, Some(&cut), Duration::from_secs(took));
            let tried = cache.undefragmented.get(&uid(&object)).unwrap();
            tried["a"].duration_since(Instant::now()).as_secs().div_ceil(60)
        };
        assert_eq!([2, 50, 60].map(retried_in), [2, 30, 30]);
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
