//! Tests of listings where more is in S3 than is read at once.

use jiff::SignedDuration;
use serde_json::json;

use causeway_aws::s3::fake::Fake;
use causeway_backup::jobs::Settings;
use causeway_backup::plan::{BASE, WAL};
use causeway_backup::record::Evidence;
use causeway_runtime::denied::denying_apiserver;
use causeway_runtime::guardrails::Guardrails;

use super::super::decide::{restore, target};
use super::*;

/// More of them than are read at once, for their keys are long.
const MANY: i64 = 8000;

fn due(number: i64) -> Timestamp {
    "2024-11-01T00:00:00Z".parse::<Timestamp>().expect("an instant") + SignedDuration::from_mins(5 * number)
}

/// Returns the prefix of the keys of an object. The bound is in bytes, so long keys take fewer objects to reach it.
fn base() -> String {
    format!("shop/{}/u1", "x".repeat(640))
}

/// Keys of backups every five minutes.
fn keys(folder: &str, numbers: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    let under = format!("{}/{folder}", base());
    numbers
        .flat_map(move |number| ["data", "manifest.json"].map(|file| format!("{under}/{}/{file}", id_of(due(number)))))
}

async fn observing(keys: impl IntoIterator<Item = String>) -> (Observer, At, Fake) {
    let fake = Fake::with_keys(keys, &due(MANY).to_string()).await;
    let (client, _) = denying_apiserver();
    let observer = Observer::new(client, fake.s3.clone(), Settings::default(), Guardrails::default());
    let at = At { place: fake.place.clone(), owner: "111122223333".into() };
    (observer, at, fake)
}

fn origin(at: &At) -> Destination {
    Destination {
        bucket: at.place.bucket.clone(),
        owner: at.owner.clone(),
        region: at.place.region.clone(),
        endpoint: at.place.endpoint.clone(),
        prefix: base(),
        storage_class: None,
        kms_key: None,
        bucket_encrypts: false,
    }
}

fn reason(choice: &Choice) -> &'static str {
    match choice {
        Choice::Refused(reason, _) => reason,
        _ => "another",
    }
}

#[tokio::test]
async fn a_folder_is_read_whole() {
    let (observer, at, fake) = observing(keys(WAL, 0..MANY)).await;
    let all = observer.in_folder(&at, &base(), Part { folder: WAL, since: None }, None).await.expect("an answer");
    let all = all.expect("all of it");
    assert!(!all.cut && all.complete(WAL).len() == 8000, "{}", all.complete(WAL).len());
    let before = fake.count_answers();
    let since = Some(due(MANY - 10));
    let log =
        observer.in_folder(&at, &base(), Part { folder: WAL, since }, None).await.expect("an answer").expect("some");
    assert_eq!(log.complete(WAL).len(), 2602, "9 days and the ten after them");
    assert_eq!(fake.count_answers() - before, 6, "a thousand keys in each call");
}

#[tokio::test]
async fn doubtful_backups_do_not_end_the_reading() {
    let (observer, at, _) = observing(keys(WAL, 0..MANY)).await;
    let mut record = Record::default();
    let evidence = |number| (due(number), Evidence::Manifest("ab".repeat(32)));
    record.backups.insert(WAL.into(), (0..10).chain(MANY - 10..MANY).map(evidence).collect());
    let part = Part { folder: WAL, since: Some(due(5)) };
    let found = async |record: Option<&Record>| {
        let found = observer.in_folder(&at, &base(), part, record).await.expect("an answer").expect("some");
        (found.cut, found.complete(WAL).len())
    };
    let (cut, count) = found(None).await;
    assert!(cut && count > MOST, "all of it counts: {count}");
    assert_eq!(found(Some(&record)).await, (false, 20), "others put the rest there");
}

#[tokio::test]
async fn log_that_ended_long_before_the_base_backup_is_found() {
    let (observer, at, _) = observing(keys(WAL, 0..10)).await;
    let since = Some(due(10) + SignedDuration::from_hours(20 * 24));
    let log =
        observer.in_folder(&at, &base(), Part { folder: WAL, since }, None).await.expect("an answer").expect("some");
    assert_eq!(log.complete(WAL).len(), 10);
}

#[tokio::test]
async fn log_is_found_in_a_partly_read_namespace() {
    let others = ["shop/a/u0/redis-cache/20261101T000000Z/data", "shop/a/u0/redis-cache/20261101T000500Z/data"];
    let (observer, at, _) = observing(keys(WAL, 0..MANY).chain(others.map(str::to_owned))).await;
    let part = Part { folder: WAL, since: Some(due(MANY - 10)) };
    let found = observer.catalogs(&at, "shop", Some(part)).await.expect("an answer").expect("a log");
    assert_eq!(found.all.keys().collect::<Vec<_>>(), [&base()]);
    assert_eq!(found.all[&base()].complete(WAL).last(), Some(&due(MANY - 1)));
    assert!(!found.cut, "all folders were seen");
    let within = observer.catalogs(&at, &format!("{}/{WAL}", base()), Some(part)).await.expect("an answer");
    assert_eq!(within.expect("a log").all.keys().collect::<Vec<_>>(), [&base()], "the prefix ends in the folder");
    let no = observer.catalogs(&at, "shop", None).await.expect("an answer").expect_err("refused");
    assert_eq!(reason(&no), "ListingCut");
}

#[tokio::test]
async fn what_is_only_named_like_the_folder_hides_no_log() {
    let id = id_of(due(MANY - 1));
    // An object that is named so, and what any client may put there.
    let named = format!("shop/{WAL}/u2");
    let its = ["data", "manifest.json"].map(|file| format!("{named}/{WAL}/{id}/{file}"));
    let stray = [format!("shop/{WAL}/x"), format!("shop/{WAL}/{id}/x"), format!("{named}/notes/{WAL}/x")];
    let (observer, at, _) = observing(keys(WAL, 0..MANY).chain(its).chain(stray)).await;
    let part = Part { folder: WAL, since: Some(due(MANY - 10)) };
    let found = observer.catalogs(&at, "shop", Some(part)).await.expect("an answer").expect("logs");
    assert!(!found.cut);
    assert_eq!(found.all.keys().collect::<Vec<_>>(), [&named, &base()]);
    assert_eq!(found.all[&named].complete(WAL).len(), 1);
    assert_eq!(found.all[&base()].complete(WAL).last(), Some(&due(MANY - 1)));
    let with = async |prefix: &str| {
        let found = observer.objects_with(&at, prefix, WAL).await.expect("an answer");
        found.map(|it| it.all)
    };
    assert_eq!(with(&named).await, Some(vec![named.clone()]), "the folder's name is in the prefix");
    assert_eq!(with(&format!("{named}/{WAL}")).await, Some(vec![named.clone()]));
    assert_eq!(with(&format!("{named}/{WAL}/{id}")).await, Some(vec![named.clone()]), "the prefix is of one backup");
    assert_eq!(with(&format!("shop/{WAL}")).await, Some(vec!["shop".to_owned(), named]), "there is an ID below it");
}

#[tokio::test]
async fn names_beside_ids_and_ids_beside_names_hide_no_log() {
    let id = id_of(due(MANY - 1));
    let object = |prefix: &str| ["data", "manifest.json"].map(|file| format!("{prefix}/{WAL}/{id}/{file}"));
    // Beyond the first thousand names: below folders with IDs, and beside more objects than one answer has.
    let (below, beside) = (format!("{}/{WAL}/notes", base()), "shop/z/u3".to_owned());
    let stray = (0..1200).map(|number| format!("shop/0/{number:04}"));
    let files = (0..1200).map(|number| format!("shop/{number:04}"));
    let all = keys(WAL, 0..MANY).chain(object(&below)).chain(object(&beside)).chain(stray).chain(files);
    let (observer, at, fake) = observing(all).await;
    let found = observer.objects_with(&at, "shop", WAL).await.expect("an answer").expect("objects");
    assert_eq!(found, Holders { all: vec![base(), below, beside], cut: false });
    assert!(fake.count_answers() < 40, "{}", fake.count_answers());
    let part = Part { folder: BASE, since: None };
    let none = observer.catalogs(&at, "shop", Some(part)).await.expect("an answer").expect("a whole search");
    assert!(none.all.is_empty() && !none.cut, "it is certain that there is none");
}

#[tokio::test]
async fn the_log_of_many_servers_is_found() {
    let id = id_of(due(0));
    let key = |number: usize, folder: &str| format!("shop/{folder}-{number:02}/u{number:02}/{folder}/{id}/data");
    let (observer, at, _) = observing((0..55).flat_map(|number| [BASE, WAL].map(|folder| key(number, folder)))).await;
    for folder in [BASE, WAL] {
        let found = observer.objects_with(&at, "shop", folder).await.expect("an answer").expect("objects");
        assert!(found.all.len() == 55 && !found.cut, "{folder}: {}", found.all.len());
    }
}

#[tokio::test]
async fn where_not_all_folders_are_seen_that_is_said() {
    let many = i64::try_from((FURTHER + 2) * 1000).expect("a number");
    let ids = (0..many).map(|number| format!("shop/a/u0/{WAL}/{}/data", id_of(due(number))));
    let (observer, at, _) = observing(ids).await;
    let found = observer.objects_with(&at, "shop", WAL).await.expect("an answer");
    assert_eq!(found, Some(Holders { all: vec!["shop/a/u0".into()], cut: true }));
    let (observer, at, _) = observing((0..many).map(|number| format!("shop/{number:06}"))).await;
    assert_eq!(observer.objects_with(&at, "shop", WAL).await.expect("an answer"), None, "nothing can be told");
    let (observer, at, _) = observing((0..=SEARCHED).map(|number| format!("shop/{number:06}/x"))).await;
    assert_eq!(observer.objects_with(&at, "shop", WAL).await.expect("an answer"), None, "too many to search");
}

#[tokio::test]
async fn the_latest_is_the_newest_recorded_in_s3() {
    let (observer, at, _) = observing(keys("redis-cache", 0..MANY)).await;
    let mut record = Record::default();
    let evidence = |number| (due(number), Evidence::Manifest("ab".repeat(32)));
    // The last two are gone.
    record.backups.insert("redis-cache".into(), (0..MANY + 2).map(evidence).collect());
    let (origin, target) = (origin(&at), target("7.0.15"));
    let picked = async |object: &DatabaseRestore, record: Option<&Record>| {
        let found = observer.catalog(object, &origin, &target, record).await.expect("an answer");
        found.and_then(|catalog| pick(object, &catalog, &target))
    };
    let latest = restore(&json!({ "backup": "nightly" }));
    assert_eq!(picked(&latest, Some(&record)).await, Ok(("redis-cache".into(), due(MANY - 1))));
    let no = picked(&latest, None).await.expect_err("refused");
    assert_eq!(reason(&no), "ListingCut", "without a record, it is not known which one is the latest");
    let named = restore(&json!({ "backup": "nightly", "id": id_of(due(MANY + 1)) }));
    assert_eq!(reason(&picked(&named, Some(&record)).await.expect_err("it is gone")), "BackupMissing");
}
