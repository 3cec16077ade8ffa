//! Jobs: those that ended are reported, and one is made when somebody asks for it.

use super::super::action::{Action, Ended};
use super::super::facts::Job;
use super::super::view::View;
use super::super::{names, resources};
use crate::backup::manifest::id_of;
use crate::backup::plan::BackupPlan;
use crate::runtime::ActionEvent;

/// Jobs that ended and were not reported.
pub fn tell(view: &View<'_>) -> Vec<Action> {
    let news = view.observed.jobs.iter().filter(|job| job.end.is_some() && !view.before.ended.contains(&job.name));
    news.filter_map(describe).collect()
}

fn describe(job: &Job) -> Option<Action> {
    let end = job.end.as_ref()?;
    let event = match &end.failure {
        Some((_, message)) => ActionEvent::warning("BackupFailed", format!("Job {} failed: {message}", job.name)),
        None => ActionEvent::normal("BackupSucceeded", format!("Job {} succeeded", job.name)),
    };
    Some(Action::Tell { what: Ended::Backup, success: end.failure.is_none(), event })
}

/// A Job for the annotation's value, once for each.
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
