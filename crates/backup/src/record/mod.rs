//! The operator's record of backups, in `ConfigMaps` of its own namespace, where tenants cannot write. Pure.
//!
//! Any client that may write into the bucket can forge keys and manifests, and any client that may write the status can forge
//! that. So the operator counts, deletes by retention and restores only backups that a Job of the object reported. The recorded
//! SHA-256 of the manifest keeps another manifest from taking its place.

mod data;
mod pages;
#[cfg(test)]
mod tests;

use pages::PAGE;
pub use pages::Page;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::jobs::{Catalog, Doubt, Stored};
use super::manifest::{SECONDS, due_of, is_early, is_future, is_sha256};
use super::report::{Outcome, Report};

/// The most backups of one object that are recorded. A listing of S3 has at most 200,000 objects, two or three for each
/// backup.
const MOST: usize = 100_000;
/// The most by which the clocks of S3 and of Kubernetes differ.
const CLOCKS: SignedDuration = SignedDuration::from_mins(1);
/// Characters of the longest name of a folder.
const LONGEST_FOLDER: usize = 200;

/// Backups of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The bucket that it writes into.
    pub bucket: String,
    /// Evidence of each backup, by folder and by the instant it was due.
    pub backups: BTreeMap<String, BTreeMap<Timestamp, Evidence>>,
    /// UIDs of ended Jobs whose reports are recorded, for as long as these Jobs exist.
    pub jobs: BTreeSet<String>,
    /// The further `ConfigMaps` that have its older backups, from the oldest on.
    pub pages: Vec<Page>,
}

/// The reasons why a backup counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A Job reported it: its manifest has this SHA-256, hexadecimal.
    Manifest(String),
    /// It was there when the operator looked, or a user accepted it. It counts only if nothing of it was written after this
    /// instant.
    Listed(Timestamp),
}

/// The reports of the pods of a Job that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// UID of the Job.
    pub job: String,
    /// Reports of its pods, except of those that are gone.
    pub reports: Vec<Report>,
    /// When it was made and when it ended, if its pods may have made backups that no report names: Kubernetes deletes a pod
    /// that runs into the deadline of its Job, and its report with it.
    /// <https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup>
    pub unreported: Option<(Timestamp, Timestamp)>,
}

impl Reported {
    /// Reports whether its reports name all its backups with a hash. Otherwise they have to be looked for in S3.
    fn is_whole(&self) -> bool {
        let is_plain = |it: &Outcome| it.error.is_some() || it.manifest.as_deref().is_some_and(is_sha256);
        let names_all = |report: &Report| report.omitted == 0 && report.results.iter().all(is_plain);
        self.unreported.is_none() && self.reports.iter().all(names_all)
    }
}

impl Record {
    /// Name of the `ConfigMap` of the object with that UID.
    #[must_use]
    pub fn name_of(uid: &str) -> String {
        format!("causeway-backups-{uid}")
    }

    /// Name of the page with that number.
    #[must_use]
    pub fn page_name_of(uid: &str, number: u32) -> String {
        format!("{}-{number}", Self::name_of(uid))
    }

    /// The evidence of a backup.
    #[must_use]
    pub fn evidence(&self, folder: &str, due: Timestamp) -> Option<&Evidence> {
        self.backups.get(folder)?.get(&due)
    }

    /// Records what Jobs reported. What is recorded already stays: no backup is written twice.
    pub fn note(&mut self, reported: &[Reported], catalog: &Catalog, now: Timestamp) {
        for Reported { job, reports, unreported } in reported {
            self.jobs.insert(job.clone());
            for report in reports {
                for outcome in &report.results {
                    self.note_outcome(outcome, catalog, now);
                }
                if report.omitted > 0 {
                    self.note_omitted(report, catalog, now);
                }
            }
            if let Some((made, ended)) = *unreported {
                self.note_unreported(made, ended, catalog, now);
            }
        }
    }

    /// Records what Jobs reported with a hash, without a look into S3. A Job with other backups is not noted as recorded, so
    /// that these follow later.
    pub fn note_hashed(&mut self, reported: &[Reported], now: Timestamp) {
        for it in reported {
            for outcome in it.reports.iter().flat_map(|report| &report.results) {
                self.note_outcome(outcome, &Catalog::default(), now);
            }
            if it.is_whole() {
                self.jobs.insert(it.job.clone());
            }
        }
    }

    fn note_outcome(&mut self, outcome: &Outcome, catalog: &Catalog, now: Timestamp) {
        let Some(due) = due_of(&outcome.id).filter(|due| !is_future(*due, now)) else { return };
        if outcome.error.is_some() || !is_folder(&outcome.folder) {
            return;
        }
        let hash = outcome.manifest.clone().filter(|hash| is_sha256(hash));
        let listed = || complete(catalog, &outcome.folder, due).map(|stored| Evidence::Listed(stored.modified));
        let Some(evidence) = hash.map(Evidence::Manifest).or_else(listed) else { return };
        self.backups.entry(outcome.folder.clone()).or_default().entry(due).or_insert(evidence);
    }

    /// A report has no room for all successes of many databases. Failures are left out last, so what it omits succeeded. A
    /// backup that it omits may be due some seconds later, because something lay under the earlier IDs.
    fn note_omitted(&mut self, report: &Report, catalog: &Catalog, now: Timestamp) {
        let ids: BTreeSet<&str> = report.results.iter().map(|outcome| outcome.id.as_str()).collect();
        let is_named = |folder: &str| report.results.iter().any(|outcome| outcome.folder == *folder);
        for first in ids.into_iter().filter_map(due_of).filter(|due| !is_future(*due, now)) {
            let all = first..=first + SignedDuration::from_secs(SECONDS - 1);
            self.note_listed(catalog, |folder, due, _| all.contains(&due) && !is_named(folder), now);
        }
    }

    /// Takes what was written while a Job ran, and was due by then, for a backup of that Job.
    fn note_unreported(&mut self, made: Timestamp, ended: Timestamp, catalog: &Catalog, now: Timestamp) {
        let is_not_after = |earlier: Timestamp, later: Timestamp| earlier.duration_since(later) <= CLOCKS;
        let is_meant = |_: &str, due: Timestamp, stored: &Stored| {
            let written = stored.modified;
            is_not_after(made, written) && is_not_after(written, ended) && is_not_after(due, written)
        };
        self.note_listed(catalog, is_meant, now);
    }

    /// Records complete backups as they are in S3, if nothing is recorded of them.
    fn note_listed(&mut self, catalog: &Catalog, is_meant: impl Fn(&str, Timestamp, &Stored) -> bool, now: Timestamp) {
        for (folder, backups) in catalog.folders.iter().filter(|(folder, _)| is_folder(folder)) {
            for (due, stored) in backups.iter().filter(|(_, stored)| stored.is_complete()) {
                if !is_future(*due, now) && is_meant(folder, *due, stored) {
                    let listed = Evidence::Listed(stored.modified);
                    self.backups.entry(folder.clone()).or_default().entry(*due).or_insert(listed);
                }
            }
        }
    }

    /// Accepts backups that are complete, were last written before `instant` and do not count yet. Returns how many.
    pub fn accept(&mut self, catalog: &Catalog, instant: Timestamp, now: Timestamp) -> usize {
        let mut accepted = 0;
        for (folder, backups) in catalog.folders.iter().filter(|(folder, _)| is_folder(folder)) {
            for (due, stored) in backups.iter().filter(|(_, stored)| stored.is_complete() && stored.modified < instant)
            {
                if matches!(self.doubt(folder, *due, stored, now), Some(Doubt::NotRecorded | Doubt::Changed)) {
                    let listed = Evidence::Listed(stored.modified);
                    self.backups.entry(folder.clone()).or_default().insert(*due, listed);
                    accepted += 1;
                }
            }
        }
        accepted
    }

    /// Forgets backups and Jobs that are gone. If the listing is empty or incomplete, the evidence stays: it must not be lost
    /// because a bucket could not be seen for a moment.
    pub fn tidy(&mut self, catalog: &Catalog, jobs: &BTreeSet<String>) {
        self.jobs.retain(|job| jobs.contains(job));
        if !catalog.cut && !catalog.folders.is_empty() {
            for (folder, backups) in &mut self.backups {
                let there = catalog.folders.get(folder);
                backups.retain(|due, _| there.is_some_and(|there| there.contains_key(due)));
            }
        }
        self.shorten();
        self.backups.retain(|_, backups| !backups.is_empty());
        self.paginate(PAGE);
    }

    /// Forgets the oldest backups if there are more than are recorded. What is
    /// forgotten is neither restored nor deleted any more.
    fn shorten(&mut self) {
        if self.count() <= MOST {
            return;
        }
        let all = self.backups.values().flat_map(BTreeMap::keys);
        let mut dues: Vec<Timestamp> = all.copied().collect();
        let Some(beyond) = dues.len().checked_sub(MOST).filter(|beyond| *beyond > 0) else { return };
        dues.sort_unstable();
        let oldest = dues[beyond];
        self.backups.values_mut().for_each(|backups| backups.retain(|due, _| *due >= oldest));
    }

    /// The backups that are recorded, as if each were in S3 as it was reported. Keys begin with `prefix`, which ends in a
    /// slash.
    #[must_use]
    pub fn catalog(&self, prefix: &str) -> Catalog {
        let stored = |(due, evidence): (&Timestamp, &Evidence)| {
            let modified = match evidence {
                Evidence::Listed(at) => *at,
                Evidence::Manifest(_) => *due,
            };
            (*due, Stored { manifest: true, data: true, modified, ..Stored::default() })
        };
        let folders = self.backups.iter().map(|(folder, all)| (folder.clone(), all.iter().map(stored).collect()));
        Catalog { prefix: prefix.to_owned(), folders: folders.collect(), ..Catalog::default() }
    }

    /// Returns what is in S3, with the reason for each backup that does not count.
    #[must_use]
    pub fn judged(&self, mut catalog: Catalog, now: Timestamp) -> Catalog {
        for (folder, backups) in &mut catalog.folders {
            for (due, stored) in backups {
                stored.doubt = self.doubt(folder, *due, stored, now);
            }
        }
        catalog
    }

    fn doubt(&self, folder: &str, due: Timestamp, stored: &Stored, now: Timestamp) -> Option<Doubt> {
        match self.evidence(folder, due) {
            _ if is_future(due, now) => Some(Doubt::Future),
            // Any client that may write into the bucket knows when a backup will be due, and can put one there before. The Job
            // may then have reported that one as its own.
            _ if is_early(due, stored.modified) => Some(Doubt::Early),
            None => Some(Doubt::NotRecorded),
            Some(Evidence::Listed(at)) if stored.modified > *at => Some(Doubt::Changed),
            Some(Evidence::Listed(_) | Evidence::Manifest(_)) => None,
        }
    }
}

/// Returns what is in S3, for an object that trusts everything that lies there: all of it counts, except backups of the future.
#[must_use]
pub fn believed(mut catalog: Catalog, now: Timestamp) -> Catalog {
    for (due, stored) in catalog.folders.values_mut().flatten() {
        stored.doubt = is_future(*due, now).then_some(Doubt::Future);
    }
    catalog
}

fn complete<'a>(catalog: &'a Catalog, folder: &str, due: Timestamp) -> Option<&'a Stored> {
    catalog.folders.get(folder)?.get(&due).filter(|stored| stored.is_complete())
}

/// Reports whether a folder can be a part of a key of a `ConfigMap`.
fn is_folder(folder: &str) -> bool {
    let is_usual = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, b'.' | b'-');
    (1..=LONGEST_FOLDER).contains(&folder.len()) && folder.bytes().all(is_usual)
}
