//! The known facts about backups: children, databases, Jobs, the bucket and what is in it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use causeway_api::DatabaseBackup;
use causeway_aws::s3::{Found, Keeping, Object, Place, Upload};
use causeway_backup::jobs::{Access, Catalog, End, Served, Settings};
use causeway_backup::manifest::Document;
use causeway_backup::record::Record;
use causeway_backup::report::KeptLog;
use causeway_backup::transfer::is_ours;
use causeway_runtime::consent::Refusal;
use causeway_runtime::guardrails::Denial;

use super::log::{KeepsLog, Log};
use super::restoring::InUse;
use super::undeleted::Undeleted;

/// How many backups the status lists.
pub const RECENT: usize = 20;

/// The reason where the bucket with all backups is gone.
pub const BACKUPS_LOST: &str = "BackupsLost";

/// How long Jobs have to stop. Their pods have half a minute to terminate. On a lost node, a pod never terminates, and
/// its Job stays.
const JOBS_STOP_TIMEOUT: SignedDuration = SignedDuration::from_secs(45);

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    pub settings: Settings,
    /// The part of the spec that the policies deny.
    pub denied: Option<Denial>,
    /// The `CronJob` with the name of ours, by kind and name.
    pub children: BTreeMap<(String, String), Child>,
    /// The service account of the namespace's Jobs.
    pub account: Option<Value>,
    /// True if the kind of the database that the spec names is not installed.
    pub lacks_kind: bool,
    /// Databases to back up, in the order of their folders.
    pub sources: Vec<Database>,
    /// Databases to back up whose Secrets may not be used.
    pub withheld: Vec<Withheld>,
    /// Databases to back up that have not come up since they were made.
    pub starting: Vec<Database>,
    /// The reason why the Secret with the key that opens backups may not be used.
    pub identity_refused: Option<Refusal>,
    /// Jobs of this object, in the order in which they were made.
    pub jobs: Vec<Job>,
    /// Jobs of this object that prove a backup, in the same order.
    pub verifications: Vec<Verification>,
    /// The log that servers keep, by folder, as newly ended Jobs reported it.
    pub kept_logs: BTreeMap<String, (Timestamp, KeptLog)>,
    /// Problems that leave the backup good, by the UID of the newly ended Job that reported them.
    pub messages: BTreeMap<String, String>,
    /// The value of the annotation that asks for a backup at once.
    pub asked: Option<String>,
    /// The value of the annotation that acknowledges the loss of a bucket.
    pub acknowledged: Option<String>,
    /// The bucket; none where it was not looked at.
    pub bucket: Option<Bucket>,
    /// The contents of S3; none where it was not looked at. A backup that does not count by the record has a `Doubt`.
    pub catalog: Option<Catalog>,
    /// The record of backups as it is in the operator's namespace.
    pub recorded: Option<Record>,
    /// The record as it is to be; none where nothing is to be recorded now.
    pub recording: Option<Recording>,
    /// Which key signs backups.
    pub signing: Signing,
    /// Backups that are not signed, because their manifests are invalid or differ from what was reported.
    pub odd: BTreeSet<(String, Timestamp)>,
    /// Backups that S3 refused to delete, by what their keys begin with, without a slash at the end.
    pub undeleted: BTreeMap<String, Undeleted>,
    /// Backups that restores read. None where that was not looked at: then no backup is deleted.
    pub in_use: Option<InUse>,
    /// Manifests of new backups and of one that is to be proven, by folder and instant.
    pub manifests: BTreeMap<(String, Timestamp), Document>,
    /// The known facts about the log that is kept with `method: Wal`.
    pub log: Log,
    /// The object that keeps the log of the server of which this one has base backups.
    pub keeps_log: Option<KeepsLog>,
    /// The reason why backups of a database are not proven, by its folder: policies deny an image that this takes.
    pub unprovable: BTreeMap<String, Denial>,
    /// A backup that was to be proven, and why its manifest cannot be read.
    pub unreadable: Option<((String, Timestamp), String)>,
    /// The rest to clean up after a deleted object; none where nothing is to be.
    pub remains: Option<Remains>,
    /// True if the Jobs of a deleted object were deleted so long ago that the operator does not wait for the rest of them.
    pub are_stops_overdue: bool,
    /// The Job that drops the replication slot of a deleted object.
    pub slot_job: Option<Job>,
    /// The fate of that slot.
    pub slot: Slot,
}

/// The fate of the replication slot in which a server keeps its log for an object that is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// There was none.
    #[default]
    None,
    /// It is to be dropped from this server.
    Due(Box<Database>),
    /// A Job is about to drop it.
    Going,
    /// It is dropped.
    Gone,
    /// It stays, for this reason.
    Stays(String),
}

/// Which key signs backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// It was not looked at.
    #[default]
    Unknown,
    /// This public key.
    Key(String),
    /// Nothing can be signed now, for this reason.
    Refused(String),
}

/// A backup that is to be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsigned {
    /// Folder of its database.
    pub folder: String,
    /// When it was due.
    pub due: Timestamp,
    /// SHA-256 of its manifest, where a Job reported it.
    pub manifest: Option<String>,
}

/// The record to write, and how many backups were accepted that no Job reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    pub record: Record,
    /// How many backups were accepted as they are in S3.
    pub accepted: usize,
}

/// A child as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub value: Value,
    pub uid: String,
    /// True if this object controls it.
    pub ours: bool,
}

/// A database to back up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// How it is reached.
    pub access: Access,
    /// When it was made; for a server that is named by its address, when the DatabaseBackup was made.
    pub since: Timestamp,
    /// Facts about its server.
    pub served: Served,
}

/// A database whose login or certificate may not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    pub database: Database,
    pub refusal: Refusal,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    pub uid: String,
    /// When it was made.
    pub made: Timestamp,
    /// How it ended; none while it runs.
    pub end: Option<End>,
    /// The number of its pods that failed.
    pub failed_tries: i32,
    /// The report of the last of them; read while the Job runs.
    pub last_words: Option<String>,
    /// True if one of its pods is ready, so that it runs.
    pub is_running: bool,
    /// The reason why none of its pods runs, and a sentence about it.
    pub stuck: Option<(&'static str, String)>,
    /// Since when it is being deleted.
    pub going: Option<Timestamp>,
}

impl Job {
    /// Reports whether it may be stuck: it has not ended, and no pod of it runs.
    pub fn is_silent(&self) -> bool {
        self.end.is_none() && self.going.is_none() && !self.is_running
    }
}

/// A Job that proves a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    pub job: Job,
    /// The folder of the database.
    pub folder: String,
    pub id: String,
    /// The database, as it was called when the backup was made.
    pub source: String,
    /// Keys that it reported.
    pub keys: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    pub place: Place,
    /// The account that must own it.
    pub owner: String,
    /// True if it has the name that the operator chooses by default.
    pub usual: bool,
    /// True if an object of another namespace has its backups there. Only known where a lock is asked for.
    pub shared: bool,
    /// Namespaces whose objects cannot be listed, so that they may have backups there as well. Only known where a lock
    /// is asked for.
    pub unlisted: Option<String>,
    /// As it is; none where it was not looked at.
    pub found: Option<Found>,
}

impl Bucket {
    /// Reports whether it is there, and its tags say that another than this cluster made it.
    pub fn is_foreign(&self, cluster: &str) -> bool {
        matches!(&self.found, Some(Found::There(facts)) if !is_ours(&facts.tags, cluster))
    }

    /// Its versioning and its Object Lock.
    pub fn keeping(&self) -> Keeping {
        match &self.found {
            Some(Found::There(facts)) => facts.keeping,
            _ => Keeping::default(),
        }
    }
}

/// The rest to clean up after a deleted object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remains {
    /// Everything under its prefix.
    pub objects: Vec<Object>,
    /// Until when Object Lock holds what stays; none where nothing is locked.
    pub locked: Option<Timestamp>,
    /// Multipart uploads that were never completed.
    pub uploads: Vec<Upload>,
    /// True if the bucket may be deleted, too: the operator made it, no other object uses it, it is empty, and versioning was
    /// never enabled.
    pub bucket_may_go: bool,
    /// The reason why the cleanup failed for so long that it is given up.
    pub given_up: Option<String>,
}

impl Observed {
    /// A child of that kind and name.
    pub fn child(&self, kind: &str, name: &str) -> Option<&Child> {
        self.children.get(&(kind.to_owned(), name.to_owned()))
    }

    /// Jobs that take backups and Jobs that prove them.
    pub fn all_jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().chain(self.verifications.iter().map(|it| &it.job))
    }

    /// Reports whether everything that may still write was deleted longer ago than `JOBS_STOP_TIMEOUT`.
    pub fn jobs_are_overdue(&self, object: &DatabaseBackup, now: Timestamp) -> bool {
        let is_old = |since: Timestamp| now.duration_since(since) > JOBS_STOP_TIMEOUT;
        let asked = object.meta().deletion_timestamp.as_ref().map(|time| time.0);
        // After an outage of the operator, the schedule may not be deleted yet, and may start Jobs.
        let schedule = self.child("CronJob", &object.name_any()).filter(|child| child.ours);
        let schedule_stops = schedule.is_none_or(|child| child.value["metadata"]["deletionTimestamp"].is_string());
        asked.is_some_and(is_old) && schedule_stops && self.all_jobs().all(|job| job.going.is_some_and(is_old))
    }

    /// Reports whether a Secret may not be used.
    pub fn is_refused(&self) -> bool {
        !self.withheld.is_empty() || self.identity_refused.is_some()
    }

    /// Reports whether pods of the schedule will mount a Secret that no database to back up uses: its consent was withdrawn, or
    /// the database is gone. False while the schedule is suspended.
    pub fn mounts_more(&self, object: &DatabaseBackup) -> bool {
        let schedule =
            self.child("CronJob", &object.name_any()).filter(|it| it.ours && it.value["spec"]["suspend"] != true);
        let agreed =
            |name: &str| self.sources.iter().flat_map(|it| &it.access.mounts).any(|mount| mount.secret == name);
        schedule.is_some_and(|schedule| {
            let volumes = schedule.value["spec"]["jobTemplate"]["spec"]["template"]["spec"]["volumes"].as_array();
            let mut secrets = volumes.into_iter().flatten().filter_map(|it| it["secret"]["secretName"].as_str());
            secrets.any(|name| !agreed(name))
        })
    }

    /// Returns what is in S3, if the newest backups are among what was read.
    pub fn current(&self) -> Option<&Catalog> {
        self.catalog.as_ref().filter(|catalog| !catalog.lacks_newest)
    }

    /// Reports whether a Job that takes backups has not ended.
    pub fn is_running(&self) -> bool {
        self.jobs.iter().any(|job| job.end.is_none())
    }
}

/// The newest complete backups of all databases: instant and folder.
pub fn newest(catalog: &Catalog) -> Vec<(Timestamp, &String)> {
    let complete =
        catalog.folders.keys().flat_map(|folder| catalog.complete(folder).into_iter().map(move |due| (due, folder)));
    let sorted: BTreeSet<(Timestamp, &String)> = complete.collect();
    sorted.into_iter().rev().take(RECENT).collect()
}

/// The reason that the bucket's condition has.
pub fn bucket_reason(object: &DatabaseBackup) -> Option<&str> {
    let mut conditions = object.status.iter().flat_map(|status| &status.conditions);
    conditions.find(|it| it.type_ == "BucketReady").map(|it| it.reason.as_str())
}
