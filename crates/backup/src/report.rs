//! The result of a Job, in the termination message that Kubernetes keeps with the pod. Kubernetes cuts a message that is too
//! long. What is left of it is no JSON, and the result is lost.
//! <https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/>

use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::outlook::Outlook;
use super::{Error, shortened};

/// Bytes of a report that Kubernetes surely keeps. It keeps 4096 bytes of one container and 12 KiB of a pod, of which each
/// container has an equal share. A pod has two or three containers of ours, and service meshes and log collectors inject
/// others: this is the share of one in six.
/// <https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/#customizing-the-termination-message>
pub const LIMIT: usize = 12 * 1024 / 6;

/// The result of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// One for every source that was tried; exactly one for a restore or a verification.
    pub results: Vec<Outcome>,
    /// How many results had no room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u32,
}

/// The result of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Folder of the source in S3.
    pub folder: String,
    /// ID of the backup.
    pub id: String,
    /// Bytes stored, if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_size: Option<u64>,
    /// SHA-256 of the manifest as it was written, hexadecimal, if it succeeded. The operator accepts no other manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// Keys restored or compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<u64>,
    /// The log that the server keeps for the next backup: after this backup if it succeeded, otherwise as it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptLog>,
    /// Parts that a restore left out, or a problem that leaves the backup good, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The changes that a restore would make, if it is a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
    /// When the last transaction was committed that a recovered server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Timestamp>,
    /// Duration in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
    /// The reason why it failed, in words for people, at most 300 characters; none if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Stable `CamelCase` word for the error, such as `SourceUnreachable`, `AccessDenied`, `ChecksumMismatch`, `TargetNotEmpty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The log that a server keeps because no backup has it yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLog {
    /// Bytes that it keeps.
    pub held: u64,
    /// Bytes that may still be written before the server drops what it keeps.
    pub room: u64,
}

impl Report {
    /// Reports whether everything went well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.results.iter().all(|outcome| outcome.error.is_none())
    }

    /// As JSON of at most `limit` bytes. Notes are cut first, then names in outlooks, then errors. At last results are left
    /// out, successes before failures.
    #[must_use]
    pub fn fitting(&self, limit: usize) -> String {
        let mut report = self.clone();
        if let Some(text) = report.text(limit) {
            return text;
        }
        for note in report.results.iter_mut().filter_map(|outcome| outcome.note.as_mut()) {
            *note = cut(note, 600);
        }
        for names in [5, 2, 0] {
            report.results.iter_mut().filter_map(|it| it.outlook.as_mut()).for_each(|it| it.shortened(names));
            if let Some(text) = report.text(limit) {
                return text;
            }
        }
        for most in [300, 120, 40] {
            for outcome in &mut report.results {
                outcome.error = outcome.error.take().map(|error| shortened(&error, most));
            }
            if let Some(text) = report.text(limit) {
                return text;
            }
        }
        while !report.results.is_empty() {
            let good = report.results.iter().rposition(|outcome| outcome.error.is_none());
            report.results.remove(good.unwrap_or(report.results.len() - 1));
            report.omitted += 1;
            if let Some(text) = report.text(limit) {
                return text;
            }
        }
        "{}".into()
    }

    fn text(&self, limit: usize) -> Option<String> {
        serde_json::to_string(self).ok().filter(|text| text.len() <= limit)
    }

    /// Writes it where Kubernetes finds it. Outside of Kubernetes there is no such file, and only the log has it.
    pub fn leave(&self, at: &Path) {
        let text = self.fitting(LIMIT);
        if let Err(error) = fs::write(at, &text) {
            tracing::info!(path = %at.display(), %error, "no place for the report");
        }
        tracing::info!(report = text, "done");
    }
}

impl Outcome {
    /// The outcome of something that took that long, without any result yet.
    #[must_use]
    pub fn new(folder: &str, id: &str, took: Duration) -> Self {
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Self { folder: folder.to_owned(), id: id.to_owned(), duration_ms, ..Self::default() }
    }

    /// The same with an error.
    #[must_use]
    pub fn failed(self, error: &Error) -> Self {
        Self { error: Some(error.describe()), reason: Some(error.reason().to_owned()), ..self }
    }
}

/// The text, cut to `most` characters.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_api::databaserestore::RestoreAction;

    fn report(good: usize, bad: usize) -> Report {
        let outcome = |index: usize| Outcome::new(&format!("redis-cache-{index}"), "20261122T000500Z", Duration::ZERO);
        let error = Error::SourceFailed("\"quotes\" and é ".repeat(40));
        let good = (0..good).map(|index| Outcome { stored_size: Some(1), ..outcome(index) });
        let bad = (0..bad).map(|index| outcome(index).failed(&error));
        Report { results: good.chain(bad).collect(), omitted: 0 }
    }

    #[test]
    fn a_report_that_fits_is_told_as_it_is() {
        let whole = report(2, 1);
        assert_eq!(serde_json::from_str::<Report>(&whole.fitting(LIMIT)).unwrap(), whole);
        assert_eq!(Report::default().fitting(LIMIT), r#"{"results":[]}"#);
    }

    #[test]
    fn errors_are_cut_first_then_good_results() {
        let text = report(0, 10).fitting(LIMIT);
        let cut: Report = serde_json::from_str(&text).unwrap();
        assert!(text.len() <= LIMIT && cut.results.len() == 10 && cut.omitted == 0, "{text}");
        let text = report(100, 5).fitting(LIMIT);
        let left: Report = serde_json::from_str(&text).unwrap();
        assert!(text.len() <= LIMIT, "{text}");
        assert_eq!(left.results.iter().filter(|outcome| outcome.error.is_some()).count(), 5);
        assert_eq!(left.results.len() + left.omitted as usize, 105);
    }

    #[test]
    fn a_large_outlook_has_fewer_names() {
        let mut outlook = Outlook::default();
        let names: Vec<String> = (0..9).map(|number| format!("{number}{}", "é".repeat(60))).collect();
        for what in ["databases", "tables", "dependents", "roles", "keys"] {
            outlook.add(RestoreAction::Replace, what, &names);
        }
        outlook.refuse(&Error::DependentsRemain("x".repeat(300)));
        let outcome =
            Outcome { outlook: Some(outlook), ..Outcome::new("postgresql", "20261122T000500Z", Duration::ZERO) };
        let text = Report { results: vec![outcome], omitted: 0 }.fitting(LIMIT);
        let left: Report = serde_json::from_str(&text).unwrap();
        let changes = left.results[0].outlook.clone().unwrap().reported.changes;
        assert!(text.len() <= LIMIT && changes.iter().all(|it| it.count == 9 && it.names.len() == 2), "{text}");
    }

    /// Three containers of ours, and three that others inject, such as Istio.
    #[test]
    fn a_report_is_whole_in_a_pod_of_six_containers() {
        let hash = Some("ab".repeat(32));
        let mut many = report(40, 0);
        many.results.iter_mut().for_each(|outcome| outcome.manifest.clone_from(&hash));
        let path = std::env::temp_dir().join(format!("causeway-report-{}", std::process::id()));
        many.leave(&path);
        let left = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let kept = &left[..left.len().min(12 * 1024 / 6)];
        let left: Report = serde_json::from_slice(kept).expect("it is not cut");
        assert!(left.results.len() >= 10, "{}", left.results.len());
        assert_eq!(left.results.len() + left.omitted as usize, 40);
    }

    #[test]
    fn a_long_note_is_cut_and_not_lost() {
        let note = |most: usize| Some("é \"".repeat(most / 3));
        let outcome = |most| Outcome {
            keys: Some(7),
            note: note(most),
            ..Outcome::new("mysql", "20261122T000500Z", Duration::ZERO)
        };
        let fits = Report { results: vec![outcome(900)], omitted: 0 };
        assert_eq!(serde_json::from_str::<Report>(&fits.fitting(LIMIT)).unwrap(), fits);
        let text = Report { results: vec![outcome(9000)], omitted: 0 }.fitting(LIMIT);
        let left: Report = serde_json::from_str(&text).unwrap();
        assert!(text.len() <= LIMIT && left.results[0].keys == Some(7), "{text}");
        assert!(left.results[0].note.as_ref().unwrap().ends_with('…'), "{text}");
    }

    #[test]
    fn success_is_when_nothing_failed() {
        assert!(report(3, 0).is_success() && Report::default().is_success());
        assert!(!report(3, 1).is_success());
    }
}
