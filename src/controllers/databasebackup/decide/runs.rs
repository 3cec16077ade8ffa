//! Jobs: those that ended are reported, and one is made when somebody asks for it.

use super::super::action::{Action, Ended};
use super::super::facts::Job;
use super::super::view::View;
use super::super::{names, resources};
use crate::backup::manifest::id_of;
use crate::backup::plan::BackupPlan;
use crate::runtime::ActionEvent;

/// The reason where a hook failed after a good dump.
const HOOK_FAILED: &str = "HookFailed";

/// Jobs that ended and were not reported.
pub fn tell(view: &View<'_>) -> Vec<Action> {
    let news = view.observed.jobs.iter().filter(|job| job.end.is_some() && !view.before.ended.contains(&job.name));
    news.filter_map(|job| describe(job, view.observed.notes.get(&job.uid))).collect()
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
    let token = view.observed.asked.as_ref().filter(|token| view.before.backup_now.as_ref() != Some(*token))?;
    let name = names::job_now(view.object, token);
    if plan.sources.is_empty() || view.observed.jobs.iter().any(|job| job.name == name) {
        return None;
    }
    let job = resources::job_now(view.object, view.observed, plan, token, &id_of(view.now));
    Some(Action::Start { job: Box::new(job) })
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
    use super::super::tests::{decided, now, settled};
    use super::*;
    use crate::backup::jobs::End;
    use crate::controllers::databasebackup::fixtures::backup;

    #[test]
    fn a_hook_that_failed_after_a_good_dump_is_a_warning_of_a_backup_that_succeeded() {
        let object = backup();
        let mut observed = settled(&object);
        let end = || Some(End { at: now(), failure: None });
        observed.jobs = vec![
            Job { name: "nightly-1".into(), uid: "u1".into(), end: end(), ..Job::default() },
            Job { name: "nightly-2".into(), uid: "u2".into(), end: end(), ..Job::default() },
        ];
        observed.notes.insert("u1".into(), "spec.hooks.after: statement 1 of 1 failed".into());
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
