//! Which backup is proven, when, and what the status says of it.

use jiff::SignedDuration;
use serde_json::Value;

use causeway_api::DatabaseBackupStatus;
use causeway_api::databasebackup::{Encryption, Verify};
use causeway_aws::s3::{Listing, Object};
use causeway_backup::jobs::{End, IDENTITY};
use causeway_runtime::{ConditionStatus, Health, Plan, merge_conditions};

use super::super::accepted::accepted;
use super::super::action::Change;
use super::super::decide::{catalog, decide, decided, manifest, now, settled, words};
use super::super::facts::Job;
use super::super::fixtures::backup;
use super::*;

const RECIPIENT: &str = "age1ljmwwkts2649rkhmf3tu0nk6vfz849ync5ynh5tjgqzzke2pz90sww4d6y";
const OLD: &str = "20261121T020000Z";
const NEW: &str = "20261122T020000Z";
pub(super) const FOLDER: &str = "redis-cache";

pub(super) fn after_each() -> DatabaseBackup {
    let mut object = backup();
    object.spec.verify = Some(Verify { schedule: None, after_each: true });
    object
}

pub(super) fn on_schedule(schedule: &str) -> DatabaseBackup {
    let mut object = backup();
    object.spec.verify = Some(Verify { schedule: Some(schedule.into()), after_each: false });
    object
}

pub(super) fn instant(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

/// Complete backups, and what the controller reads of the next one.
fn with(object: &DatabaseBackup, complete: &[&str], at: Timestamp) -> Observed {
    look(object, &settled(object), complete, at)
}

fn look(object: &DatabaseBackup, observed: &Observed, complete: &[&str], at: Timestamp) -> Observed {
    let mut observed = Observed { catalog: Some(catalog(complete, &[], at)), ..observed.clone() };
    read_next(object, &mut observed, at);
    observed
}

pub(super) fn read_next(object: &DatabaseBackup, observed: &mut Observed, at: Timestamp) {
    let accepted = accepted(object, &observed.settings).expect("accepted");
    if let Some((folder, due)) = accepted.verify.and_then(|when| candidate(object, observed, &when, at)) {
        observed.manifests.insert((folder, due), manifest(due));
    }
}

fn name(object: &DatabaseBackup, id: &str, due: Option<&str>) -> String {
    names::job_verify(object, FOLDER, id, due.map(instant))
}

fn job(object: &DatabaseBackup, id: &str, failure: Option<&str>, seconds: Option<i64>) -> Verification {
    let failure = failure.map(|message| ("ChecksumMismatch".to_owned(), message.to_owned()));
    let end = seconds.map(|seconds| End { at: now() + SignedDuration::from_secs(seconds), failure });
    let job = Job { name: name(object, id, None), end, ..Job::default() };
    Verification { job, folder: FOLDER.into(), id: id.into(), source: "Redis cache".into(), keys: Some(5) }
}

fn after_plan(object: &DatabaseBackup, plan: Plan<Action, DatabaseBackupStatus>, at: Timestamp) -> DatabaseBackup {
    let mut object = object.clone();
    let before = object.status.take().unwrap_or_default().conditions;
    let conditions = merge_conditions(&before, &plan.health, &plan.parts, Some(1), at);
    object.status = Some(DatabaseBackupStatus { conditions, ..plan.status });
    object
}

/// Status, reason and message of the condition.
fn condition(object: &DatabaseBackup) -> Option<(String, String, String)> {
    let conditions = object.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition.type_ == "Verified")?;
    Some((found.status, found.reason, found.message))
}

#[test]
fn the_job_stays_as_it_was_reviewed() {
    let object = after_each();
    let plan = decided(&object, &with(&object, &[OLD, NEW], now()));
    let [Action::Verify { job, message }] = plan.actions.as_slice() else { panic!("one Job: {:?}", plan.actions) };
    assert_eq!(*message, format!("Job {} proves backup {NEW} of Redis cache", job.name()));
    insta::assert_yaml_snapshot!(job.value);
}

/// The Job that takes a backup need not be able to open it.
#[test]
fn only_the_verifying_job_has_the_secret_key() {
    let (mut object, recipients) = (after_each(), vec![RECIPIENT.to_owned()]);
    object.spec.encryption =
        Some(Encryption { recipients: recipients.clone(), identity_secret_name: Some("opens".into()) });
    let observed = with(&object, &[NEW], now());
    let plan = resources::plan(&object, &observed, "shop/nightly/uid-1").expect("a plan");
    assert_eq!(plan.recipients, recipients);
    let takes = resources::job_now(&object, &observed, &plan, "today", NEW).value;
    assert!(!takes.to_string().contains("opens"), "{takes}");
    let actions = decided(&object, &observed).actions;
    let [Action::Verify { job, .. }] = actions.as_slice() else { panic!("one Job: {actions:?}") };
    let proves = &job.value;
    let pod = &proves["spec"]["template"]["spec"];
    let has_key = |container: &Value| container["volumeMounts"].to_string().contains(IDENTITY);
    let (fetch, main) = (&pod["initContainers"][0], &pod["containers"][0]);
    assert!(fetch["name"] == "fetch" && has_key(fetch) && !has_key(main), "{pod}");
}

#[test]
fn a_verification_that_does_not_begin_says_why() {
    let mut object = after_each();
    let mut observed = with(&object, &[NEW], now());
    let mut stuck = job(&object, NEW, None, None);
    stuck.job.stuck = Some(("PodsRefused", "Kubernetes refuses the pods (FailedCreate): exceeded quota: small".into()));
    observed.verifications = vec![stuck.clone()];
    object = after_plan(&object, decided(&object, &observed), now());
    let (status, reason, message) = condition(&object).expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "PodsRefused"));
    assert!(message.contains(NEW) && message.contains("exceeded quota: small"), "{message}");

    let mut object = after_each();
    let mut observed = with(&object, &[OLD, NEW], now());
    observed.verifications = vec![job(&object, OLD, None, Some(0))];
    object = after_plan(&object, decided(&object, &observed), now());
    observed.verifications.push(stuck);
    object = after_plan(&object, decided(&object, &observed), now());
    let (status, reason, message) = condition(&object).expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Proven"));
    assert!(message.contains(&format!("the verification of {NEW} does not begin")), "{message}");
}

#[test]
fn each_complete_backup_is_proven_once() {
    let mut object = after_each();
    let plan = decided(&object, &settled(&object));
    assert!(plan.actions.is_empty(), "there is no backup yet");
    object = after_plan(&object, plan, now());
    let (status, reason, message) = condition(&object).expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NotTried"));
    assert!(message.contains("the next backup will be verified when it is complete"), "{message}");

    let mut observed = with(&object, &[OLD, NEW], now());
    assert_eq!(words(&decided(&object, &observed)), [format!("Verify(Job {})", name(&object, NEW, None))]);
    // It runs; a newer backup waits for its turn.
    observed.verifications = vec![job(&object, NEW, None, None)];
    let newer = "20261122T110000Z";
    let later = look(&object, &observed, &[OLD, NEW, newer], now());
    assert!(decided(&object, &later).actions.is_empty(), "one at a time");

    observed.verifications = vec![job(&object, NEW, None, Some(0))];
    assert_eq!(unreported(&object, &observed, now()), [name(&object, NEW, None)].into());
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), ["Tell(Verified)"]);
    assert!(plan.write_status_first);
    object = after_plan(&object, plan, now());
    let (status, reason, message) = condition(&object).expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Proven"));
    assert_eq!(message, "proven: 20261122T020000Z of Redis cache at 2026-11-22T12:00:00Z");
    // After a restart of the operator, nothing is reported or done again, whether or not the Job is still there.
    for verifications in [observed.verifications.clone(), Vec::new()] {
        let observed = Observed { verifications, ..observed.clone() };
        let plan = decided(&object, &look(&object, &observed, &[OLD, NEW], now()));
        assert!(plan.actions.is_empty(), "{:?}", plan.actions);
        assert_eq!(Some(&plan.status.verified), object.status.as_ref().map(|status| &status.verified));
        assert!(unreported(&object, &observed, now()).is_empty());
    }
    let plan = decided(&object, &look(&object, &observed, &[OLD, NEW, newer], now()));
    assert_eq!(words(&plan), [format!("Verify(Job {})", name(&object, newer, None))]);
}

#[test]
fn a_failed_verification_costs_no_good_backup() {
    let mut object = after_each();
    object.spec.retention = serde_json::from_value(serde_json::json!({ "keepLast": 1 })).expect("rules");
    let mut observed = with(&object, &[OLD], now());
    observed.verifications = vec![job(&object, OLD, None, Some(0))];
    object = after_plan(&object, decided(&object, &observed), now());

    observed.verifications.push(job(&object, NEW, None, None));
    let running = look(&object, &observed, &[OLD, NEW], now());
    assert!(decided(&object, &running).actions.is_empty(), "the newest proven one stays");
    observed.verifications[1] = job(&object, NEW, Some("redis-cache: the backup is damaged: 3 bytes differ"), Some(60));
    let observed = look(&object, &observed, &[OLD, NEW], now());
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), ["Tell(VerificationFailed)"]);
    object = after_plan(&object, plan, now());
    let (status, reason, message) = condition(&object).expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "VerificationFailed"));
    for part in
        [NEW, "Redis cache", "ChecksumMismatch: redis-cache: the backup is damaged", "passed is 20261121T020000Z"]
    {
        assert!(message.contains(part), "{message}\nshould say: {part}");
    }
    assert!(decided(&object, &observed).actions.is_empty(), "it is neither tried again nor are backups deleted");
    // The next backup is good, so both others may go.
    let best = "20261122T100000Z";
    let mut observed = look(&object, &observed, &[OLD, NEW, best], now());
    observed.verifications.push(job(&object, best, None, Some(120)));
    object = after_plan(&object, decided(&object, &observed), now());
    assert_eq!(condition(&object).expect("a condition").0, "True");
    let deleted: Vec<String> = decided(&object, &observed)
        .actions
        .into_iter()
        .filter_map(|action| match action {
            Action::Bucket { change: Change::DeleteObjects { keys, .. }, .. } => Some(keys),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(deleted.len(), 4, "{deleted:?}");
    assert!(deleted.iter().all(|key| !key.contains(best)), "{deleted:?}");
}

#[test]
fn what_runs_now_is_not_deleted() {
    let mut object = after_each();
    object.spec.retention = serde_json::from_value(serde_json::json!({ "keepLast": 1 })).expect("rules");
    let mut observed = with(&object, &[OLD, NEW], now());
    let deletes =
        |observed: &Observed| decided(&object, observed).actions.iter().any(|it| matches!(it, Action::Bucket { .. }));
    assert!(deletes(&observed));
    observed.verifications = vec![job(&object, OLD, None, None)];
    assert!(!deletes(&observed));
}

#[test]
fn of_reported_jobs_only_the_newest_stay() {
    let mut object = after_each();
    let ids: Vec<String> = (1..6).map(|hour| format!("20261122T0{hour}0000Z")).collect();
    let complete: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut observed = with(&object, &complete, now());
    let jobs = complete.iter().zip(0..).map(|(id, seconds)| job(&object, id, None, Some(seconds)));
    observed.verifications = jobs.collect();
    let plan = decided(&object, &observed);
    assert!(words(&plan).iter().all(|word| word == "Tell(Verified)"), "what is news stays: {:?}", words(&plan));
    object = after_plan(&object, plan, now());
    let expected = ids[..2].iter().map(|id| format!("Forget({})", name(&object, id, None)));
    assert_eq!(words(&decided(&object, &observed)), expected.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn verifications_are_no_backups() {
    let object = after_each();
    let mut observed = with(&object, &[NEW], now());
    observed.verifications = vec![job(&object, NEW, Some("damaged"), Some(0))];
    let plan = decided(&object, &observed);
    assert_eq!((plan.status.last_failure, plan.status.ended), (None, vec![name(&object, NEW, None)]));
    let overdue = plan.parts.iter().find(|part| part.type_ == "BackupOverdue").map(|part| part.status);
    assert_eq!(overdue, Some(ConditionStatus::False));
    assert!(matches!(plan.actions.as_slice(), [Action::Tell { what: Ended::Verification, success: false, .. }]));
}

#[test]
fn recent_backups_say_whether_they_were_proven() {
    let mut object = after_each();
    let mut observed = with(&object, &[OLD, NEW], now());
    for id in [OLD, NEW] {
        let due = due_of(id).expect("an ID");
        observed.manifests.insert((FOLDER.into(), due), manifest(due));
    }
    let verdicts = |object: &DatabaseBackup, observed: &Observed| -> BTreeMap<String, Option<bool>> {
        let recent = decided(object, observed).status.recent;
        recent.into_iter().map(|run| (run.id, run.verified)).collect()
    };
    observed.verifications = vec![job(&object, NEW, Some("damaged"), Some(0))];
    let expected = BTreeMap::from([(OLD.to_owned(), None), (NEW.to_owned(), Some(false))]);
    assert_eq!(verdicts(&object, &observed), expected);
    // The Job is deleted later, and manifests are not read again.
    object = after_plan(&object, decided(&object, &observed), now());
    let observed = Observed { verifications: Vec::new(), manifests: BTreeMap::new(), ..observed };
    assert_eq!(verdicts(&object, &observed), expected);
}

#[test]
fn an_outage_is_caught_up_with_once() {
    let mut object = on_schedule("0 * * * *");
    let plan = decided(&object, &with(&object, &[NEW], now()));
    assert!(plan.actions.is_empty(), "nothing is due from before the schedule was set");
    assert_eq!(plan.status.next_verification.as_ref().map(|time| time.0), Some(instant("2026-11-22T13:00:00Z")));
    assert_eq!(plan.requeue, None, "the sweep goes on");
    object = after_plan(&object, plan, now());
    let early = instant("2026-11-22T12:59:00Z");
    let plan = decide(&object, &with(&object, &[NEW], early), early);
    assert_eq!((plan.actions.len(), plan.requeue), (0, Some(std::time::Duration::from_mins(1))));
    // The operator was down for hours.
    let late = instant("2026-11-22T17:30:00Z");
    let mut observed = with(&object, &[NEW], late);
    let plan = decide(&object, &observed, late);
    let due = Some("2026-11-22T17:00:00Z");
    assert_eq!(words(&plan), [format!("Verify(Job {})", name(&object, NEW, due))]);
    let end = End { at: late, failure: None };
    let made = Job { name: name(&object, NEW, due), end: Some(end), ..Job::default() };
    observed.verifications = vec![Verification { job: made, ..job(&object, NEW, None, None) }];
    object = after_plan(&object, decide(&object, &observed, late), late);
    assert_eq!(condition(&object).expect("a condition").0, "True");
    let plan = decide(&object, &look(&object, &observed, &[NEW], late), late);
    assert!(plan.actions.is_empty(), "once");
    object = after_plan(&object, plan, late);
    // The next time the same backup is proven again, by a Job of its own: what is stored may have changed.
    let next = instant("2026-11-22T18:00:00Z");
    let plan = decide(&object, &look(&object, &observed, &[NEW], next), next);
    assert_eq!(words(&plan), [format!("Verify(Job {})", name(&object, NEW, Some("2026-11-22T18:00:00Z")))]);
}

#[test]
fn databases_are_verified_in_turn() {
    let mut object = after_each();
    let mut observed = settled(&object);
    let mut other = observed.sources[0].clone();
    other.access.source.folder = "redis-a".into();
    other.access.source.title = "Redis a".into();
    observed.sources.insert(0, other);
    let keys = |id: &str| {
        [FOLDER, "redis-a", "redis-gone"]
            .map(|folder| ["data", "manifest.json"].map(|file| format!("p/{folder}/{id}/{file}")))
    };
    let all = |ids: &[&str]| {
        let keys = ids.iter().flat_map(|id| keys(id)).flatten();
        let objects = keys.map(|key| Object { key, size: 1, modified: now() }).collect();
        Some(causeway_backup::jobs::Catalog::new("p/", &Listing { objects, cut: false }, Vec::new()))
    };
    observed.catalog = all(&[OLD]);
    let next = |object: &DatabaseBackup, observed: &Observed| {
        candidate(object, observed, &When::AfterEach, now()).map(|it| it.0)
    };
    assert_eq!(next(&object, &observed).as_deref(), Some("redis-a"));
    for (folder, seconds, then) in [("redis-a", 0, Some(FOLDER)), (FOLDER, 60, None)] {
        let done = Verification { folder: folder.into(), ..job(&object, OLD, None, Some(seconds)) };
        let name = names::job_verify(&object, folder, OLD, None);
        observed.verifications = vec![Verification { job: Job { name, ..done.job }, ..done }];
        assert_eq!(next(&object, &observed).as_deref(), then, "a database that is gone has no turn");
        object = after_plan(&object, decided(&object, &observed), now());
    }
    observed.catalog = all(&[OLD, NEW]);
    assert_eq!(next(&object, &observed).as_deref(), Some("redis-a"));
    observed.unprovable.insert("redis-a".into(), ("PolicyDenied", "evil/redis:7 is not allowed here".into()));
    assert_eq!(next(&object, &observed).as_deref(), Some(FOLDER), "policies deny the server of the other");
    let Health::Stalled(cause) = decided(&object, &observed).health else { panic!("it is told") };
    assert_eq!(cause.reason, "PolicyDenied");
    assert!(cause.message.contains("redis-a are not proven: evil/redis:7 is not"), "{}", cause.message);
}

#[test]
fn a_deleted_backup_gives_way_to_the_earlier() {
    let mut object = after_each();
    let mut observed = with(&object, &[OLD], now());
    observed.verifications = vec![job(&object, OLD, None, Some(0)), job(&object, NEW, Some("there is none"), Some(60))];
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), ["Tell(Verified)"]);
    object = after_plan(&object, plan, now());
    // Another backup is there when its verification fails, and is deleted then.
    let another = "20261122T100000Z";
    observed.verifications.push(job(&object, another, Some("damaged"), Some(120)));
    let observed = look(&object, &observed, &[OLD, another], now());
    object = after_plan(&object, decided(&object, &observed), now());
    assert_eq!(condition(&object).expect("a condition").0, "False");
    let observed = look(&object, &observed, &[OLD], now());
    let plan = decided(&object, &observed);
    assert!(plan.actions.is_empty(), "{:?}", plan.actions);
    object = after_plan(&object, plan, now());
    assert_eq!(condition(&object).expect("a condition").0, "True");
    assert!(decided(&object, &observed).actions.is_empty(), "and that stays");
    // Nothing is left at all.
    let plan = decided(&object, &look(&object, &observed, &[], now()));
    assert!(plan.actions.is_empty() && plan.status.verified.is_empty());
}

#[test]
fn backups_that_all_failed_their_verification_cannot_be_restored() {
    let object = after_each();
    let mut observed = with(&object, &[OLD], now());
    observed.verifications = vec![job(&object, OLD, Some("redis-cache: the backup is damaged"), Some(0))];
    let plan = decided(&object, &observed);
    let restorable = |plan: &Plan<Action, DatabaseBackupStatus>| {
        let part = plan.parts.iter().find(|part| part.type_ == "Restorable").expect("a condition");
        (part.status, part.reason)
    };
    assert_eq!(restorable(&plan), (ConditionStatus::False, "VerificationFailed"));
    let Health::Stalled(cause) = &plan.health else { panic!("{:?}", plan.health) };
    assert_eq!(cause.reason, "VerificationFailed");
    assert!(cause.message.starts_with("the only backup failed its verification: backup 2026"), "{}", cause.message);
    let object = after_plan(&object, plan, now());
    let plan = decided(&object, &look(&object, &observed, &[OLD, NEW], now()));
    assert_eq!(restorable(&plan), (ConditionStatus::True, "BackedUp"), "another one may be good");
}

#[test]
fn an_unreadable_manifest_fails_without_a_job() {
    let mut object = after_each();
    let mut observed = with(&object, &[NEW], now());
    let key = (FOLDER.to_owned(), due_of(NEW).expect("an ID"));
    observed.manifests.clear();
    observed.unreadable = Some((key, "expected value at line 1".into()));
    let plan = decided(&object, &observed);
    assert_eq!(words(&plan), ["Tell(VerificationFailed)"]);
    object = after_plan(&object, plan, now());
    assert!(condition(&object).expect("a condition").2.contains("ManifestInvalid: its manifest cannot be read"));
    assert_eq!(candidate(&object, &observed, &When::AfterEach, now()), None, "it is not read again and again");
}

#[test]
fn suspended_objects_verify_nothing() {
    let object = after_each();
    let mut observed = with(&object, &[OLD], now());
    observed.verifications = vec![job(&object, OLD, None, Some(0))];
    let mut done = after_plan(&object, decided(&object, &observed), now());
    assert!(condition(&done).is_some());
    done.spec.suspend = true;
    let newer = look(&done, &observed, &[OLD, NEW], now());
    assert!(!words(&decided(&done, &newer)).iter().any(|word| word.starts_with("Verify")));
    assert!(condition(&after_plan(&done, decided(&done, &newer), now())).is_some());
    for suspend in [true, false] {
        (done.spec.verify, done.spec.suspend) = (None, suspend);
        let plan = decided(&done, &newer);
        assert!(!words(&plan).iter().any(|word| word.starts_with("Verify")));
        assert_eq!(condition(&after_plan(&done, plan, now())), None);
    }
}
