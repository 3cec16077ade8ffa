//! How Jobs ended, and why they failed: their pods say so when they end.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::report::{Outcome, Report};
use crate::shortened;

/// Characters of the longest sentence.
const LONGEST: usize = 600;

/// How a Job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The instant at which it ended.
    pub at: Timestamp,
    /// The reason why it failed, as a word and a sentence; none if it succeeded.
    pub failure: Option<(String, String)>,
}

/// How a Job ended; none while it runs. The failure is in Kubernetes' words, not in those of its pods.
pub fn end_of(job: &Job) -> Option<End> {
    let status = job.status.as_ref()?;
    let condition =
        |type_: &str| status.conditions.iter().flatten().find(|it| it.type_ == type_ && it.status == "True");
    let at = |time: Option<&Time>| time.map_or(Timestamp::MIN, |time| time.0);
    if let Some(complete) = condition("Complete") {
        let time = status.completion_time.as_ref().or(complete.last_transition_time.as_ref());
        return Some(End { at: at(time), failure: None });
    }
    let failed = condition("Failed")?;
    let reason = failed.reason.clone().unwrap_or_else(|| "JobFailed".into());
    let message = failed.message.clone().unwrap_or_else(|| "see its pods' logs".into());
    Some(End { at: at(failed.last_transition_time.as_ref()), failure: Some((reason, message)) })
}

/// The termination message of a pod: that of the first container that failed and left one.
pub fn last_words(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut ended = containers.filter_map(|it| it.state.as_ref()?.terminated.as_ref()).filter(|it| it.exit_code != 0);
    ended.find_map(|it| it.message.clone())
}

/// Reason and sentence of a report. Of any other output, the last line is the sentence.
pub fn in_words(output: &str) -> Option<(String, String)> {
    let Ok(report) = serde_json::from_str::<Report>(output) else {
        let last = output.lines().map(str::trim).rfind(|line| !line.is_empty())?;
        return Some(("JobFailed".into(), shortened(last, LONGEST)));
    };
    let failed: Vec<&Outcome> = report.results.iter().filter(|outcome| outcome.error.is_some()).collect();
    let reason = failed.first()?.reason.clone().unwrap_or_else(|| "JobFailed".into());
    let sentence = |outcome: &&Outcome| format!("{}: {}", outcome.folder, outcome.error.as_deref().unwrap_or_default());
    Some((reason, shortened(&failed.iter().map(sentence).collect::<Vec<_>>().join("; "), LONGEST)))
}

/// Returns what the main container of a pod reported.
pub fn report_of(pod: &Pod) -> Option<Report> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let ended = statuses.iter().filter_map(|it| it.state.as_ref()?.terminated.as_ref()?.message.as_ref());
    ended.into_iter().find_map(|output| serde_json::from_str(output).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_tells_which_database_failed_and_why() {
        let report = json!({ "results": [
            { "folder": "redis-a", "id": "x", "storedSize": 5 },
            { "folder": "redis-b", "id": "x", "error": "no server answers", "reason": "SourceUnreachable" },
        ] });
        let words = in_words(&report.to_string());
        assert_eq!(words, Some(("SourceUnreachable".into(), "redis-b: no server answers".into())));
        assert_eq!(in_words("a\nlast line\n\n"), Some(("JobFailed".into(), "last line".into())));
        assert_eq!(in_words(""), None);
    }

    #[test]
    fn a_job_that_ran_out_of_time_has_failed() {
        let failed: Job = serde_json::from_value(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "a" },
            "status": { "conditions": [
                { "type": "FailureTarget", "status": "True" },
                { "type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long" },
            ] },
        }))
        .expect("a Job");
        let end = end_of(&failed).expect("an end");
        assert_eq!(end.failure, Some(("DeadlineExceeded".into(), "too long".into())));
    }
}
