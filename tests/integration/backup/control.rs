//! Backups that are asked for, kept and deleted.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::stage::{NAME, NEVER, Stage, WAIT_TIMEOUT, describe, redis_command};
use crate::support::Operator;
use crate::support::backends::apply_service;
use crate::support::wait::wait_within;
use crate::support::wait_for;

/// The annotation with what pods of Jobs do.
const PLAN: &str = "causeway.example.com/plan";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_database_of_the_namespace_is_backed_up() {
    let stage = Stage::new("backup-all").await;
    stage.admits_restricted_pods_only().await;
    let _operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    stage.etcd("prod-etcd").await;

    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER })).await;
    stage.backup_now("first").await;
    let status = stage.has_backups(2).await;
    assert_eq!(status.sources, ["EtcdCluster prod-etcd", "Redis cache"]);
    assert_eq!(status.bucket.as_deref(), Some(stage.bucket().as_str()));
    assert_eq!(describe(&status, "BucketReady"), ("True".into(), "Owned".into()));
    assert_eq!(describe(&status, "BackupOverdue").0, "False");
    let redis = status.recent.iter().find(|run| run.folder == "redis-cache").expect("a backup of the Redis");
    assert_eq!((redis.keys, redis.source.as_str()), (1, "Redis cache"));
    let status = stage.becomes("the token in the status", |status| status.backup_now.as_deref() == Some("first")).await;
    let status = status.status.expect("a status");
    assert!(status.last_success.is_some() && status.stored_bytes > 0 && status.last_failure.is_none());
    let prefix = status.prefix.expect("a prefix");
    let look = || async { stage.keys(&stage.bucket()).await };
    // Of each: data, manifest and signature.
    let keys = wait_for("two signed backups", look, |keys| keys.len() == 6).await;
    assert!(keys.iter().all(|key| key.starts_with(&format!("{prefix}/"))), "{keys:?}");

    let schedule = stage.api::<CronJob>().get(NAME).await.expect("the CronJob").spec.expect("a spec");
    assert_eq!((schedule.schedule.as_str(), schedule.time_zone.as_deref()), (NEVER, Some("Etc/UTC")));
    assert_eq!(schedule.concurrency_policy.as_deref(), Some("Forbid"));
    let jobs = stage.api::<Job>().list(&ListParams::default()).await.expect("Jobs").items;
    assert_eq!(jobs.len(), 1, "one Job for one token");
    wait_for(
        "events",
        || async { stage.events(NAME).await.into_iter().map(|(reason, _)| reason).collect::<Vec<_>>() },
        |reasons| {
            ["BucketCreated", "BackupStarted", "BackupSucceeded"].iter().all(|it| reasons.contains(&(*it).to_owned()))
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_takes_backups_while_the_operator_is_away() {
    let stage = Stage::new("backup-away").await;
    let operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": "* * * * *" })).await;
    stage.becomes("the schedule", |status| describe(status, "Ready").1 == "Scheduled").await;
    operator.stop().await;
    let look = || async { stage.keys(&stage.bucket()).await };
    wait_within(WAIT_TIMEOUT, "a backup", look, |keys| keys.iter().any(|key| key.ends_with("/manifest.json"))).await;
    let _operator = Operator::start(&stage).await;
    let status = stage.has_backups(1).await;
    let slot = &status.recent[0].id;
    assert!(slot.ends_with("00Z"), "{slot} is the instant it was due");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_by_others_are_reverted() {
    let stage = Stage::new("backup-drift").await;
    let _operator = Operator::start(&stage).await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER })).await;
    stage.becomes("nothing to back up", |status| describe(status, "Ready").1 == "NothingToBackUp").await;
    let patch = Patch::Merge(json!({ "spec": { "schedule": "* * * * *", "concurrencyPolicy": "Allow" } }));
    stage.api::<CronJob>().patch(NAME, &PatchParams::default(), &patch).await.expect("the edit");
    let schedules = stage.api::<CronJob>();
    let look = || async { schedules.get(NAME).await.expect("the CronJob").spec.expect("a spec") };
    wait_for("the schedule", look, |it| it.schedule == NEVER && it.concurrency_policy.as_deref() == Some("Forbid"))
        .await;
    let theirs = json!({ "metadata": { "annotations": { PLAN: "{}" } } });
    let theirs = Patch::Merge(json!({ "spec": { "jobTemplate": { "spec": { "template": theirs } } } }));
    schedules.patch(NAME, &PatchParams::default(), &theirs).await.expect("the edit");
    let look = || async { schedules.get(NAME).await.expect("the CronJob").spec.expect("a spec").job_template };
    wait_for("the plan", look, |it| {
        let template = it.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
        template.and_then(|it| it.annotations.as_ref()).is_some_and(|all| all[PLAN].contains("destination"))
    })
    .await;
    stage.api::<ServiceAccount>().delete("causeway-backup", &DeleteParams::default()).await.expect("the deletion");
    let accounts = stage.api::<ServiceAccount>();
    let look = || async { accounts.get_opt("causeway-backup").await.expect("an answer").is_some() };
    wait_for("the service account", look, |there| *there).await;
    // A database that is created later is found.
    stage.redis("cache").await;
    stage.becomes("the Redis", |status| status.sources == ["Redis cache"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_is_suspended_whatever_else_is_wrong() {
    let stage = Stage::new("backup-still").await;
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER })).await;
    stage.becomes("the schedule", |status| describe(status, "Ready").1 == "Scheduled").await;
    let schedules = stage.api::<CronJob>();
    let stands = || async { schedules.get(NAME).await.expect("the CronJob").spec.expect("a spec").suspend };
    wait_for("the schedule to go", stands, |still| *still == Some(false)).await;
    stage.emulator.fault(json!({ "kind": "access_denied", "service": "s3" })).await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "suspend": true, "timeZone": "Europe/Atlantis" })).await;
    wait_for("the schedule to stand still", stands, |still| *still == Some(true)).await;
    stage.has_event(NAME, "Held", NAME).await;
    stage.emulator.no_faults().await;
    stage.edit::<DatabaseBackup>(NAME, json!({ "suspend": false, "timeZone": "Europe/Berlin" })).await;
    wait_for("the schedule to go on", stands, |still| *still == Some(false)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_are_read_once_while_most_reads_of_s3_fail() {
    let stage = Stage::new("backup-reads").await;
    let operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER })).await;
    for count in 1..=4 {
        stage.backup_now(&format!("number-{count}")).await;
        stage.has_backups(count).await;
    }
    stage.has_signatures(4).await;
    operator.stop().await;
    let forgotten = Patch::Merge(json!({ "status": null }));
    let api = stage.api::<DatabaseBackup>();
    api.patch_status(NAME, &PatchParams::default(), &forgotten).await.expect("the status goes");
    let fault = json!({ "kind": "500", "service": "s3", "operation": "GetObject", "probability": 0.75, "seed": 7 });
    stage.emulator.fault(fault).await;
    stage.emulator.clear_journal().await;
    let _operator = Operator::start(&stage).await;
    stage.has_backups(4).await;
    let calls = stage.emulator.journal().await;
    let (read, failed): (Vec<_>, Vec<_>) = calls
        .iter()
        .filter(|call| call.operation == "GetObject")
        .partition(|call| call.outcome.as_deref() == Some("OK"));
    println!("» four manifests: {} reads, {} failed ones", read.len(), failed.len());
    assert!(failed.len() > 4, "most reads fail");
    assert_eq!(read.len(), 4, "{read:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_backups_that_a_rule_keeps_stay() {
    let stage = Stage::new("backup-keep").await;
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "retention": { "keepLast": 1 } })).await;
    stage.backup_now("one").await;
    let first = stage.has_backups(1).await.recent[0].id.clone();
    let prefix = stage.has_backups(1).await.prefix.expect("a prefix");
    // An object of another client among ours.
    let theirs = format!("{prefix}/redis-cache/notes.txt");
    let body = aws_sdk_s3::primitives::ByteStream::from_static(b"mine");
    stage.s3.put_object().bucket(stage.bucket()).key(&theirs).body(body).send().await.expect("an object");
    stage.backup_now("two").await;
    let replaced =
        |status: &DatabaseBackupStatus| status.backups == 1 && status.recent.len() == 1 && status.recent[0].id != first;
    let status = stage.becomes("the second backup alone", replaced).await.status.expect("a status");
    let look = || async { stage.keys(&stage.bucket()).await };
    let keys = wait_for("a signed backup, and nothing of the first", look, |keys| keys.len() == 4).await;
    let id = &status.recent[0].id;
    assert!(keys.contains(&theirs) && keys.iter().any(|key| key.contains(id)), "{keys:?}");
    assert_eq!(status.up_to_date.as_deref(), Some("1/1"));

    // A user deletes it all, at once: the operator may look at any time, and a part that is gone is another case.
    let named = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build().expect("a key"));
    let all = Delete::builder().set_objects(Some(named.collect())).build().expect("keys");
    stage.s3.delete_objects().bucket(stage.bucket()).delete(all).send().await.expect("a deletion");
    stage.s3.delete_bucket().bucket(stage.bucket()).send().await.expect("the bucket goes");
    let lost =
        |status: &DatabaseBackupStatus| describe(status, "BucketReady") == ("False".into(), "BackupsLost".into());
    let status = stage.becomes("the alarm", lost).await.status.expect("a status");
    assert_eq!((status.backups, status.recoverable), (0, None));
    stage.has_event(NAME, "BackupsLost", &format!("backups-lost={id}")).await;
    assert!(stage.s3.head_bucket().bucket(stage.bucket()).send().await.is_err(), "no bucket is made");
    let patch = json!({ "metadata": { "annotations": { "causeway.example.com/backups-lost": id } } });
    let api = stage.api::<DatabaseBackup>();
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await.expect("the annotation is taken");
    stage.becomes("a new bucket", |status| describe(status, "BucketReady").0 == "True").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_fails_says_why() {
    let stage = Stage::new("backup-fails").await;
    let _operator = Operator::start(&stage).await;
    let spec = json!({
        "schedule": NEVER, "retry": { "limit": 0, "deadline": "1800s" },
        "source": { "redisServer": { "address": "127.0.0.1:1" } },
    });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    stage.backup_now("one").await;
    let object = stage.becomes("a failure", |status| status.last_failure.is_some()).await;
    let status = object.status.expect("a status");
    let failure = status.last_failure.clone().expect("a failure");
    assert!(failure.message.contains("redisserver") && failure.reason != "BackoffLimitExceeded", "{failure:?}");
    assert_eq!(describe(&status, "Ready"), ("False".into(), "BackupFailed".into()), "there is nothing to restore");
    assert_eq!((status.backups, status.up_to_date.as_deref()), (0, Some("0/1")));
    for condition in ["BackupFailed", "BackupOverdue"] {
        assert_eq!(describe(&status, condition), ("True".into(), "NeverSucceeded".into()), "{condition}");
    }
}

/// The source does not answer yet, so the Job is tried again for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_deleted_while_running_is_a_failed_backup() {
    let stage = Stage::new("backup-deleted").await;
    let _operator = Operator::start(&stage).await;
    let spec = json!({
        "schedule": NEVER, "retry": { "limit": 6, "deadline": "1800s" },
        "source": { "redisServer": { "address": format!("late.{}.svc:6379", stage.namespace) } },
    });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    let object = stage.becomes("the schedule", |status| describe(status, "Ready").1 == "Scheduled").await;
    let status = object.status.expect("a status");
    assert_eq!(describe(&status, "Restorable"), ("False".into(), "NoBackupYet".into()));
    stage.backup_now("one").await;
    let object = stage.becomes("a Job that runs", |status| !status.running.is_empty()).await;
    let job = object.status.expect("a status").running[0].job.clone();
    stage.api::<Job>().delete(&job, &DeleteParams::background()).await.expect("the Job goes");

    let object = stage.becomes("the end of the Job", |status| status.running.is_empty()).await;
    let status = object.status.expect("a status");
    let failure = status.last_failure.clone().expect("a failure");
    assert_eq!((failure.reason.as_str(), &failure.job), ("JobDeleted", &job));
    assert!(failure.message.ends_with(&format!("kubectl causeway backup now {NAME}")), "{}", failure.message);
    let object = stage.becomes("a failure", |status| describe(status, "Ready").1 == "BackupFailed").await;
    assert_eq!(describe(&object.status.expect("a status"), "Ready").0, "False");

    stage.redis("cache").await;
    let selector = json!({ "causeway.example.com/redis": "cache" });
    apply_service(&stage, "late", json!({ "selector": selector, "ports": [{ "port": 6379 }] })).await;
    stage.backup_now("two").await;
    let good = |status: &DatabaseBackupStatus| {
        describe(status, "Restorable").0 == "True" && describe(status, "Ready").1 == "Scheduled"
    };
    let object = stage.becomes("a backup", good).await;
    assert_eq!(object.status.expect("a status").last_failure, None);
}
