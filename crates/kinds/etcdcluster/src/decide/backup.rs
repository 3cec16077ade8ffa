//! Snapshots on a schedule: the cluster owns a `DatabaseBackup`, and reports its state.

use serde_json::Value;

use causeway_databases::foreign;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::action::Action;
use super::super::database::EtcdDatabase;
use super::super::facts::{Backup, Child};
use super::super::{names, resources};
use super::{Step, View};

/// Applies or deletes the `DatabaseBackup`, and takes one back that lost its owner. This comes last: members never wait for it.
pub fn step(view: &View<'_>, accepted: bool) -> Option<Step> {
    if !accepted {
        return None;
    }
    let action = match (&view.object.spec.backup_schedule, &view.observed.backup) {
        (Some(schedule), Backup::Absent) => apply(view, schedule, None),
        (Some(schedule), Backup::Present(live)) => {
            let differs = !resources::backup(view.object, schedule).is_met_by(&live.value);
            let changes = (live.ours && differs) || foreign::has_no_owner::<EtcdDatabase>(view.object, live);
            (changes && !is_going(live)).then(|| apply(view, schedule, Some(live.uid.clone())))?
        }
        (None, Backup::Present(live)) if live.ours && !is_going(live) => {
            Action::DeleteBackup { name: names::backup(view.object), uid: live.uid.clone() }
        }
        _ => return None,
    };
    Some(Step::act(vec![action], "Applying", "bringing the DatabaseBackup up to date"))
}

fn apply(view: &View<'_>, schedule: &str, uid: Option<String>) -> Action {
    Action::ApplyBackup { child: Box::new(resources::backup(view.object, schedule)), uid }
}

fn is_going(live: &Child) -> bool {
    !live.value["metadata"]["deletionTimestamp"].is_null()
}

/// The state of backups, in the words of the `DatabaseBackup`; `None` until the operator has looked for it.
pub fn part(view: &View<'_>) -> Option<ExtraCondition> {
    let part = |status: ConditionStatus, reason: &'static str, message: String| {
        Some(ExtraCondition { type_: "BackupReady", status, reason, message })
    };
    if view.object.spec.backup_schedule.is_none() {
        return part(ConditionStatus::Absent, "NotAsked", String::new());
    }
    let name = names::backup(view.object);
    match &view.observed.backup {
        Backup::Unknown => None,
        Backup::KindMissing => {
            let text = "spec.backupSchedule: no backups are taken, the kind DatabaseBackup of example.com/v1 is not \
                        installed: install its definition, or remove the field";
            part(ConditionStatus::False, "KindMissing", text.into())
        }
        Backup::Denied => {
            let text = "spec.backupSchedule: no backups are taken, for Causeway may not keep DatabaseBackups: allow get, \
                        list, watch, create, patch and delete of databasebackups.example.com";
            part(ConditionStatus::False, "BackupDenied", text.into())
        }
        Backup::Refused(message) => {
            let text = format!("spec.backupSchedule: Kubernetes refuses DatabaseBackup {name}: {message}");
            part(ConditionStatus::False, "BackupRefused", text)
        }
        Backup::Absent => {
            part(ConditionStatus::False, "BackupPending", format!("DatabaseBackup {name} is not there yet"))
        }
        Backup::Present(live) if !live.ours => {
            let text = format!(
                "spec.backupSchedule: DatabaseBackup {name} exists and does not belong to this object: delete or rename it, \
                 or remove the field"
            );
            part(ConditionStatus::False, "NameTaken", text)
        }
        Backup::Present(live) => {
            let Some(ready) = ready(&live.value) else {
                let text = format!("DatabaseBackup {name} has no status yet");
                return part(ConditionStatus::False, "BackupPending", text);
            };
            let word = |key: &str| ready[key].as_str().unwrap_or_default();
            let is_ready = word("status") == "True";
            let text = format!("DatabaseBackup {name}: {}: {}", word("reason"), word("message"));
            part(is_ready.into(), if is_ready { "BackupReady" } else { "BackupNotReady" }, text)
        }
    }
}

fn ready(value: &Value) -> Option<&Value> {
    value["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == "Ready")
}
