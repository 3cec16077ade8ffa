//! Which log (WAL) of a PostgreSQL server its base backups need. Pure.
//!
//! Restoring a base backup takes the log from the point where it began. So log that ended before every base backup of
//! its server began is of no use. What a backup of the log holds is read from its manifest, and not from when it was due:
//! a backup that was retried for long holds later log than its name suggests. In doubt, log counts as needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::{KeptBy, Method};
use causeway_backup::chain;
use causeway_backup::jobs::postgresql_at;
use causeway_backup::manifest::Contents;
use causeway_backup::plan::{BASE, slot_of};
use causeway_backup::record::Record;
use causeway_runtime::undecodable;

use super::facts::Job;
use super::retention::Reasons;

/// The reason where no base backup counts.
pub const BASE_BACKUP_MISSING: &str = "BaseBackupMissing";
/// The reason where it is not known what base backups need.
pub const BASE_BACKUP_UNKNOWN: &str = "BaseBackupUnknown";

/// The condition, and its reason, where log is missing.
pub const BROKEN: &str = "LogBroken";

/// The reason why it is not known what base backups need, and a message about it.
pub type Doubt = (&'static str, String);

/// The known facts about an object's log, and about the base backups of its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub bases: Bases,
    /// The contents of its oldest backups, by when they were due. Only manifests that were read and are trusted count.
    pub held: BTreeMap<Timestamp, Contents>,
    /// The same of its newest backups.
    pub recent: BTreeMap<Timestamp, Contents>,
}

/// The known facts about the base backups of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bases {
    /// They were not read, or not all of them yet.
    #[default]
    Unknown,
    /// Their needs cannot be found out, for this reason.
    InDoubt(Doubt),
    /// All that count.
    Known(Vec<Base>),
}

/// A base backup that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Name of its object.
    pub object: String,
    /// When it was due.
    pub due: Timestamp,
    /// Its contents by its manifest.
    pub contents: Contents,
}

impl Bases {
    /// Reports whether it is certain that no base backup needs this log: there are base backups of its server, and each of them
    /// began after the log ended.
    pub fn need_none_of(&self, log: &Contents) -> bool {
        let Self::Known(all) = self else { return false };
        let mut its = all.iter().filter(|base| !chain::is_of_other_server(log, &base.contents)).peekable();
        its.peek().is_some() && its.all(|base| chain::ended_before(log, &base.contents))
    }
}

/// The complete backups of the log that are kept, by the instants at which they were due. The newest stays. The last
/// one that no base backup needs stays as well, and the one that goes farthest: the next backup goes on from there.
pub fn kept_by_need(log: &Log, complete: &BTreeSet<Timestamp>) -> Reasons {
    let is_over = |due: &&Timestamp| log.held.get(*due).is_some_and(|held| log.bases.need_none_of(held));
    let mut over: BTreeSet<Timestamp> = complete.iter().filter(is_over).copied().collect();
    let farthest = over.iter().max_by_key(|due| log.held.get(*due).and_then(chain::end)).copied();
    over.pop_last();
    over.retain(|due| Some(*due) != farthest);
    let reasons = complete.difference(&over).map(|due| (*due, BTreeSet::from([KeptBy::BaseBackup])));
    let mut kept: Reasons = reasons.collect();
    if let Some(newest) = complete.last() {
        kept.entry(*newest).or_default().insert(KeptBy::Newest);
    }
    kept
}

/// The objects with base backups of the server whose log `object` keeps: those in its namespace with the same host and
/// port.
pub fn base_backup_objects(
    object: &DatabaseBackup,
    all: Vec<Arc<DatabaseBackup>>,
) -> Result<Vec<Arc<DatabaseBackup>>, Doubt> {
    let server = object.spec.source.as_ref().and_then(postgresql_at);
    let mut found: Vec<Arc<DatabaseBackup>> = Vec::new();
    for it in all.into_iter().filter(|it| it.namespace() == object.namespace()) {
        let doubt = |why: &str| Err((BASE_BACKUP_UNKNOWN, format!("DatabaseBackup {} {why}", it.name_any())));
        if undecodable(it.meta()).is_some() {
            return doubt("has a field that cannot be read: it says which");
        }
        let is_its = server.is_some() && it.spec.source.as_ref().and_then(postgresql_at) == server;
        if it.spec.method != Method::BaseBackup || !is_its {
            continue;
        }
        if it.meta().deletion_timestamp.is_some() {
            return doubt("with base backups of that server is being deleted");
        }
        found.push(it);
    }
    if let (true, Some((host, port))) = (found.is_empty(), server) {
        let message = format!(
            "there is no DatabaseBackup with method: BaseBackup of {host}:{port} in this namespace: make one, or give \
             spec.retention.maxAge"
        );
        return Err((BASE_BACKUP_MISSING, message));
    }
    found.sort_by_key(|it| it.name_any());
    Ok(found)
}

/// The object that keeps the log of a server of which another one has base backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeepsLog {
    pub slot: String,
    /// Its message about a hole in the log.
    pub broken: Option<String>,
}

/// The object that keeps the log of the server of which `object` has base backups; of several, the first by name.
pub fn keeps_log(object: &DatabaseBackup, all: Vec<Arc<DatabaseBackup>>) -> Option<KeepsLog> {
    let server = object.spec.source.as_ref().and_then(postgresql_at)?;
    let is_its = |it: &Arc<DatabaseBackup>| {
        it.namespace() == object.namespace()
            && it.spec.method == Method::Wal
            && it.spec.source.as_ref().and_then(postgresql_at) == Some(server)
            && it.meta().deletion_timestamp.is_none()
    };
    let log = all.into_iter().filter(is_its).min_by_key(|it| it.name_any())?;
    let conditions = log.status.iter().flat_map(|status| &status.conditions);
    let broken = conditions.into_iter().find(|it| it.type_ == BROKEN && it.status == "True");
    let broken = broken.map(|it| format!("DatabaseBackup {}: {}", log.name_any(), it.message));
    Some(KeepsLog { slot: slot_of(&log.uid()?), broken })
}

/// The UIDs under which an object has base backups: its own, and that of the earlier object in `spec.adoptFrom`.
pub fn uids(base: &DatabaseBackup) -> Vec<String> {
    let before = base.spec.adopt_from.as_ref().map(|it| it.uid.clone());
    base.uid().into_iter().chain(before).collect()
}

/// The record under one of these UIDs, if it holds base backups of the object.
pub fn recorded(base: &DatabaseBackup, uid: &str, record: Option<Record>) -> Result<Record, Doubt> {
    let (namespace, name) = (base.namespace().unwrap_or_default(), base.name_any());
    let is_its = |record: &Record| record.namespace == namespace && record.name == name;
    let record = record.filter(is_its).filter(|it| it.backups.get(BASE).is_some_and(|bases| !bases.is_empty()));
    record.ok_or_else(|| {
        let message = if base.uid().as_deref() == Some(uid) {
            format!("DatabaseBackup {name} has no base backup yet that counts")
        } else {
            format!(
                "DatabaseBackup {name} has no base backup that counts of UID {uid}: leave out its spec.adoptFrom, if these are gone"
            )
        };
        (BASE_BACKUP_MISSING, message)
    })
}

/// Reports whether the record is complete: every Job has ended, and its report is recorded. Otherwise, a base backup may still
/// be recorded that began before those that count now.
pub fn is_settled(jobs: &[Job], record: &Record) -> bool {
    jobs.iter().all(|job| job.end.is_some() && record.jobs.contains(&job.uid))
}

#[cfg(test)]
mod tests;
