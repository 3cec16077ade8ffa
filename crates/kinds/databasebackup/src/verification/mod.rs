//! Proves backups: which one is next, and what came of those before.
//!
//! One backup is proven at a time, because each needs disk space and a server. A backup that was tried is not tried
//! again before the schedule is due again. The Job's name follows from the backup, so the operator finds the Job after
//! a restart. The results stay in the status, because Jobs do not stay.

mod agenda;
mod condition;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::DatabaseBackup;
use causeway_api::databasebackup::BackupVerification;
use causeway_backup::manifest::{due_of, id_of};
use causeway_backup::plan::BackupPlan;
use causeway_runtime::ActionEvent;

use super::accepted::When;
use super::action::{Action, Ended};
use super::facts::{Database, Observed, Verification};
use super::view::View;
use super::{names, resources};

pub use agenda::{Agenda, agenda};
pub use condition::{not_asked, part};

/// Of how many databases the backups are verified.
const MOST: usize = 100;
/// How many verified backups, and how many failed ones, the status keeps for each database.
const REMEMBERED: usize = 20;
/// How many finished Jobs of each database stay, so that people can read their logs.
const HISTORY: usize = 3;

/// The outcome of one verification.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    folder: String,
    source: String,
    id: String,
    at: Timestamp,
    /// Reason and sentence; none where the backup was proven.
    failure: Option<(String, String)>,
    keys: Option<u64>,
}

/// Names of Jobs that ended and were not reported.
pub fn unreported(object: &DatabaseBackup, observed: &Observed, now: Timestamp) -> BTreeSet<String> {
    let view = View::new(object, observed, now);
    ended(&view).filter(|(it, outcome)| is_new(&view, it, outcome)).map(|(it, _)| it.job.name.clone()).collect()
}

/// Folder and instant of the backup that is to be proven next.
pub fn candidate(
    object: &DatabaseBackup,
    observed: &Observed,
    when: &When,
    now: Timestamp,
) -> Option<(String, Timestamp)> {
    next(&View::new(object, observed, now), when).map(|(database, due, _)| (database.access.source.folder.clone(), due))
}

/// Verifications that ended and were not reported, the oldest first.
fn news(view: &View<'_>) -> Vec<Outcome> {
    let of_jobs = ended(view).filter(|(it, outcome)| is_new(view, it, outcome)).map(|(_, outcome)| outcome);
    let mut all: Vec<Outcome> = of_jobs.chain(unreadable(view)).collect();
    all.sort_by(|one, other| (one.at, &one.folder).cmp(&(other.at, &other.folder)));
    all
}

fn ended<'a>(view: &View<'a>) -> impl Iterator<Item = (&'a Verification, Outcome)> {
    view.observed.verifications.iter().filter_map(|it| {
        let end = it.job.end.as_ref()?;
        let outcome = Outcome {
            folder: it.folder.clone(),
            source: it.source.clone(),
            id: it.id.clone(),
            at: end.at,
            failure: end.failure.clone(),
            keys: it.keys,
        };
        Some((it, outcome))
    })
}

/// The failure of a backup whose manifest cannot be read: it takes no Job to find that out.
fn unreadable(view: &View<'_>) -> Option<Outcome> {
    let ((folder, due), why) = view.observed.unreadable.as_ref()?;
    let of_folder = |database: &&Database| database.access.source.folder == *folder;
    let source = view.observed.sources.iter().find(of_folder).map(|it| it.access.source.title.clone());
    Some(Outcome {
        source: source.unwrap_or_else(|| folder.clone()),
        folder: folder.clone(),
        id: id_of(*due),
        // A status has whole seconds.
        at: Timestamp::from_second(view.now.as_second()).unwrap_or(view.now),
        failure: Some(("ManifestInvalid".into(), format!("its manifest cannot be read: {why}"))),
        keys: None,
    })
}

/// Reports whether an outcome was not reported yet. One of a backup that is gone is not reported at all.
fn is_new(view: &View<'_>, it: &Verification, outcome: &Outcome) -> bool {
    !view.before.ended.contains(&it.job.name) && is_there(view, &outcome.folder, &outcome.id)
}

/// Jobs that count as reported. Where S3 was read, these are all that ended: the others are reported now, or need no
/// report. Where it was not read, only those that were reported before.
pub fn reported<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Verification> {
    let all_known = view.observed.current().is_some();
    let before = view.before.ended.clone();
    ended(view).map(|(it, _)| it).filter(move |it| all_known || before.contains(&it.job.name))
}

fn is_there(view: &View<'_>, folder: &str, id: &str) -> bool {
    let Some(catalog) = &view.observed.catalog else { return false };
    due_of(id).is_some_and(|due| catalog.complete(folder).contains(&due))
}

/// Reports verifications that ended.
pub fn tell(view: &View<'_>) -> Vec<Action> {
    let message = |outcome: Outcome| {
        let (what, found) = (format!("backup {} of {}", outcome.id, outcome.source), outcome.finding());
        let event = match &outcome.failure {
            Some(_) => ActionEvent::warning("VerificationFailed", format!("{what}: {found}")),
            None => ActionEvent::normal("Verified", format!("{what} was proven: {found}")),
        };
        Action::Tell { what: Ended::Verification, success: outcome.failure.is_none(), event }
    };
    news(view).into_iter().map(message).collect()
}

/// Deletes Jobs that were reported, except for the newest ones: there may be many a day.
pub fn tidy(view: &View<'_>) -> Vec<Action> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let message = ended(view).filter(|(it, outcome)| !is_new(view, it, outcome)).map(|(it, _)| it).collect::<Vec<_>>();
    let newest_first = message.into_iter().rev();
    let old = newest_first.filter(|it| {
        let count = seen.entry(&it.folder).or_default();
        *count += 1;
        *count > HISTORY
    });
    old.map(|it| Action::Forget { name: it.job.name.clone(), uid: it.job.uid.clone() }).collect()
}

impl Outcome {
    /// Returns what was found, for people.
    fn finding(&self) -> String {
        match (&self.failure, self.keys) {
            (Some((reason, message)), _) => format!("{reason}: {message}"),
            (None, Some(keys)) => format!("a server that was thrown away afterwards loaded it, with {keys} keys"),
            (None, None) => "a server that was thrown away afterwards loaded it".into(),
        }
    }
}

/// Returns what came of the last verification of each database, with new outcomes. Backups that are gone are forgotten.
pub fn results(view: &View<'_>) -> Vec<BackupVerification> {
    let mut all = view.before.verified.clone();
    for outcome in news(view) {
        let index = all.iter().position(|it| it.folder == outcome.folder).unwrap_or_else(|| {
            all.push(blank(&outcome));
            all.len() - 1
        });
        note(&mut all[index], outcome);
    }
    if view.observed.catalog.as_ref().is_some_and(|catalog| !catalog.cut) {
        all = all.into_iter().filter_map(|result| still_there(view, result)).collect();
    }
    let is_source = |it: &BackupVerification| sources(view).any(|source| source.access.source.folder == it.folder);
    all.sort_by(|one, other| (!is_source(one), &one.folder).cmp(&(!is_source(other), &other.folder)));
    all.truncate(MOST);
    all
}

fn blank(outcome: &Outcome) -> BackupVerification {
    BackupVerification {
        folder: outcome.folder.clone(),
        source: String::new(),
        id: String::new(),
        time: Time(outcome.at),
        ok: false,
        message: String::new(),
        proven: Vec::new(),
        proven_at: None,
        failed: Vec::new(),
    }
}

fn note(result: &mut BackupVerification, outcome: Outcome) {
    let found = outcome.finding();
    let Outcome { folder: _, source, id, at, failure, keys: _ } = outcome;
    let (now, not_any_more) = match failure {
        None => (&mut result.proven, &mut result.failed),
        Some(_) => (&mut result.failed, &mut result.proven),
    };
    not_any_more.retain(|other| *other != id);
    now.retain(|other| *other != id);
    now.push(id.clone());
    now.sort_unstable();
    now.drain(..now.len().saturating_sub(REMEMBERED));
    if failure.is_none() {
        result.proven_at = Some(Time(at));
    }
    (result.source, result.id, result.time, result.ok, result.message) =
        (source, id, Time(at), failure.is_none(), found);
}

/// The result without backups that are gone; none where no backup is left. If the backup that was tried last is gone,
/// the newest other one that was tried takes its place.
fn still_there(view: &View<'_>, mut result: BackupVerification) -> Option<BackupVerification> {
    let complete = view.observed.catalog.as_ref()?.complete(&result.folder);
    complete.first()?;
    let is_there = |id: &String| due_of(id).is_some_and(|due| complete.contains(&due));
    result.proven.retain(is_there);
    result.failed.retain(is_there);
    let newest = result.proven.iter().chain(&result.failed).max().filter(|_| !is_there(&result.id)).cloned();
    if let Some(newest) = newest {
        result.ok = result.proven.contains(&newest);
        let found = if result.ok { "it was proven" } else { "it was not proven" };
        result.message = format!("{found}, and {}, which was tried later, is gone", result.id);
        (result.id, result.proven_at) = (newest, None);
    }
    Some(result)
}

/// Reports whether a backup was proven, where that is known.
pub fn verdict(results: &[BackupVerification], folder: &str, id: &str) -> Option<bool> {
    let result = results.iter().find(|result| result.folder == folder)?;
    let is_in = |ids: &[String]| ids.iter().any(|other| other == id);
    if is_in(&result.proven) {
        return Some(true);
    }
    is_in(&result.failed).then_some(false).or_else(|| (result.id == id).then_some(result.ok))
}

/// Backups of a database that are being proven.
pub fn running(view: &View<'_>, folder: &str) -> Vec<Timestamp> {
    let here = view.observed.verifications.iter().filter(|it| it.job.end.is_none() && it.folder == folder);
    here.filter_map(|it| due_of(&it.id)).collect()
}

/// Databases whose backups are proven.
fn sources<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Database> {
    view.observed.sources.iter().take(MOST)
}

/// The backup that is to be proven next, with its Job's name: the newest one of the database whose turn was the longest
/// ago.
fn next<'a>(view: &View<'a>, when: &When) -> Option<(&'a Database, Timestamp, String)> {
    let (object, observed) = (view.object, view.observed);
    let catalog = observed.current()?;
    if object.spec.suspend || observed.verifications.iter().any(|it| it.job.end.is_none()) {
        return None;
    }
    let (results, due) = (results(view), agenda(view, Some(when)).due());
    let mut all: Vec<(Option<Timestamp>, &Database, Timestamp, String)> = Vec::new();
    for database in sources(view) {
        let folder = &database.access.source.folder;
        if observed.unprovable.contains_key(folder) {
            continue;
        }
        let Some(newest) = catalog.complete(folder).last().copied() else { continue };
        let (id, result) = (id_of(newest), results.iter().find(|it| it.folder == *folder));
        let wanted = match when {
            When::AfterEach => verdict(&results, folder, &id).is_none(),
            When::On(_) => {
                due.is_some_and(|due| result.map_or_else(|| database.since <= due, |result| result.time.0 < due))
            }
        };
        let name = names::job_verify(object, folder, &id, due);
        let is_made = observed.verifications.iter().any(|it| it.job.name == name);
        if wanted && !is_made {
            all.push((result.map(|it| it.time.0), database, newest, name));
        }
    }
    all.sort_by(|one, other| (one.0, &one.1.access.source.folder).cmp(&(other.0, &other.1.access.source.folder)));
    all.into_iter().next().map(|(_, database, newest, name)| (database, newest, name))
}

/// Starts the next verification, once the manifest is known.
pub fn step(view: &View<'_>, when: Option<&When>, plan: &BackupPlan) -> Option<Action> {
    let (database, due, name) = next(view, when?)?;
    let folder = &database.access.source.folder;
    let document = view.observed.manifests.get(&(folder.clone(), due))?;
    // The ID comes from the backup's place, not from its manifest: a client that may write there must not choose what is
    // proven.
    let id = id_of(due);
    let message = format!("Job {name} proves backup {id} of {}", document.manifest.source);
    let job = resources::job_verify(view.object, view.observed, plan, database, document, &id, name);
    Some(Action::Verify { job: Box::new(job), message })
}
