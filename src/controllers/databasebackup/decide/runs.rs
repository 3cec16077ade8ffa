//! Jobs: those that ended are reported, and one is made when somebody asks for it.

use super::super::action::{Action, Ended};
use super::super::facts::Job;
use super::super::view::View;
use super::super::{names, resources};
use crate::api::databasebackup::Method;
use crate::backup::manifest::id_of;
use crate::backup::plan::BackupPlan;
use crate::runtime::ActionEvent;

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
    use super::super::tests::{decided, now, settled};
    use super::*;
    use crate::api::DatabaseBackup;
    use crate::backup::jobs::End;
    use crate::controllers::databasebackup::fixtures::backup;
    use crate::runtime::Health;

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
