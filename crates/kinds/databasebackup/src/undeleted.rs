//! Backups that S3 refuses to delete. A legal hold, or the lock that the bucket had when a version was written, can hold
//! that version alone, and the bucket's own settings do not show it. Such a backup keeps no other from being deleted.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html>

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use causeway_aws::s3::{LOCKED, Refusals};
use causeway_runtime::PerObject;

/// How long after a refusal a deletion is tried again that a lock prevents: locks last for days.
const HELD: SignedDuration = SignedDuration::from_hours(6);
/// The same where a right is missing: an administrator may grant it at any time.
const DENIED: SignedDuration = SignedDuration::from_mins(5);

/// A backup that S3 refused to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undeleted {
    /// True if a lock holds it. Otherwise, a right is missing.
    pub locked: bool,
    /// S3's answer, with the fix.
    pub why: String,
    /// When the deletion is tried again.
    pub again: Timestamp,
}

/// The deletions that S3 refused, by object.
#[derive(Default)]
pub struct UndeletedCache(PerObject<BTreeMap<String, Undeleted>>);

impl UndeletedCache {
    /// The backups of an object that S3 refused to delete, by what their keys begin with, without a slash at the end.
    pub fn refusals(&self, uid: &str) -> BTreeMap<String, Undeleted> {
        self.0.get(uid).unwrap_or_default()
    }

    /// S3 refused to delete these keys of an object.
    pub fn note(&self, uid: &str, refusals: &Refusals, now: Timestamp) {
        self.0.change(uid, BTreeMap::new, |all| {
            all.retain(|_, it| it.again > now);
            for (key, error) in refusals {
                let locked = error.is(LOCKED);
                let again = now + if locked { HELD } else { DENIED };
                all.insert(backup_of(key).to_owned(), Undeleted { locked, why: error.to_string(), again });
            }
        });
    }

    /// The object with that UID is gone.
    pub fn forget(&self, uid: &str) {
        self.0.forget(uid);
    }
}

/// Those of the keys whose backups S3 did not refuse to delete: a backup whose manifest stays keeps its data.
pub fn others(keys: &[String], undeleted: &BTreeMap<String, Undeleted>, now: Timestamp) -> Vec<String> {
    let stays = |key: &&String| undeleted.get(backup_of(key)).is_some_and(|it| it.again > now);
    keys.iter().filter(|key| !stays(key)).cloned().collect()
}

/// Until when at least a lock holds the backup of a key, as S3 said when it refused to delete it.
pub fn locked_until(key: &str, undeleted: &BTreeMap<String, Undeleted>, now: Timestamp) -> Option<Timestamp> {
    undeleted.get(backup_of(key)).filter(|it| it.locked && it.again > now).map(|it| it.again)
}

/// Returns the prefix of all keys of a backup.
fn backup_of(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(backup, _)| backup)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::action::{Action, Change};
    use super::super::decide::{decide, now, settled};
    use super::super::facts::Observed;
    use super::super::fixtures::backup;
    use super::*;
    use causeway_api::DatabaseBackup;
    use causeway_api::databasebackup::Retention;
    use causeway_aws::aws::AwsError;
    use causeway_aws::s3::{Listing, Object};
    use causeway_backup::jobs::Catalog;
    use causeway_runtime::{Class, Health};

    const HELD_ID: &str = "20261119T020000Z";
    const IDS: [&str; 4] = ["20261118T020000Z", HELD_ID, "20261120T020000Z", "20261121T020000Z"];

    /// A bucket that refuses to delete one key.
    struct Bucket {
        keys: BTreeSet<String>,
        refused: String,
        code: &'static str,
        cache: UndeletedCache,
    }

    fn key(id: &str, file: &str) -> String {
        format!("shop/nightly/uid-1/redis-cache/{id}/{file}")
    }

    impl Bucket {
        fn refusing(file: &str, code: &'static str) -> Self {
            let keys = IDS.iter().flat_map(|id| [key(id, "data"), key(id, "manifest.json")]).collect();
            Self { keys, refused: key(HELD_ID, file), code, cache: UndeletedCache::default() }
        }

        fn observed(&self, object: &DatabaseBackup) -> Observed {
            let objects = self.keys.iter().map(|key| Object { key: key.clone(), size: 1, modified: now() });
            let listing = Listing { objects: objects.collect(), cut: false };
            let catalog = Some(Catalog::new("shop/nightly/uid-1/", &listing, Vec::new()));
            Observed { catalog, undeleted: self.cache.refusals("uid-1"), ..settled(object) }
        }

        fn deletions(&self, object: &DatabaseBackup, at: Timestamp) -> Vec<Vec<String>> {
            let actions = decide(object, &self.observed(object), at).actions.into_iter();
            let keys = actions.filter_map(|action| match action {
                Action::Bucket { change: Change::DeleteObjects { keys, .. }, .. } => Some(keys),
                _ => None,
            });
            keys.collect()
        }

        /// Does what the runner does, until nothing is left to do.
        fn settle(&mut self, object: &DatabaseBackup, at: Timestamp) {
            for _ in 0..3 {
                for keys in self.deletions(object, at) {
                    for key in others(&keys, &self.cache.refusals("uid-1"), at) {
                        if key == self.refused {
                            self.cache.note("uid-1", &Refusals::from([(key, self.refusal())]), at);
                        } else {
                            self.keys.remove(&key);
                        }
                    }
                }
            }
            assert!(self.deletions(object, at).is_empty(), "it settles");
        }

        fn refusal(&self) -> AwsError {
            AwsError {
                operation: "DeleteObjects",
                service: "s3",
                code: Some(self.code.into()),
                message: "no".into(),
                class: Class::Denied,
                ambiguous: true,
            }
        }
    }

    fn keeps_one() -> DatabaseBackup {
        let mut object = backup();
        object.spec.retention = Retention { keep_last: 1, ..Retention::default() };
        object
    }

    #[test]
    fn a_held_backup_stays_whole_and_blocks_no_other() {
        let (object, mut bucket) = (keeps_one(), Bucket::refusing("manifest.json", LOCKED));
        bucket.settle(&object, now());
        let whole = |id| [key(id, "data"), key(id, "manifest.json")];
        assert_eq!(bucket.keys, [HELD_ID, IDS[3]].into_iter().flat_map(whole).collect::<BTreeSet<String>>());
        let plan = decide(&object, &bucket.observed(&object), now());
        assert!(matches!(plan.health, Health::Ready(_)), "{:?}", plan.health);
        let locked = plan.status.locked.map(|it| (it.backups, it.until.0));
        assert_eq!(locked, Some((1, now() + HELD)));
        let until = |id| locked_until(&key(id, "data"), &bucket.cache.refusals("uid-1"), now());
        assert_eq!((until(HELD_ID), until(IDS[3])), (Some(now() + HELD), None), "so its removal leaves it, too");
        // A user ends the hold.
        bucket.refused = String::new();
        bucket.settle(&object, now() + HELD);
        assert_eq!(bucket.keys, BTreeSet::from(whole(IDS[3])));
    }

    #[test]
    fn a_missing_right_is_reported_and_retried() {
        let (object, mut bucket) = (keeps_one(), Bucket::refusing("data", "AccessDenied"));
        bucket.settle(&object, now());
        assert!(bucket.keys.contains(&key(HELD_ID, "data")));
        assert!(!bucket.keys.contains(&key(IDS[0], "data")) && !bucket.keys.contains(&key(IDS[2], "data")));
        let plan = decide(&object, &bucket.observed(&object), now());
        let Health::Stalled(cause) = plan.health else { panic!("stalled") };
        assert_eq!(cause.reason, "AccessDenied");
        assert!(cause.message.contains(HELD_ID) && cause.message.contains("s3:DeleteObject"), "{}", cause.message);
        assert_eq!(plan.status.locked, None);
        assert_eq!(locked_until(&key(HELD_ID, "data"), &bucket.cache.refusals("uid-1"), now()), None);
        let later = decide(&object, &bucket.observed(&object), now() + DENIED);
        assert!(matches!(later.health, Health::Ready(_)), "{:?}", later.health);
    }
}
