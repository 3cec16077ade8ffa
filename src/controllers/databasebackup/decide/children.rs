//! Service account, plan and schedule: what is missing or differs is applied.

use kube::ResourceExt;

use super::super::action::Action;
use super::super::resources;
use super::View;
use crate::backup::jobs::service_account;
use crate::backup::plan::BackupPlan;
use crate::runtime::manifest::Manifest;

/// Somebody else's object of a child's name: nothing is touched.
pub fn foreign(view: &View<'_>) -> Option<String> {
    let ((kind, name), _) = view.observed.children.iter().find(|(_, child)| !child.ours)?;
    Some(format!("{kind} {name} exists and does not belong to this object: delete it, or choose another metadata.name"))
}

/// Children that are missing or differ.
pub fn step(view: &View<'_>, plan: &BackupPlan) -> Vec<Action> {
    let (object, observed) = (view.object, view.observed);
    let account = service_account(object);
    let account = (!observed.account.as_ref().is_some_and(|live| account.is_met_by(live)))
        .then(|| Action::Apply { child: Box::new(account), uid: None });
    let others = [resources::config_map(object, plan), resources::cron_job(object, observed, plan)];
    account.into_iter().chain(others.into_iter().filter_map(|child| unless_met(view, child))).collect()
}

/// Only that the schedule stands still.
pub fn standstill(view: &View<'_>, plan: &BackupPlan) -> Vec<Action> {
    let there = view.observed.child("CronJob", &view.object.name_any()).is_some();
    let schedule = there.then(|| resources::cron_job(view.object, view.observed, plan));
    schedule.and_then(|child| unless_met(view, child)).into_iter().collect()
}

fn unless_met(view: &View<'_>, child: Manifest) -> Option<Action> {
    let live = view.observed.child(child.kind(), child.name());
    if live.is_some_and(|live| child.is_met_by(&live.value)) {
        return None;
    }
    Some(Action::Apply { uid: live.map(|live| live.uid.clone()), child: Box::new(child) })
}
