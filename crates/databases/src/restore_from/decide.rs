//! Decides the next step of a restore, and the health of the database meanwhile. Pure.

use std::collections::BTreeMap;

use causeway_api::databaserestore::{BackupChoice, Restorable, RestoreOutcome, RestorePhase, Restored};
use causeway_runtime::manifest::left_over;
use causeway_runtime::{ConditionStatus, ExtraCondition, Health};

use super::Step;
use super::child::{name, restore, spec};
use super::facts::{Live, Seen};

/// Reason of a restore that failed because the database has data, and not half of an earlier restore.
const NOT_EMPTY: &str = "TargetNotEmpty";
/// Type of the condition.
const RESTORED: &str = "Restored";

/// A database, as far as it matters to a restore.
pub struct Database<'a, O> {
    /// The database, whose status is written.
    pub object: &'a O,
    /// The choice in `spec.restoreFrom`.
    pub asked: Option<&'a BackupChoice>,
    /// The record in `status.restored`.
    pub before: Option<&'a Restored>,
    /// The `DatabaseRestore` that it owns, as the last look found it.
    pub seen: &'a Seen,
    /// It takes writes now.
    pub serves: bool,
    /// Some of its volumes are of an earlier object of its name.
    pub found_volumes: bool,
    /// Labels of its children.
    pub labels: BTreeMap<String, String>,
}

/// The next step, and what it holds up.
#[derive(Debug, PartialEq)]
pub struct Decision {
    /// The record of the status from now on.
    pub record: Option<Restored>,
    /// The step to take after the record was written.
    pub step: Option<Step>,
    /// The condition; `None` if the one that was reported last stays.
    pub part: Option<ExtraCondition>,
    /// The health of the object if it would be ready otherwise; `None` if it may be ready.
    pub hold: Option<Health>,
}

/// Reports whether the `DatabaseRestore` must be looked at, by `spec.restoreFrom` and `status.restored`.
pub fn matters(asked: bool, before: Option<&Restored>) -> bool {
    if asked {
        return before.is_none_or(|before| !before.is_settled());
    }
    before.is_some_and(|before| before.outcome == RestoreOutcome::Running)
}

/// Decides what comes next.
pub fn decide<O: Restorable>(database: &Database<'_, O>) -> Decision {
    let Some(from) = database.asked else { return decide_unasked(database) };
    let record = |outcome| Restored {
        backup: from.backup.clone().unwrap_or_else(|| from.title()),
        outcome,
        ..Restored::default()
    };
    match database.before {
        Some(before) if before.outcome == RestoreOutcome::Succeeded => {
            return settled(before.clone(), true, "Restored", describe_done(before));
        }
        Some(before) if before.outcome == RestoreOutcome::Skipped => {
            return settled(before.clone(), false, "VolumesFound", skipped());
        }
        _ => {}
    }
    let name = name(database.object);
    let what = format!("backup {} of {}", from.id, from.title());
    match database.seen {
        Seen::Unknown => waits(database, format!("DatabaseRestore {name} could not be asked for: {what} is not known")),
        Seen::KindMissing => {
            let text = "spec.restoreFrom: the kind DatabaseRestore of example.com/v1 is not installed: install its \
                        definition, or remove the field";
            blocked(database, "KindMissing", text.into())
        }
        Seen::Denied => {
            let text = "spec.restoreFrom: Causeway may not keep DatabaseRestores: allow get, list, watch, create, \
                        patch and delete of databaserestores.example.com";
            blocked(database, "RestoreDenied", text.into())
        }
        Seen::Refused(words) => {
            let text =
                format!("spec.restoreFrom: DatabaseRestore {name} could not be made, and is tried again: {words}");
            blocked(database, "RestoreRefused", text)
        }
        Seen::Absent => match database.before {
            Some(before) if before.outcome == RestoreOutcome::Running => {
                blocked(database, "RestoreFailed", describe_lost(&name))
            }
            _ if database.serves => {
                let child = Box::new(restore(database.object, from, database.labels.clone()));
                let decision = waits(database, format!("{what} is about to be brought back"));
                Decision { step: Some(Step::Make { restore: child }), ..decision }
            }
            _ => waits(database, format!("{what} is brought back as soon as writes are taken")),
        },
        Seen::Present(live) if is_lost(database, from, live) => {
            let step = take_back(database.object, &name, live);
            Decision { step, ..waits(database, format!("DatabaseRestore {name} lost its owner, and is taken back")) }
        }
        Seen::Present(live) if live.left_over => waits(database, left_over::<O>("DatabaseRestore", &name)),
        Seen::Present(live) if !live.ours => {
            let namespace = database.object.meta().namespace.as_deref().unwrap_or_default();
            let text = format!(
                "spec.restoreFrom: DatabaseRestore {name} exists and does not belong to this object: delete it (kubectl -n \
                 {namespace} delete databaserestore {name}), or remove the field"
            );
            blocked(database, "NameTaken", text)
        }
        // The recorded one may have written something: none of another uid may follow it.
        Seen::Present(live) if runs_another(database.before, live) => {
            blocked(database, "RestoreFailed", describe_lost(&name))
        }
        Seen::Present(live) => {
            let outcome = match live.phase {
                RestorePhase::Succeeded => RestoreOutcome::Succeeded,
                RestorePhase::Failed => RestoreOutcome::Failed,
                _ => RestoreOutcome::Running,
            };
            let noted = Restored {
                id: live.id.clone(),
                uid: Some(live.uid.clone()),
                time: live.finished.clone(),
                ..record(outcome)
            };
            follow(database, live, noted, &name, &what)
        }
    }
}

/// Decides what comes next if it is there, and ours.
fn follow<O>(database: &Database<'_, O>, live: &Live, noted: Restored, name: &str, what: &str) -> Decision {
    let is_known = |outcome| {
        database.before.is_some_and(|before| before.outcome == outcome && before.uid.as_ref() == Some(&live.uid))
    };
    match noted.outcome {
        RestoreOutcome::Succeeded => {
            let note = format!("DatabaseRestore {name}: {}", live.message);
            let text = describe_done(&noted);
            Decision { step: Some(Step::Tell { reason: RESTORED, note }), ..settled(noted, true, "Restored", text) }
        }
        // The object was made again, and has its data: they are not half restored, and no client wrote them by mistake.
        RestoreOutcome::Failed if database.found_volumes && live.reason.as_deref() == Some(NOT_EMPTY) => {
            let note = Step::Tell { reason: "RestoreSkipped", note: skipped() };
            let skipping = Restored { outcome: RestoreOutcome::Skipped, id: None, ..noted };
            Decision { step: Some(note), ..settled(skipping, false, "VolumesFound", skipped()) }
        }
        RestoreOutcome::Failed => {
            let text = format!(
                "DatabaseRestore {name} failed: {}. Delete it to try again, which is refused where it wrote something \
                 already; or remove spec.restoreFrom to go on with what there is; or make another object on new volumes",
                live.message.trim_end_matches('.')
            );
            Decision { record: Some(noted), ..blocked(database, "RestoreFailed", text) }
        }
        _ if live.going => waits(database, format!("DatabaseRestore {name} is being deleted")),
        _ => {
            let text = format!("DatabaseRestore {name} ({:?}): {}", live.phase, live.message);
            let decision = if live.stalled { blocked(database, "RestoreStalled", text) } else { waits(database, text) };
            let begins = !is_known(RestoreOutcome::Running);
            let note = format!("DatabaseRestore {name} brings {what} back");
            let step = begins.then_some(Step::Tell { reason: "RestoreBegun", note });
            Decision { record: Some(noted), step, ..decision }
        }
    }
}

/// `spec.restoreFrom` was removed, or never there. A restore that still writes into the database is stopped before that is
/// reported ready: it would delete what clients write, because the backup lacks it.
fn decide_unasked<O: Restorable>(database: &Database<'_, O>) -> Decision {
    let part = Some(ExtraCondition {
        type_: RESTORED,
        status: ConditionStatus::Absent,
        reason: "NotAsked",
        message: String::new(),
    });
    let nothing = |record| Decision { record, step: None, part: part.clone(), hold: None };
    let Some(before) = database.before else { return nothing(None) };
    if before.is_settled() {
        return nothing(Some(before.clone()));
    }
    if before.outcome == RestoreOutcome::Failed {
        return nothing(None);
    }
    let name = name(database.object);
    let text = format!("spec.restoreFrom is gone: DatabaseRestore {name} is stopped before clients write");
    match database.seen {
        Seen::Unknown => waits(database, text),
        Seen::Denied => {
            let text =
                format!("{text}, for which Causeway needs the right to get and delete databaserestores.example.com");
            blocked(database, "RestoreDenied", text)
        }
        Seen::Present(live)
            if (live.ours || (live.lost && before.uid.as_ref() == Some(&live.uid)))
                && (live.going || !live.phase.is_final()) =>
        {
            let stop = Step::Stop { name, uid: live.uid.clone() };
            Decision { step: (!live.going).then_some(stop), ..waits(database, text) }
        }
        Seen::Present(_) | Seen::Absent | Seen::Refused(_) | Seen::KindMissing => nothing(None),
    }
}

/// Reports whether a `DatabaseRestore` without a controller is this database's: the recorded one, or, where none is recorded
/// that may have written something, one that asks for exactly what the database would ask for.
fn is_lost<O: Restorable>(database: &Database<'_, O>, from: &BackupChoice, live: &Live) -> bool {
    let is_recorded = || database.before.is_some_and(|before| before.uid.as_ref() == Some(&live.uid));
    let is_alike = || live.spec.as_deref() == Some(&spec(database.object, from));
    live.lost && !live.going && (is_recorded() || (is_alike() && !runs_another(database.before, live)))
}

fn take_back(object: &impl Restorable, name: &str, live: &Live) -> Option<Step> {
    let ours = object.controller_owner_ref(&())?;
    let others = live.owners.iter().filter(|owner| owner.uid != ours.uid).cloned();
    let owners = others.chain([ours.clone()]).collect();
    Some(Step::TakeBack { name: name.to_owned(), uid: live.uid.clone(), version: live.version.clone(), owners })
}

/// Reports whether a restore is recorded that has not ended, and this is another one.
fn runs_another(before: Option<&Restored>, live: &Live) -> bool {
    before.is_some_and(|before| before.outcome == RestoreOutcome::Running && before.uid.as_ref() != Some(&live.uid))
}

fn settled(record: Restored, status: bool, reason: &'static str, message: String) -> Decision {
    let part = ExtraCondition { type_: RESTORED, status: status.into(), reason, message };
    Decision { record: Some(record), step: None, part: Some(part), hold: None }
}

fn waits<O>(database: &Database<'_, O>, message: String) -> Decision {
    let hold = Health::progressing("Restoring", message.clone());
    unsettled(database, "Restoring", message, hold)
}

fn blocked<O>(database: &Database<'_, O>, reason: &'static str, message: String) -> Decision {
    let hold = Health::stalled(reason, message.clone());
    unsettled(database, reason, message, hold)
}

fn unsettled<O>(database: &Database<'_, O>, reason: &'static str, message: String, hold: Health) -> Decision {
    let part = ExtraCondition { type_: RESTORED, status: ConditionStatus::False, reason, message };
    Decision { record: database.before.cloned(), step: None, part: Some(part), hold: Some(hold) }
}

fn describe_done(record: &Restored) -> String {
    let id = record.id.as_deref().unwrap_or_default();
    let kind = if record.backup.starts_with("s3://") { "" } else { "DatabaseBackup " };
    format!("backup {id} of {kind}{} was brought back", record.backup)
}

fn skipped() -> String {
    "nothing was brought back: the volumes of an earlier object of this name hold data, which stay as they are".into()
}

fn describe_lost(name: &str) -> String {
    format!(
        "DatabaseRestore {name} was deleted before its end was known: a part of the backup may be in the database, or all of \
         it, and nothing is brought back a second time. Remove spec.restoreFrom to go on with what there is, or make another \
         object on new volumes"
    )
}
