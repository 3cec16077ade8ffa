//! Tests of the decisions about backups.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use causeway_api::databasebackup::{KeptBy, Verify};
use causeway_aws::s3::{BucketFacts, Found, Listing, Object, Tags};
use causeway_backup::jobs::{Catalog, Doubt, End};
use causeway_backup::manifest::{Contents, Document, LEFT_OUT, Manifest, due_of, id_of};
use causeway_backup::record::Record;
use causeway_backup::transfer::{CLUSTER, MANAGED_BY, OFFERED};
use causeway_runtime::{ConditionStatus, SUSPENDED, merge_conditions};

use super::super::action::{Action, Change, Hardening};
use super::super::facts::{Child, Job, Observed, Recording, newest};
use super::super::fixtures::{backup, observed, prepared, tags};
use super::super::names;
use super::*;

const NOW: &str = "2026-11-22T12:00:00Z";

pub(crate) fn now() -> Timestamp {
    NOW.parse().expect("an instant")
}

pub(crate) fn decided(object: &DatabaseBackup, observed: &Observed) -> Plan<Action, DatabaseBackupStatus> {
    decide(object, observed, now())
}

pub(crate) fn words(plan: &Plan<Action, DatabaseBackupStatus>) -> Vec<String> {
    plan.actions.iter().map(|action| format!("{action:?}")).collect()
}

/// Nothing in S3, and all children there. The database is so young that no backup of it was due.
pub(crate) fn settled(object: &DatabaseBackup) -> Observed {
    let mut observed = Observed { catalog: Some(Catalog::default()), ..prepared() };
    for source in &mut observed.sources {
        source.since = now() - SignedDuration::from_hours(2);
    }
    for action in decided(object, &observed).actions {
        let Action::Apply { child, .. } = action else { continue };
        if child.kind() == "ServiceAccount" {
            observed.account = Some(child.value.clone());
        } else {
            let key = (child.kind().to_owned(), child.name().to_owned());
            observed.children.insert(key, Child { value: child.value.clone(), uid: "uid-c".into(), ours: true });
        }
    }
    observed
}

/// The same with databases that are older than every backup.
pub(crate) fn aged(mut observed: Observed) -> Observed {
    for source in &mut observed.sources {
        source.since = Timestamp::UNIX_EPOCH;
    }
    observed
}

/// Complete backups, and backups without a manifest.
pub(crate) fn catalog(complete: &[&str], incomplete: &[&str], modified: Timestamp) -> Catalog {
    let object = |id: &str, file: &str| Object { key: format!("p/redis-cache/{id}/{file}"), size: 10, modified };
    let whole = complete.iter().flat_map(|id| [object(id, "data"), object(id, "manifest.json")]);
    let half = incomplete.iter().map(|id| object(id, "data"));
    Catalog::new("p/", &Listing { objects: whole.chain(half).collect(), cut: false }, Vec::new())
}

/// The manifest of a backup.
pub(crate) fn manifest(due: Timestamp) -> Document {
    let manifest = Manifest {
        id: id_of(due),
        source: "Redis cache".into(),
        started: due,
        finished: due + SignedDuration::from_secs(9),
        size: 100,
        stored_size: 10,
        contents: Contents { keys: 5, ..Contents::default() },
        ..Manifest::sample("redis", "7.0.15")
    };
    Document { manifest, sha256: "ab".repeat(32) }
}

fn with_tags(tags: Tags, empty: bool, usual: bool) -> Observed {
    let mut observed = observed();
    if let Some(bucket) = &mut observed.bucket {
        bucket.usual = usual;
        bucket.found = Some(Found::There(Box::new(BucketFacts { tags, empty, ..BucketFacts::default() })));
    }
    observed
}

#[test]
fn a_bucket_is_hardened_before_backups_are_scheduled() {
    let object = backup();
    let absent = decided(&object, &observed());
    assert_eq!(words(&absent), ["CreateBucket(causeway-prod-111122223333-eu-west-1)"]);
    let bare = with_tags(tags(), false, true);
    let names: Vec<&str> = match decided(&object, &bare).actions.as_slice() {
        [Action::Bucket { change: Change::Harden(all), .. }] => all.iter().map(Hardening::name).collect(),
        other => panic!("{other:?}"),
    };
    assert_eq!(names, ["BlockPublicAccess", "EnforceOwner", "Encrypt", "Guard", "AbortUploads"]);
    let ready = decided(&object, &prepared());
    assert_eq!(words(&ready), ["Apply(ServiceAccount causeway-backup)", "Apply(CronJob nightly)"]);
}

#[test]
fn a_settled_object_needs_nothing_and_is_ready() {
    let object = backup();
    let plan = decided(&object, &settled(&object));
    assert_eq!(words(&plan), Vec::<String>::new());
    let conditions = merge_conditions(&[], &plan.health, &plan.parts, Some(1), now());
    let text: BTreeMap<&str, &str> = conditions.iter().map(|it| (it.type_.as_str(), it.status.as_str())).collect();
    assert_eq!(text.get("Ready"), Some(&"True"));
    assert_eq!(text.get("BucketReady"), Some(&"True"));
    assert_eq!(plan.status.next_run.map(|time| time.0.to_string()).as_deref(), Some("2026-11-23T02:00:00Z"));
}

#[test]
fn databases_missing_from_the_newest_backup_are_reported() {
    let object = backup();
    let with = |facts: [Option<&str>; 2]| {
        let mut observed = settled(&object);
        let ids = ["20261121T020000Z", "20261122T020000Z"];
        let found = catalog(&ids, &[], now());
        for ((due, folder), left_out) in newest(&found).into_iter().rev().zip(facts) {
            let mut document = manifest(due);
            document.manifest.source = "PostgreSQL db:5432".into();
            let fact = left_out.map(|names| (LEFT_OUT.to_owned(), names.to_owned()));
            document.manifest.contents.facts.extend(fact);
            observed.manifests.insert((folder.clone(), due), document);
        }
        observed.catalog = Some(found);
        let plan = decided(&object, &observed);
        let Health::Ready(cause) = &plan.health else { panic!("{:?}", plan.health) };
        (cause.message.clone(), plan.status.recent.first().and_then(|run| run.left_out.clone()))
    };
    let (message, left_out) = with([None, Some("vault, audit")]);
    assert!(
        message
            .ends_with("may not connect to vault, audit of PostgreSQL db:5432, or no user may: they are in no backup")
    );
    assert_eq!(left_out.as_deref(), Some("vault, audit"));
    let (message, left_out) = with([Some("vault"), None]);
    assert!(!message.contains("vault") && left_out.is_none(), "{message}");
}

/// A status that is written before the actions must not promise their result: `kubectl wait` relies on it.
#[test]
fn not_ready_before_the_schedule_is_up_to_date() {
    let object = backup();
    let reason = |plan: &Plan<Action, DatabaseBackupStatus>| match &plan.health {
        Health::Progressing(cause) => cause.reason.to_string(),
        other => format!("{other:?}"),
    };
    let first = decided(&object, &prepared());
    assert!(first.write_status_first, "the bucket is recorded before it is used");
    assert_eq!(reason(&first), "Applying");
    let mut edited = backup();
    edited.spec.schedule = "0 3 * * *".into();
    let mut ended = settled(&object);
    ended.jobs.push(Job { name: "nightly-1".into(), end: Some(End { at: now(), failure: None }), ..Job::default() });
    let news = decided(&edited, &ended);
    assert!(news.write_status_first, "there is something to tell");
    assert_eq!(reason(&news), "Applying");
    let text = decided(&object, &ended);
    assert!(
        text.write_status_first && matches!(text.health, Health::Ready(_)),
        "a Job that ended makes nothing unready"
    );
    let unseen = decided(&object, &Observed { bucket: None, ..settled(&object) });
    assert_eq!(reason(&unseen), "PreparingBucket", "it was not looked at");
}

#[test]
fn a_bucket_of_others_is_never_changed() {
    let object = backup();
    let another = Tags::from([(CLUSTER.into(), "other".into()), (MANAGED_BY.into(), "causeway".into())]);
    let theirs = Tags::from([("team".into(), "data".into())]);
    for (tags, empty, usual) in
        [(another, true, true), (theirs, true, true), (Tags::new(), true, false), (Tags::new(), false, true)]
    {
        let plan = decided(&object, &with_tags(tags, empty, usual));
        assert_eq!(words(&plan), Vec::<String>::new());
        let Health::Stalled(cause) = plan.health else { panic!("stalled") };
        assert_eq!(cause.reason, "BucketForeign");
        assert!(cause.message.contains("causeway.example.com/backups=prod"), "{}", cause.message);
    }
    let offered = with_tags(Tags::from([(OFFERED.into(), "prod".into())]), false, false);
    let plan = decided(&object, &offered);
    assert!(words(&plan).iter().all(|word| word.starts_with("Apply")), "{:?}", words(&plan));
    let half_made = with_tags(Tags::new(), true, true);
    assert_eq!(words(&decided(&object, &half_made)), ["TagBucket(causeway-prod-111122223333-eu-west-1)"]);
}

#[test]
fn what_the_operator_lacks_is_named() {
    let without = |change: fn(&mut Observed, &mut DatabaseBackup)| {
        let (mut observed, mut object) = (prepared(), backup());
        change(&mut observed, &mut object);
        let plan = decided(&object, &observed);
        assert!(plan.actions.is_empty());
        let Health::Stalled(cause) = plan.health else { panic!("stalled") };
        cause.message
    };
    assert!(without(|observed, _| observed.settings.identity = None).contains("BACKUP_ROLE_ARN"));
    assert!(without(|observed, _| observed.settings.image = None).contains("JOB_IMAGE"));
    assert!(
        without(|_, object| object.spec.destination.endpoint = Some("http://x".into())).contains("BACKUP_ENDPOINTS")
    );
    assert!(without(|_, object| object.spec.verify = Some(Verify::default())).contains("spec.verify must have either"));
    let wrong = Verify { schedule: Some("0 25 * * *".into()), after_each: false };
    let mut object = backup();
    object.spec.verify = Some(wrong);
    let Health::Stalled(cause) = decided(&object, &prepared()).health else { panic!("stalled") };
    assert_eq!(cause.reason, "ScheduleInvalid");
    assert!(cause.message.starts_with("spec.verify.schedule \"0 25 * * *\""), "{}", cause.message);
    assert!(cause.message.contains("the hour \"25\" must be from 0 to 23"), "{}", cause.message);
    assert!(without(|_, object| object.spec.schedule = "61 * * * *".into()).contains("spec.schedule"));
    assert!(without(|_, object| object.spec.time_zone = Some("Mars/X".into())).contains("spec.timeZone"));
}

#[test]
fn a_token_begins_one_backup_and_no_more() {
    let mut object = backup();
    let mut observed = settled(&object);
    observed.asked = Some("today".into());
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), [format!("Start(Job {})", names::job_now(&object, "today"))]);
    // The Job was made, and the operator died before it wrote that to the status.
    observed.jobs.push(Job { name: names::job_now(&object, "today"), ..Job::default() });
    let plan = decided(&object, &observed);
    assert!(plan.actions.is_empty());
    assert_eq!(plan.status.backup_now.as_deref(), Some("today"));
    // The Job ends, and is deleted later.
    object.status = Some(plan.status);
    observed.jobs[0].end = Some(End { at: now(), failure: None });
    object.status = Some(decided(&object, &observed).status);
    observed.jobs.clear();
    assert!(decided(&object, &observed).actions.is_empty());
    observed.asked = Some("again".into());
    assert_eq!(decided(&object, &observed).actions.len(), 1);
}

#[test]
fn an_ended_job_is_reported_once_with_its_reason() {
    let mut object = backup();
    let mut observed = settled(&object);
    let failure = Some(("SourceUnreachable".to_owned(), "redis-cache: no server answers".to_owned()));
    observed.jobs.push(Job { name: "nightly-1".into(), end: Some(End { at: now(), failure }), ..Job::default() });
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), ["Tell(BackupFailed)"]);
    assert!(plan.write_status_first);
    assert_eq!(plan.status.last_failure.as_ref().map(|it| it.reason.as_str()), Some("SourceUnreachable"));
    object.status = Some(plan.status);
    // Its pods are gone, and Kubernetes' message does not replace theirs.
    if let Some(end) = &mut observed.jobs[0].end {
        end.failure = Some(("BackoffLimitExceeded".into(), "…".into()));
    }
    let plan = decided(&object, &observed);
    assert!(plan.actions.is_empty());
    assert_eq!(plan.status.last_failure.as_ref().map(|it| it.reason.as_str()), Some("SourceUnreachable"));
    object.status = Some(plan.status);
    let later = End { at: now() + SignedDuration::from_secs(60), failure: None };
    observed.jobs.push(Job { name: "nightly-2".into(), end: Some(later), ..Job::default() });
    assert_eq!(decided(&object, &observed).status.last_failure, None);
}

#[test]
fn only_what_is_in_s3_is_a_backup() {
    let object = backup();
    let mut observed = settled(&object);
    observed.catalog = Some(catalog(&["20261122T020000Z"], &["20261122T030000Z"], now()));
    let due = due_of("20261122T020000Z").expect("an instant");
    observed.manifests.insert(("redis-cache".into(), due), manifest(due));
    let status = decided(&object, &observed).status;
    assert_eq!((status.backups, status.recent.len(), status.recent[0].keys, status.recent[0].seconds), (1, 1, 5, 9));
    assert!(status.recent[0].kept_by.contains(&KeptBy::Newest), "{:?}", status.recent[0]);
    assert_eq!(status.last_success.map(|time| time.0.to_string()).as_deref(), Some("2026-11-22T02:00:09Z"));
    assert_eq!(status.size.as_deref(), Some("30 B"));
}

#[test]
fn a_missing_backup_is_overdue() {
    let object = backup();
    let overdue = |complete: &[&str], at: &str| {
        let mut observed = aged(settled(&object));
        observed.catalog = Some(catalog(complete, &[], now()));
        let plan = decide(&object, &observed, at.parse().expect("an instant"));
        plan.parts.into_iter().find(|part| part.type_ == "BackupOverdue").map(|part| part.status)
    };
    assert_eq!(overdue(&["20261122T020000Z"], NOW), Some(ConditionStatus::False));
    assert_eq!(
        overdue(&["20261121T020000Z"], "2026-11-22T02:59:59Z"),
        Some(ConditionStatus::False),
        "it may still be running"
    );
    assert_eq!(overdue(&["20261121T020000Z"], "2026-11-22T03:00:00Z"), Some(ConditionStatus::True));
    assert_eq!(
        overdue(&[], "2026-11-01T01:00:00Z"),
        Some(ConditionStatus::False),
        "none was due since the object was made"
    );
}

#[test]
fn unkept_backups_go_manifest_first() {
    let mut object = backup();
    object.spec.retention = serde_json::from_value(json!({ "keepLast": 1 })).expect("rules");
    let mut observed = settled(&object);
    let complete = ["20261120T020000Z", "20261121T020000Z"];
    let young = now() - SignedDuration::from_mins(30);
    observed.catalog = Some(catalog(&complete, &["20261119T020000Z"], young));
    let keys = |observed: &Observed| -> Vec<Vec<String>> {
        let plan = decided(&object, observed);
        plan.actions
            .into_iter()
            .filter_map(|action| match action {
                Action::Bucket { change: Change::DeleteObjects { keys, .. }, .. } => Some(keys),
                _ => None,
            })
            .collect()
    };
    let own = |id: &str, file: &str| format!("shop/nightly/uid-1/redis-cache/{id}/{file}");
    let expected = vec![vec![own(complete[0], "manifest.json")], vec![own(complete[0], "data")]];
    assert_eq!(keys(&observed), expected);
    // The same an hour later: what a later backup overtook goes, too.
    let old = now() - SignedDuration::from_hours(2);
    observed.catalog = Some(catalog(&complete, &["20261119T020000Z"], old));
    assert_eq!(keys(&observed)[1], [own("20261119T020000Z", "data"), own(complete[0], "data")]);
    // While a Job runs, the incomplete backup may be its own.
    observed.jobs.push(Job { name: "nightly-1".into(), ..Job::default() });
    assert_eq!(keys(&observed), expected);
}

#[test]
fn unreported_backups_are_named_and_do_not_count() {
    let mut object = backup();
    object.spec.retention = serde_json::from_value(json!({ "keepLast": 1 })).expect("rules");
    let mut observed = settled(&object);
    let (ours, forged) = ("20261121T020000Z", ["20261122T020000Z", "20991231T000000Z"]);
    let mut found = catalog(&[ours, forged[0], forged[1]], &[], now());
    for (id, doubt) in forged.iter().zip([Doubt::NotRecorded, Doubt::Future]) {
        let due = due_of(id).expect("an ID");
        found.folders.get_mut("redis-cache").and_then(|backups| backups.get_mut(&due)).expect("it").doubt = Some(doubt);
    }
    observed.catalog = Some(found);
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), Vec::<String>::new(), "nothing is deleted");
    assert_eq!(plan.status.backups, 1);
    let part =
        |plan: Plan<Action, DatabaseBackupStatus>| plan.parts.into_iter().find(|it| it.type_ == "UnrecordedBackups");
    let part = |observed: &Observed| part(decided(&object, observed));
    let condition = part(&observed).expect("a condition");
    assert_eq!(condition.status, ConditionStatus::True);
    for words in
        ["20261122T020000Z was reported by no Job", "20991231T000000Z is due in the future", "shop/nightly/uid-1/"]
    {
        assert!(condition.message.contains(words), "{words}: {}", condition.message);
    }
    // A running Job has not reported its backup yet. One that is due in the future is still wrong.
    observed.jobs.push(Job { name: "nightly-1".into(), ..Job::default() });
    let condition = part(&observed).expect("a condition");
    assert!(!condition.message.contains("20261122T020000Z"), "{}", condition.message);
    let clean = Observed { catalog: Some(catalog(&[ours], &[], now())), jobs: Vec::new(), ..observed };
    assert_eq!(part(&clean).map(|part| part.status), Some(ConditionStatus::Absent), "the condition goes");
}

#[test]
fn what_counts_is_recorded_before_anything_follows_from_it() {
    let object = backup();
    let recording = Recording { record: Record { name: "nightly".into(), ..Record::default() }, accepted: 0 };
    let before = Observed { recording: Some(recording.clone()), ..observed() };
    let expected = ["Record(0 accepted)", "CreateBucket(causeway-prod-111122223333-eu-west-1)"];
    assert_eq!(words(&decided(&object, &before)), expected);
    let after = Observed { recorded: Some(recording.record), ..before };
    assert_eq!(words(&decided(&object, &after)), expected[1..]);
}

#[test]
fn suspended_and_invalid_objects_record_reports() {
    let mut object = backup();
    let recording = Recording { record: Record { name: "nightly".into(), ..Record::default() }, accepted: 0 };
    let observed = Observed {
        recorded: Some(Record::default()),
        recording: Some(recording.clone()),
        bucket: None,
        ..settled(&object)
    };
    object.spec.suspend = true;
    assert_eq!(words(&decided(&object, &observed)), ["Hold(nightly)", "Record(0 accepted)"]);
    object.spec.suspend = false;
    object.spec.schedule = "61 * * * *".into();
    assert_eq!(words(&decided(&object, &observed)), ["Record(0 accepted)"]);
    let after = Observed { recorded: Some(recording.record), ..observed };
    assert!(decided(&object, &after).actions.is_empty(), "once");
}

#[test]
fn suspended_the_schedule_stands_still_and_nothing_else_happens() {
    let mut object = backup();
    let mut observed = settled(&object);
    object.spec.suspend = true;
    observed.asked = Some("today".into());
    // The controller looks at neither while the object is suspended.
    (observed.bucket, observed.sources) = (None, Vec::new());
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), ["Hold(nightly)"]);
    assert_eq!((plan.health, plan.status.next_run), (Health::suspended(SUSPENDED), None));
    // Other mistakes change nothing.
    object.spec.schedule = "61 * * * *".into();
    observed.settings.identity = None;
    let plan = decided(&object, &observed);
    assert_eq!((words(&plan), plan.health), (vec!["Hold(nightly)".to_owned()], Health::suspended(SUSPENDED)));
    let key = ("CronJob".to_owned(), "nightly".to_owned());
    let schedule = observed.children.get_mut(&key).expect("a schedule");
    schedule.ours = false;
    assert!(decided(&object, &observed).actions.is_empty(), "the CronJob belongs to another owner");
    let schedule = observed.children.get_mut(&key).expect("a schedule");
    (schedule.ours, schedule.value["spec"]["suspend"]) = (true, json!(true));
    assert!(decided(&object, &observed).actions.is_empty(), "it stands still");
}

#[test]
fn a_missing_database_stops_no_other() {
    let mut object = backup();
    object.spec.source = Some(serde_json::from_value(json!({ "redis": { "name": "other" } })).expect("a source"));
    let mut observed = settled(&object);
    observed.sources.clear();
    let plan = decided(&object, &observed);
    let Health::Progressing(cause) = &plan.health else { panic!("progressing") };
    assert!(cause.message.contains("spec.source.redis: there is no Redis other"), "{}", cause.message);
    let schedule = plan.actions.iter().find_map(|action| match action {
        Action::Apply { child, .. } if child.kind() == "CronJob" => Some(child.value["spec"]["suspend"].clone()),
        _ => None,
    });
    assert_eq!(schedule, Some(json!(true)), "there is nothing to back up");
}
