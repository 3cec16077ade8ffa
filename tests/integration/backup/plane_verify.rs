//! Backups are proven: each one is restored into a temporary server, which finds damaged ones.

use causeway_api::{DatabaseBackup, DatabaseBackupStatus};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::stage::{NAME, NEVER, Stage, describe, redis_command};
use crate::support::scene::condition;
use crate::support::{Operator, wait_for};

/// Label of Jobs that prove a backup.
const VERIFIES: &str = "causeway.example.com/verifies";
const FOLDER: &str = "redis-cache";

/// Jobs that prove a backup: the name of the Job, and the ID of the backup.
async fn verifications(stage: &Stage) -> Vec<(String, String)> {
    let jobs = stage.api::<Job>().list(&ListParams::default().labels(VERIFIES)).await.expect("Jobs").items;
    jobs.into_iter().map(|job| (job.name_any(), job.labels()[VERIFIES].clone())).collect()
}

/// IDs of the backups of the Redis that were proven, and of those whose proof failed.
fn verdicts(status: &DatabaseBackupStatus) -> (Vec<&str>, Vec<&str>) {
    let of = |verdict| {
        let runs = status.recent.iter().filter(move |run| run.folder == FOLDER && run.verified == Some(verdict));
        runs.map(|run| run.id.as_str()).collect()
    };
    (of(true), of(false))
}

fn message(status: &DatabaseBackupStatus) -> String {
    condition(&status.conditions, "Verified").map(|(.., message)| message).unwrap_or_default()
}

/// Waits for an event; returns its note.
async fn event(stage: &Stage, reason: &str, words: &str) -> String {
    let look = || async { stage.events(NAME).await };
    let is_it = |(its, note): &(String, String)| its == reason && note.contains(words);
    let what = format!("an event {reason} about {words}");
    let events = wait_for(&what, look, |events| events.iter().any(is_it)).await;
    events.into_iter().find(is_it).map(|(_, note)| note).unwrap_or_default()
}

/// Flips one bit in the middle of a backup's data.
async fn flip(stage: &Stage, key: &str) {
    let bucket = stage.bucket();
    let answer = stage.s3.get_object().bucket(&bucket).key(key).send().await.expect("the data");
    let mut bytes = answer.body.collect().await.expect("their bytes").to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    stage.s3.put_object().bucket(&bucket).key(key).body(bytes.into()).send().await.expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_backup_is_proven_once_across_restarts() {
    let stage = Stage::new("verify-each").await;
    let operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    stage.etcd("prod-etcd").await;

    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": NEVER, "verify": { "afterEach": true } })).await;
    let untried = |status: &DatabaseBackupStatus| describe(status, "Verified") == ("Unknown".into(), "NotTried".into());
    stage.becomes("nothing to be proven yet", untried).await;
    stage.backup_now("first").await;
    let proven = |status: &DatabaseBackupStatus| {
        status.verified.len() == 2 && status.verified.iter().all(|it| it.ok) && describe(status, "Verified").0 == "True"
    };
    let status = stage.becomes("both backups to be proven", proven).await.status.expect("a status");
    assert!(status.recent.iter().all(|run| run.verified == Some(true)), "{:?}", status.recent);
    assert_eq!((status.recent.len(), &status.last_failure), (2, &None));
    let id = &status.recent[0].id;
    assert!(message(&status).contains(&format!("{id} of EtcdCluster prod-etcd")), "{}", message(&status));
    for source in ["EtcdCluster prod-etcd", "Redis cache"] {
        let note = event(&stage, "Verified", source).await;
        assert!(note.contains(id), "{note}");
    }
    let made = verifications(&stage).await;
    assert!(made.len() == 2 && made.iter().all(|(_, which)| which == id), "{made:?}");
    let read_metrics = || async { operator.metrics.encode().expect("metrics") };
    let gauge =
        format!("causeway_backup_last_verified_timestamp_seconds{{namespace=\"{}\",name=\"{NAME}\"}}", stage.namespace);
    wait_for("the gauge", read_metrics, |text| text.contains(&gauge)).await;

    // Even without the Jobs and with a new operator, nothing is proven twice.
    for (name, _) in &made {
        stage.api::<Job>().delete(name, &DeleteParams::background()).await.expect("the Job goes");
        stage.gone::<Job>(name).await;
    }
    operator.stop().await;
    let operator = Operator::start(&stage).await;
    stage.backup_now("second").await;
    let second = |status: &DatabaseBackupStatus| {
        status.recent.len() == 4 && status.recent.iter().all(|run| run.verified == Some(true))
    };
    stage.becomes("the second backups to be proven, too", second).await;
    let made = verifications(&stage).await;
    assert!(made.len() == 2 && made.iter().all(|(_, which)| which > id), "{made:?}");

    stage.delete::<DatabaseBackup>(NAME).await;
    stage.gone::<DatabaseBackup>(NAME).await;
    let read_metrics = || async { operator.metrics.encode().expect("metrics") };
    wait_for("the gauge to go with its object", read_metrics, |text| !text.contains(&gauge)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_bit_keeps_the_earlier_good_backup() {
    let stage = Stage::new("verify-damage").await;
    let _operator = Operator::start(&stage).await;
    let address = stage.redis("cache").await;
    let () = redis_command(&address, &["SET", "greeting", "hello"]).await;
    let spec = json!({ "schedule": NEVER, "retention": { "keepLast": 2 }, "verify": { "afterEach": true } });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    stage.backup_now("good").await;
    let status = stage.becomes("the first to be proven", |status| verdicts(status).0.len() == 1).await;
    let good = status.status.expect("a status").recent[0].id.clone();

    // Nothing is proven while the next backup is taken and damaged.
    stage.edit::<DatabaseBackup>(NAME, json!({ "verify": null })).await;
    stage.becomes("no verdict", |status| describe(status, "Verified").0.is_empty()).await;
    stage.backup_now("bad").await;
    let status = stage.has_backups(2).await;
    let bad = status.recent[0].id.clone();
    assert!(bad > good, "{bad} is the newer one");
    let prefix = format!("{}/{FOLDER}", status.prefix.expect("a prefix"));
    flip(&stage, &format!("{prefix}/{bad}/data")).await;
    let rules = json!({ "verify": { "afterEach": true }, "retention": { "keepLast": 1 } });
    stage.edit::<DatabaseBackup>(NAME, rules).await;
    let found_out = |status: &DatabaseBackupStatus| describe(status, "Verified").1 == "VerificationFailed";
    let status = stage.becomes("the damage to be found out", found_out).await.status.expect("a status");
    assert_eq!(describe(&status, "Verified").0, "False");
    assert_eq!(verdicts(&status), (vec![good.as_str()], vec![bad.as_str()]));
    let reported = message(&status);
    for words in [bad.as_str(), "Redis cache", "ChecksumMismatch", &format!("the newest that passed is {good}")] {
        assert!(reported.contains(words), "{reported}\nshould say: {words}");
    }
    // Events come when everything is done, including what retention deletes.
    let note = event(&stage, "VerificationFailed", &bad).await;
    assert!(note.contains("ChecksumMismatch"), "{note}");
    let keys = stage.keys(&stage.bucket()).await;
    for file in ["data", "manifest.json"] {
        assert!(keys.contains(&format!("{prefix}/{good}/{file}")), "the good one is kept: {keys:?}");
    }

    // A better backup takes the place of both.
    stage.backup_now("better").await;
    let better = |status: &DatabaseBackupStatus| {
        let (proven, _) = verdicts(status);
        describe(status, "Verified").0 == "True" && proven.first().is_some_and(|newest| **newest > *bad)
    };
    stage.becomes("a better one", better).await;
    let bucket = stage.bucket();
    let look = || stage.keys(&bucket);
    let only_it = |keys: &Vec<String>| keys.len() == 3 && keys.iter().all(|key| !key.contains(&good));
    wait_for("the others to be deleted", look, only_it).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_proves_the_newest_backup_each_time_it_comes() {
    let stage = Stage::new("verify-schedule").await;
    let _operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    let spec = json!({ "schedule": NEVER, "verify": { "schedule": "* * * * *" } });
    stage.create::<DatabaseBackup>(NAME, spec).await;
    stage.backup_now("only").await;
    let proven = |status: &DatabaseBackupStatus| verdicts(status).0.len() == 1;
    let object = stage.becomes("the backup to be proven", proven).await;
    let status = object.status.expect("a status");
    assert!(status.verification_due.is_some() && status.next_verification > status.verification_due);
    let first = status.verified[0].time.clone();
    // The same backup is proven again: what is stored may have changed meanwhile.
    let again = |status: &DatabaseBackupStatus| status.verified.iter().any(|it| it.ok && it.time > first);
    stage.becomes("it to be proven again", again).await;
    assert!(verifications(&stage).await.len() >= 2, "each proof has a Job of its own");
    stage.edit::<DatabaseBackup>(NAME, json!({ "verify": { "schedule": "0 25 * * *" } })).await;
    let refused = |status: &DatabaseBackupStatus| {
        let stalled = condition(&status.conditions, "Stalled");
        stalled
            .is_some_and(|(_, reason, message)| reason == "ScheduleInvalid" && message.contains("spec.verify.schedule"))
    };
    stage.becomes("a complaint", refused).await;
}
