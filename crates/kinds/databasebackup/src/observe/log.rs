//! Reads the manifests that say which log base backups need: those of the base backups, and those of the oldest log.
//! Each is read once, and valid as long as the operator's record has the same evidence for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::Method;
use causeway_aws::s3::Place;
use causeway_backup::jobs::{Catalog, prefix_of};
use causeway_backup::manifest::{Contents, id_of};
use causeway_backup::plan::{BASE, WAL};
use causeway_backup::record::{Evidence, Record};
use causeway_backup::transfer::{self, Disbelief, key_of};
use causeway_runtime::{Class, Failure};

use super::super::accepted::accepted;
use super::super::children::observed;
use super::super::error::Error;
use super::super::facts::{Bucket, Job};
use super::super::log::{
    BASE_BACKUP_UNKNOWN, Base, Bases, Doubt, Log, base_backup_objects, is_settled, recorded, uids,
};
use super::super::names::prefix;
use super::super::retention::follows_base_backups;
use super::{Observer, RECORD};

/// Manifests that are read side by side.
const AT_ONCE: usize = 16;
/// How many manifests one look reads at most. The next look reads on.
const AT_MOST: usize = 512;

/// The contents of manifests, by the UID of the object and the instant of the backup, with the evidence for each.
pub type Known = BTreeMap<(String, Timestamp), (Evidence, Contents)>;

/// Where the backups of one object are, and what is recorded of them.
struct LogSource {
    uid: String,
    place: Place,
    owner: String,
    prefix: String,
    folder: &'static str,
    record: Record,
}

impl Observer {
    /// Observes the log, and of what base backups need of it.
    pub(super) async fn look_at_log(
        &self,
        object: &DatabaseBackup,
        bucket: &Bucket,
        record: &Record,
        catalog: &Catalog,
    ) -> Result<Log, Error> {
        if object.spec.method != Method::Wal {
            return Ok(Log::default());
        }
        let (uid, mut wanted) = (object.uid().unwrap_or_default(), BTreeSet::new());
        let bases = self.bases(object, &bucket.owner, &mut wanted).await;
        let kept = LogSource {
            uid: uid.clone(),
            place: bucket.place.clone(),
            owner: bucket.owner.clone(),
            prefix: prefix(object),
            folder: WAL,
            record: record.clone(),
        };
        let complete = catalog.complete(WAL);
        let held = self.oldest_contents(object, &kept, &complete, &bases).await?;
        let recent = self.recent(&kept, &complete).await?;
        wanted.extend(complete.into_iter().map(|due| (uid.clone(), due)));
        self.manifests_read.with(&uid, |known| known.retain(|key, _| wanted.contains(key)));
        Ok(Log { bases, held, recent })
    }

    /// The base backups. Trouble with another object, or with its bucket, must not keep this object from its own work.
    async fn bases(&self, object: &DatabaseBackup, owner: &str, wanted: &mut BTreeSet<(String, Timestamp)>) -> Bases {
        let why = match self.all_bases(object, owner, wanted).await {
            Ok(Ok(bases)) => return bases,
            Ok(Err(doubt)) => doubt,
            Err(error) if matches!(error.class(), Class::Denied | Class::Invalid | Class::NotFound) => {
                (BASE_BACKUP_UNKNOWN, error.to_string())
            }
            Err(error) => {
                tracing::warn!(%error, "it is not known yet what base backups need of the log");
                return Bases::Unknown;
            }
        };
        Bases::InDoubt(why)
    }

    async fn all_bases(
        &self,
        object: &DatabaseBackup,
        owner: &str,
        wanted: &mut BTreeSet<(String, Timestamp)>,
    ) -> Result<Result<Bases, Doubt>, Error> {
        let objects = match base_backup_objects(object, self.watches.objects.all()) {
            Ok(objects) => objects,
            Err(doubt) => return Ok(Err(doubt)),
        };
        let (of, mut all) = (object.uid().unwrap_or_default(), Vec::new());
        for backup in &objects {
            for uid in uids(backup) {
                let kept = match self.kept_by(backup, &uid, owner).await? {
                    Ok(kept) => kept,
                    Err(doubt) => return Ok(Err(doubt)),
                };
                if backup.uid().as_deref() == Some(uid.as_str()) && !is_settled(&self.jobs_of(backup), &kept.record) {
                    return Ok(Ok(Bases::Unknown));
                }
                let dues: Vec<Timestamp> =
                    kept.record.backups.get(BASE).into_iter().flatten().map(|it| *it.0).collect();
                wanted.extend(dues.iter().map(|due| (uid.clone(), *due)));
                let is_new = |due: &Timestamp| self.read_before(&of, &kept, *due).is_none();
                let new: Vec<Timestamp> = dues.iter().copied().filter(is_new).collect();
                if new.len() > AT_MOST {
                    self.all_contents(&of, &kept, &new[..AT_MOST]).await?;
                    return Ok(Ok(Bases::Unknown));
                }
                for (due, read) in dues.iter().zip(self.all_contents(&of, &kept, &dues).await?) {
                    match read {
                        Ok(contents) => all.push(Base { object: backup.name_any(), due: *due, contents }),
                        Err(why) => return Ok(Err((BASE_BACKUP_UNKNOWN, why))),
                    }
                }
            }
        }
        Ok(Ok(Bases::Known(all)))
    }

    /// Jobs of another object that take backups.
    fn jobs_of(&self, backup: &DatabaseBackup) -> Vec<Job> {
        let (schedule, jobs) = (self.watches.cron_jobs.get(backup), self.watches.jobs.children_of(backup));
        observed(backup, schedule.as_deref(), None, jobs.iter().map(Arc::as_ref)).jobs
    }

    /// The base backups that an object has under a UID. They are found by its spec, the UID and the operator's own
    /// record, as restores find them. Users may write a status, so it is not used.
    async fn kept_by(
        &self,
        backup: &DatabaseBackup,
        uid: &str,
        owner: &str,
    ) -> Result<Result<LogSource, Doubt>, Error> {
        let (namespace, name) = (backup.namespace().unwrap_or_default(), backup.name_any());
        if let Err((_, message)) = accepted(backup, &self.settings) {
            return Ok(Err((BASE_BACKUP_UNKNOWN, format!("DatabaseBackup {name}: {message}"))));
        }
        let record =
            self.records.read_uncached(uid).await.map_err(|source| transfer::Error::Read { what: RECORD, source })?;
        let destination = &backup.spec.destination;
        Ok(recorded(backup, uid, record).map(|record| LogSource {
            uid: uid.to_owned(),
            place: Place {
                bucket: record.bucket.clone(),
                region: self.settings.region_of(destination).to_owned(),
                endpoint: destination.endpoint.clone(),
            },
            owner: owner.to_owned(),
            prefix: prefix_of(destination, &namespace, &name, uid),
            folder: BASE,
            record,
        }))
    }

    /// Returns what the oldest backups of the log hold, up to the first that a base backup needs. Where base backups do not
    /// decide what is deleted, only what the very oldest holds.
    async fn oldest_contents(
        &self,
        object: &DatabaseBackup,
        kept: &LogSource,
        complete: &BTreeSet<Timestamp>,
        bases: &Bases,
    ) -> Result<BTreeMap<Timestamp, Contents>, Error> {
        let deletes = follows_base_backups(object) && matches!(bases, Bases::Known(_));
        let most = if deletes { AT_MOST } else { 1 };
        let oldest: Vec<Timestamp> = complete.iter().take(most).copied().collect();
        let mut held = BTreeMap::new();
        for dues in oldest.chunks(AT_ONCE) {
            let mut is_needed = false;
            for (due, read) in dues.iter().zip(self.all_contents(&kept.uid, kept, dues).await?) {
                match read {
                    Ok(contents) => {
                        is_needed |= !bases.need_none_of(&contents);
                        held.insert(*due, contents);
                    }
                    Err(why) => tracing::debug!(why, "a backup of the log is not accepted and not deleted"),
                }
            }
            if is_needed {
                break;
            }
        }
        Ok(held)
    }

    /// Returns what the newest backups of the log hold.
    async fn recent(
        &self,
        kept: &LogSource,
        complete: &BTreeSet<Timestamp>,
    ) -> Result<BTreeMap<Timestamp, Contents>, Error> {
        let newest: Vec<Timestamp> = complete.iter().rev().take(AT_MOST).copied().collect();
        let all = self.all_contents(&kept.uid, kept, &newest).await?;
        Ok(newest.into_iter().zip(all).filter_map(|(due, read)| Some((due, read.ok()?))).collect())
    }

    /// Returns what backups hold, cached for the object with the UID `of`; for each that is not trusted, why.
    async fn all_contents(
        &self,
        of: &str,
        kept: &LogSource,
        dues: &[Timestamp],
    ) -> Result<Vec<Result<Contents, String>>, Error> {
        let mut all = Vec::new();
        for some in dues.chunks(AT_ONCE) {
            for read in join_all(some.iter().map(|due| self.contents(of, kept, *due))).await {
                all.push(read?);
            }
        }
        Ok(all)
    }

    async fn contents(&self, of: &str, kept: &LogSource, due: Timestamp) -> Result<Result<Contents, String>, Error> {
        if let Some(contents) = self.read_before(of, kept, due) {
            return Ok(Ok(contents));
        }
        let LogSource { uid, place, owner, prefix, folder, record } = kept;
        let key = key_of(prefix, folder, due);
        let Some(evidence) = record.evidence(folder, due) else { return Ok(Err(format!("{key} is not recorded"))) };
        let found = transfer::document(&self.s3, (place, owner), (prefix, folder, due), Some(record)).await?;
        let document = match found {
            Some(Ok(document)) if document.manifest.kind == *folder => document,
            Some(Ok(_)) => return Ok(Err(format!("{key} is of another kind"))),
            Some(Err(Disbelief::Invalid(mistake))) => return Ok(Err(format!("{key} is invalid: {mistake}"))),
            Some(Err(Disbelief::Changed)) => {
                return Ok(Err(format!("{key} was written again after its Job reported it")));
            }
            None => return Ok(Err(format!("{key} is not there any more"))),
        };
        // The record has no hash of it, only a time. The manifest is read before the listing: had a client written it again
        // before the read, the listing would show a later time.
        if matches!(evidence, Evidence::Listed(_)) && !self.is_as_listed(kept, due).await? {
            return Ok(Err(format!("{key} was written again after it was recorded")));
        }
        let contents = document.manifest.contents;
        let (key, value) = ((uid.clone(), due), (evidence.clone(), contents.clone()));
        self.manifests_read.change(of, Known::new, |known| known.insert(key, value));
        Ok(Ok(contents))
    }

    /// Returns what was read before, as long as the record has the same evidence for it.
    fn read_before(&self, of: &str, kept: &LogSource, due: Timestamp) -> Option<Contents> {
        let key = (kept.uid.clone(), due);
        let (evidence, contents) = self.manifests_read.with(of, |known| known.get(&key).cloned())??;
        (kept.record.evidence(kept.folder, due) == Some(&evidence)).then_some(contents)
    }

    async fn is_as_listed(&self, kept: &LogSource, due: Timestamp) -> Result<bool, Error> {
        let LogSource { place, owner, prefix, folder, record, .. } = kept;
        let base = format!("{prefix}/");
        let listing = self.s3.list(place, owner, &format!("{base}{folder}/{}/", id_of(due))).await?;
        let catalog = record.judged(Catalog::new(&base, &listing, Vec::new()), Timestamp::now());
        Ok(catalog.complete(folder).contains(&due))
    }
}
