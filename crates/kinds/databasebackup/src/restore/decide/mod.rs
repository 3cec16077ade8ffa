//! Decides what to do about a restore. Pure.

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(super) use tests::{restore, target};

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::ResourceExt;

use causeway_api::databaserestore::{RecoveredTo, RestoreChange, RestorePhase};
use causeway_api::{DatabaseRestore, DatabaseRestoreStatus};
use causeway_backup::Outlook;
use causeway_backup::jobs::service_account;
use causeway_runtime::manifest::{Manifest, left_over};
use causeway_runtime::{ActionEvent, Health, Plan};

use super::facts::{Choice, Chosen, Job, Note, Observed};
use super::resources;
use super::target::NOT_NOTED;

/// How often a running Job is looked at: the controller does not watch its pods.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// How soon the restore is looked at again while its owner has to note it: that is one write.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often the operator looks for what does not exist yet.
const WAIT: Duration = Duration::from_secs(5);

/// How often the operator checks whether a restore is allowed now.
const HELD: Duration = Duration::from_secs(30);

/// One change in the cluster or in AWS.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Apply a child.
    Apply { child: Box<Manifest> },
    /// Make the Job.
    Start {
        job: Box<Manifest>,
        /// A description for people.
        text: String,
        /// A reason of the event that warns; none if nothing is unusual.
        warning: Option<&'static str>,
    },
}

impl Action {
    /// The event that reports the action.
    pub fn event(&self) -> Option<ActionEvent> {
        match self {
            Self::Apply { .. } => None,
            Self::Start { text, warning: Some(reason), .. } => Some(ActionEvent::warning(reason, text.clone())),
            Self::Start { text, .. } => Some(ActionEvent::normal("RestoreStarted", text.clone())),
        }
    }
}

/// Decides what to do to restore the backup, once.
pub fn decide(object: &DatabaseRestore, observed: &Observed, now: Timestamp) -> Plan<Action, DatabaseRestoreStatus> {
    let before = object.status.clone().unwrap_or_default();
    if before.phase.is_final() {
        return ended(before);
    }
    match &observed.job {
        Some(job) if job.ours || is_recorded(object, &before, job) => follow(object, before, job),
        Some(job) if job.left_over => {
            let text = left_over::<DatabaseRestore>("Job", &resources::name(object));
            stays(before, Health::progressing("Pending", text), Some(WAIT))
        }
        Some(_) => {
            let (namespace, name) = (object.namespace().unwrap_or_default(), resources::name(object));
            let text = format!(
                "Job {name} exists and does not belong to this object: delete it (kubectl -n {namespace} delete job {name}), \
                 or choose another metadata.name"
            );
            // No watch shows that a Job without our label is gone.
            stays(before, Health::stalled("NameTaken", text), Some(HELD))
        }
        // A user deleted the Job. It is not known what it has written.
        None if before.job.is_some() => {
            let text = "the Job was deleted before it ended: the target may hold a part of the backup";
            ended(failed(before, "JobDeleted", text, now))
        }
        None => begin(object, observed, before, now),
    }
}

/// Reports whether a Job without a controller is the one that this object recorded. It goes on, and writes into the target, so
/// its end matters. One that is not recorded may have restored something else.
fn is_recorded(object: &DatabaseRestore, before: &DatabaseRestoreStatus, job: &Job) -> bool {
    let is_noted = before.job.as_ref() == Some(&resources::name(object)) && before.started == Some(Time(job.made));
    job.lost && is_noted
}

/// Starts the restore: there is no Job yet.
fn begin(
    object: &DatabaseRestore,
    observed: &Observed,
    before: DatabaseRestoreStatus,
    now: Timestamp,
) -> Plan<Action, DatabaseRestoreStatus> {
    let chosen = match &observed.choice {
        Choice::Unknown => {
            return stays(before, Health::progressing("Pending", "the backup is looked for"), Some(WAIT));
        }
        Choice::Waiting(reason, text) if *reason == NOT_NOTED => {
            return stays(before, Health::progressing(reason, text.clone()), Some(RETRY_AFTER));
        }
        Choice::Waiting(reason, text) => {
            return stays(before, Health::progressing(reason, text.clone()), Some(WAIT));
        }
        Choice::Held(reason, text) => {
            return stays(before, Health::stalled(reason, text.clone()), Some(HELD));
        }
        Choice::Refused(reason, text) => return ended(failed(before, reason, text, now)),
        Choice::Made(chosen) => chosen,
    };
    let what = if object.spec.dry_run { "dry run: " } else { "" };
    let text = format!("{what}{}", describe(chosen));
    let account = service_account(object);
    let is_met = observed.account.as_ref().is_some_and(|live| account.is_met_by(live));
    let apply = |child| Action::Apply { child: Box::new(child) };
    let mut actions: Vec<Action> = (!is_met).then(|| apply(account)).into_iter().collect();
    actions.push(apply(resources::config_map(object, chosen)));
    let job = Box::new(resources::job(object, &observed.settings, chosen));
    let warning = match &chosen.note {
        Note::None => None,
        Note::Passed(_) | Note::Lost(_) => Some("RestoreStarted"),
        Note::Unverified => Some("UnverifiedRestoreStarted"),
    };
    actions.push(Action::Start { job, text: text.clone(), warning });
    let status = DatabaseRestoreStatus { message: Some(text.clone()), ..before };
    Plan { actions, ..stays(status, Health::progressing("Starting", text), Some(POLL_INTERVAL)) }
}

/// Reports the progress of the Job.
fn follow(object: &DatabaseRestore, before: DatabaseRestoreStatus, job: &Job) -> Plan<Action, DatabaseRestoreStatus> {
    let (backup_id, source) = job.chosen.clone().unzip();
    let recovered_to = job.recovery.map(|(log_backups, until)| RecoveredTo {
        until: until.map(MicroTime),
        log_backups,
        reached: job.reached.map(MicroTime),
    });
    let mut status = DatabaseRestoreStatus {
        recovered_to,
        job: Some(resources::name(object)),
        started: Some(Time(job.made)),
        backup_id: backup_id.or(before.backup_id.clone()),
        source: source.or(before.source.clone()),
        ..before
    };
    let what = format!(
        "{} of {}{}",
        status.backup_id.clone().unwrap_or_default(),
        status.source.as_deref().unwrap_or("the backup"),
        job.passed_over.as_ref().map_or_else(String::new, |it| format!(" ({it})"))
    );
    match &job.end {
        None => {
            // The phase never goes back to Fetching: a second try may fetch again, but the target was written to.
            let writing = job.writing || status.phase == RestorePhase::Restoring;
            let (phase, reason, text) = if writing && object.spec.dry_run {
                (RestorePhase::Fetching, "Planning", format!("computing what {what} would change"))
            } else if writing {
                (RestorePhase::Restoring, "Restoring", format!("{what} is written into the target"))
            } else if job.recovering {
                (RestorePhase::Fetching, "Recovering", format!("a server comes back from {what} and reads its log"))
            } else {
                (RestorePhase::Fetching, "Fetching", format!("{what} is fetched and checked"))
            };
            let (reason, text) = match (&job.stuck, &job.failed_try) {
                (Some((reason, why)), None) => (*reason, format!("{what} waits: {why}")),
                (Some((reason, why)), Some(failed)) => {
                    (*reason, format!("{what} waits: {why}; the last try failed: {failed}"))
                }
                (None, Some(why)) => ("Retrying", format!("{text}; the last try failed: {why}")),
                (None, None) => (reason, text),
            };
            let text = if job.ours { text } else { format!("{text}; {}", describe_lost(object)) };
            status.phase = phase;
            status.message = Some(text.clone());
            stays(status, Health::progressing(reason, text), Some(POLL_INTERVAL))
        }
        Some(end) => {
            if let Some((reason, text)) = &end.failure {
                return ended(failed(status, reason, text, end.at));
            }
            if object.spec.dry_run {
                return ended(planned(status, &what, job.outlook.as_ref(), end.at));
            }
            let keys = job.keys.map_or_else(String::new, |keys| format!(": {keys} keys"));
            let at = job.recovery.map_or_else(String::new, |(log, until)| as_it_was(log, until, job.reached));
            let note = job.note.as_ref().map_or_else(String::new, |note| format!("; {note}"));
            ended(DatabaseRestoreStatus {
                phase: RestorePhase::Succeeded,
                keys: job.keys.map(|keys| i64::try_from(keys).unwrap_or(i64::MAX)),
                finished: Some(Time(end.at)),
                message: Some(format!("{what} is in the target{at}{keys}{note}")),
                ..status
            })
        }
    }
}

/// Says what follows for a Job that lost its owner: the operator may not change Jobs.
fn describe_lost(object: &DatabaseRestore) -> String {
    let (namespace, name) = (object.namespace().unwrap_or_default(), resources::name(object));
    format!(
        "Job {name} has lost its owner, and does not end with this object: to end it, kubectl -n {namespace} delete job {name}"
    )
}

/// How far the server was recovered, for people.
fn as_it_was(log: i32, until: Option<Timestamp>, reached: Option<Timestamp>) -> String {
    let until = until.map_or_else(|| "with all that there is".to_owned(), |until| format!("as it was at {until}"));
    let last = reached.map_or_else(
        || "nothing was committed since the base backup".to_owned(),
        |reached| format!("the last transaction is of {reached}"),
    );
    format!(", with {log} backups of its log, {until} ({last})")
}

/// The Job of a dry run ended. If its pod is gone, what it found is lost.
fn planned(
    status: DatabaseRestoreStatus,
    what: &str,
    outlook: Option<&Outlook>,
    at: Timestamp,
) -> DatabaseRestoreStatus {
    let Some(outlook) = outlook else {
        let text = "the Job ended well, and its pod is gone with what it found: make another DatabaseRestore";
        return failed(status, "OutlookLost", text, at);
    };
    let text = match (&outlook.reported.refused, &outlook.refusal) {
        (Some(reason), Some(sentence)) => format!("{what} would be refused: {reason}: {sentence}"),
        _ if outlook.reported.changes.is_empty() => format!("{what} would change nothing"),
        _ => {
            let change = |it: &RestoreChange| format!("{:?} {} {}", it.action, it.count, it.what).to_lowercase();
            let changes: Vec<String> = outlook.reported.changes.iter().map(change).collect();
            format!("{what} would {}", changes.join(", "))
        }
    };
    DatabaseRestoreStatus {
        phase: RestorePhase::Planned,
        finished: Some(Time(at)),
        message: Some(format!("{text}; nothing was written (spec.dryRun)")),
        outlook: Some(outlook.reported.clone()),
        ..status
    }
}

fn failed(status: DatabaseRestoreStatus, reason: &str, text: &str, at: Timestamp) -> DatabaseRestoreStatus {
    DatabaseRestoreStatus {
        phase: RestorePhase::Failed,
        finished: Some(Time(at)),
        reason: Some(reason.to_owned()),
        message: Some(format!("{reason}: {text}")),
        ..status
    }
}

/// The restore has ended, and nothing more is done.
fn ended(status: DatabaseRestoreStatus) -> Plan<Action, DatabaseRestoreStatus> {
    let text = status.message.clone().unwrap_or_default();
    let health = match status.phase {
        RestorePhase::Succeeded => Health::ready("Succeeded", text),
        RestorePhase::Planned => Health::ready("Planned", text),
        _ => Health::stalled("Failed", format!("{text}. To try again, make another DatabaseRestore")),
    };
    Plan { actions: Vec::new(), status, health, parts: Vec::new(), write_status_first: false, requeue: None }
}

fn stays(
    mut status: DatabaseRestoreStatus,
    health: Health,
    requeue: Option<Duration>,
) -> Plan<Action, DatabaseRestoreStatus> {
    if let Health::Progressing(cause) | Health::Stalled(cause) = &health {
        status.message = Some(cause.message.clone());
    }
    Plan { actions: Vec::new(), status, health, parts: Vec::new(), write_status_first: false, requeue }
}

fn describe(chosen: &Chosen) -> String {
    let unverified = || "it was not checked who wrote it (spec.from.s3.trust: Unverified)".to_owned();
    let note = chosen.note.passed_over().or_else(|| (chosen.note == Note::Unverified).then(unverified));
    let note = note.map_or_else(String::new, |note| format!("; {note}"));
    let Chosen { manifest, target, recovery, .. } = chosen;
    let log =
        recovery.as_ref().map_or_else(String::new, |it| format!(", with {} backups of its log,", it.plan.log.len()));
    format!("backup {} of {}{log} into {}{note}", manifest.id, manifest.source, target.access.source.title)
}
