//! Jobs: those that ended or are gone are reported, and one is made when a user asks for it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use causeway_api::databasebackup::{BackupFailure, DatabaseState, Method, RunningBackup};
use causeway_backup::jobs::Catalog;
use causeway_backup::manifest::id_of;
use causeway_backup::plan::BackupPlan;
use causeway_runtime::{ActionEvent, ConditionStatus, ExtraCondition, Health};

use super::super::action::{Action, Ended};
use super::super::facts::Job;
use super::super::view::View;
use super::super::{names, resources};
use super::{states, status};

/// The reason where a hook failed after a good dump.
const HOOK_FAILED: &str = "HookFailed";
/// The reason where a Job is gone, and its end was not seen.
const JOB_DELETED: &str = "JobDeleted";
/// How many running Jobs are remembered: the schedule runs one at a time.
const RUNNING: usize = 20;

/// Jobs that ended and were not reported, and those that are gone.
pub fn tell(view: &View<'_>) -> Vec<Action> {
    let news = view.observed.jobs.iter().filter(|job| job.end.is_some() && !view.before.ended.contains(&job.name));
    let ended = news.filter_map(|job| describe(job, view.observed.messages.get(&job.uid)));
    let gone = lost_jobs(view).into_iter().map(|job| {
        let event = ActionEvent::warning("BackupFailed", lost_words(view, job));
        Action::Tell { what: Ended::Backup, success: false, event }
    });
    ended.chain(gone).collect()
}

/// Jobs that had not ended when that was noted last, and that do not exist any more.
fn vanished_jobs<'a>(view: &'a View<'_>) -> impl Iterator<Item = &'a RunningBackup> {
    let is_there = |it: &RunningBackup| view.observed.jobs.iter().any(|job| job.name == it.job);
    view.before.running.iter().filter(move |it| !view.before.ended.contains(&it.job) && !is_there(it))
}

/// Those of them that did not write a backup of each database. Where S3 was not read, that is not known.
pub fn lost_jobs<'a>(view: &'a View<'_>) -> Vec<&'a RunningBackup> {
    let Some(catalog) = view.observed.current() else { return Vec::new() };
    vanished_jobs(view).filter(|it| !has_written(view, it, catalog)).collect()
}

fn has_written(view: &View<'_>, job: &RunningBackup, catalog: &Catalog) -> bool {
    let folders = view.observed.sources.iter().map(|it| &it.access.source.folder);
    folders.into_iter().all(|folder| states::has_newer(folder, catalog, job.started.0))
}

/// The failure of the Job that was lost last.
pub fn lost_failure(view: &View<'_>) -> Option<BackupFailure> {
    let job = lost_jobs(view).into_iter().max_by_key(|it| it.started.0)?;
    let message = lost_words(view, job);
    Some(BackupFailure { time: Time(view.now), reason: JOB_DELETED.into(), message, job: job.job.clone() })
}

fn lost_words(view: &View<'_>, job: &RunningBackup) -> String {
    let name = view.object.metadata.name.as_deref().unwrap_or_default();
    format!(
        "Job {} is gone, and its end was not seen: it was deleted, or ended while the operator was away, and what it wrote does not \
         count: kubectl causeway backup now {name}",
        job.job
    )
}

/// The Jobs that have not ended. Those stay of which it is not known yet what they left.
pub fn running(view: &View<'_>) -> Vec<RunningBackup> {
    let unknown: Vec<RunningBackup> =
        if view.observed.current().is_none() { vanished_jobs(view).cloned().collect() } else { Vec::new() };
    let jobs = view.observed.jobs.iter().filter(|job| job.end.is_none());
    let jobs = jobs.map(|job| RunningBackup { job: job.name.clone(), started: Time(job.made) });
    let all: Vec<RunningBackup> = unknown.into_iter().chain(jobs).collect();
    all[all.len().saturating_sub(RUNNING)..].to_vec()
}

fn describe(job: &Job, note: Option<&String>) -> Option<Action> {
    let (end, name) = (job.end.as_ref()?, &job.name);
    let event = match (&end.failure, note) {
        (Some((_, message)), _) => ActionEvent::warning("BackupFailed", format!("Job {name} failed: {message}")),
        (None, Some(note)) => ActionEvent::warning(HOOK_FAILED, format!("Job {name} succeeded, but {note}")),
        (None, None) => ActionEvent::normal("BackupSucceeded", format!("Job {name} succeeded")),
    };
    Some(Action::Tell { what: Ended::Backup, success: end.failure.is_none(), event })
}

/// A Job for the annotation's value. Each value starts one Job.
pub fn now(view: &View<'_>, plan: &BackupPlan) -> Option<Action> {
    let token = new_token(view)?;
    let name = names::job_now(view.object, token);
    let exists = view.observed.jobs.iter().any(|job| job.name == name);
    if exists || plan.sources.is_empty() || ahead(view).is_some() {
        return None;
    }
    let job = resources::job_now(view.object, view.observed, plan, token, &id_of(view.now));
    Some(Action::Start { job: Box::new(job) })
}

/// Explains why nothing says that backups are taken although they are scheduled: the last ones failed, or the first tries of
/// one that runs did. Until a backup succeeds, `kubectl wait` must not go on.
pub fn failing(view: &View<'_>, databases: &[DatabaseState]) -> Option<Health> {
    let stuck = view.observed.jobs.iter().rev().find_map(|job| job.stuck.as_ref());
    if let Some((reason, words)) = stuck {
        return Some(Health::progressing(reason, words.clone()));
    }
    let retried = view.observed.jobs.iter().rfind(|job| job.end.is_none() && job.failed_tries > 0);
    if let Some(job) = retried {
        let words = job.last_words.as_deref().unwrap_or("see the logs of its pods");
        let tries = if job.failed_tries == 1 { "once".to_owned() } else { format!("{} times", job.failed_tries) };
        return Some(Health::progressing(
            "BackupRetried",
            format!("Job {} failed {tries}, and is tried again: {words}", job.name),
        ));
    }
    let failed = status::last_failure(view)
        .and_then(|_| states::failed(view, databases))
        .filter(|it| it.status == ConditionStatus::True);
    failed.map(|failed| Health::stalled("BackupFailed", failed.message))
}

/// Explains why it is not enough that backups are scheduled: the first of them was due, and there is none at all.
pub fn none_yet(view: &View<'_>, overdue: &ExtraCondition) -> Option<Health> {
    let catalog = view.observed.current()?;
    let is_due = overdue.status == ConditionStatus::True && catalog.total().0 == 0;
    is_due.then(|| Health::progressing("NoBackup", overdue.message.clone()))
}

/// The annotation's value, if it has not started a Job yet.
fn new_token<'a>(view: &'a View<'_>) -> Option<&'a String> {
    view.observed.asked.as_ref().filter(|token| view.before.backup_now.as_ref() != Some(*token))
}

/// The Job that a Job for the annotation waits for. Two that receive the same log at once disturb each other: the first to end
/// lets the server delete the log that the other one still receives.
fn ahead<'a>(view: &'a View<'_>) -> Option<&'a Job> {
    view.observed.jobs.iter().find(|job| job.end.is_none() && view.object.spec.method == Method::Wal)
}

/// Returns what the annotation waits for, as text to append to a message; none where it does not wait.
pub fn waits(view: &View<'_>) -> Option<String> {
    let (token, job) = (new_token(view)?, ahead(view)?);
    let (annotation, name) = (names::NOW, &job.name);
    let is_its = *name == names::job_now(view.object, token);
    (!is_its)
        .then(|| format!("; the backup that annotation {annotation}={token} asks for begins when Job {name} has ended"))
}

/// The annotation's value for which there is a Job, or was one.
pub fn begun(view: &View<'_>) -> Option<String> {
    let asked = view.observed.asked.as_ref();
    let is_begun = |token: &&String| {
        let name = names::job_now(view.object, token);
        view.observed.jobs.iter().any(|job| job.name == name)
    };
    asked.filter(is_begun).cloned().or_else(|| view.before.backup_now.clone())
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::Observed;
    use super::super::tests::{aged, catalog, decided, now, settled};
    use jiff::SignedDuration;

    use super::*;
    use crate::fixtures::backup;
    use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
    use causeway_backup::jobs::End;
    use causeway_runtime::Plan;

    #[test]
    fn requested_log_waits_for_the_running_job() {
        let mut object = backup();
        let mut observed = settled(&object);
        observed.asked = Some("today".into());
        observed.jobs = vec![Job { name: "nightly-1".into(), uid: "u1".into(), ..Job::default() }];
        let begins = |object: &DatabaseBackup, observed: &Observed| {
            let plan = decided(object, observed);
            let begins = plan.actions.iter().any(|action| matches!(action, Action::Start { .. }));
            let Health::Ready(cause) = &plan.health else { panic!("{:?}", plan.health) };
            (begins, cause.message.contains("backup-now=today asks for begins when Job nightly-1 has ended"))
        };
        assert_eq!(begins(&object, &observed), (true, false), "dumps do not disturb each other");
        object.spec.method = Method::Wal;
        let observed = Observed { children: settled(&object).children, ..observed };
        assert_eq!(begins(&object, &observed), (false, true));
        assert_eq!(decided(&object, &observed).status.backup_now, None);
        let mut ended = observed.clone();
        ended.jobs[0].end = Some(End { at: now(), failure: None });
        assert_eq!(begins(&object, &ended), (true, false));
    }

    /// Reports whether the object is ready, why, and its message.
    fn readiness(object: &DatabaseBackup, observed: &Observed) -> (bool, &'static str, String) {
        match decided(object, observed).health {
            Health::Ready(cause) => (true, cause.reason, cause.message),
            Health::Progressing(cause) | Health::Stalled(cause) => (false, cause.reason, cause.message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn not_ready_from_a_failed_try_until_success() {
        let object = backup();
        let mut observed = settled(&object);
        let job = Job { name: "nightly-1".into(), uid: "u1".into(), made: now(), ..Job::default() };
        observed.jobs = vec![job.clone()];
        assert!(readiness(&object, &observed).0, "the first try is not over");
        let words = "SourceUnreachable: redis-cache: no server answers";
        observed.jobs = vec![Job { failed_tries: 1, last_words: Some(words.into()), ..job.clone() }];
        let (ready, reason, message) = readiness(&object, &observed);
        assert!(!ready && reason == "BackupRetried", "{message}");
        assert_eq!(message, format!("Job nightly-1 failed once, and is tried again: {words}"));
        observed.jobs = vec![Job { failed_tries: 3, ..job.clone() }];
        assert!(
            readiness(&object, &observed).2.contains("failed 3 times, and is tried again: see the logs of its pods")
        );
        let failure = Some(("SourceUnreachable".to_owned(), "redis-cache: no server answers".to_owned()));
        observed.jobs = vec![Job { end: Some(End { at: now(), failure }), failed_tries: 4, ..job.clone() }];
        let (ready, reason, message) = readiness(&object, &observed);
        assert!(!ready && reason == "BackupFailed" && message.contains("no server answers"), "{message}");
        assert!(message.starts_with("there was never a complete backup of Redis cache"), "{message}");
        // The next one succeeds, after a try that failed.
        let next = Job { name: "nightly-2".into(), uid: "u2".into(), failed_tries: 1, made: now(), ..Job::default() };
        observed.jobs.push(Job { end: Some(End { at: now(), failure: None }), ..next });
        observed.catalog = Some(catalog(&["20261122T115500Z"], &[], now()));
        assert!(readiness(&object, &observed).0, "{observed:?}");
    }

    #[test]
    fn a_deleted_job_is_a_failed_backup() {
        let mut object = backup();
        let mut observed = settled(&object);
        let made = now() - SignedDuration::from_mins(10);
        let job = Job { name: "nightly-now-1".into(), uid: "u1".into(), made, is_running: true, ..Job::default() };
        observed.jobs = vec![job.clone()];
        let plan = decided(&object, &observed);
        assert_eq!(plan.status.running, [RunningBackup { job: job.name.clone(), started: Time(made) }]);
        assert!(readiness(&object, &observed).0);
        object.status = Some(plan.status);

        // It is gone. As long as S3 does not answer, it is not known what it left.
        observed.jobs.clear();
        let unread = decided(&object, &Observed { catalog: None, ..observed.clone() });
        assert_eq!((unread.status.running.len(), unread.status.last_failure.as_ref()), (1, None));
        let plan = decided(&object, &observed);
        assert!(plan.status.running.is_empty());
        let failure = plan.status.last_failure.clone().expect("a failure");
        assert_eq!((failure.reason.as_str(), failure.job.as_str()), (JOB_DELETED, "nightly-now-1"));
        assert!(failure.message.ends_with(": kubectl causeway backup now nightly"), "{}", failure.message);
        let tells = |plan: &Plan<Action, DatabaseBackupStatus>| {
            plan.actions.iter().any(|it| matches!(it, Action::Tell { success: false, .. }))
        };
        assert!(tells(&plan));
        let (ready, reason, message) = readiness(&object, &observed);
        assert!(!ready && reason == "BackupFailed" && message.contains("Job nightly-now-1 is gone"), "{message}");

        // That is told once, and stays, also beside older Jobs that ended well.
        object.status = Some(plan.status);
        let end = Some(End { at: made - SignedDuration::from_hours(24), failure: None });
        let before =
            Job { name: "nightly-0".into(), made: made - SignedDuration::from_hours(25), end, ..Job::default() };
        observed.jobs = vec![before];
        let plan = decided(&object, &observed);
        assert!(!tells(&plan) && plan.status.last_failure.as_ref() == Some(&failure));
        assert!(!readiness(&object, &observed).0);
        object.status = Some(plan.status);
        let end = Some(End { at: now() + SignedDuration::from_mins(2), failure: None });
        observed.jobs.push(Job {
            name: "nightly-2".into(),
            made: now() + SignedDuration::from_mins(1),
            end,
            ..Job::default()
        });
        observed.catalog = Some(catalog(&["20261122T115500Z"], &[], now() + SignedDuration::from_mins(2)));
        assert_eq!(decided(&object, &observed).status.last_failure, None);
        assert!(readiness(&object, &observed).0);
    }

    #[test]
    fn a_deleted_job_that_wrote_did_not_fail() {
        let mut object = backup();
        let mut observed = settled(&object);
        let started = Time(now() - SignedDuration::from_mins(10));
        let running = vec![RunningBackup { job: "nightly-1".into(), started }];
        object.status = Some(DatabaseBackupStatus { running, ..DatabaseBackupStatus::default() });
        observed.catalog = Some(catalog(&["20261122T115500Z"], &[], now() - SignedDuration::from_mins(5)));
        let plan = decided(&object, &observed);
        assert_eq!((plan.status.last_failure, plan.status.running.len()), (None, 0));
    }

    #[test]
    fn not_ready_without_the_first_due_backup() {
        let object = backup();
        assert!(readiness(&object, &settled(&object)).0, "none was due yet");
        let observed = aged(settled(&object));
        let (ready, reason, message) = readiness(&object, &observed);
        assert!(
            !ready && reason == "NoBackup" && message.contains("never a complete backup of Redis cache"),
            "{message}"
        );
    }

    #[test]
    fn a_job_whose_pods_are_refused_is_told_and_watched() {
        let object = backup();
        let mut observed = settled(&object);
        let job = Job { name: "nightly-1".into(), uid: "u1".into(), made: now(), ..Job::default() };
        let words = "Kubernetes refuses the pods of Job nightly-1 (FailedCreate): exceeded quota: small";
        observed.jobs = vec![Job { stuck: Some(("PodsRefused", words.into())), ..job.clone() }];
        assert_eq!(readiness(&object, &observed), (false, "PodsRefused", words.to_owned()));
        assert!(decided(&object, &observed).requeue.is_some_and(|pause| pause.as_secs() <= 15));
        observed.jobs = vec![Job { is_running: true, ..job }];
        assert!(readiness(&object, &observed).0);
    }

    #[test]
    fn a_failed_hook_after_a_dump_is_a_warning() {
        let object = backup();
        let mut observed = settled(&object);
        let end = || Some(End { at: now(), failure: None });
        observed.jobs = vec![
            Job { name: "nightly-1".into(), uid: "u1".into(), end: end(), ..Job::default() },
            Job { name: "nightly-2".into(), uid: "u2".into(), end: end(), ..Job::default() },
        ];
        observed.messages.insert("u1".into(), "spec.hooks.after: statement 1 of 1 failed".into());
        let plan = decided(&object, &observed);
        let of = |action: &Action| match action {
            Action::Tell { success, event, .. } => Some((*success, event.clone())),
            _ => None,
        };
        let events: Vec<(bool, ActionEvent)> = plan.actions.iter().filter_map(of).collect();
        let words = "Job nightly-1 succeeded, but spec.hooks.after: statement 1 of 1 failed";
        let hook = ActionEvent::warning("HookFailed", words);
        assert_eq!(events, [(true, hook), (true, ActionEvent::normal("BackupSucceeded", "Job nightly-2 succeeded"))]);
        assert_eq!(plan.status.last_failure, None);
    }
}
