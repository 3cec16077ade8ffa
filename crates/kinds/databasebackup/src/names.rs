//! Names of children. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_backup::jobs::prefix_of;
use causeway_backup::manifest::id_of;
use causeway_backup::transfer::CAUSEWAY;
use causeway_runtime::fingerprint;

/// Label of every child, with the object's name.
pub const LABEL: &str = "causeway.example.com/backup";
/// Label of Jobs that prove a backup: the backup's ID. Jobs that take backups do not have it.
pub const VERIFIES: &str = "causeway.example.com/verifies";
/// Label of the Job that drops the replication slot of an object that is deleted.
pub const DROPS_SLOT: &str = "causeway.example.com/drops-slot";
/// Annotation of a Job that proves a backup: the folder of the backup.
pub const FOLDER: &str = "causeway.example.com/backup-folder";
/// Annotation of such a Job: the database that was backed up.
pub const SOURCE: &str = "causeway.example.com/backup-source";
/// Annotation of an object: each new value asks for a backup at once.
pub const NOW: &str = "causeway.example.com/backup-now";

/// Annotation of an object: the ID of the newest backup that was lost with a bucket. It acknowledges the loss, and the
/// operator makes a new bucket.
pub const LOST: &str = "causeway.example.com/backups-lost";

/// Name of the Job for a value of the annotation [`NOW`].
pub fn job_now(object: &DatabaseBackup, token: &str) -> String {
    let uid = object.uid().unwrap_or_default();
    format!("{}-now-{}", object.name_any(), fingerprint(&[uid.as_bytes(), token.as_bytes()], 8))
}

/// Name of the Job that proves a backup. `due` is when that was due by a schedule: each such instant has its own Job.
pub fn job_verify(object: &DatabaseBackup, folder: &str, id: &str, due: Option<Timestamp>) -> String {
    let (uid, due) = (object.uid().unwrap_or_default(), due.map(id_of).unwrap_or_default());
    let parts = [uid.as_bytes(), folder.as_bytes(), id.as_bytes(), due.as_bytes()];
    format!("{}-verify-{}", object.name_any(), fingerprint(&parts, 8))
}

/// Name of the Job that drops the replication slot. It depends on the UID: an earlier object of this name may still
/// have such a Job.
pub fn job_slot(object: &DatabaseBackup) -> String {
    let uid = object.uid().unwrap_or_default();
    format!("{}-slot-{}", object.name_any(), fingerprint(&[uid.as_bytes()], 8))
}

/// Returns the prefix of all keys of an object, without a slash at the end.
pub fn prefix(object: &DatabaseBackup) -> String {
    let (namespace, uid) = (object.namespace().unwrap_or_default(), object.uid().unwrap_or_default());
    prefix_of(&object.spec.destination, &namespace, &object.name_any(), &uid)
}

/// Labels of every child.
pub fn labels(object: &DatabaseBackup) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL.into(), object.name_any()),
        ("app.kubernetes.io/name".into(), "database-backup".into()),
        ("app.kubernetes.io/instance".into(), object.name_any()),
        ("app.kubernetes.io/managed-by".into(), CAUSEWAY.into()),
    ])
}
