//! Cleans up after a deleted object, and reports what stays.

use std::fmt::Write;

use kube::ResourceExt;

use causeway_api::DatabaseBackup;
use causeway_aws::s3::DELETED_AT_ONCE;
use causeway_backup::plan::slot_of;
use causeway_runtime::{ActionEvent, Removal};

use super::super::action::{Action, Change};
use super::super::facts::{Observed, Slot};
use super::super::names::prefix;
use super::super::resources;

/// The steps until the object may go. First, everything that runs is stopped, or it would go on writing. Then the
/// server drops the replication slot, and the backups are deleted from S3. If the slot stays, the final event says how
/// to drop it.
pub fn decide_removal(object: &DatabaseBackup, observed: &Observed) -> Removal<Action> {
    let waits = |mut actions: Vec<Action>, last| {
        actions.push(last);
        Removal { actions, final_event: None }
    };
    let denied = observed.denied.as_ref().map(|(_, message)| message.as_str());
    let note = match (&observed.slot, denied) {
        (Slot::None, _) => None,
        (Slot::Due(_) | Slot::Stays(_), Some(why)) => Some(Err(why)),
        (Slot::Stays(why), None) => Some(Err(why.as_str())),
        (Slot::Gone, _) => Some(Ok(())),
        (Slot::Going, _) => return waits(Vec::new(), Action::AwaitSlot),
        (Slot::Due(database), None) => {
            // A running backup would make the slot again.
            let stops = stops(object, observed);
            if !stops.is_empty() && !observed.are_stops_overdue {
                return waits(stops, Action::AwaitJobs);
            }
            let job = Box::new(resources::job_slot(object, &observed.settings, database));
            return waits(vec![Action::DropSlot { job }], Action::AwaitSlot);
        }
    };
    let mut removal = of_s3(object, observed);
    if let (Some(event), Some(slot)) = (removal.final_event.as_mut(), note) {
        let name = slot_of(&object.uid().unwrap_or_default());
        let _ = match slot {
            Ok(()) => write!(event.note, "; the server has dropped replication slot {name}"),
            Err(why) => {
                event.warning = true;
                write!(
                    event.note,
                    "; the server still keeps its log for replication slot {name} ({why}): run SELECT \
                     pg_drop_replication_slot('{name}') there"
                )
            }
        };
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
        let status = object.status.as_ref().and_then(|status| status.bucket.as_ref());
        let known = observed.bucket.as_ref().map(|bucket| &bucket.place.bucket);
        let bucket = known.or(observed.recorded.as_ref().map(|record| &record.bucket)).or(status);
        let place = bucket.map(|bucket| format!(" bucket {bucket} under {}/", prefix(object))).unwrap_or_default();
        let note = format!("backups stay in S3{place}, for S3 refuses to delete them ({why}): delete them by hand");
        return Removal { actions: Vec::new(), final_event: Some(ActionEvent::warning("CleanupGivenUp", note)) };
    }
    let mut stops = stops(object, observed);
    // Overdue Jobs were stopped before: the object goes as soon as nothing is left to delete.
    if !stops.is_empty() && !observed.are_stops_overdue {
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
            "backups stay in bucket {} under {}/, for S3 locks the last of them at least until {until}: delete them then, by version",
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
    use super::super::super::names::job_slot;
    use super::super::tests::{now, settled};
    use super::*;
    use causeway_aws::s3::{Object, Upload};
    use causeway_backup::record::Record;

    #[test]
    fn only_jobs_that_were_deleted_long_ago_are_overdue() {
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
            assert!(!late.jobs_are_overdue(&since(50), now()), "it was not deleted in time");
        }
        let late = settled(&backup());
        assert!(!late.jobs_are_overdue(&since(50), now()), "a schedule may begin Jobs");
    }

    fn text(removal: &Removal<Action>) -> Vec<String> {
        removal.actions.iter().map(|it| format!("{it:?}")).collect()
    }

    #[test]
    fn the_slot_is_dropped_once_no_job_remains() {
        let object = backup();
        let mut observed = settled(&object);
        let slot = Slot::Due(Box::new(observed.sources[0].clone()));
        observed.jobs.push(Job { name: "nightly-1".into(), ..Job::default() });
        observed.slot = slot;
        let stops = ["Stop(CronJob nightly)", "Stop(Job nightly-1)", "AwaitJobs"];
        assert_eq!(text(&decide_removal(&object, &observed)), stops);
        let drops = [format!("DropSlot({})", job_slot(&object)), "AwaitSlot".to_owned()];
        let lost = Observed { are_stops_overdue: true, ..observed.clone() };
        assert_eq!(text(&decide_removal(&object, &lost)), drops, "the node of its pod is lost");
        observed.jobs.clear();
        observed.children.clear();
        assert_eq!(text(&decide_removal(&object, &observed)), drops);
        observed.slot = Slot::Going;
        assert_eq!(text(&decide_removal(&object, &observed)), ["AwaitSlot"]);
        observed.slot = Slot::Gone;
        let event = decide_removal(&object, &observed).final_event.expect("an event");
        assert!(
            !event.warning && event.note.ends_with("has dropped replication slot causeway_uid_1"),
            "{}",
            event.note
        );
    }

    #[test]
    fn a_remaining_slot_is_reported_with_its_drop_statement() {
        let event = |observed: &Observed| decide_removal(&backup(), observed).final_event.expect("an event");
        assert_eq!((event(&prepared()).reason, event(&prepared()).warning), ("Retained", false));
        let due = Slot::Due(Box::new(prepared().sources[0].clone()));
        let denied = Some(("NotAllowed", "no policy allows it".into()));
        for observed in [
            Observed { slot: Slot::Stays("no policy allows it".into()), ..prepared() },
            Observed { slot: due, denied, ..prepared() },
        ] {
            let event = event(&observed);
            let end = "(no policy allows it): run SELECT pg_drop_replication_slot('causeway_uid_1') there";
            assert!(event.warning && event.note.ends_with(end), "{}", event.note);
        }
    }

    #[test]
    fn a_deleted_objects_record_goes_after_what_it_speaks_of() {
        let object = backup();
        let remains = Some(Remains { bucket_may_go: true, ..Remains::default() });
        let mut observed = Observed { remains, recorded: Some(Record::default()), ..prepared() };
        let text = |observed: &Observed| text(&decide_removal(&object, observed));
        assert_eq!(text(&observed), ["DeleteBucket(causeway-prod-111122223333-eu-west-1)"]);
        observed.remains = Some(Remains::default());
        assert_eq!(text(&observed), ["ForgetRecord"]);
        observed.recorded = None;
        assert!(text(&observed).is_empty());
        observed = Observed { remains: None, recorded: Some(Record::default()), ..observed };
        assert!(text(&observed).is_empty(), "where backups stay, the record does");
    }

    #[test]
    fn locked_backups_stay_with_their_record() {
        let remains = Some(Remains { locked: Some(now()), ..Remains::default() });
        let removal = decide_removal(&backup(), &Observed { remains, recorded: Some(Record::default()), ..prepared() });
        assert!(removal.actions.is_empty());
        assert_eq!(removal.final_event.map(|event| event.reason), Some("BackupsLocked"));
    }

    #[test]
    fn backups_of_a_deleted_object_stay_by_default() {
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
        let text = |observed: &Observed| text(&decide_removal(&object, observed));
        assert_eq!(text(&observed), ["Stop(CronJob nightly)", "Stop(Job nightly-1)", "AwaitJobs"]);
        let bucket = "causeway-prod-111122223333-eu-west-1";
        let deletions = [format!("DeleteObjects({bucket})"), format!("AbortUpload({bucket})")];
        // The node of its pod is lost.
        let mut lost = observed.clone();
        lost.are_stops_overdue = true;
        assert_eq!(text(&lost), deletions);
        lost.remains = Some(Remains::default());
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
        assert!(
            final_event.note.contains(&format!("bucket {bucket} under shop/nightly/uid-1/")),
            "{}",
            final_event.note
        );
        // A mistake in the spec changes nothing.
        object.spec.schedule = "nonsense".into();
        assert!(decide_removal(&object, &observed).actions.is_empty());
    }
}
