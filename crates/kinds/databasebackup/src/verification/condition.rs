//! The condition `Verified`.

use causeway_api::databasebackup::BackupVerification;
use causeway_runtime::{ConditionStatus, ExtraCondition};

use super::super::accepted::When;
use super::super::view::View;
use super::{Agenda, sources};

const VERIFIED: &str = "Verified";
/// How many databases are reported by name.
const NAMED: usize = 10;

/// No condition, because the spec asks for no verification.
pub fn not_asked() -> ExtraCondition {
    ExtraCondition { type_: VERIFIED, status: ConditionStatus::Absent, reason: "NotAsked", message: String::new() }
}

/// Reports whether the backups that were tried are good. A database that is not backed up any more does not count.
pub fn part(view: &View<'_>, when: Option<&When>, agenda: &Agenda, results: &[BackupVerification]) -> ExtraCondition {
    let Some(when) = when else { return not_asked() };
    let of = |folder: &str| results.iter().find(|result| result.folder == folder);
    let (mut proven, mut failed, mut untried) = (Vec::new(), Vec::new(), Vec::new());
    for database in sources(view) {
        let source = &database.access.source;
        match of(&source.folder) {
            Some(result) if result.ok => proven.push(success(result)),
            Some(result) => failed.push(failure(result)),
            None => untried.push(source.title.clone()),
        }
    }
    if !failed.is_empty() {
        return ExtraCondition {
            type_: VERIFIED,
            status: ConditionStatus::False,
            reason: "VerificationFailed",
            message: list(&failed, "; "),
        };
    }
    let stuck = view.observed.verifications.iter().find_map(|it| Some((&it.id, it.job.stuck.as_ref()?)));
    if let Some((id, (reason, words))) = stuck.filter(|_| proven.is_empty()) {
        let message = format!("no backup has passed verification yet, and that of {id} does not begin: {words}");
        return ExtraCondition { type_: VERIFIED, status: ConditionStatus::Unknown, reason, message };
    }
    if proven.is_empty() {
        let begin = match (when, agenda.next()) {
            (When::AfterEach, _) => "the next backup will be verified when it is complete".to_owned(),
            (When::On(_), Some(next)) => format!("the next verification is due at {next}"),
            (When::On(_), None) => "spec.verify.schedule has no next time: correct it".to_owned(),
        };
        let message = format!("no backup has passed verification yet; {begin}");
        return ExtraCondition { type_: VERIFIED, status: ConditionStatus::Unknown, reason: "NotTried", message };
    }
    let rest = match untried.as_slice() {
        [] => String::new(),
        untried => format!("; not tried yet: {}", list(untried, ", ")),
    };
    let waits = stuck.map(|(id, (_, words))| format!("; the verification of {id} does not begin: {words}"));
    let message = format!("proven: {}{rest}{}", list(&proven, ", "), waits.unwrap_or_default());
    ExtraCondition { type_: VERIFIED, status: ConditionStatus::True, reason: "Proven", message }
}

fn success(result: &BackupVerification) -> String {
    let at = result.proven_at.as_ref().map_or_else(String::new, |at| format!(" at {}", at.0));
    format!("{} of {}{at}", result.id, result.source)
}

fn failure(result: &BackupVerification) -> String {
    let last = match result.proven.last() {
        Some(proven) => format!("the newest that passed is {proven}"),
        None => "none has passed yet".into(),
    };
    format!("backup {} of {}: {} ({last})", result.id, result.source, result.message)
}

fn list(all: &[String], joint: &str) -> String {
    let named = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(joint);
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}{joint}and {more} more"),
    }
}
