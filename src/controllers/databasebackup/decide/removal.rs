//! What a deleted object leaves behind, and what not.

use std::fmt::Write;

use kube::ResourceExt;

use super::super::action::{Action, Change};
use super::super::facts::Observed;
use super::super::names::prefix;
use crate::api::DatabaseBackup;
use crate::api::databasebackup::Method;
use crate::backup::plan::slot_of;
use crate::external::s3::DELETED_AT_ONCE;
use crate::runtime::{ActionEvent, Removal};

/// Steps until the object may go: what runs is stopped, or it would write on; then what it wrote is deleted. What stays in a
/// server is told with its remedy: only Jobs have the login.
pub fn decide_removal(object: &DatabaseBackup, observed: &Observed) -> Removal<Action> {
    let mut removal = of_s3(object, observed);
    let was_served = object.status.as_ref().is_some_and(|status| status.bucket.is_some());
    if let Some(event) = removal.final_event.as_mut().filter(|_| object.spec.method == Method::Wal && was_served) {
        let slot = slot_of(&object.uid().unwrap_or_default());
        event.warning = true;
        let _ = write!(
            event.note,
            "; if a backup of the log was begun, the server still keeps its log for slot {slot}: run SELECT \
             pg_drop_replication_slot('{slot}') there"
        );
    }
    removal
}

fn of_s3(object: &DatabaseBackup, observed: &Observed) -> Removal<Action> {
    let final_event =
        |reason, note| Removal { actions: Vec::new(), final_event: Some(ActionEvent::normal(reason, note)) };
    let Some(remains) = &observed.remains else {
        let note = match object.status.as_ref().and_then(|status| status.bucket.as_ref()) {
            Some(bucket) => format!("backups stay in bucket {bucket}: spec.deletionPolicy is Retain"),
            None => "no backup was taken".to_owned(),
        };
        return final_event("Retained", note);
    };
    if let Some(why) = &remains.given_up {
        let note = format!("backups stay in S3, for they could not be deleted: {why}");
        return Removal { actions: Vec::new(), final_event: Some(ActionEvent::warning("CleanupGivenUp", note)) };
    }
    let mut stops = stops(object, observed);
    // Overdue ones were stopped before: the object goes as soon as nothing is left to delete.
    if !stops.is_empty() && !remains.overdue {
        stops.push(Action::AwaitJobs);
        return Removal { actions: stops, final_event: None };
    }
    let mut actions = Vec::new();
    let Some(bucket) = &observed.bucket else {
        return final_event("Deleted", "no bucket is known, so nothing was deleted".to_owned());
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
    if actions.is_empty() && observed.recorded.is_some() && remains.locked.is_none() {
        actions.push(Action::ForgetRecord);
    }
    if !actions.is_empty() {
        return Removal { actions, final_event: None };
    }
    if let Some(until) = remains.locked {
        let note = format!(
            "backups stay in bucket {} under {}/, for S3 locks the last of them until {until}: delete them then, by version",
            bucket.place.bucket,
            prefix(object)
        );
        return Removal { actions: Vec::new(), final_event: Some(ActionEvent::warning("BackupsLocked", note)) };
    }
    let deleted = format!("all backups are deleted from bucket {}", bucket.place.bucket);
    let jobs: Vec<&str> = observed.all_jobs().map(|job| job.name.as_str()).collect();
    if jobs.is_empty() {
        return final_event("Deleted", deleted);
    }
    let note = format!(
        "{deleted}, but these Jobs are not gone, as on a node that is lost: {}. One of them may still write under \
         {}/: delete by hand what it leaves there",
        jobs.join(", "),
        prefix(object),
    );
    Removal { actions, final_event: Some(ActionEvent::warning("JobsRemained", note)) }
}

/// Ends whatever may write.
fn stops(object: &DatabaseBackup, observed: &Observed) -> Vec<Action> {
    let schedule = observed.child("CronJob", &object.name_any()).filter(|child| child.ours);
    let stop = |kind, name: &str, uid: &str| Action::Stop { kind, name: name.to_owned(), uid: uid.to_owned() };
    let schedule = schedule.map(|child| stop("CronJob", &object.name_any(), &child.uid));
    schedule.into_iter().chain(observed.all_jobs().map(|job| stop("Job", &job.name, &job.uid))).collect()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::super::super::facts::{Job, Remains, Verification};
    use super::super::super::fixtures::{backup, prepared};
    use super::super::tests::{now, settled};
    use super::*;
    use crate::backup::record::Record;
    use crate::external::s3::{Object, Upload};

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
        let message = json!(ago(50));
        let schedule = observed.children.values_mut().find(|child| child.value["kind"] == "CronJob");
        let schedule = &mut schedule.expect("a schedule").value["metadata"]["deletionTimestamp"];
        *schedule = message;
        observed.jobs.push(job(Some(ago(50))));
        assert!(observed.jobs_are_overdue(&since(50), now()));
        assert!(!observed.jobs_are_overdue(&since(40), now()), "pods still have time");
        assert!(!observed.jobs_are_overdue(&backup(), now()), "it is not deleted");
        for going in [None, Some(ago(5))] {
            let verification = Verification { job: job(going), ..Verification::default() };
            let late = Observed { verifications: vec![verification], ..observed.clone() };
            assert!(!late.jobs_are_overdue(&since(50), now()), "nobody told it in time");
        }
        let late = settled(&backup());
        assert!(!late.jobs_are_overdue(&since(50), now()), "a schedule may begin Jobs");
    }

    #[test]
    fn a_slot_that_stays_in_a_server_is_told_with_the_statement_that_drops_it() {
        let mut object = backup();
        object.status = serde_json::from_value(json!({ "bucket": "b" })).expect("a status");
        let event = |object: &DatabaseBackup| decide_removal(object, &prepared()).final_event.expect("an event");
        assert_eq!((event(&object).reason, event(&object).warning), ("Retained", false));
        object.spec.method = Method::Wal;
        let told = event(&object);
        assert!(
            told.warning && told.note.ends_with("run SELECT pg_drop_replication_slot('causeway_uid_1') there"),
            "{}",
            told.note
        );
        object.status = None;
        assert!(!event(&object).warning, "nothing was begun");
    }

    #[test]
    fn a_deleted_objects_record_goes_after_what_it_speaks_of() {
        let object = backup();
        let remains = Some(Remains { bucket_may_go: true, ..Remains::default() });
        let mut observed = Observed { remains, recorded: Some(Record::default()), ..prepared() };
        let text = |observed: &Observed| -> Vec<String> {
            decide_removal(&object, observed).actions.iter().map(|it| format!("{it:?}")).collect()
        };
        assert_eq!(text(&observed), ["DeleteBucket(causeway-prod-111122223333-eu-west-1)"]);
        observed.remains = Some(Remains::default());
        assert_eq!(text(&observed), ["ForgetRecord"]);
        observed.recorded = None;
        assert!(text(&observed).is_empty());
        observed = Observed { remains: None, recorded: Some(Record::default()), ..observed };
        assert!(text(&observed).is_empty(), "where backups stay, the record does");
    }

    #[test]
    fn what_s3_locks_stays_with_its_record_and_that_is_told() {
        let remains = Some(Remains { locked: Some(now()), ..Remains::default() });
        let removal = decide_removal(&backup(), &Observed { remains, recorded: Some(Record::default()), ..prepared() });
        assert!(removal.actions.is_empty());
        assert_eq!(removal.final_event.map(|event| event.reason), Some("BackupsLocked"));
    }

    #[test]
    fn a_deleted_object_leaves_its_backups_unless_told_otherwise() {
        let mut object = backup();
        let mut observed = settled(&object);
        let removal = decide_removal(&object, &observed);
        assert!(removal.actions.is_empty());
        observed.remains = Some(Remains {
            objects: vec![Object { key: "shop/nightly/uid-1/redis-cache/x/data".into(), size: 1, modified: now() }],
            uploads: vec![Upload { key: "k".into(), id: "i".into(), begun: now() }],
            ..Remains::default()
        });
        observed.jobs.push(Job { name: "nightly-1".into(), uid: "uid-j".into(), ..Job::default() });
        let text = |observed: &Observed| -> Vec<String> {
            decide_removal(&object, observed).actions.iter().map(|it| format!("{it:?}")).collect()
        };
        assert_eq!(text(&observed), ["Stop(CronJob nightly)", "Stop(Job nightly-1)", "AwaitJobs"]);
        let bucket = "causeway-prod-111122223333-eu-west-1";
        let deletions = [format!("DeleteObjects({bucket})"), format!("AbortUpload({bucket})")];
        // The node of its pod is lost.
        let mut lost = observed.clone();
        lost.remains.as_mut().expect("remains").overdue = true;
        assert_eq!(text(&lost), deletions);
        lost.remains = Some(Remains { overdue: true, ..Remains::default() });
        assert!(text(&lost).is_empty());
        let final_event = decide_removal(&object, &lost).final_event.expect("a final event");
        assert_eq!((final_event.reason, final_event.warning), ("JobsRemained", true));
        assert!(final_event.note.contains("lost: nightly-1. One"), "{}", final_event.note);
        assert!(final_event.note.contains("under shop/nightly/uid-1/"), "{}", final_event.note);
        observed.jobs.clear();
        observed.children.clear();
        assert_eq!(text(&observed), deletions);
        observed.remains = Some(Remains { bucket_may_go: true, ..Remains::default() });
        assert_eq!(text(&observed), [format!("DeleteBucket({bucket})")]);
        observed.remains = Some(Remains::default());
        assert!(text(&observed).is_empty());
        observed.remains = Some(Remains { given_up: Some("denied".into()), ..Remains::default() });
        let final_event = decide_removal(&object, &observed).final_event.expect("a final event");
        assert_eq!(final_event.reason, "CleanupGivenUp");
        // Whatever is wrong with the spec.
        object.spec.schedule = "nonsense".into();
        assert!(decide_removal(&object, &observed).actions.is_empty());
    }
}
