//! What a deleted object leaves behind, and what not.

use kube::ResourceExt;

use super::super::action::{Action, Change};
use super::super::facts::Observed;
use crate::api::DatabaseBackup;
use crate::external::s3::DELETED_AT_ONCE;
use crate::runtime::{ActionEvent, Removal};

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
    let mut actions = Vec::new();
    if let Some(schedule) = observed.child("CronJob", &object.name_any()).filter(|child| child.ours) {
        actions.push(Action::Stop { kind: "CronJob", name: object.name_any(), uid: schedule.uid.clone() });
    }
    let jobs = observed.jobs.iter().chain(observed.verifications.iter().map(|it| &it.job));
    actions.extend(jobs.map(|job| Action::Stop { kind: "Job", name: job.name.clone(), uid: job.uid.clone() }));
    if !actions.is_empty() {
        actions.push(Action::AwaitJobs);
        return Removal { actions, farewell: None };
    }
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
    if actions.is_empty() {
        return farewell("Deleted", format!("all backups are deleted from bucket {}", bucket.place.bucket));
    }
    Removal { actions, farewell: None }
}
