//! Space is given back by schedule, one member after the other, while clients write.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use causeway_api::EtcdCluster;
use causeway_api::etcdcluster::DefragStatus;
use etcd_client::CompactionOptions;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::checker::Checker;
use super::space::{VALUE, of_service};
use super::{NAME, Stage, WAIT_TIMEOUT, becomes, bystander, running, says, settled, spec, stalls, took, uids};
use crate::support::wait::wait_within;
use crate::support::{Operator, Scene};

/// How many values are written, and compacted away again.
const WASTED: usize = 48;
/// In bytes: more than a defragmented database has, and less than one that was not defragmented.
const MUCH: i64 = 24 * 1024 * 1024;
/// How soon the minute of the schedule comes: the operator must have seen the edit before.
const AHEAD: SignedDuration = SignedDuration::from_secs(150);
/// Long enough until that minute has come, and each member has had its turn.
const LONG: Duration = Duration::from_mins(8);

/// A schedule of one minute a day, which is about to come.
fn schedule_soon() -> String {
    let minute = TimeZone::UTC.to_datetime(Timestamp::now() + AHEAD);
    format!("{} {} * * *", minute.minute(), minute.hour())
}

/// Writes much to every member, and compacts it away; returns when all databases are large and nearly empty.
async fn waste(scene: &Scene) {
    let mut client = of_service(scene).await;
    for _ in 0..WASTED {
        let begun = Instant::now();
        // On a busy disk a write may take too long.
        while let Err(error) = client.put("waste", vec![b'x'; VALUE], None).await {
            assert!(begun.elapsed() < WAIT_TIMEOUT, "{error}");
        }
    }
    let begun = Instant::now();
    let last = client.put("waste", "", None).await.expect("a write").header().expect("a header").revision();
    while let Err(error) = client.compact(last, Some(CompactionOptions::new().with_physical())).await {
        assert!(begun.elapsed() < WAIT_TIMEOUT, "{error}");
    }
    let is_empty =
        |sizes: &BTreeMap<String, (i64, i64)>| sizes.values().all(|(size, in_use)| *size > MUCH && *in_use < MUCH / 2);
    let look = || async {
        // Compacted history counts as unused only after a later write.
        client.clone().put("after", "", None).await.ok();
        sizes(scene).await
    };
    wait_within(WAIT_TIMEOUT, "databases that are large and nearly empty", look, is_empty).await;
}

/// Bytes of each member's database, and how many of them are in use, as soon as all members answer.
async fn sizes(scene: &Scene) -> BTreeMap<String, (i64, i64)> {
    let look = || async {
        let members = bystander::statuses(scene).await.into_iter();
        let sizes = members.map(|(name, status)| status.map(|status| (name, (status.db_size, status.db_in_use))));
        sizes.collect::<Option<BTreeMap<_, _>>>()
    };
    wait_within(WAIT_TIMEOUT, "the sizes of all databases", look, Option::is_some).await.expect("just seen")
}

fn record(object: &EtcdCluster) -> Option<&DefragStatus> {
    object.status.as_ref()?.defrag.as_ref()
}

/// Makes an edit that concerns no member, and waits until the operator has observed it.
async fn looked_at(scene: &Scene, edit: Value) {
    let generation = scene.edit::<EtcdCluster>(NAME, edit).await.metadata.generation;
    let seen = |object: &EtcdCluster| {
        object.status.as_ref().is_some_and(|status| status.observed_generation == generation)
            && says(object, "Ready", "True")
    };
    becomes(scene, "the edit to be observed", seen).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scheduled_defragmentation_goes_member_by_member_once() {
    let scene = Stage::new("etcd-defrag").await;
    let operator = Operator::start(&scene).await;
    // With logins: the operator must log in before it may defragment.
    let mut guarded = spec(3);
    guarded["auth"] = json!({ "enabled": true });
    running(&scene, guarded).await;
    waste(&scene).await;
    let (members, leader) = (uids(&scene).await, bystander::leader(&scene).await);
    let checker = Checker::start(&scene).await;
    let schedule = schedule_soon();
    looked_at(&scene, json!({ "defrag": { "schedule": schedule } })).await;
    assert!(sizes(&scene).await.values().all(|(size, _)| *size > MUCH), "no member has had its turn yet");
    let begun = Instant::now();
    let api = scene.api::<EtcdCluster>();
    let is_over =
        |object: &EtcdCluster| record(object).is_some_and(|it| it.last_defragmented.is_some() && it.members.is_empty());
    let look = || async { api.get(NAME).await.expect("the object") };
    let object = wait_within(LONG, "the schedule to be followed", look, is_over).await;
    took("three members defragmented, the time until the minute came included", begun);
    let record = record(&object).expect("a record");
    assert!(record.done_until.0 >= record.last_defragmented.clone().expect("a time").0, "{record:?}");
    let now = sizes(&scene).await;
    assert!(now.values().all(|(size, _)| *size < MUCH), "{now:?}");
    // After an election in between, the same member may lead again: then only the event tells that leadership moved.
    if bystander::leader(&scene).await == leader {
        scene.has_event(NAME, "LeaderMoved", "Moved leadership from").await;
    }
    assert_eq!(uids(&scene).await, members, "no pod was replaced");
    settled(&scene, "all members as before").await;

    // There is much unused space again, but an operator that has just started must not repeat the defragmentation.
    operator.stop().await;
    waste(&scene).await;
    let _another = Operator::start(&scene).await;
    looked_at(&scene, json!({ "deletionPolicy": "Delete" })).await;
    assert!(sizes(&scene).await.values().all(|(size, _)| *size > MUCH), "the minute is over");
    checker.goes_on("the schedule followed").await;
    let report = checker.finish(&scene, "three members defragmented by schedule").await;
    assert!(report.longest_gap < WAIT_TIMEOUT, "a majority served all the time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_cannot_be_followed_is_told() {
    let scene = Stage::new("etcd-defrag").await;
    let _operator = Operator::start(&scene).await;
    running(&scene, spec(1)).await;
    let before = uids(&scene).await;
    for (edit, field, words) in [
        (json!({ "defrag": { "schedule": "0 25 * * *" } }), "spec.defrag.schedule", "0 25 * * *"),
        (json!({ "defrag": { "schedule": "at night" } }), "spec.defrag.schedule", "five fields"),
        (json!({ "defrag": null, "backupSchedule": "0 0 31 2 *" }), "spec.backupSchedule", "never comes"),
        (json!({ "backupSchedule": "0 2 * * 7" }), "spec.backupSchedule", "must be from 0 to 6"),
    ] {
        scene.edit::<EtcdCluster>(NAME, edit).await;
        let (reason, message) = stalls(&scene, &format!("a message about {field}")).await;
        assert_eq!(reason, "ScheduleInvalid");
        assert!(message.contains(field) && message.contains(words), "{message}");
    }
    scene.edit::<EtcdCluster>(NAME, json!({ "backupSchedule": null })).await;
    settled(&scene, "the mistakes corrected").await;
    assert_eq!(uids(&scene).await, before, "no pod was touched");
}
