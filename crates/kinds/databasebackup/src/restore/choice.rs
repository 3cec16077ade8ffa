//! Which backup is restored, and why others are not. Pure.

use std::ops::Bound;

use jiff::Timestamp;
use kube::ResourceExt;

use causeway_api::databaserestore::BackupChoice;
use causeway_api::{DatabaseBackup, DatabaseRestore};
use causeway_backup::jobs::Catalog;
use causeway_backup::manifest::{MODULES, Manifest, due_of, id_of};
use causeway_backup::plan::{BASE, WAL};
use causeway_backup::record::Record;

use super::facts::{Choice, Target};

/// No Job reported the backup to this operator.
const NOT_RECORDED: &str = "NotRecorded";

/// The reason why nothing can be chosen, or not yet.
type No = Choice;

/// Folder and instant of the backup that is asked for.
pub fn pick(object: &DatabaseRestore, catalog: &Catalog, target: &Target) -> Result<(String, Timestamp), No> {
    let from = &object.spec.from;
    let folders: Vec<&String> = catalog.folders.keys().filter(|folder| !catalog.complete(folder).is_empty()).collect();
    let folder = match &from.source {
        Some(source) => {
            let wanted = folder_of(source);
            folders.iter().find(|folder| ***folder == wanted).map(|folder| (*folder).clone()).ok_or_else(|| {
                let uncounted = describe_uncounted(catalog, Some(&wanted));
                let message = format!(
                    "spec.from.source: there is no backup of {source}; there are {}{uncounted}",
                    list(&folders)
                );
                Choice::Waiting("BackupMissing", message)
            })?
        }
        None => match folders.as_slice() {
            [] => {
                let message = format!("there is no complete backup yet{}", describe_uncounted(catalog, None));
                return Err(Choice::Waiting("BackupMissing", message));
            }
            [folder] => (*folder).clone(),
            several => {
                let message = format!("spec.from.source is required: there are backups of {}", list(several));
                return Err(Choice::Refused("SourceAmbiguous", message));
            }
        },
    };
    let complete = catalog.complete(&folder);
    let due = match from.id.as_str() {
        "latest" => {
            let may_be = |due: &&Timestamp| is_before(object, **due) && !is_of_the_new(catalog, &folder, **due, target);
            complete.iter().rfind(may_be).copied()
        }
        id => due_of(id).filter(|due| complete.contains(due)),
    };
    due.map(|due| (folder.clone(), due)).ok_or_else(|| {
        let named = due_of(&from.id);
        let doubtful = catalog.doubtful().find(|(other, due, _)| *other == folder && Some(*due) == named);
        let Some((_, _, doubt)) = doubtful else {
            let message = match (&from.before, complete.first()) {
                (Some(before), Some(oldest)) if from.id == "latest" && *oldest >= before.0 => format!(
                    "spec.from.before: no complete backup of {folder} is older than {}: the oldest is {}",
                    before.0,
                    id_of(*oldest)
                ),
                _ => format!("spec.from.id: there is no complete backup {} of {folder}", from.id),
            };
            return Choice::Refused("BackupMissing", message);
        };
        let message = format!(
            "spec.from.id: backup {} of {folder} {}: look who may write into the bucket, and see spec.from.acceptUnrecorded",
            from.id,
            doubt.describe()
        );
        Choice::Refused(NOT_RECORDED, message)
    })
}

/// Describes the backups that are recorded, are newer than the latest one that can be restored, and are not whole in S3 any
/// more; `None` where there are none, or where the restore names its backup.
pub fn lost(
    object: &DatabaseRestore,
    catalog: &Catalog,
    record: &Record,
    (folder, due): (&str, Timestamp),
) -> Option<String> {
    let complete = catalog.complete(folder);
    let newer = record.backups.get(folder)?.range((Bound::Excluded(due), Bound::Unbounded)).map(|(due, _)| *due);
    let lost: Vec<Timestamp> = newer.filter(|due| is_before(object, *due) && !complete.contains(due)).collect();
    let newest = lost.last().filter(|_| object.spec.from.id == "latest")?;
    Some(format!("{} ({} in all)", id_of(*newest), lost.len()))
}

/// Reports whether a backup was due before `spec.from.before`.
pub fn is_before(object: &DatabaseRestore, due: Timestamp) -> bool {
    object.spec.from.before.as_ref().is_none_or(|before| due < before.0)
}

/// The folder of a database, as users name that: `Redis/cache`.
pub fn folder_of(source: &str) -> String {
    source.to_ascii_lowercase().replace('/', "-")
}

/// The end of a message: how many backups are in S3 that do not count. Empty where there are none.
fn describe_uncounted(catalog: &Catalog, folder: Option<&str>) -> String {
    let mut found = catalog.doubtful().filter(|(other, ..)| folder.is_none_or(|folder| folder == *other)).peekable();
    let Some((folder, due, doubt)) = found.peek().copied() else { return String::new() };
    let number = found.count();
    format!(
        "; {number} lie there and do not count, such as {folder}/{}, which {} (see spec.from.acceptUnrecorded)",
        id_of(due),
        doubt.describe()
    )
}

/// Reports whether a backup was taken of the target itself after the target was made again, when its data had not come back
/// yet.
pub fn is_of_the_new(catalog: &Catalog, folder: &str, due: Timestamp, target: &Target) -> bool {
    let taken = catalog.folders.get(folder).and_then(|backups| backups.get(&due)).map(|stored| stored.modified);
    folder == target.access.source.folder && target.born.zip(taken).is_some_and(|(born, taken)| taken >= born)
}

fn list(folders: &[&String]) -> String {
    if folders.is_empty() {
        return "none at all".into();
    }
    folders.iter().map(|folder| folder.as_str()).collect::<Vec<_>>().join(", ")
}

/// Explains why a backup does not fit a target.
pub fn unfit(manifest: &Manifest, target: &Target) -> Option<(&'static str, String)> {
    let title = &target.access.source.title;
    if matches!(manifest.kind.as_str(), BASE | WAL) {
        let message = "it is a physical backup, which cannot be loaded into a running server: name the DatabaseBackup with \
                       method: BaseBackup in spec.from, and give spec.pointInTime, {} for all that there is";
        return Some(("InstantNotGiven", message.into()));
    }
    if manifest.kind != target.kind {
        let message =
            format!("spec.target: {title} is no {}, of which the backup is: name another target", manifest.kind);
        return Some(("KindMismatch", message));
    }
    // A server without the modules cannot load the backup at all if one key is of a type that they define.
    if let Some(modules) = manifest.contents.facts.get(MODULES)
        && target.served.modules.as_ref().is_some_and(Vec::is_empty)
    {
        let message = format!(
            "spec.target: {title} has no modules, and the backup is of a Redis that had loaded {modules}: name them in spec.modules of \
             the target"
        );
        return Some(("ModulesMissing", message));
    }
    let major = |version: &str| version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let (theirs, ours) = (target.served.version.as_deref().and_then(major)?, major(&manifest.version)?);
    (theirs < ours).then(|| {
        let version = target.served.version.as_deref().unwrap_or_default();
        let message = format!(
            "spec.target: {title} is of version {version}, and the backup of {}: upgrade the target first",
            manifest.version
        );
        ("TargetTooOld", message)
    })
}

/// Explains why no backup can be chosen where the operator has no record of the object's backups.
pub fn unrecorded(
    object: &DatabaseRestore,
    backup: &DatabaseBackup,
    uid: Option<&str>,
    record: Option<&Record>,
) -> Option<No> {
    if record.is_some() || object.spec.from.accept_unrecorded {
        return None;
    }
    let name = backup.name_any();
    Some(match uid {
        None => Choice::Waiting(
            "NoBackup",
            format!(
                "nothing is recorded of DatabaseBackup {name} yet: it has taken no backup, is suspended, or was not served by this \
             operator since (see its conditions)"
            ),
        ),
        Some(uid) => {
            let message = format!(
                "this operator recorded no backup of a DatabaseBackup {name} with UID {uid}, as when the \
                 cluster was another: apply its ConfigMap {} in the operator's namespace and make another DatabaseRestore, or \
                 make one with spec.from.s3 and the public key of that cluster, or, once you know who may write into the \
                 bucket, one with spec.from.acceptUnrecorded: true",
                Record::name_of(uid)
            );
            Choice::Refused(NOT_RECORDED, message)
        }
    })
}

/// Explains why an unencrypted backup is refused. `encrypts` says whether the DatabaseBackup that took it asks for encryption.
pub fn unencrypted(object: &DatabaseRestore, encrypts: bool, manifest: &Manifest) -> Option<(&'static str, String)> {
    let from = &object.spec.from;
    let asked = encrypts || from.identity_secret_name.is_some();
    (asked && manifest.encryption.is_none() && !from.accept_unencrypted).then(|| {
        let message = format!(
            "backup {} of {} is not encrypted, and encryption is asked for: by spec.encryption of its DatabaseBackup, or by \
             spec.from.identitySecretName. If it was taken before encryption was turned on, make another \
             DatabaseRestore with spec.from.acceptUnencrypted: true",
            manifest.id, manifest.source,
        );
        ("NotEncrypted", message)
    })
}

/// The Secret with the keys that open a base backup and its log. `opens` has, for each of them that is encrypted, the
/// Secret that its DatabaseBackup names.
pub fn identity(from: &BackupChoice, id: &str, opens: &[Option<String>]) -> Result<Option<String>, No> {
    let Some(first) = opens.first() else { return Ok(None) };
    match (&from.identity_secret_name, first) {
        (Some(named), _) => Ok(Some(named.clone())),
        (None, Some(first)) if opens.iter().all(|it| it.as_ref() == Some(first)) => Ok(Some(first.clone())),
        (None, Some(_)) if opens.iter().all(Option::is_some) => {
            let message = format!(
                "the base backup and its log are opened by different Secrets, {}: make one with the keys of both, a line each, and \
                 name it in spec.from.identitySecretName of another DatabaseRestore",
                opens.iter().flatten().cloned().collect::<Vec<_>>().join(" and ")
            );
            Err(Choice::Refused("IdentityAmbiguous", message))
        }
        (None, _) => Err(without_key(from, id)),
    }
}

/// The answer where nothing names the Secret that opens the backup. With a DatabaseBackup, the restore waits: the
/// Secret may still be named there.
pub fn without_key(from: &BackupChoice, id: &str) -> Choice {
    let another = "make another DatabaseRestore with spec.from.identitySecretName";
    match &from.backup {
        Some(backup) => Choice::Waiting(
            "IdentityMissing",
            format!(
                "backup {id} is encrypted: name the Secret with the secret key in spec.encryption.identitySecretName of \
                 DatabaseBackup {backup}, or {another}"
            ),
        ),
        None => Choice::Refused("IdentityMissing", format!("backup {id} is encrypted: {another}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::decide::restore;
    use super::*;
    use causeway_backup::jobs::Stored;
    use causeway_backup::record::Evidence;

    #[test]
    fn newer_backups_that_are_not_whole_any_more_are_told() {
        let due = |day: u8| format!("2026-11-{day}T00:00:00Z").parse::<Timestamp>().unwrap();
        let stored = |data| Stored { manifest: true, data, ..Stored::default() };
        let found = BTreeMap::from([(due(21), stored(true)), (due(22), stored(false))]);
        let catalog = Catalog { folders: [("redis-cache".to_owned(), found)].into(), ..Catalog::default() };
        let evidence = |day| (due(day), Evidence::Listed(due(day)));
        let backups = BTreeMap::from([20, 21, 22, 23].map(evidence));
        let record = Record { backups: [("redis-cache".to_owned(), backups)].into(), ..Record::default() };
        let told = |from: serde_json::Value| lost(&restore(&from), &catalog, &record, ("redis-cache", due(21)));
        assert_eq!(told(json!({ "backup": "b" })).as_deref(), Some("20261123T000000Z (2 in all)"));
        let before = json!({ "backup": "b", "before": "2026-11-22T00:00:00Z" });
        assert_eq!(told(before), None, "no newer one is asked for");
        assert_eq!(told(json!({ "backup": "b", "id": "20261121T000000Z" })), None, "it is named");
    }
}
