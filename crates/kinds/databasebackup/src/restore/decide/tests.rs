//! Tests of the decisions, from the beginning to the end.

use serde_json::json;

use causeway_api::databaserestore::{RestoreAction, RestoreOutcome, Restored};
use causeway_api::{DatabaseBackup, Redis};
use causeway_aws::s3::{Listing, Object};
use causeway_backup::jobs::{Catalog, Doubt, End, Identity, Served, Settings, of_redis};
use causeway_backup::manifest::{Manifest as Backup, due_of};
use causeway_backup::plan::Destination;
use causeway_backup::record::Record;

use super::super::choice::{identity, pick, unencrypted, unfit, unrecorded};
use super::super::facts::{Note, Target};
use super::super::target::{NOT_NOTED, unnoted};
use super::*;

pub(in crate::restore) fn restore(from: &serde_json::Value) -> DatabaseRestore {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "DatabaseRestore",
        "metadata": { "name": "back", "namespace": "shop", "uid": "uid-1" },
        "spec": { "from": from, "target": { "redis": { "name": "cache" } } },
    });
    serde_json::from_value(object).expect("an object")
}

fn backup(kind: &str, version: &str) -> Backup {
    let (size, stored_size) = (1 << 20, 1 << 19);
    Backup { source: "Redis cache".into(), size, stored_size, ..Backup::sample(kind, version) }
}

pub(in crate::restore) fn target(version: &str) -> Target {
    let redis = json!({
        "apiVersion": "example.com/v1", "kind": "Redis", "metadata": { "name": "cache", "namespace": "shop" }, "spec": {},
    });
    let redis: Redis = serde_json::from_value(redis).expect("a Redis");
    let served = Served { version: Some(version.into()), ..Served::default() };
    Target { access: of_redis(&redis, true), kind: "redis", served, born: None }
}

fn chosen() -> Observed {
    let chosen = Chosen {
        manifest: backup("redis", "7.0.15"),
        sha256: "ab".repeat(32),
        folder: "redis-cache".into(),
        origin: Destination {
            bucket: "b".into(),
            owner: "111122223333".into(),
            region: "eu-west-1".into(),
            endpoint: None,
            prefix: "shop/nightly/uid-0".into(),
            storage_class: None,
            kms_key: None,
            bucket_encrypts: false,
        },
        target: target("7.0.15"),
        identity: None,
        note: Note::None,
        recovery: None,
    };
    Observed {
        settings: Settings {
            identity: Some(Identity::WebIdentity("role".into())),
            image: Some("causeway:1".into()),
            ..Settings::default()
        },
        choice: Choice::Made(Box::new(chosen)),
        ..Observed::default()
    }
}

fn latest() -> DatabaseRestore {
    restore(&json!({ "backup": "nightly" }))
}

fn decided(object: &DatabaseRestore, job: Job) -> Plan<Action, DatabaseRestoreStatus> {
    decide(object, &Observed { job: Some(job), ..Observed::default() }, Timestamp::UNIX_EPOCH)
}

fn job() -> Job {
    Job { ours: true, chosen: Some(("20261122T000500Z".into(), "Redis cache".into())), ..Job::default() }
}

#[test]
fn the_children_stay_as_they_were_reviewed() {
    let plan = decide(&latest(), &chosen(), Timestamp::UNIX_EPOCH);
    let values: Vec<serde_json::Value> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::Apply { child } => child.value.clone(),
            Action::Start { job, .. } => job.value.clone(),
        })
        .collect();
    insta::assert_yaml_snapshot!(values);
}

#[test]
fn a_recorded_job_that_lost_its_owner_is_followed() {
    let mut object = latest();
    let lost = Job { ours: false, lost: true, ..job() };
    let reason = |plan: &Plan<Action, DatabaseRestoreStatus>| match &plan.health {
        Health::Progressing(cause) | Health::Stalled(cause) | Health::Ready(cause) => {
            (cause.reason, cause.message.clone())
        }
        other => panic!("{other:?}"),
    };
    let (taken, message) = reason(&decided(&object, lost.clone()));
    assert!(taken == "NameTaken" && message.contains("kubectl -n shop delete job back-restore"), "{message}");
    object.status = Some(decided(&object, job()).status);
    let (fetching, message) = reason(&decided(&object, lost.clone()));
    assert!(fetching == "Fetching" && message.contains("lost its owner"), "{message}");
    let end = Some(End { at: Timestamp::UNIX_EPOCH, failure: None });
    let ended = decided(&object, Job { end, keys: Some(7), ..lost.clone() });
    assert_eq!((ended.status.phase, ended.status.keys), (RestorePhase::Succeeded, Some(7)));
    let later = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1);
    for (job, expected) in [
        (Job { made: later, ..lost.clone() }, "NameTaken"),
        (Job { lost: false, ..lost.clone() }, "NameTaken"),
        (Job { lost: false, left_over: true, ..lost }, "Pending"),
    ] {
        assert_eq!(reason(&decided(&object, job)).0, expected);
    }
}

#[test]
fn phases_follow_the_job_and_never_go_back() {
    let mut object = latest();
    let phases = [
        (job(), RestorePhase::Fetching),
        (Job { writing: true, ..job() }, RestorePhase::Restoring),
        // A second try fetches again.
        (job(), RestorePhase::Restoring),
    ];
    for (job, phase) in phases {
        let plan = decided(&object, job);
        assert!(plan.actions.is_empty() && plan.requeue.is_some());
        assert_eq!(plan.status.phase, phase);
        object.status = Some(plan.status);
    }
    let end = End { at: Timestamp::UNIX_EPOCH, failure: None };
    let note = Some("accounts left out: app@% (no)".to_owned());
    let noted = decided(&object, Job { end: Some(end.clone()), keys: Some(7), note, ..job() });
    let text = noted.status.message.unwrap_or_default();
    assert!(text.ends_with("is in the target: 7 keys; accounts left out: app@% (no)"), "{text}");
    let passed_over = Note::Lost("20261123T000500Z (1 in all)".into()).passed_over();
    let older = decided(&object, Job { end: Some(end.clone()), keys: Some(7), passed_over, ..job() });
    let text = older.status.message.unwrap_or_default();
    assert!(text.contains("newer ones that are not whole in S3 any more: 20261123T000500Z (1 in all)"), "{text}");
    let plan = decided(&object, Job { end: Some(end), keys: Some(7), ..job() });
    assert_eq!((plan.status.phase, plan.status.keys), (RestorePhase::Succeeded, Some(7)));
    assert_eq!(plan.status.backup_id.as_deref(), Some("20261122T000500Z"));
    assert!(matches!(plan.health, Health::Ready(_)));
}

#[test]
fn how_far_a_server_was_recovered_is_reported() {
    let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
    let until = at("2026-11-22T11:59:00Z");
    let job = Job { recovery: Some((132, Some(until))), recovering: true, ..job() };
    let plan = decided(&latest(), job.clone());
    assert!(matches!(&plan.health, Health::Progressing(cause) if cause.reason == "Recovering"), "{:?}", plan.health);
    let to = plan.status.recovered_to.expect("what it comes back from");
    assert_eq!((to.log_backups, to.until.map(|it| it.0), to.reached), (132, Some(until), None));

    let end = Some(End { at: Timestamp::UNIX_EPOCH, failure: None });
    let done = Job { end: end.clone(), keys: Some(7), reached: Some(at("2026-11-22T11:58:59.5Z")), ..job.clone() };
    let plan = decided(&latest(), done);
    let text = plan.status.message.unwrap_or_default();
    assert!(
        text.ends_with(
            "is in the target, with 132 backups of its log, as it was at 2026-11-22T11:59:00Z (the last transaction is of \
             2026-11-22T11:58:59.5Z): 7 keys"
        ),
        "{text}"
    );
    assert_eq!(plan.status.recovered_to.and_then(|it| it.reached).map(|it| it.0), Some(at("2026-11-22T11:58:59.5Z")));
    let all = decided(&latest(), Job { recovery: Some((0, None)), end, ..job });
    let text = all.status.message.unwrap_or_default();
    assert!(text.contains("with all that there is (nothing was committed since the base backup)"), "{text}");
}

#[test]
fn a_base_backup_alone_is_refused_with_the_field() {
    let (reason, text) = unfit(&backup("postgresql-base", "15.18"), &target("7.2.0")).expect("refused");
    assert!(reason == "InstantNotGiven" && text.contains("spec.pointInTime"), "{text}");
}

#[test]
fn the_secret_opens_base_backup_and_log() {
    let named = |names: &[Option<&str>], from: serde_json::Value| {
        let opens: Vec<Option<String>> = names.iter().map(|it| it.map(str::to_owned)).collect();
        let restore = restore(&from);
        identity(&restore.spec.from, "20261122T000500Z", &opens).map_err(|no| match no {
            Choice::Refused(reason, _) | Choice::Waiting(reason, _) => reason,
            _ => "another",
        })
    };
    let plain = || json!({ "backup": "base" });
    assert_eq!(named(&[], plain()), Ok(None));
    assert_eq!(named(&[Some("a")], plain()), Ok(Some("a".into())));
    assert_eq!(named(&[Some("a"), Some("b")], plain()), Err("IdentityAmbiguous"));
    assert_eq!(named(&[Some("a"), None], plain()), Err("IdentityMissing"));
    let both = json!({ "backup": "base", "identitySecretName": "both" });
    assert_eq!(named(&[Some("a"), Some("b")], both), Ok(Some("both".into())));
}

#[test]
fn a_retried_restore_reports_the_last_failure() {
    let words = "TargetUnreachable: redis-cache: the target cannot be written to: no such host";
    for writing in [false, true] {
        let plan = decided(&latest(), Job { writing, failed_try: Some(words.into()), ..job() });
        let Health::Progressing(cause) = &plan.health else { panic!("{:?}", plan.health) };
        assert_eq!(cause.reason, "Retrying");
        assert!(cause.message.ends_with(&format!("; the last try failed: {words}")), "{}", cause.message);
        assert_eq!(plan.status.message.as_ref(), Some(&cause.message));
    }
}

#[test]
fn a_restore_whose_pods_are_refused_says_so() {
    let stuck = Some(("PodsRefused", "Kubernetes refuses the pods (FailedCreate): exceeded quota".to_owned()));
    let plan = decided(&latest(), Job { stuck, ..job() });
    let Health::Progressing(cause) = &plan.health else { panic!("{:?}", plan.health) };
    assert_eq!(cause.reason, "PodsRefused");
    assert!(
        cause.message.ends_with("waits: Kubernetes refuses the pods (FailedCreate): exceeded quota"),
        "{}",
        cause.message
    );
    assert_eq!(plan.status.message.as_ref(), Some(&cause.message));
}

#[test]
fn pods_of_restores_have_the_specs_resources() {
    let mut object = latest();
    object.spec.resources = serde_json::from_value(json!({ "limits": { "memory": "4Gi" } })).expect("resources");
    let plan = decide(&object, &chosen(), Timestamp::UNIX_EPOCH);
    let started = plan.actions.iter().find_map(|action| match action {
        Action::Start { job, .. } => Some(job.value.to_string()),
        Action::Apply { .. } => None,
    });
    assert!(started.expect("a Job").contains(r#""limits":{"memory":"4Gi"}"#));
}

#[test]
fn a_dry_run_ends_with_what_it_would_do() {
    let mut object = latest();
    object.spec.dry_run = true;
    let plan = decided(&object, Job { writing: true, ..job() });
    assert_eq!(plan.status.phase, RestorePhase::Fetching, "the target is not written");
    let end = Some(End { at: Timestamp::UNIX_EPOCH, failure: None });
    let mut outlook = Outlook::default();
    outlook.add(RestoreAction::Replace, "tables", ["public.a", "public.b"]);
    outlook.count(RestoreAction::Create, "rows", 7);
    let plan = decided(&object, Job { end: end.clone(), outlook: Some(outlook.clone()), ..job() });
    assert_eq!((plan.status.phase, plan.status.keys), (RestorePhase::Planned, None));
    assert_eq!(plan.status.outlook.as_ref(), Some(&outlook.reported));
    let text = plan.status.message.clone().unwrap_or_default();
    assert!(text.contains("would replace 2 tables, create 7 rows; nothing was written"), "{text}");
    assert!(matches!(plan.health, Health::Ready(_)));

    outlook.refuse(&causeway_backup::Error::TargetNotEmpty { keys: 5 });
    let plan = decided(&object, Job { end: end.clone(), outlook: Some(outlook), ..job() });
    let text = plan.status.message.unwrap_or_default();
    assert!(text.contains("would be refused: TargetNotEmpty: the target holds 5 keys"), "{text}");
    // With the pod, its report is lost.
    let plan = decided(&object, Job { end, ..job() });
    assert_eq!(plan.status.reason.as_deref(), Some("OutlookLost"));
}

#[test]
fn what_has_ended_is_never_done_again() {
    for phase in [RestorePhase::Succeeded, RestorePhase::Failed, RestorePhase::Planned] {
        let mut object = latest();
        object.status = Some(DatabaseRestoreStatus { phase, ..DatabaseRestoreStatus::default() });
        let plan = decide(&object, &chosen(), Timestamp::UNIX_EPOCH);
        assert!(plan.actions.is_empty(), "{phase:?}");
        assert_eq!(plan.status.phase, phase);
    }
    let mut object = latest();
    object.status =
        Some(DatabaseRestoreStatus { job: Some("back-restore".into()), ..DatabaseRestoreStatus::default() });
    let plan = decide(&object, &chosen(), Timestamp::UNIX_EPOCH);
    assert!(plan.actions.is_empty());
    assert_eq!(plan.status.phase, RestorePhase::Failed, "a Job that a user deleted is not made again");
}

#[test]
fn a_failure_is_reported_in_the_jobs_words() {
    let failure = Some(("TargetNotEmpty".to_owned(), "Redis cache holds 5 keys: set spec.force".to_owned()));
    let end = End { at: Timestamp::UNIX_EPOCH, failure };
    let plan = decided(&latest(), Job { end: Some(end), ..job() });
    assert_eq!(plan.status.phase, RestorePhase::Failed);
    assert_eq!(plan.status.reason.as_deref(), Some("TargetNotEmpty"));
    let Health::Stalled(cause) = plan.health else { panic!("stalled") };
    assert!(cause.message.contains("TargetNotEmpty: Redis cache holds 5 keys: set spec.force"), "{}", cause.message);
}

#[test]
fn backups_of_other_kinds_or_newer_versions_are_refused() {
    assert_eq!(unfit(&backup("redis", "7.0.15"), &target("7.2.0")), None);
    assert_eq!(unfit(&backup("redis", "7.4.1"), &target("7.2.0")), None);
    assert_eq!(unfit(&backup("redis", "8.0.2"), &target("7.2.0")).map(|it| it.0), Some("TargetTooOld"));
    assert_eq!(unfit(&backup("etcd", "3.5.9"), &target("7.2.0")).map(|it| it.0), Some("KindMismatch"));
}

fn catalog(ids: &[(&str, &str, bool)]) -> Catalog {
    let object = |key: String| Object { key, size: 1, modified: Timestamp::UNIX_EPOCH };
    let keys = ids.iter().flat_map(|(folder, id, complete)| {
        let data = object(format!("p/{folder}/{id}/data"));
        [Some(data), complete.then(|| object(format!("p/{folder}/{id}/manifest.json")))].into_iter().flatten()
    });
    Catalog::new("p/", &Listing { objects: keys.collect(), cut: false }, Vec::new())
}

#[test]
fn the_latest_is_the_newest_complete_one() {
    let found = catalog(&[
        ("redis-cache", "20261122T000500Z", true),
        ("redis-cache", "20261122T001000Z", true),
        ("redis-cache", "20261122T001500Z", false),
    ]);
    let (folder, due) = pick(&latest(), &found, &target("7.0.15")).expect("a backup");
    assert_eq!((folder.as_str(), due.to_string().as_str()), ("redis-cache", "2026-11-22T00:10:00Z"));
    let old = restore(&json!({ "backup": "nightly", "source": "Redis/cache", "id": "20261122T000500Z" }));
    assert_eq!(pick(&old, &found, &target("7.0.15")).expect("a backup").1.to_string(), "2026-11-22T00:05:00Z");
    let cut = restore(&json!({ "backup": "nightly", "id": "20261122T001500Z" }));
    assert!(matches!(pick(&cut, &found, &target("7.0.15")), Err(Choice::Refused("BackupMissing", _))));
}

#[test]
fn of_several_databases_one_has_to_be_named() {
    let found = catalog(&[("redis-a", "20261122T000500Z", true), ("redis-b", "20261122T000500Z", true)]);
    let Err(Choice::Refused(reason, text)) = pick(&latest(), &found, &target("7.0.15")) else { panic!("refused") };
    assert_eq!(reason, "SourceAmbiguous");
    assert!(text.contains("spec.from.source") && text.contains("redis-a, redis-b"), "{text}");
    let named = restore(&json!({ "backup": "nightly", "source": "Redis/b" }));
    assert_eq!(pick(&named, &found, &target("7.0.15")).expect("a backup").0, "redis-b");
    let other = restore(&json!({ "backup": "nightly", "source": "Redis/c" }));
    assert!(matches!(pick(&other, &found, &target("7.0.15")), Err(Choice::Waiting("BackupMissing", _))));
    assert!(matches!(pick(&latest(), &catalog(&[]), &target("7.0.15")), Err(Choice::Waiting("BackupMissing", _))));
}

#[test]
fn a_recreated_database_gets_an_older_backup() {
    let at = |second: i64| Timestamp::from_second(second).expect("an instant");
    let object = |key: &str, second: i64| Object { key: format!("p/redis-cache/{key}"), size: 1, modified: at(second) };
    let keys = ["20261122T000500Z", "20261122T001000Z"].into_iter().zip([100, 200]).flat_map(|(id, second)| {
        [object(&format!("{id}/data"), second), object(&format!("{id}/manifest.json"), second)]
    });
    let found = Catalog::new("p/", &Listing { objects: keys.collect(), cut: false }, Vec::new());
    let picked = |target: &Target| pick(&latest(), &found, target).map(|(_, due)| due.to_string());
    let recreated = Target { born: Some(at(150)), ..target("7.0.15") };
    assert_eq!(picked(&recreated).as_deref(), Ok("2026-11-22T00:05:00Z"), "the second is of the empty one");
    assert_eq!(picked(&target("7.0.15")).as_deref(), Ok("2026-11-22T00:10:00Z"));
    let mut other = recreated.clone();
    other.access.source.folder = "redis-other".into();
    assert_eq!(picked(&other).as_deref(), Ok("2026-11-22T00:10:00Z"), "backups of others are no matter");
    let first = Target { born: Some(at(50)), ..recreated };
    assert!(matches!(pick(&latest(), &found, &first), Err(Choice::Refused("BackupMissing", _))));
}

#[test]
fn what_no_job_reported_is_refused_and_never_the_latest() {
    let mut found = catalog(&[("redis-cache", "20261122T000500Z", true), ("redis-cache", "20991231T000000Z", true)]);
    let forged = due_of("20991231T000000Z").expect("an ID");
    let mut doubt = |doubt| {
        let stored = found.folders.get_mut("redis-cache").and_then(|backups| backups.get_mut(&forged)).expect("it");
        stored.doubt = Some(doubt);
        found.clone()
    };
    for (doubt, words) in [
        (doubt(Doubt::NotRecorded), "was reported by no Job"),
        (doubt(Doubt::Future), "is due in the future"),
        (doubt(Doubt::Early), "was written before it was due"),
        (doubt(Doubt::Changed), "was written again after it was recorded"),
    ] {
        let (_, due) = pick(&latest(), &doubt, &target("7.0.15")).expect("a backup");
        assert_eq!(due.to_string(), "2026-11-22T00:05:00Z");
        let named = restore(&json!({ "backup": "nightly", "id": "20991231T000000Z" }));
        let Err(Choice::Refused("NotRecorded", text)) = pick(&named, &doubt, &target("7.0.15")) else {
            panic!("refused")
        };
        assert!(text.contains(words) && text.contains("spec.from.acceptUnrecorded"), "{text}");
    }
    found.folders.get_mut("redis-cache").expect("it").retain(|due, _| *due == forged);
    let Err(Choice::Waiting("BackupMissing", text)) = pick(&latest(), &found, &target("7.0.15")) else {
        panic!("waits")
    };
    assert!(text.contains("1 lie there and do not count, such as redis-cache/20991231T000000Z"), "{text}");
}

#[test]
fn backups_of_which_nothing_is_recorded_need_consent() {
    let backup: DatabaseBackup = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "DatabaseBackup",
        "metadata": { "name": "nightly", "namespace": "shop", "uid": "uid-0" }, "spec": { "schedule": "@daily" },
    }))
    .expect("an object");
    let uid = "5ee0e5f6-3a5c-4e6a-9d0c-6f5f0a3b8f11";
    let lost = restore(&json!({ "backup": "nightly", "uid": uid }));
    assert!(matches!(unrecorded(&latest(), &backup, None, None), Some(Choice::Waiting("NoBackup", _))));
    let Some(Choice::Refused("NotRecorded", text)) = unrecorded(&lost, &backup, Some(uid), None) else {
        panic!("refused")
    };
    assert!(text.contains(&format!("causeway-backups-{uid}")) && text.contains("acceptUnrecorded: true"), "{text}");
    assert_eq!(unrecorded(&lost, &backup, Some(uid), Some(&Record::default())), None);
    let consents = restore(&json!({ "backup": "nightly", "uid": uid, "acceptUnrecorded": true }));
    assert_eq!(unrecorded(&consents, &backup, Some(uid), None), None);
}

#[test]
fn encryption_that_is_asked_for_is_demanded() {
    let with_key = restore(&json!({ "backup": "nightly", "identitySecretName": "key" }));
    let consents = restore(&json!({ "backup": "nightly", "acceptUnencrypted": true }));
    let open = backup("redis", "7.0.15");
    let sealed = Backup { encryption: Some("age".into()), ..open.clone() };
    let refused = |restore: &DatabaseRestore, encrypts, manifest: &Backup| {
        unencrypted(restore, encrypts, manifest).map(|(reason, _)| reason)
    };
    let (plain, asks) = (false, true);
    assert_eq!(refused(&latest(), plain, &open), None);
    assert_eq!(refused(&latest(), asks, &open), Some("NotEncrypted"));
    assert_eq!(refused(&with_key, plain, &open), Some("NotEncrypted"));
    assert_eq!(refused(&consents, asks, &open), None);
    assert_eq!(refused(&latest(), asks, &sealed), None);
}

#[test]
fn a_databases_own_restore_waits_for_its_status() {
    let redis = |uid: &str| -> Redis {
        let metadata = json!({ "name": "cache", "namespace": "shop", "uid": uid });
        let object = json!({ "apiVersion": "example.com/v1", "kind": "Redis", "metadata": metadata, "spec": {} });
        serde_json::from_value(object).expect("a Redis")
    };
    let noted = |uid: &str, outcome| Restored { uid: Some(uid.into()), outcome, ..Restored::default() };
    let mut object = latest();
    assert_eq!(unnoted(&object, &redis("uid-2"), None), None, "its user made it, and no database");

    object.metadata.owner_references = kube::Resource::controller_owner_ref(&redis("uid-2"), &()).map(|it| vec![it]);
    let running = noted("uid-1", RestoreOutcome::Running);
    assert_eq!(unnoted(&object, &redis("uid-2"), Some(&running)), None);
    for (uid, restored) in [
        ("uid-2", None),
        ("uid-2", Some(noted("uid-9", RestoreOutcome::Running))),
        ("uid-2", Some(noted("uid-1", RestoreOutcome::Failed))),
        ("uid-2", Some(noted("uid-1", RestoreOutcome::Succeeded))),
        // The database was made again under the name of the one that asked.
        ("uid-3", Some(running)),
    ] {
        let no = unnoted(&object, &redis(uid), restored.as_ref());
        assert!(matches!(no, Some(Choice::Waiting(NOT_NOTED, _))), "{uid} {restored:?}");
    }
}
