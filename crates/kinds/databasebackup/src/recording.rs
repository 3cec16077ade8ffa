//! The record of an object's backups, and the reports of its Jobs. The first part is pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};

use causeway_api::DatabaseBackup;
use causeway_backup::jobs::{Catalog, report_of};
use causeway_backup::record::{Record, Reported};
use causeway_backup::report::{KeptLog, Report};
use causeway_backup::transfer;

use super::error::Error;
use super::facts::{Job, Recording};
use super::names::{LABEL, VERIFIES};

/// The first record of an object.
pub fn first(object: &DatabaseBackup, bucket: &str) -> Record {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    Record { namespace, name, bucket: bucket.to_owned(), ..Record::default() }
}

/// The record that follows from the one before, from what lies in S3 and from what Jobs reported.
pub fn next(
    object: &DatabaseBackup,
    before: Option<&Record>,
    bucket: &str,
    catalog: &Catalog,
    (jobs, reported): (&[Job], &[Reported]),
    now: Timestamp,
) -> Recording {
    let mut record = before.cloned().unwrap_or_else(|| first(object, bucket));
    bucket.clone_into(&mut record.bucket);
    record.note(reported, catalog, now);
    let instant = object.spec.accept_unrecorded_before.as_ref().map(|time| time.0).filter(|instant| *instant <= now);
    let accepted = instant.map_or(0, |instant| record.accept(catalog, instant, now));
    record.tidy(catalog, &uids(jobs));
    Recording { record, accepted }
}

/// The record that follows from reports alone, where S3 is not read. It does not wait for that, because the pods with the
/// reports do not stay.
pub fn without_s3(before: &Record, (jobs, reported): (&[Job], &[Reported]), now: Timestamp) -> Recording {
    let mut record = before.clone();
    record.note_hashed(reported, now);
    record.tidy(&Catalog::default(), &uids(jobs));
    Recording { record, accepted: 0 }
}

/// The log that servers keep, by folder, as the last of these Jobs reported it, and when that Job ended.
pub fn kept_logs(jobs: &[Job], reported: &[Reported]) -> BTreeMap<String, (Timestamp, KeptLog)> {
    let mut found = BTreeMap::new();
    for it in reported {
        let end = jobs.iter().find(|job| job.uid == it.job).and_then(|job| job.end.as_ref());
        let Some(end) = end else { continue };
        let outcomes = it.reports.iter().flat_map(|report| &report.results);
        for (folder, kept) in outcomes.filter_map(|outcome| Some((&outcome.folder, outcome.kept?))) {
            if found.get(folder).is_none_or(|(before, _)| *before <= end.at) {
                found.insert(folder.clone(), (end.at, kept));
            }
        }
    }
    found
}

/// Returns what went wrong although the backup is good, by the UID of the Job.
pub fn messages(reported: &[Reported]) -> BTreeMap<String, String> {
    let noted = reported.iter().filter_map(|it| {
        let outcomes = it.reports.iter().flat_map(|report| &report.results);
        // A result with an error is left out: the Job tried again, and the later try reports its own messages.
        let good = outcomes.filter(|outcome| outcome.error.is_none());
        let messages: Vec<&str> = good.filter_map(|outcome| outcome.note.as_deref()).collect();
        (!messages.is_empty()).then(|| (it.job.clone(), messages.join("; ")))
    });
    noted.collect()
}

fn uids(jobs: &[Job]) -> BTreeSet<String> {
    jobs.iter().map(|job| job.uid.clone()).collect()
}

/// Returns what ended Jobs reported that are not in the record yet. Each is read only until it is recorded: pods do not stay.
pub async fn reported(
    client: &Client,
    object: &DatabaseBackup,
    jobs: &[Job],
    record: Option<&Record>,
) -> Result<Vec<Reported>, Error> {
    let is_new = |job: &&Job| job.end.is_some() && !record.is_some_and(|record| record.jobs.contains(&job.uid));
    let news: Vec<&Job> = jobs.iter().filter(is_new).collect();
    if news.is_empty() {
        return Ok(Vec::new());
    }
    let selector = format!("{LABEL}={},!{VERIFIES}", object.name_any());
    let pods: Vec<Pod> = transfer::list(client, object, &selector, "pods").await?;
    Ok(news.into_iter().map(|job| reported_by(job, &pods)).collect())
}

/// Returns what the pods that still exist reported. A pod that ran into a deadline, or whose node is gone, reports nothing.
fn reported_by(job: &Job, pods: &[Pod]) -> Reported {
    let reports: Vec<Report> = pods.iter().filter(|pod| transfer::is_of(pod, &job.uid)).filter_map(report_of).collect();
    let end = job.end.as_ref().filter(|end| reports.is_empty() || end.failure.is_some());
    Reported { job: job.uid.clone(), unreported: end.map(|end| (job.made, end.at)), reports }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::decide::catalog as catalog_of;
    use super::super::fixtures::backup;
    use super::*;
    use causeway_api::DatabaseBackupStatus;
    use causeway_backup::jobs::End;
    use causeway_backup::manifest::{due_of, id_of};
    use causeway_backup::record::Evidence;

    const OLD: &str = "20261121T020000Z";
    const NEW: &str = "20261122T020000Z";

    fn now() -> Timestamp {
        "2026-11-22T12:00:00Z".parse().expect("an instant")
    }

    fn recorded(object: &DatabaseBackup, before: Option<&Record>) -> (usize, usize) {
        let found = catalog_of(&[OLD, NEW], &[], now());
        let Recording { record, accepted } = next(object, before, "b", &found, (&[], &[]), now());
        (accepted, record.judged(found, now()).complete("redis-cache").len())
    }

    #[test]
    fn a_new_object_has_no_backups_whatever_lies_there() {
        assert_eq!(recorded(&backup(), None), (0, 0));
    }

    /// A record that is lost says nothing about what was written since: the user accepts it by an instant.
    #[test]
    fn a_lost_record_accepts_no_backup_by_itself() {
        let mut object = backup();
        object.status = Some(DatabaseBackupStatus { bucket: Some("b".into()), ..DatabaseBackupStatus::default() });
        assert_eq!(recorded(&object, None), (0, 0));
        assert_eq!(recorded(&object, Some(&first(&object, "b"))), (0, 0));
    }

    #[test]
    fn accepted_backups_count_from_then_on() {
        let mut object = backup();
        for (instant, expected) in
            [("2026-11-22T12:00:00Z", 0), ("2026-11-22T12:00:01Z", 0), ("2026-11-22T11:59:59Z", 0)]
        {
            object.spec.accept_unrecorded_before = serde_json::from_value(json!(instant)).expect("a time");
            assert_eq!(
                recorded(&object, None).0,
                expected,
                "{instant}: they were written at 12:00, and now it is that"
            );
        }
        let found = catalog_of(&[OLD, NEW], &[], "2026-11-22T11:00:00Z".parse().expect("an instant"));
        let Recording { record, accepted } = next(&object, None, "b", &found, (&[], &[]), now());
        assert_eq!(accepted, 2);
        assert!(record.evidence("redis-cache", due_of(NEW).expect("an ID")).is_some());
    }

    fn pod(owner: &str, report: Option<&str>) -> Pod {
        let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner, "controller": true });
        let ended = json!({ "terminated": { "exitCode": 0, "message": report } });
        serde_json::from_value(json!({
            "metadata": { "ownerReferences": [owner] },
            "status": { "containerStatuses": [
                { "name": "causeway", "image": "i", "imageID": "i", "ready": false, "restartCount": 0, "state": ended },
            ] },
        }))
        .expect("a pod")
    }

    fn ended(failure: Option<&str>) -> Job {
        let failure = failure.map(|reason| (reason.to_owned(), String::new()));
        Job { uid: "u".into(), made: now(), end: Some(End { at: now(), failure }), ..Job::default() }
    }

    #[test]
    fn failed_jobs_may_have_made_unreported_backups() {
        let whole = [pod("v", None), pod("u", Some(r#"{"results":[]}"#))];
        let (reports, unreported) = (vec![Report::default()], Some((now(), now())));
        let of = |job: Job, pods: &[Pod]| {
            let reported = reported_by(&job, pods);
            (reported.reports, reported.unreported)
        };
        assert_eq!(of(ended(None), &whole), (reports.clone(), None));
        assert_eq!(of(ended(None), &whole[..1]), (Vec::new(), unreported), "its pod is gone");
        assert_eq!(of(ended(None), &[pod("u", None)]), (Vec::new(), unreported), "it reported nothing");
        for reason in ["DeadlineExceeded", "BackoffLimitExceeded"] {
            assert_eq!(of(ended(Some(reason)), &whole), (reports.clone(), unreported), "{reason}");
        }
    }

    #[test]
    fn messages_are_known_by_the_reporting_job() {
        let report = r#"{"results":[{"folder":"postgresql","id":"20261122T020000Z","note":"spec.hooks.after: no"}]}"#;
        let before =
            r#"{"results":[{"folder":"postgresql","id":"20261122T020000Z","note":"before","error":"it broke"}]}"#;
        let pods = [pod("u", Some(before)), pod("u", Some(report))];
        let reported = [reported_by(&ended(None), &pods), reported_by(&ended(None), &[])];
        assert_eq!(messages(&reported), BTreeMap::from([("u".to_owned(), "spec.hooks.after: no".to_owned())]));
    }

    /// One backup of the log every five minutes, for longer than 34 days.
    #[test]
    fn needed_log_stays_recorded() {
        let due = |at: i64| due_of(OLD).expect("an ID") - jiff::SignedDuration::from_mins(5 * at);
        let ids: Vec<String> = (0..10_005).map(|at| id_of(due(at))).collect();
        let found = catalog_of(&ids.iter().map(String::as_str).collect::<Vec<_>>(), &[], now());
        let mut before = first(&backup(), "b");
        let evidence = (0..10_005).map(|at| (due(at), Evidence::Manifest("ab".repeat(32)))).collect();
        before.backups.insert("redis-cache".into(), evidence);
        let Recording { record, .. } = next(&backup(), Some(&before), "b", &found, (&[], &[]), now());
        assert_eq!(record.judged(found.clone(), now()).doubtful().count(), 0);
        let Recording { record, .. } = without_s3(&before, (&[], &[]), now());
        assert_eq!(record.judged(found, now()).doubtful().count(), 0);
    }

    #[test]
    fn reports_without_s3_extend_the_record() {
        let mut before = first(&backup(), "b");
        let (old, new) = (due_of(OLD).expect("an ID"), due_of(NEW).expect("an ID"));
        before.backups.entry("redis-cache".into()).or_default().insert(old, Evidence::Listed(old));
        before.jobs.insert("gone".into());
        let result = json!({ "folder": "redis-cache", "id": NEW, "manifest": "ab".repeat(32) });
        let report = json!({ "results": [result] }).to_string();
        let jobs = [ended(None)];
        let reported = [reported_by(&jobs[0], &[pod("u", Some(&report))])];
        let Recording { record, accepted } = without_s3(&before, (&jobs, &reported), now());
        assert_eq!((accepted, record.bucket.as_str()), (0, "b"));
        assert_eq!(record.jobs, ["u".to_owned()].into());
        let evidence = |due| record.evidence("redis-cache", due).cloned();
        assert_eq!(evidence(old), Some(Evidence::Listed(old)), "it was not looked whether it is gone");
        assert_eq!(evidence(new), Some(Evidence::Manifest("ab".repeat(32))));
    }
}
