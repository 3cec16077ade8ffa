//! Which backups count.

use causeway_aws::s3::{Listing, Object};

use super::super::manifest::id_of;
use super::*;

const OLD: &str = "20261121T000000Z";
const NEW: &str = "20261122T000000Z";
const AHEAD: &str = "20991231T000000Z";

fn now() -> Timestamp {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

fn due(id: &str) -> Timestamp {
    due_of(id).unwrap()
}

fn catalog(ids: &[(&str, Timestamp)]) -> Catalog {
    let objects = ids.iter().flat_map(|(id, modified)| {
        ["data", "manifest.json"].map(|file| Object {
            key: format!("p/redis-a/{id}/{file}"),
            size: 1,
            modified: *modified,
        })
    });
    Catalog::new("p/", &Listing { objects: objects.collect(), cut: false }, Vec::new())
}

fn reported(id: &str, manifest: Option<&str>, error: Option<&str>) -> Reported {
    let (manifest, error) = (manifest.map(Into::into), error.map(Into::into));
    let outcome = Outcome { folder: "redis-a".into(), id: id.into(), manifest, error, ..Outcome::default() };
    let reports = vec![Report { results: vec![outcome], omitted: 0 }];
    Reported { job: "job".into(), reports, ..Reported::default() }
}

fn doubts(record: &Record, catalog: Catalog) -> Vec<(String, Doubt)> {
    let judged = record.judged(catalog, now());
    judged.doubtful().map(|(_, due, doubt)| (id_of(due), doubt)).collect()
}

#[test]
fn only_what_a_job_reported_counts() {
    let found = catalog(&[(OLD, now()), (NEW, now()), (AHEAD, now())]);
    let mut record = Record::default();
    record.note(&[reported(OLD, Some(&"a".repeat(64)), None)], &found, now());
    let expected = vec![(NEW.to_owned(), Doubt::NotRecorded), (AHEAD.to_owned(), Doubt::Future)];
    assert_eq!(doubts(&record, found.clone()), expected);
    assert_eq!(record.judged(found.clone(), now()).complete("redis-a"), [due(OLD)].into());
    assert_eq!(record.judged(found.clone(), now()).total().0, 1);
    // The report of a backup that is due in the future, or that failed, changes nothing.
    record.note(&[reported(AHEAD, Some(&"a".repeat(64)), None), reported(NEW, None, Some("no"))], &found, now());
    assert_eq!(doubts(&record, found.clone()), expected);
    // A second report of the same backup changes nothing.
    record.note(&[reported(OLD, Some(&"b".repeat(64)), None)], &found, now());
    assert_eq!(record.evidence("redis-a", due(OLD)), Some(&Evidence::Manifest("a".repeat(64))));
}

#[test]
fn backups_written_before_they_were_due_never_count() {
    let at = |minutes| due(NEW) - SignedDuration::from_mins(minutes);
    let (early, in_time) = (catalog(&[(NEW, at(11))]), catalog(&[(NEW, at(10))]));
    let mut record = Record::default();
    record.note(&[reported(NEW, Some(&"a".repeat(64)), None)], &early, now());
    assert_eq!(doubts(&record, early.clone()), [(NEW.to_owned(), Doubt::Early)]);
    assert!(doubts(&record, in_time).is_empty(), "clocks differ");
    let mut record = Record::default();
    record.note(&[reported(NEW, None, None)], &early, now());
    assert_eq!(doubts(&record, early.clone()), [(NEW.to_owned(), Doubt::Early)], "without a hash, too");
    assert_eq!(Record::default().accept(&early, now(), now()), 0, "not even to be accepted");
}

#[test]
fn a_report_without_a_hash_counts_what_lies_there() {
    let found = catalog(&[(OLD, now())]);
    let mut record = Record::default();
    record.note(&[reported(OLD, None, None)], &found, now());
    assert!(doubts(&record, found).is_empty());
    let later = catalog(&[(OLD, now() + SignedDuration::from_secs(1))]);
    assert_eq!(doubts(&record, later), [(OLD.to_owned(), Doubt::Changed)]);
}

#[test]
fn backups_cut_from_a_report_count_unless_failed() {
    let objects = ["redis-a", "redis-b", "redis-c"].into_iter().flat_map(|folder| {
        ["data", "manifest.json"].map(|file| Object {
            key: format!("p/{folder}/{NEW}/{file}"),
            size: 1,
            modified: now(),
        })
    });
    let found = Catalog::new("p/", &Listing { objects: objects.collect(), cut: false }, Vec::new());
    let mut job = reported(NEW, None, Some("no"));
    job.reports[0].omitted = 2;
    let mut record = Record::default();
    record.note(&[job], &found, now());
    assert_eq!(record.backups.keys().collect::<Vec<_>>(), ["redis-b", "redis-c"]);
}

#[test]
fn backups_cut_from_a_report_may_be_later() {
    let id = |seconds| id_of(due(NEW) + SignedDuration::from_secs(seconds));
    let found = catalog(&[(&id(-1), now()), (&id(3), now()), (&id(59), now()), (&id(60), now())]);
    let mut job = reported(NEW, Some(&"a".repeat(64)), None);
    job.reports[0].results[0].folder = "redis-b".into();
    job.reports[0].omitted = 1;
    let mut record = Record::default();
    record.note(&[job], &found, now());
    let dues: Vec<String> = record.backups["redis-a"].keys().map(|due| id_of(*due)).collect();
    assert_eq!(dues, [id(3), id(59)], "those of the minute before and after have reports of their own");
}

#[test]
fn backups_of_a_silent_job_count_as_listed() {
    let after = |minutes: i64| due(NEW) + SignedDuration::from_mins(minutes);
    let run = Reported { job: "job".into(), unreported: Some((after(0), after(60))), ..Reported::default() };
    let noted = |written: Timestamp| {
        let mut record = Record::default();
        record.note(std::slice::from_ref(&run), &catalog(&[(NEW, written)]), now());
        record.evidence("redis-a", due(NEW)).cloned()
    };
    for written in [after(-1), after(0), after(30), after(61)] {
        assert_eq!(noted(written), Some(Evidence::Listed(written)), "{written}");
    }
    let second = SignedDuration::from_secs(1);
    for written in [after(-1) - second, after(61) + second] {
        assert_eq!(noted(written), None, "{written}: another client wrote it");
    }
    let found = catalog(&[(OLD, after(-5)), (NEW, after(5)), ("20261122T000700Z", after(5)), (AHEAD, after(5))]);
    let mut record = Record::default();
    record.note(&[reported(NEW, Some(&"a".repeat(64)), None)], &found, now());
    record.note(&[run], &found, now());
    assert_eq!(record.backups["redis-a"].len(), 1, "none of before, none that was not due yet, and none twice");
    assert_eq!(record.evidence("redis-a", due(NEW)), Some(&Evidence::Manifest("a".repeat(64))));
}

#[test]
fn backups_with_a_hash_are_recorded_without_s3() {
    let hash = "a".repeat(64);
    let mut omitted = reported(NEW, Some(&hash), None);
    omitted.reports[0].omitted = 1;
    let unreported = Reported { unreported: Some((now(), now())), ..reported(NEW, Some(&hash), None) };
    for (job, counts, is_done) in [
        (reported(NEW, Some(&hash), None), true, true),
        (reported(NEW, None, Some("no")), false, true),
        (reported(NEW, None, None), false, false),
        (reported(NEW, Some("no hash"), None), false, false),
        (omitted, true, false),
        (unreported, true, false),
    ] {
        let mut record = Record::default();
        record.note_hashed(std::slice::from_ref(&job), now());
        assert_eq!(record.evidence("redis-a", due(NEW)).is_some(), counts, "{job:?}");
        assert_eq!(record.jobs.contains("job"), is_done, "{job:?}");
    }
}

#[test]
fn only_earlier_backups_are_accepted() {
    let before = now() - SignedDuration::from_hours(1);
    let found = catalog(&[(OLD, before), (NEW, now()), (AHEAD, before)]);
    let mut record = Record::default();
    assert_eq!(record.accept(&found, now(), now()), 1);
    let expected = vec![(NEW.to_owned(), Doubt::NotRecorded), (AHEAD.to_owned(), Doubt::Future)];
    assert_eq!(doubts(&record, found.clone()), expected);
    assert_eq!(record.accept(&found, now(), now()), 0, "once");
    assert_eq!(believed(found, now()).complete("redis-a").len(), 2, "without a record, the future counts neither");
}

/// So many backups of the log, one each minute from an instant on, as Jobs reported them.
fn minutes(first: Timestamp, count: usize) -> BTreeMap<Timestamp, Evidence> {
    let dues = (0..).map(|minutes| first + SignedDuration::from_mins(minutes)).take(count);
    dues.map(|due| (due, Evidence::Manifest("a".repeat(64)))).collect()
}

#[test]
fn a_record_never_forgets_kept_backups() {
    let mut record = Record::default();
    let (first, count) = (due(OLD), 30_005);
    record.backups.insert("postgresql-wal".into(), minutes(first, count));
    record.backups.entry("redis-gone".into()).or_default();
    record.tidy(&Catalog { cut: true, ..Catalog::default() }, &BTreeSet::new());
    assert_eq!(record.backups.keys().collect::<Vec<_>>(), ["postgresql-wal"]);
    assert_eq!(record.backups["postgresql-wal"].len(), count);
    let pages = record.pages.iter().map(|page| record.data_of(page.number)).chain([record.data()]);
    for data in pages {
        let bytes: usize = data.iter().map(|(key, text)| key.len() + text.len()).sum();
        assert!(bytes < 1024 * 1024, "{bytes}: a ConfigMap has room for it");
    }
}

#[test]
fn a_record_is_bounded_and_forgets_the_oldest() {
    let mut record = Record::default();
    let first = due(OLD);
    record.backups.insert("redis-a".into(), minutes(first, MOST + 5));
    record.tidy(&Catalog { cut: true, ..Catalog::default() }, &BTreeSet::new());
    assert_eq!(record.backups["redis-a"].len(), MOST);
    assert!(record.evidence("redis-a", first).is_none());
}

#[test]
fn deleted_backups_are_forgotten_unless_the_bucket_is_unread() {
    let mut record = Record::default();
    record.note(&[reported(OLD, Some(&"a".repeat(64)), None)], &Catalog::default(), now());
    record.tidy(&Catalog::default(), &["job".to_owned()].into());
    assert!(record.evidence("redis-a", due(OLD)).is_some() && record.jobs.contains("job"));
    record.tidy(&catalog(&[(NEW, now())]), &BTreeSet::new());
    assert_eq!(record, Record::default());
}
