//! Which base backup and which log are chosen.

use std::collections::BTreeMap;

use super::super::manifest::{Contents, due_of, id_of};
use super::super::plan::{BASE, WAL};
use super::*;

fn at_minute(minute: u8) -> Timestamp {
    format!("2026-11-22T00:{minute:02}:00Z").parse().unwrap()
}

fn document(kind: &str, minute: u8, facts: &[(&str, &str)]) -> Document {
    let facts = [("system", "7")].iter().chain(facts);
    let facts: BTreeMap<String, String> = facts.map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let manifest = Manifest {
        id: id_of(at_minute(minute)),
        started: at_minute(minute),
        contents: Contents { keys: 0, facts },
        ..Manifest::sample(kind, "15.18")
    };
    Document { manifest, sha256: String::new() }
}

fn name(timeline: u8, number: u8) -> String {
    format!("{timeline:08X}00000000{number:08X}")
}

/// Due at that minute, with the log up to half a second after it.
fn log(timeline: u8, from: u8, to: u8, minute: u8) -> Document {
    let until = format!("2026-11-22T00:{minute:02}:00.5Z");
    document(WAL, minute, &[("first", &name(timeline, from)), ("next", &name(timeline, to)), ("until", &until)])
}

/// The same on timeline 2, which began in that segment of timeline 1.
fn branched(branch: u8, log: Document) -> Document {
    let mut log = log;
    log.manifest.contents.facts.insert(chain::BRANCHES.into(), name(1, branch));
    log
}

/// The same, tried again until that minute, when it took its log.
fn late(minute: u8, log: Document) -> Document {
    let mut log = log;
    log.manifest.started = at_minute(minute);
    log.manifest.contents.facts.insert("until".into(), format!("2026-11-22T00:{minute:02}:00.5Z"));
    log
}

/// Began at minute 7, and was complete at minute 8.
fn base() -> Manifest {
    document(BASE, 7, &[("first", &name(1, 5)), ("until", "2026-11-22T00:08:00Z")]).manifest
}

/// Returns what is found among backups of the log, and how many of their manifests were read for that.
fn search(log: &[Document], until: Option<&str>) -> (Result<Vec<String>, Missing>, usize) {
    let (search, read) = searched(log, until.map(|it| it.parse().unwrap()));
    let found = search.end().map(|log| log.into_iter().map(|it| it.manifest.id[9..13].to_owned()).collect());
    (found, read)
}

/// The search when it is over, and how many manifests were read for it.
fn searched(log: &[Document], until: Option<Timestamp>) -> (LogSearch, usize) {
    let due = |it: &Document| due_of(&it.manifest.id).unwrap();
    let mut search = LogSearch::new(&base(), until, log.iter().map(due));
    let mut read = 0;
    while !search.next_reads().is_empty() {
        let wanted = search.next_reads().to_vec();
        read += wanted.len();
        search.take(wanted.iter().map(|wanted| log.iter().find(|it| due(it) == *wanted).cloned()));
    }
    (search, read)
}

fn found_ids(log: &[Document], until: Option<&str>) -> Result<Vec<String>, Missing> {
    search(log, until).0
}

fn whole() -> Vec<Document> {
    vec![log(1, 1, 3, 0), log(1, 3, 6, 5), log(1, 6, 6, 10), log(1, 5, 9, 15), branched(9, log(2, 9, 12, 20))]
}

#[test]
fn log_reaches_the_instant_without_a_hole() {
    assert_eq!(found_ids(&whole(), None).unwrap(), ["0005", "0010", "0015", "0020"]);
    assert_eq!(found_ids(&whole(), Some("2026-11-22T00:20:00Z")).unwrap(), ["0005", "0010", "0015", "0020"]);
    assert_eq!(found_ids(&whole(), Some("2026-11-22T00:10:00.5Z")).unwrap(), ["0005", "0010"]);
    assert_eq!(found_ids(&whole(), Some("2026-11-22T00:10:00.6Z")).unwrap(), ["0005", "0010", "0015"]);
}

#[test]
fn an_instant_beyond_the_log_is_refused_with_its_end() {
    let late = found_ids(&whole(), Some("2026-11-22T00:20:01Z")).unwrap_err();
    assert_eq!((late.clone(), late.reason()), (Missing::End("2026-11-22T00:20:00.5Z".into()), "LogTooShort"));
    assert!(late.to_string().contains("the log ends at 2026-11-22T00:20:00.5Z"), "{late}");
}

#[test]
fn a_hole_is_told_with_the_last_instant_before_it() {
    for lost in [2, 3] {
        let mut log = vec![log(1, 3, 6, 5), log(1, 6, 7, 10), log(1, 7, 8, 15), log(1, 8, 9, 20)];
        log.remove(lost - 1);
        let hole = found_ids(&log, Some("2026-11-22T00:19:00Z")).unwrap_err();
        let minute = if lost == 2 { "05" } else { "10" };
        assert_eq!(hole.reason(), "LogBroken");
        assert!(hole.to_string().contains(&format!("backup 20261122T00{minute}00Z ends before segment")), "{hole}");
        assert!(hole.to_string().contains(&format!("name 2026-11-22T00:{minute}:00.5Z or an earlier")), "{hole}");
        // A hole after the instant does not matter.
        assert!(found_ids(&log, Some("2026-11-22T00:05:00.5Z")).is_ok());
    }
    let back = found_ids(&[log(1, 3, 6, 5), branched(6, log(2, 6, 7, 10)), log(1, 7, 9, 15)], None).unwrap_err();
    assert!(back.to_string().contains("backup 20261122T001000Z ends before"), "a timeline never goes back: {back}");
    let mut without_first = log(1, 6, 7, 10);
    without_first.manifest.contents.facts.remove("first");
    assert_eq!(found_ids(&[log(1, 3, 6, 5), without_first], None).unwrap_err().reason(), "LogBroken");
}

#[test]
fn log_of_a_rewound_server_begins_at_the_branch() {
    let rewound = |from: u8| [log(1, 3, 9, 5), branched(6, log(2, from, 12, 15))];
    assert_eq!(found_ids(&rewound(6), None).unwrap(), ["0005", "0015"]);
    let hole = found_ids(&rewound(8), None).unwrap_err();
    let words = format!("ends before segment {}, and the next one that counts, 20261122T001500Z", name(2, 6));
    assert!(hole.reason() == "LogBroken" && hole.to_string().contains(&words), "{hole}");
}

#[test]
fn log_taken_late_is_in_its_place() {
    let all = [log(1, 3, 6, 5), late(14, log(1, 9, 10, 10)), log(1, 6, 9, 13), log(1, 10, 12, 15)];
    assert_eq!(found_ids(&all, None).unwrap(), ["0005", "0013", "0010", "0015"]);
    assert_eq!(found_ids(&all, Some("2026-11-22T00:13:00Z")).unwrap(), ["0005", "0013"]);
    assert_eq!(found_ids(&all, Some("2026-11-22T00:14:00Z")).unwrap(), ["0005", "0013", "0010"]);
    assert_eq!(found_ids(&all, Some("2026-11-22T00:15:00Z")).unwrap(), ["0005", "0013", "0010", "0015"]);
}

#[test]
fn late_log_is_found_beyond_the_first_reads() {
    // The base backup needs segment 5, which was taken last, and due first.
    let before = [log(1, 2, 3, 1), late(7, log(1, 5, 6, 3)), log(1, 3, 5, 6), log(1, 6, 8, 10)];
    assert_eq!(found_ids(&before, None).unwrap(), ["0003", "0010"]);
    assert_eq!(found_ids(&before, Some("2026-11-22T00:10:00Z")).unwrap(), ["0003", "0010"]);
    assert_eq!(found_ids(&before[..3], None).unwrap(), ["0003"], "it is the end of the log");
    assert_eq!(found_ids(&before[..3], Some("2026-11-22T00:07:00Z")).unwrap(), ["0003"]);
    // The last of 16 reaches the instant, and needs the one after it.
    let mut after = vec![log(1, 3, 8, 5)];
    after.extend((8..23).map(|minute| log(1, minute, minute + 1, minute)));
    after.extend([late(25, log(1, 24, 25, 23)), log(1, 23, 24, 24), log(1, 25, 26, 26)]);
    let found = found_ids(&after, Some("2026-11-22T00:25:00Z")).unwrap();
    assert_eq!(found[found.len() - 3..], ["0022", "0024", "0023"]);
}

#[test]
fn log_of_overlapping_timelines_is_in_no_order() {
    let mixed = [log(1, 3, 6, 5), branched(6, log(2, 6, 7, 10)), log(1, 6, 9, 15)];
    let hole = found_ids(&mixed, None).unwrap_err();
    assert!(hole.to_string().contains("backup 20261122T001000Z ends before"), "{hole}");
}

#[test]
fn late_log_and_log_of_another_server_are_refused() {
    let begins = found_ids(&[log(1, 6, 9, 10)], None).unwrap_err();
    assert!(begins.to_string().contains("begins at segment 000000010000000000000006"), "{begins}");
    assert_eq!(found_ids(&[], None), Err(Missing::Log));
    for at in [0, 1] {
        let mut both = [log(1, 3, 6, 5), log(1, 6, 9, 10)];
        both[at].manifest.contents.facts.insert("system".into(), "8".into());
        assert_eq!(found_ids(&both, None).unwrap_err().reason(), "LogOfOtherServer");
    }
}

#[test]
fn later_log_of_another_server_is_never_taken() {
    // Its segments have the names of those that the base backup needs.
    let mut other = [log(1, 1, 9, 10), log(1, 9, 12, 15)];
    for document in &mut other {
        document.manifest.contents.facts.insert("system".into(), "8".into());
    }
    for until in [None, Some("2026-11-22T00:10:00Z"), Some("2026-11-22T00:20:00Z")] {
        let missing = found_ids(&other, until).unwrap_err();
        assert_eq!(missing.reason(), "LogOfOtherServer", "{missing}");
        assert!(missing.to_string().contains("8, and base backup 20261122T000700Z of one with 7"), "{missing}");
    }
    let late = found_ids(&other[1..], None).unwrap_err();
    assert_eq!(late.reason(), "LogOfOtherServer", "that it begins too late does not matter");
    other[0].manifest.contents.facts.remove("system");
    let unknown = found_ids(&other[..1], None).unwrap_err();
    assert_eq!(unknown.reason(), "LogOfOtherServer", "its server is not known");
}

#[test]
fn log_before_the_base_backup_reaches_less_far() {
    let ended = [log(1, 1, 3, 0), log(1, 3, 4, 5)];
    let goes_on = [log(1, 3, 6, 6), log(1, 6, 9, 10)];
    assert!(found_ids(&ended, None).is_ok() && found_ids(&goes_on, None).is_ok());
    assert_eq!(furthest(&[&ended, &goes_on], None), Ok(Some(2)));
    assert_eq!(furthest(&[&goes_on, &ended], None), Ok(Some(1)));
    assert_eq!(furthest(&[&[], &[]], None), Err(Missing::Log));
    assert_eq!(furthest(&[], None), Ok(None));
}

/// Which of these objects the log is taken of, counted from one; none where there is no object.
fn furthest(objects: &[&[Document]], until: Option<&str>) -> Result<Option<usize>, Missing> {
    let until: Option<Timestamp> = until.map(|it| it.parse().unwrap());
    let mut furthest = Furthest::new(&base(), until);
    for (number, log) in (1..).zip(objects) {
        match searched(log, until).0.outcome() {
            (Ok(_), reach) => furthest.take(number, reach),
            (Err(missing), reach) => furthest.miss(missing, reach, number),
        }
        if furthest.is_found() {
            break;
        }
    }
    furthest.end().transpose().map_err(|(missing, _)| missing)
}

/// The base backup's object was made again, and the present one took log only later.
#[test]
fn newer_log_with_a_hole_is_reported() {
    let earlier = [log(1, 3, 6, 5), log(1, 6, 9, 10)];
    for (broken, word) in [
        ([log(1, 10, 12, 20), log(1, 12, 14, 30)], "begins at segment"),
        ([log(1, 4, 7, 6), log(1, 8, 14, 30)], "log is missing"),
    ] {
        for objects in [[&earlier[..], &broken[..]], [&broken[..], &earlier[..]]] {
            let missing = furthest(&objects, None).unwrap_err();
            let text = missing.to_string();
            assert_eq!(missing.reason(), "LogBroken", "{text}");
            assert!(
                text.contains(word) && text.contains("name 2026-11-22T00:10:00.5Z or an earlier instant"),
                "{text}"
            );
            assert!(furthest(&objects, Some("2026-11-22T00:10:00Z")).is_ok(), "{word}: an instant is named");
        }
    }
}

#[test]
fn log_that_misses_something_and_ends_earlier_is_left_out() {
    let present = [log(1, 3, 6, 5), log(1, 6, 9, 10)];
    let broken = [log(1, 1, 2, 0), log(1, 2, 5, 1), log(1, 7, 8, 9)];
    assert!(found_ids(&broken, None).is_err());
    assert_eq!(furthest(&[&broken, &present], None), Ok(Some(2)));
    // Its clock runs on, on a timeline that the base backup's server has left.
    let begun = document(BASE, 7, &[("first", &name(2, 5)), ("until", "2026-11-22T00:08:00Z")]).manifest;
    let of_primary = log(1, 60, 90, 40);
    assert_eq!(Reach::measure(&begun, [&of_primary.manifest]), Reach::default());
    assert!(Reach::measure(&begun, [&branched(5, log(2, 5, 6, 10)).manifest]) > Reach::default());
}

#[test]
fn reach_is_by_timeline_and_segment_not_by_clock() {
    let promoted = [log(1, 3, 8, 6), branched(8, log(2, 8, 12, 20))];
    let of_primary = [log(1, 3, 90, 7), log(1, 90, 95, 40)];
    assert!(found_ids(&of_primary, None).is_ok() && found_ids(&promoted, None).is_ok());
    assert_eq!(furthest(&[&of_primary, &promoted], None), Ok(Some(2)));
    assert_eq!(furthest(&[&promoted, &of_primary], None), Ok(Some(1)));
    let slower = [log(1, 3, 8, 6), branched(8, log(2, 8, 12, 30))];
    assert_eq!(furthest(&[&promoted, &slower], None), Ok(Some(2)), "the clock decides between equals");
}

/// An earlier primary still runs, or a clone of it, while another one was promoted.
#[test]
fn log_of_an_abandoned_timeline_does_not_count() {
    let begun = document(BASE, 7, &[("first", &name(2, 5)), ("until", "2026-11-22T00:08:00Z")]).manifest;
    let log = [log(1, 1, 3, 6), log(1, 3, 90, 10)];
    let end = |until: Option<Timestamp>| {
        let mut search = LogSearch::new(&begun, until, log.iter().map(|it| it.manifest.started));
        while !search.next_reads().is_empty() {
            let wanted = search.next_reads().to_vec();
            search.take(wanted.iter().map(|due| log.iter().find(|it| it.manifest.started == *due).cloned()));
        }
        search.end()
    };
    assert_eq!(end(None), Ok(Vec::new()), "the base backup is all that there is");
    assert_eq!(end(Some(at_minute(10))), Err(Missing::Log));
}

#[test]
fn what_is_not_believed_is_a_hole() {
    let all = whole();
    let mut search = LogSearch::new(&base(), None, all.iter().map(|it| it.manifest.started));
    while !search.next_reads().is_empty() {
        let wanted = search.next_reads().to_vec();
        let believed =
            |due: &Timestamp| all.iter().find(|it| it.manifest.started == *due && *due != at_minute(15)).cloned();
        search.take(wanted.iter().map(believed));
    }
    assert!(matches!(search.end(), Err(Missing::Hole { .. })));
}

#[test]
fn no_more_manifests_are_read_than_are_needed() {
    let minutes = |last: u8| (0..last).map(|minute| log(1, minute, minute + 1, minute)).collect::<Vec<_>>();
    // Backwards from the base backup at minute 7, the third manifest (minute 5) has segment 5. Then 16 are read at once.
    let (found, read) = search(&minutes(59), Some("2026-11-22T00:09:00Z"));
    assert_eq!(
        (found.unwrap(), read),
        (vec!["0005".into(), "0006".into(), "0007".into(), "0008".into(), "0009".into()], 19)
    );
}

#[test]
fn a_base_backup_has_to_be_complete_by_the_instant() {
    let by = |until: &str| is_by(&base(), until.parse().ok());
    assert!(by("2026-11-22T00:08:00Z") && !by("2026-11-22T00:07:59.9Z") && is_by(&base(), None));
    let mut without_until = base();
    without_until.contents.facts.remove("until");
    assert!(!is_by(&without_until, None), "one that does not say it is none");
    let missing = Missing::Base { until: Some(at_minute(3)), earliest: Some("2026-11-22T00:08:00Z".into()) };
    assert!(missing.to_string().contains("by 2026-11-22T00:03:00Z, the earliest"), "{missing}");
}
