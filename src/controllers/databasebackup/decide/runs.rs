//! Jobs: those that ended are reported, and one is made when somebody asks for it.

use super::super::action::{Action, Ended};
use super::super::facts::Job;
use super::super::view::View;
use super::super::{names, resources};
use super::{states, status};
use crate::api::databasebackup::{DatabaseState, Method};
use crate::backup::manifest::id_of;
use crate::backup::plan::BackupPlan;
use crate::runtime::{ActionEvent, ConditionStatus, Health};

/// The reason where a hook failed after a good dump.
const HOOK_FAILED: &str = "HookFailed";

/// Jobs that ended and were not reported.
pub fn tell(view: &View<'_>) -> Vec<Action> {
    let news = view.observed.jobs.iter().filter(|job| job.end.is_some() && !view.before.ended.contains(&job.name));
    news.filter_map(|job| describe(job, view.observed.messages.get(&job.uid))).collect()
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

/// Why nothing says that backups are taken although they are scheduled: the last ones failed, or the first tries of one that runs
/// did. Until a backup succeeds, `kubectl wait` must not go on.
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
    status::last_failure(view)?;
    let failed = states::failed(view, databases).filter(|it| it.status == ConditionStatus::True)?;
    Some(Health::stalled("BackupFailed", failed.message))
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

/// What the annotation waits for, as text to append to a message; none where it does not wait.
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
    use super::super::tests::{catalog, decided, now, settled};
    use super::*;
    use crate::api::DatabaseBackup;
    use crate::backup::jobs::End;
    use crate::controllers::databasebackup::fixtures::backup;

    #[test]
    fn log_that_is_asked_for_waits_for_the_job_that_receives_log() {
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

    /// Whether the object is ready, why, and its message.
    fn told(object: &DatabaseBackup, observed: &Observed) -> (bool, &'static str, String) {
        match decided(object, observed).health {
            Health::Ready(cause) => (true, cause.reason, cause.message),
            Health::Progressing(cause) | Health::Stalled(cause) => (false, cause.reason, cause.message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_ready_from_the_first_try_that_failed_until_one_succeeds() {
        let object = backup();
        let mut observed = settled(&object);
        let job = Job { name: "nightly-1".into(), uid: "u1".into(), made: now(), ..Job::default() };
        observed.jobs = vec![job.clone()];
        assert!(told(&object, &observed).0, "the first try is not over");
        let words = "SourceUnreachable: redis-cache: nobody answers";
        observed.jobs = vec![Job { failed_tries: 1, last_words: Some(words.into()), ..job.clone() }];
        let (ready, reason, message) = told(&object, &observed);
        assert!(!ready && reason == "BackupRetried", "{message}");
        assert_eq!(message, format!("Job nightly-1 failed once, and is tried again: {words}"));
        observed.jobs = vec![Job { failed_tries: 3, ..job.clone() }];
        assert!(told(&object, &observed).2.contains("failed 3 times, and is tried again: see the logs of its pods"));
        let failure = Some(("SourceUnreachable".to_owned(), "redis-cache: nobody answers".to_owned()));
        observed.jobs = vec![Job { end: Some(End { at: now(), failure }), failed_tries: 4, ..job.clone() }];
        let (ready, reason, message) = told(&object, &observed);
        assert!(!ready && reason == "BackupFailed" && message.contains("nobody answers"), "{message}");
        assert!(message.starts_with("there was never a complete backup of Redis cache"), "{message}");
        // The next one succeeds, after a try that failed.
        let next = Job { name: "nightly-2".into(), uid: "u2".into(), failed_tries: 1, made: now(), ..Job::default() };
        observed.jobs.push(Job { end: Some(End { at: now(), failure: None }), ..next });
        observed.catalog = Some(catalog(&["20261122T115500Z"], &[], now()));
        assert!(told(&object, &observed).0, "{observed:?}");
    }

    #[test]
    fn a_job_whose_pods_are_refused_is_told_and_watched() {
        let object = backup();
        let mut observed = settled(&object);
        let job = Job { name: "nightly-1".into(), uid: "u1".into(), made: now(), ..Job::default() };
        let words = "Kubernetes refuses the pods of Job nightly-1 (FailedCreate): exceeded quota: small";
        observed.jobs = vec![Job { stuck: Some(("PodsRefused", words.into())), ..job.clone() }];
        assert_eq!(told(&object, &observed), (false, "PodsRefused", words.to_owned()));
        assert!(decided(&object, &observed).requeue.is_some_and(|pause| pause.as_secs() <= 15));
        observed.jobs = vec![Job { is_running: true, ..job }];
        assert!(told(&object, &observed).0);
    }

    #[test]
    fn a_hook_that_failed_after_a_good_dump_is_a_warning_of_a_backup_that_succeeded() {
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
