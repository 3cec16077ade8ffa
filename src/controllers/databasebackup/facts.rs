//! What is known of backups: children, databases, Jobs, the bucket and what is in it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::backup::jobs::{Access, Catalog, End, Served, Settings};
use crate::backup::manifest::Manifest;
use crate::external::s3::{Found, Object, Place, Upload};

/// All that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// What the operator was told.
    pub settings: Settings,
    /// `CronJob` and `ConfigMap` of our names, by kind and name.
    pub children: BTreeMap<(String, String), Child>,
    /// The service account of the namespace's Jobs.
    pub account: Option<Value>,
    /// Databases to back up, in the order of their folders.
    pub sources: Vec<Database>,
    /// Jobs of this object, in the order in which they were made.
    pub jobs: Vec<Job>,
    /// Jobs of this object that prove a backup, in the same order.
    pub verifications: Vec<Verification>,
    /// The value of the annotation that asks for a backup at once.
    pub asked: Option<String>,
    /// The bucket; none where it was not looked at.
    pub bucket: Option<Bucket>,
    /// What is in S3; none where it was not looked at.
    pub catalog: Option<Catalog>,
    /// Manifests of new backups and of one that is to be proven, by folder and instant.
    pub manifests: BTreeMap<(String, Timestamp), Manifest>,
    /// A backup that was to be proven, and why its manifest cannot be read.
    pub unreadable: Option<((String, Timestamp), String)>,
    /// What is left to clean up after a deleted object; none where nothing is to be.
    pub remains: Option<Remains>,
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

/// What is left to clean up after a deleted object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remains {
    /// Everything under its prefix.
    pub objects: Vec<Object>,
    /// Uploads that did not end.
    pub uploads: Vec<Upload>,
    /// The bucket may go, too, when nothing is in it any more: it was made for backups, and nobody else uses it.
    pub bucket_may_go: bool,
    /// Jobs that are still there were told to end long enough ago: nobody waits for them any more.
    pub overdue: bool,
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

    /// Whether a Job that takes backups has not ended.
    pub fn is_running(&self) -> bool {
        self.jobs.iter().any(|job| job.end.is_none())
    }
}
