//! What a deleted object leaves behind, and what not.

use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};

use super::super::action::{Action, Change};
use super::super::facts::Observed;
use super::prefix;
use crate::api::DatabaseBackup;
use crate::external::s3::DELETED_AT_ONCE;
use crate::runtime::{ActionEvent, Removal};

/// Pods have half a minute to end. One on a node that is lost never does, and neither does its Job.
const PATIENCE: SignedDuration = SignedDuration::from_secs(45);

/// Whether all that may still write was told to end so long ago that what ends at all has ended.
pub fn are_overdue(object: &DatabaseBackup, observed: &Observed, now: Timestamp) -> bool {
    let is_old = |since: Timestamp| now.duration_since(since) > PATIENCE;
    let asked = object.meta().deletion_timestamp.as_ref().map(|time| time.0);
    // An operator that was away has not told them yet.
    let schedule = observed.child("CronJob", &object.name_any()).filter(|child| child.ours);
    let was_told = schedule.is_none_or(|child| child.value["metadata"]["deletionTimestamp"].is_string());
    asked.is_some_and(is_old) && was_told && observed.all_jobs().all(|job| job.going.is_some_and(is_old))
}

/// Steps until the object may go: what runs is stopped, or it would write on; then what it wrote is deleted.
pub fn decide_removal(object: &DatabaseBackup, observed: &Observed) -> Removal<Action> {
    let farewell = |reason, note| Removal { actions: Vec::new(), farewell: Some(ActionEvent::normal(reason, note)) };
    let Some(remains) = &observed.remains else {
        let note = match object.status.as_ref().and_then(|status| status.bucket.as_ref()) {
            Some(bucket) => format!("backups stay in bucket {bucket}: spec.deletionPolicy is Retain"),
            None => "no backup was taken".to_owned(),
        };
        return farewell("Retained", note);
    };
    if let Some(why) = &remains.given_up {
        let note = format!("backups stay in S3, for they could not be deleted: {why}");
        return Removal { actions: Vec::new(), farewell: Some(ActionEvent::warning("CleanupGivenUp", note)) };
    }
    let mut stops = stops(object, observed);
    // Overdue ones were stopped before: the object goes as soon as nothing is left to delete.
    if !stops.is_empty() && !remains.overdue {
        stops.push(Action::AwaitJobs);
        return Removal { actions: stops, farewell: None };
    }
    let mut actions = Vec::new();
    let Some(bucket) = &observed.bucket else {
        return farewell("Deleted", "no bucket is known, so nothing was deleted".to_owned());
    };
    let change = |change| Action::Bucket { bucket: Box::new(bucket.clone()), change };
    for objects in remains.objects.chunks(DELETED_AT_ONCE) {
        let keys = objects.iter().map(|object| object.key.clone()).collect();
        actions.push(change(Change::DeleteObjects { keys, backups: 0 }));
    }
    actions.extend(remains.uploads.iter().map(|upload| change(Change::Abort(upload.clone()))));
    if actions.is_empty() && remains.bucket_may_go {
        actions.push(change(Change::Delete));
    }
    if !actions.is_empty() {
        return Removal { actions, farewell: None };
    }
    let deleted = format!("all backups are deleted from bucket {}", bucket.place.bucket);
    let jobs: Vec<&str> = observed.all_jobs().map(|job| job.name.as_str()).collect();
    if jobs.is_empty() {
        return farewell("Deleted", deleted);
    }
    let note = format!(
        "{deleted}, but these Jobs are not gone, as on a node that is lost: {}. One of them may still write under \
         {}/: delete by hand what it leaves there",
        jobs.join(", "),
        written_under(object),
    );
    Removal { actions, farewell: Some(ActionEvent::warning("JobsRemained", note)) }
}

/// Ends whatever may write.
fn stops(object: &DatabaseBackup, observed: &Observed) -> Vec<Action> {
    let schedule = observed.child("CronJob", &object.name_any()).filter(|child| child.ours);
    let stop = |kind, name: &str, uid: &str| Action::Stop { kind, name: name.to_owned(), uid: uid.to_owned() };
    let schedule = schedule.map(|child| stop("CronJob", &object.name_any(), &child.uid));
    schedule.into_iter().chain(observed.all_jobs().map(|job| stop("Job", &job.name, &job.uid))).collect()
}

/// What keys of its backups begin with, as the status tells it, without a slash at the end.
pub fn written_under(object: &DatabaseBackup) -> String {
    let told = object.status.as_ref().and_then(|status| status.prefix.clone());
    told.unwrap_or_else(|| prefix(object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::facts::{Job, Verification};
    use super::super::super::fixtures::backup;
    use super::super::tests::{now, settled};
    use super::*;

    #[test]
    fn only_what_was_told_to_end_long_ago_is_overdue() {
        let ago = |seconds| now() - SignedDuration::from_secs(seconds);
        let since = |seconds| {
            let mut object = backup();
            object.metadata.deletion_timestamp = serde_json::from_value(json!(ago(seconds))).expect("a time");
            object
        };
        let job = |going| Job { name: "nightly-1".into(), going, ..Job::default() };
        let mut observed = settled(&backup());
        let told = json!(ago(50));
        let schedule = observed.children.values_mut().find(|child| child.value["kind"] == "CronJob");
        let schedule = &mut schedule.expect("a schedule").value["metadata"]["deletionTimestamp"];
        *schedule = told;
        observed.jobs.push(job(Some(ago(50))));
        assert!(are_overdue(&since(50), &observed, now()));
        assert!(!are_overdue(&since(40), &observed, now()), "pods still have time");
        assert!(!are_overdue(&backup(), &observed, now()), "it is not deleted");
        for going in [None, Some(ago(5))] {
            let verification = Verification { job: job(going), ..Verification::default() };
            let late = Observed { verifications: vec![verification], ..observed.clone() };
            assert!(!are_overdue(&since(50), &late, now()), "nobody told it in time");
        }
        let late = settled(&backup());
        assert!(!are_overdue(&since(50), &late, now()), "a schedule may begin Jobs");
    }
}
