//! Ticks of a schedule while operators die: each slot has exactly one run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use causeway_api::DatabaseBackup;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::ListParams;
use serde_json::json;

use super::stage::{NAME, Stage, WAIT_TIMEOUT, describe};
use crate::support::Operator;
use crate::support::wait::wait_within;

/// Number of operators that die.
const DEATHS: u32 = 50;
/// Slots that come meanwhile.
const SLOTS: i64 = 2;
/// Seconds for which operators still die after the last slot: what follows a run is tried, too.
const AFTERWARDS: i64 = 20;

/// When each operator dies, as a fraction of the whole time: the same in every run.
fn instants() -> impl Iterator<Item = f64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut instants: Vec<f64> = (0..DEATHS)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            f64::from(u16::try_from(state % 10_000).expect("it is smaller")) / 10_000.0
        })
        .collect();
    instants.sort_by(f64::total_cmp);
    instants.into_iter()
}

/// The name of the backup that was due in that minute since the epoch.
fn id(minute: i64) -> String {
    let instant = Timestamp::from_second(minute * 60).expect("a time").to_zoned(TimeZone::UTC);
    instant.strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_slot_has_exactly_one_run_whenever_operators_die() {
    let stage = Stage::new("backup-ticks").await;
    let mut operator = Operator::start(&stage).await;
    stage.redis("cache").await;
    stage.create::<DatabaseBackup>(NAME, json!({ "schedule": "* * * * *" })).await;
    stage.becomes("the schedule", |status| describe(status, "Ready").1 == "Scheduled").await;
    let made = stage.api::<CronJob>().get(NAME).await.expect("the CronJob").metadata.creation_timestamp;
    let first = made.expect("it was created").0.as_second().div_euclid(60) + 1;
    let last = first + SLOTS - 1;

    let begun = Timestamp::now();
    let span = (last * 60 + AFTERWARDS - begun.as_second()).max(1);
    for part in instants() {
        let at = begun + Duration::from_secs(span.unsigned_abs()).mul_f64(part);
        let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        tokio::time::sleep(left).await;
        // Whatever the operator is doing ends here.
        drop(operator);
        operator = Operator::start(&stage).await;
    }

    let due: BTreeSet<String> = (first..=last).map(id).collect();
    let backups = || async {
        let mut objects: BTreeMap<String, usize> = BTreeMap::new();
        let is_signature = |key: &String| key.ends_with("/manifest.json.sig");
        for key in stage.keys(&stage.bucket()).await.into_iter().filter(|key| !is_signature(key)) {
            let id = key.rsplit('/').nth(1).unwrap_or_default().to_owned();
            *objects.entry(id).or_default() += 1;
        }
        objects
    };
    let whole = |objects: &BTreeMap<String, usize>| due.iter().all(|id| objects.get(id) == Some(&2));
    let objects = wait_within(WAIT_TIMEOUT, &format!("backups of {due:?}"), backups, whole).await;
    // More slots come meanwhile: later ones do not matter here.
    let early = objects.keys().filter(|key| **key <= id(last));
    assert!(early.eq(due.iter()), "one backup a slot: {objects:?}");
    let jobs = stage.api::<Job>().list(&ListParams::default()).await.expect("Jobs").items;
    let slots: Vec<&str> = jobs.iter().filter_map(|job| job.metadata.name.as_deref()?.rsplit('-').next()).collect();
    for minute in first..=last {
        let runs = slots.iter().filter(|slot| **slot == minute.to_string()).count();
        assert_eq!(runs, 1, "Jobs of {}: {slots:?}", id(minute));
    }
    let status = stage.has_backups(due.len()).await;
    assert!(status.last_failure.is_none(), "{:?}", status.last_failure);
    println!("» {DEATHS} operators died around {SLOTS} ticks: {} backups, one a slot", due.len());
}
