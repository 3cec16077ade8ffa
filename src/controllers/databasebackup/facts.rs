//! What is known of backups: children, databases, Jobs, the bucket and what is in it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::log::Log;
use crate::api::DatabaseBackup;
use crate::backup::jobs::{Access, Catalog, End, Served, Settings};
use crate::backup::manifest::Document;
use crate::backup::record::Record;
use crate::backup::report::KeptLog;
use crate::consent::Refusal;
use crate::external::s3::{Found, Keeping, Object, Place, Upload};
use crate::guardrails::Denial;

/// So many backups are told of in the status.
pub const RECENT: usize = 20;

/// Pods have half a minute to end. One on a node that is lost never does, and neither does its Job.
const JOBS_STOP_TIMEOUT: SignedDuration = SignedDuration::from_secs(45);

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// What the operator was told.
    pub settings: Settings,
    /// What policies do not allow of the spec.
    pub denied: Option<Denial>,
    /// `CronJob` and `ConfigMap` of our names, by kind and name.
    pub children: BTreeMap<(String, String), Child>,
    /// The service account of the namespace's Jobs.
    pub account: Option<Value>,
    /// Databases to back up, in the order of their folders.
    pub sources: Vec<Database>,
    /// Databases that are to be backed up, and whose Secrets may not be used.
    pub withheld: Vec<Withheld>,
    /// Databases that are to be backed up, and have not come up since they were made.
    pub starting: Vec<Database>,
    /// Why the Secret with the key that opens backups may not be used.
    pub identity_refused: Option<Refusal>,
    /// Jobs of this object, in the order in which they were made.
    pub jobs: Vec<Job>,
    /// Jobs of this object that prove a backup, in the same order.
    pub verifications: Vec<Verification>,
    /// What servers keep of their log, by folder, as Jobs reported it that ended now.
    pub kept_logs: BTreeMap<String, (Timestamp, KeptLog)>,
    /// What went wrong beside backups that are good, by the UID of the Job that reported it and ended now.
    pub notes: BTreeMap<String, String>,
    /// The value of the annotation that asks for a backup at once.
    pub asked: Option<String>,
    /// The value of the annotation that acknowledges the loss of a bucket.
    pub acknowledged: Option<String>,
    /// The bucket; none where it was not looked at.
    pub bucket: Option<Bucket>,
    /// What is in S3; none where it was not looked at. What does not count by the record has a doubt.
    pub catalog: Option<Catalog>,
    /// The record of backups as it is in the operator's namespace.
    pub recorded: Option<Record>,
    /// As it is to be; none where nothing is to be recorded now.
    pub recording: Option<Recording>,
    /// By which key backups are signed.
    pub signing: Signing,
    /// Backups that are not signed, for their manifests are not what was reported.
    pub odd: BTreeSet<(String, Timestamp)>,
    /// Manifests of new backups and of one that is to be proven, by folder and instant.
    pub manifests: BTreeMap<(String, Timestamp), Document>,
    /// What is known of the log that is kept with `method: Wal`.
    pub log: Log,
    /// A backup that was to be proven, and why its manifest cannot be read.
    pub unreadable: Option<((String, Timestamp), String)>,
    /// What is left to clean up after a deleted object; none where nothing is to be.
    pub remains: Option<Remains>,
    /// Jobs of a deleted object that are still there were told to end long enough ago: nobody waits for them any more.
    pub are_stops_overdue: bool,
    /// The Job that drops the replication slot of a deleted object.
    pub slot_job: Option<Job>,
    /// What becomes of that slot.
    pub slot: Slot,
}

/// What becomes of the replication slot in which a server keeps its log for an object that is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Slot {
    /// There was none.
    #[default]
    None,
    /// It is to be dropped: that server has it.
    Due(Box<Database>),
    /// A Job is about to drop it.
    Going,
    /// It is dropped.
    Gone,
    /// It stays: why.
    Stays(String),
}

/// By which key backups are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// Nobody looked.
    #[default]
    Unknown,
    /// What others know it by.
    Key(String),
    /// Nothing can be signed now: why.
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

/// What is to be recorded, and how many backups count that no Job reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The record.
    pub record: Record,
    /// How many were accepted as they lie there.
    pub accepted: usize,
}

/// A child as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// The object.
    pub value: Value,
    /// Its uid.
    pub uid: String,
    /// Whether this object controls it.
    pub ours: bool,
}

/// A database to back up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// How it is reached.
    pub access: Access,
    /// Since when it is there.
    pub since: Timestamp,
    /// What serves it.
    pub served: Served,
}

/// A database whose login or certificate may not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The database.
    pub database: Database,
    /// Why.
    pub refusal: Refusal,
}

/// A Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was made.
    pub made: Timestamp,
    /// How it ended; none while it runs.
    pub end: Option<End>,
    /// Since when it is being deleted.
    pub going: Option<Timestamp>,
}

/// A Job that proves a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// The Job.
    pub job: Job,
    /// The folder of the database.
    pub folder: String,
    /// The backup.
    pub id: String,
    /// The database, as it was called when the backup was made.
    pub source: String,
    /// Keys that it reported.
    pub keys: Option<u64>,
}

/// The bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Where it is.
    pub place: Place,
    /// The account that must own it.
    pub owner: String,
    /// It has the name that we give buckets.
    pub usual: bool,
    /// As it is; none where it was not looked at.
    pub found: Option<Found>,
}

impl Bucket {
    /// What it keeps of what is overwritten or deleted.
    pub fn keeping(&self) -> Keeping {
        match &self.found {
            Some(Found::There(facts)) => facts.keeping,
            _ => Keeping::default(),
        }
    }
}

/// What is left to clean up after a deleted object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remains {
    /// Everything under its prefix.
    pub objects: Vec<Object>,
    /// Until when what stays is locked; no time where nothing is.
    pub locked: Option<Timestamp>,
    /// Uploads that did not end.
    pub uploads: Vec<Upload>,
    /// The bucket may go, too, when nothing is in it any more: it was made for backups, and nobody else uses it.
    pub bucket_may_go: bool,
    /// It was tried for long enough: what stays, and why.
    pub given_up: Option<String>,
}

impl Observed {
    /// A child of that kind and name.
    pub fn child(&self, kind: &str, name: &str) -> Option<&Child> {
        self.children.get(&(kind.to_owned(), name.to_owned()))
    }

    /// Jobs of both sorts.
    pub fn all_jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().chain(self.verifications.iter().map(|it| &it.job))
    }

    /// Whether all that may still write was told to end so long ago that what ends at all has ended.
    pub fn jobs_are_overdue(&self, object: &DatabaseBackup, now: Timestamp) -> bool {
        let is_old = |since: Timestamp| now.duration_since(since) > JOBS_STOP_TIMEOUT;
        let asked = object.meta().deletion_timestamp.as_ref().map(|time| time.0);
        // An operator that was away has not told them yet.
        let schedule = self.child("CronJob", &object.name_any()).filter(|child| child.ours);
        let was_told = schedule.is_none_or(|child| child.value["metadata"]["deletionTimestamp"].is_string());
        asked.is_some_and(is_old) && was_told && self.all_jobs().all(|job| job.going.is_some_and(is_old))
    }

    /// Whether a Secret may not be used.
    pub fn is_refused(&self) -> bool {
        !self.withheld.is_empty() || self.identity_refused.is_some()
    }

    /// Whether pods of the schedule will mount a Secret that none of the databases to be backed up names and agrees to, or not
    /// any more.
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

    /// Whether a Job that takes backups has not ended.
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
