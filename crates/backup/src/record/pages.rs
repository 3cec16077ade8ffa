//! How a record is divided among `ConfigMaps`. Pure.
//!
//! A `ConfigMap` has at most 1 MiB, and one object may have more backups than that has room for: a backup of the log
//! every five minutes makes 10,000 of them in 35 days. So the older backups of such a record are in further
//! `ConfigMaps`, its pages. The first `ConfigMap` has the newest backups, and the list of the pages.
//!
//! ```text
//! causeway-backups-UID-1 │ causeway-backups-UID-2 │ causeway-backups-UID
//!            … until 1 May │        … until 1 June │ the rest, and the list
//! ```
//!
//! What a page holds follows from its range of time, which takes in no backup of another page. A backup moves only into
//! a page with a new number, and that page is written before the list names it. So a write that stops half-way loses no
//! evidence.

use std::collections::BTreeMap;
use std::ops::Bound;

use jiff::Timestamp;

use super::Record;

/// The most backups in one `ConfigMap`, which has at most 1 MiB. A backup takes 90 bytes of that.
/// <https://kubernetes.io/docs/concepts/configuration/configmap/>
pub const PAGE: usize = 10_000;

/// A further `ConfigMap` of a record. It has the backups that were due before `until`, and not before the page ahead of
/// it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its number, which is a part of its name.
    pub number: u32,
    /// When the backups of the next page, or of the first `ConfigMap`, begin.
    pub until: Timestamp,
}

impl Record {
    /// When the backups of a page are due, or without a number those of the first `ConfigMap`. Empty if there is no such
    /// page.
    pub(super) fn range_of(&self, page: Option<u32>) -> (Bound<Timestamp>, Bound<Timestamp>) {
        let at = page.map_or(Some(self.pages.len()), |number| self.pages.iter().position(|it| it.number == number));
        let Some(at) = at else { return (Bound::Unbounded, Bound::Excluded(Timestamp::MIN)) };
        let before = at.checked_sub(1).and_then(|before| self.pages.get(before));
        let begin = before.map_or(Bound::Unbounded, |page| Bound::Included(page.until));
        (begin, self.pages.get(at).map_or(Bound::Unbounded, |page| Bound::Excluded(page.until)))
    }

    /// Drops pages without backups, and makes new ones as long as a `ConfigMap` has more than `room` backups.
    pub(super) fn paginate(&mut self, room: usize) {
        if self.pages.is_empty() && self.count() <= room {
            return;
        }
        let mut dues: Vec<Timestamp> = self.backups.values().flat_map(BTreeMap::keys).copied().collect();
        dues.sort_unstable();
        let mut number = self.pages.iter().map(|page| page.number).max().unwrap_or_default();
        let mut pages = Vec::new();
        let mut rest = dues.as_slice();
        for page in std::mem::take(&mut self.pages) {
            let (its, later) = rest.split_at(rest.partition_point(|due| *due < page.until));
            rest = later;
            match its {
                [] => {}
                its if its.len() <= room => pages.push(page),
                its => {
                    fill(its, room, &mut number, &mut pages);
                    // The rest is in a page with a new number, too: see above.
                    number += 1;
                    pages.push(Page { number, until: page.until });
                }
            }
        }
        fill(rest, room, &mut number, &mut pages);
        self.pages = pages;
    }

    /// How many backups are recorded.
    pub(super) fn count(&self) -> usize {
        self.backups.values().map(BTreeMap::len).sum()
    }
}

/// Makes pages of the older backups, half as many in each as it has room for, until the rest fits into one.
fn fill(mut dues: &[Timestamp], room: usize, number: &mut u32, pages: &mut Vec<Page>) {
    while dues.len() > room {
        let until = dues[room / 2];
        let (its, later) = dues.split_at(dues.partition_point(|due| *due < until));
        // Backups that are due at the same instant stay together: no object has that many databases.
        if its.is_empty() {
            break;
        }
        *number += 1;
        pages.push(Page { number: *number, until });
        dues = later;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::RangeBounds;

    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::super::Evidence;
    use super::*;

    fn minute(at: usize) -> Timestamp {
        let minutes = i64::try_from(at).expect("a number of minutes");
        "2026-01-01T00:00:00Z".parse::<Timestamp>().expect("an instant") + SignedDuration::from_mins(minutes)
    }

    fn record(minutes: impl IntoIterator<Item = usize>) -> Record {
        let mut record = Record::default();
        add(&mut record, minutes);
        record
    }

    fn add(record: &mut Record, minutes: impl IntoIterator<Item = usize>) {
        let backups = record.backups.entry("postgresql-wal".into()).or_default();
        backups.extend(minutes.into_iter().map(|at| (minute(at), Evidence::Manifest("a".repeat(64)))));
    }

    /// The page of a backup; none if it is in the first `ConfigMap`.
    fn page_of(record: &Record, due: Timestamp) -> Option<u32> {
        let mut pages = record.pages.iter().map(|page| page.number);
        pages.find(|number| record.range_of(Some(*number)).contains(&due))
    }

    fn read(record: &Record) -> Record {
        let mut read = Record::from_data(&record.data());
        for Page { number, .. } in record.pages.clone() {
            read.add(&record.data_of(number));
        }
        read
    }

    /// The most backups in one of its `ConfigMaps`.
    fn fullest(record: &Record) -> usize {
        let pages = record.pages.iter().map(|page| record.data_of(page.number)).chain([record.data()]);
        let count = |data: BTreeMap<String, String>| {
            data.iter().filter(|(key, _)| key.starts_with("backups.")).map(|(_, lines)| lines.lines().count()).sum()
        };
        pages.map(count).max().unwrap_or_default()
    }

    #[test]
    fn a_small_record_has_no_pages() {
        let mut record = record(0..10);
        record.paginate(10);
        assert!(record.pages.is_empty() && !record.data().contains_key("pages"));
        add(&mut record, [10]);
        record.paginate(10);
        assert_eq!(record.pages, [Page { number: 1, until: minute(5) }]);
        assert_eq!((page_of(&record, minute(4)), page_of(&record, minute(5))), (Some(1), None));
        assert_eq!(read(&record), record);
    }

    #[test]
    fn backups_move_only_into_new_pages() {
        let mut record = record(10..40);
        record.paginate(10);
        let before = record.clone();
        // Older backups that a user accepts overfill the first page.
        add(&mut record, 0..10);
        record.paginate(10);
        assert!(fullest(&record) <= 10 && read(&record) == record);
        let known: BTreeSet<u32> = before.pages.iter().map(|page| page.number).collect();
        for due in before.backups.values().flat_map(BTreeMap::keys) {
            let page = page_of(&record, *due);
            assert!(page == page_of(&before, *due) || page.is_some_and(|number| !known.contains(&number)), "{due}");
        }
        // When they are gone, so are their pages.
        record.backups.values_mut().for_each(|backups| backups.retain(|due, _| *due >= minute(30)));
        record.paginate(10);
        assert!(record.pages.is_empty() && read(&record) == record, "{:?}", record.pages);
    }

    #[test]
    fn backups_of_one_instant_stay_together() {
        let mut record = record(0..5);
        for folder in 0..20 {
            let backups = record.backups.entry(format!("redis-{folder}")).or_default();
            backups.insert(minute(3), Evidence::Listed(minute(3)));
        }
        record.paginate(10);
        assert_eq!(read(&record), record);
    }

    proptest! {
        #[test]
        fn every_page_has_room_and_nothing_is_lost(
            steps in prop::collection::vec((0..100_usize, 0..30_usize, 0..100_usize), 1..6)
        ) {
            let mut record = Record::default();
            for (first, count, gone) in steps {
                add(&mut record, first..first + count);
                record.backups.values_mut().for_each(|backups| backups.retain(|due, _| *due >= minute(gone / 2)));
                record.backups.retain(|_, backups| !backups.is_empty());
                record.paginate(10);
                prop_assert!(fullest(&record) <= 10);
                prop_assert!(record.pages.is_sorted_by(|one, next| one.until < next.until));
                let numbers: BTreeSet<u32> = record.pages.iter().map(|page| page.number).collect();
                prop_assert_eq!(numbers.len(), record.pages.len());
                prop_assert_eq!(read(&record), record.clone());
            }
        }
    }
}
