//! Which backups restores read. Retention must not delete a backup under a restore: it would be gone for good, and the
//! restore would fail. Pure.
//!
//! A restore holds backups no longer than its Job may run, so no user can hold them for ever.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};

use causeway_api::databasebackup::Method;
use causeway_api::{DatabaseBackup, DatabaseRestore};
use causeway_backup::manifest::due_of;

/// The longest `spec.deadline` that the definition accepts.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);
/// How much the clocks of two machines may differ.
const SKEW: SignedDuration = SignedDuration::from_mins(1);

/// The backups of an object that restores read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// True if all of them may be read.
    pub all: bool,
    /// Those that certainly are, by the instants at which they were due, whichever database they are of.
    pub dues: BTreeSet<Timestamp>,
}

impl InUse {
    /// Reports whether a backup stays.
    pub fn contains(&self, due: Timestamp) -> bool {
        self.all || self.dues.contains(&due)
    }
}

/// Returns what these restores of the namespace read of an object's backups, which are in that bucket.
pub fn in_use(object: &DatabaseBackup, bucket: &str, restores: &[DatabaseRestore], now: Timestamp) -> InUse {
    let mut used = InUse::default();
    for restore in restores.iter().filter(|it| may_read(it, object, bucket) && is_under_way(it, now)) {
        let chosen = restore.status.as_ref().and_then(|status| status.backup_id.as_deref());
        match due_of(chosen.unwrap_or(&restore.spec.from.id)) {
            Some(due) if restore.spec.point_in_time.is_none() => drop(used.dues.insert(due)),
            // It reads log that its status does not name, or has not chosen yet.
            _ => used.all = true,
        }
    }
    used
}

/// Reports whether a restore may read backups of an object.
fn may_read(restore: &DatabaseRestore, object: &DatabaseBackup, bucket: &str) -> bool {
    let (from, name) = (&restore.spec.from, object.name_any());
    if let Some(s3) = &from.s3 {
        return s3.bucket == bucket;
    }
    let is_of_it = from.uid.is_none() || from.uid == object.uid();
    let by_name = from.backup.as_ref() == Some(&name) && is_of_it;
    let point = restore.spec.point_in_time.as_ref();
    let log = point.filter(|_| object.spec.method == Method::Wal).map(|point| point.log.as_ref());
    by_name || log.is_some_and(|log| log.is_none_or(|log| *log == name))
}

/// Reports whether a restore has not ended, and its Job may still run. Users may write a status, so a start in the future does
/// not count.
fn is_under_way(restore: &DatabaseRestore, now: Timestamp) -> bool {
    let status = restore.status.as_ref();
    let started = status.and_then(|status| status.started.as_ref()).map(|time| time.0).filter(|at| *at <= now + SKEW);
    let made = restore.meta().creation_timestamp.as_ref().map(|time| time.0);
    let deadline = SignedDuration::from_secs(restore.spec.deadline.signed_seconds()).min(LONGEST);
    let is_final = status.is_some_and(|status| status.phase.is_final());
    !is_final && started.or(made).is_some_and(|since| now.duration_since(since) <= deadline + SKEW)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::action::{Action, Change};
    use super::super::decide::{catalog, decided, now, settled, words};
    use super::super::facts::Observed;
    use super::super::fixtures::backup;
    use super::*;
    use causeway_api::databasebackup::Retention;

    const OLD: &str = "20261120T020000Z";
    const NEW: &str = "20261121T020000Z";

    fn restore(spec: &Value, status: &Value) -> DatabaseRestore {
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "DatabaseRestore",
            "metadata": { "name": "back", "namespace": "shop", "creationTimestamp": "2026-11-22T11:30:00Z" },
            "spec": { "from": { "backup": "nightly" }, "target": { "redis": { "name": "cache" } } },
            "status": status,
        });
        for (field, value) in spec.as_object().expect("fields") {
            object["spec"][field] = value.clone();
        }
        serde_json::from_value(object).expect("a restore")
    }

    fn used(restore: DatabaseRestore, minutes: i64) -> InUse {
        in_use(&backup(), "b", &[restore], now() + SignedDuration::from_mins(minutes))
    }

    fn only(id: &str) -> InUse {
        InUse { all: false, dues: BTreeSet::from([due_of(id).expect("an ID")]) }
    }

    #[test]
    fn a_restore_holds_its_backup_until_its_deadline() {
        let status = |phase: &str| json!({ "phase": phase, "backupId": OLD, "started": "2026-11-22T11:40:00Z" });
        let running = || restore(&json!({}), &status("Fetching"));
        assert_eq!(used(running(), 0), only(OLD));
        assert_eq!(used(running(), 39), only(OLD));
        assert_eq!(used(running(), 42), InUse::default(), "its Job was ended after 1h");
        for phase in ["Succeeded", "Failed", "Planned"] {
            assert_eq!(used(restore(&json!({}), &status(phase)), 0), InUse::default(), "{phase}");
        }
        let forged = json!({ "phase": "Fetching", "backupId": OLD, "started": "2099-01-01T00:00:00Z" });
        assert_eq!(used(restore(&json!({}), &forged), 0), only(OLD));
        assert_eq!(used(restore(&json!({}), &forged), 32), InUse::default(), "no restore holds it for ever");
    }

    #[test]
    fn a_pending_restore_holds_its_backup_or_all() {
        let named = json!({ "from": { "backup": "nightly", "id": OLD } });
        assert_eq!(used(restore(&named, &Value::Null), 0), only(OLD));
        assert!(used(restore(&json!({}), &Value::Null), 0).all);
        let others = [
            json!({ "from": { "backup": "other", "id": OLD } }),
            json!({ "from": { "backup": "nightly", "uid": "5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11" } }),
            json!({ "from": { "s3": { "bucket": "other" } } }),
        ];
        for other in others {
            assert_eq!(used(restore(&other, &Value::Null), 0), InUse::default(), "{other}");
        }
        let bucket = json!({ "from": { "s3": { "bucket": "b" }, "id": OLD } });
        assert_eq!(used(restore(&bucket, &Value::Null), 0), only(OLD));
    }

    #[test]
    fn a_restore_to_an_instant_holds_base_backups_and_log() {
        let mut log = backup();
        log.spec.method = Method::Wal;
        let status = json!({ "phase": "Fetching", "backupId": OLD, "started": "2026-11-22T11:40:00Z" });
        let with =
            |from: &str, point: Value| restore(&json!({ "from": { "backup": from }, "pointInTime": point }), &status);
        let uses = |object: &DatabaseBackup, restore: DatabaseRestore| in_use(object, "b", &[restore], now()).all;
        assert!(uses(&backup(), with("nightly", json!({}))), "the base backups");
        assert!(uses(&log, with("base", json!({}))) && uses(&log, with("base", json!({ "log": "nightly" }))));
        assert!(!uses(&log, with("base", json!({ "log": "other" }))));
        assert!(!uses(&backup(), with("base", json!({}))), "it keeps no log");
    }

    #[test]
    fn retention_spares_backups_that_restores_read() {
        let mut object = backup();
        object.spec.retention = Retention { keep_last: 1, ..Retention::default() };
        let older = "20261119T020000Z";
        let found = catalog(&[older, OLD, NEW], &[], now());
        let with = |in_use| Observed { catalog: Some(found.clone()), in_use, ..settled(&object) };
        let deleted = |in_use| {
            let actions = decided(&object, &with(in_use)).actions;
            let keys = actions.into_iter().filter_map(|action| match action {
                Action::Bucket { change: Change::DeleteObjects { keys, .. }, .. } => Some(keys),
                _ => None,
            });
            keys.flatten().filter(|key| key.ends_with("/data")).collect::<Vec<_>>()
        };
        let data = |id: &str| format!("shop/nightly/uid-1/redis-cache/{id}/data");
        assert_eq!(deleted(Some(InUse::default())), [data(older), data(OLD)]);
        assert_eq!(deleted(Some(only(OLD))), [data(older)]);
        assert!(deleted(Some(InUse { all: true, ..InUse::default() })).is_empty());
        assert_eq!(words(&decided(&object, &with(None))), Vec::<String>::new());
    }
}
