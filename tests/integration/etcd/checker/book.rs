//! Records what clients wrote and read, and checks that a store kept its promises: what it acknowledged stays, and
//! nothing goes back. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The part of an answer that is about the store, apart from the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub cluster: u64,
    pub revision: i64,
}

/// The state that was certain when a call began: its answer must not be older.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// The writer's newest write that was acknowledged, or seen by a reader; 0 for none.
    pub newest: u64,
    /// The highest revision that was answered with.
    pub revision: i64,
}

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    pub sent: Instant,
    pub at: Instant,
}

#[derive(Default)]
struct Writer {
    begun: u64,
    acknowledged: BTreeSet<u64>,
    unknown: BTreeSet<u64>,
    /// The newest write that is stored for certain.
    newest: u64,
}

/// Everything that clients know of a store.
pub struct Book {
    writers: Vec<Writer>,
    revision: i64,
    cluster: Option<u64>,
    /// The writes that were acknowledged, with their writers.
    pub writes: Vec<(usize, Acknowledged)>,
    /// Reads that were answered.
    pub reads: usize,
    /// The errors of calls that failed, each with its count.
    pub errors: BTreeMap<String, usize>,
    /// Promises that were broken.
    pub broken: Vec<String>,
}

/// The key of a write.
pub fn key(writer: usize, number: u64) -> String {
    format!("{}{number:08}", prefix(writer))
}

/// Returns the prefix of a writer's keys.
pub fn prefix(writer: usize) -> String {
    format!("check/{writer:02}/")
}

/// The value of a write.
pub fn value(writer: usize, number: u64) -> String {
    format!("{writer} wrote {number}")
}

impl Book {
    /// An empty one for so many writers.
    pub fn new(writers: usize) -> Self {
        Self {
            writers: (0..writers).map(|_| Writer::default()).collect(),
            revision: 0,
            cluster: None,
            writes: Vec::new(),
            reads: 0,
            errors: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    /// The number of the writer's next write.
    pub fn begin(&mut self, writer: usize) -> u64 {
        let writer = &mut self.writers[writer];
        writer.begun += 1;
        writer.begun
    }

    /// Returns the state that is certain now.
    pub fn floor(&self, writer: usize) -> Floor {
        Floor { newest: self.writers[writer].newest, revision: self.revision }
    }

    /// A write was acknowledged.
    pub fn acknowledged(&mut self, writer: usize, number: u64, floor: Floor, header: Header, times: Acknowledged) {
        let what = key(writer, number);
        if header.revision == floor.revision {
            self.broken.push(format!("writing {what}: revision {} had been given before", header.revision));
        }
        self.look_at(&what, floor, header);
        self.writes.push((writer, times));
        let writer = &mut self.writers[writer];
        writer.acknowledged.insert(number);
        writer.newest = writer.newest.max(number);
    }

    /// Notes a write whose outcome is not known.
    pub fn note_unknown(&mut self, writer: usize, number: u64, why: &str) {
        self.writers[writer].unknown.insert(number);
        *self.errors.entry(format!("write: {why}")).or_default() += 1;
    }

    /// A read was not answered.
    pub fn unread(&mut self, why: &str) {
        *self.errors.entry(format!("read: {why}")).or_default() += 1;
    }

    /// A read of the writer's newest writes, at most `limit` of them, was answered with these.
    pub fn read(&mut self, writer: usize, floor: Floor, limit: usize, seen: &BTreeMap<String, String>, header: Header) {
        self.reads += 1;
        let what = format!("reading {}", prefix(writer));
        self.look_at(&what, floor, header);
        let numbers: BTreeSet<u64> = seen.keys().filter_map(|key| number_in(writer, key)).collect();
        let newest = numbers.last().copied().unwrap_or_default();
        if newest < floor.newest {
            self.broken.push(format!("{what}: the newest is {newest}, but {} had been there before", floor.newest));
        }
        let oldest = if seen.len() < limit { 0 } else { numbers.first().copied().unwrap_or_default() };
        let due: Vec<u64> =
            self.writers[writer].acknowledged.range(oldest..=floor.newest.max(oldest)).copied().collect();
        for number in due.into_iter().filter(|number| *number <= floor.newest) {
            self.compare(writer, number, seen);
        }
        let writer = &mut self.writers[writer];
        writer.newest = writer.newest.max(newest);
    }

    /// The cluster is replaced by a new one: the next answer tells its ID.
    pub fn expect_new_cluster(&mut self) {
        self.cluster = None;
    }

    /// Compares with everything that is stored in the end; returns how many writes of unknown outcome took effect.
    pub fn audit(&mut self, stored: &BTreeMap<String, String>, header: Header) -> usize {
        let floor = Floor { newest: 0, revision: self.revision };
        self.look_at("the last read", floor, header);
        let mut effective = 0;
        let mut expected = BTreeSet::new();
        for index in 0..self.writers.len() {
            let (acknowledged, unknown) =
                (self.writers[index].acknowledged.clone(), self.writers[index].unknown.clone());
            for number in &acknowledged {
                self.compare(index, *number, stored);
            }
            effective += unknown.iter().filter(|number| stored.contains_key(&key(index, **number))).count();
            expected.extend(acknowledged.union(&unknown).map(|number| key(index, *number)));
        }
        let strange: Vec<&String> = stored.keys().filter(|key| !expected.contains(*key)).collect();
        self.broken.extend(strange.iter().map(|key| format!("{key} is there, and no client wrote it")));
        effective
    }

    /// Writes that were acknowledged.
    pub fn count(&self) -> usize {
        self.writes.len()
    }

    /// Writes of unknown outcome.
    pub fn unknowns(&self) -> usize {
        self.writers.iter().map(|writer| writer.unknown.len()).sum()
    }

    fn compare(&mut self, writer: usize, number: u64, stored: &BTreeMap<String, String>) {
        let key = key(writer, number);
        match stored.get(&key) {
            Some(found) if *found == value(writer, number) => {}
            Some(found) => self.broken.push(format!("{key} was acknowledged, and now holds {found:?}")),
            None => self.broken.push(format!("{key} was acknowledged, and is lost")),
        }
    }

    fn look_at(&mut self, what: &str, floor: Floor, header: Header) {
        if header.revision < floor.revision {
            self.broken.push(format!("{what}: the revision went back from {} to {}", floor.revision, header.revision));
        }
        let cluster = *self.cluster.get_or_insert(header.cluster);
        if cluster != header.cluster {
            self.broken.push(format!("{what}: cluster {:x} answered in place of {cluster:x}", header.cluster));
        }
        self.revision = self.revision.max(header.revision);
    }
}

fn number_in(writer: usize, key: &str) -> Option<u64> {
    key.strip_prefix(&prefix(writer))?.parse().ok()
}

/// A time without an acknowledged write: when it began, and how long it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub after: Duration,
    pub span: Duration,
}

/// The times between acknowledged writes, from the first one to the end.
pub fn gaps(begun: Instant, acknowledged: &[Instant], end: Instant) -> Vec<Gap> {
    let mut moments = acknowledged.to_vec();
    moments.sort_unstable();
    moments.push(end);
    let pair = |pair: &[Instant]| Gap { after: pair[0] - begun, span: pair[1].saturating_duration_since(pair[0]) };
    moments.windows(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: usize = 10;

    fn header(revision: i64) -> Header {
        Header { cluster: 7, revision }
    }

    /// A book with these writes of writer 0 acknowledged.
    fn book_with(numbers: u64) -> (Book, BTreeMap<String, String>) {
        let mut book = Book::new(2);
        let mut stored = BTreeMap::new();
        for _ in 0..numbers {
            write(&mut book, &mut stored);
        }
        (book, stored)
    }

    fn write(book: &mut Book, stored: &mut BTreeMap<String, String>) {
        let (number, floor, now) = (book.begin(0), book.floor(0), Instant::now());
        let times = Acknowledged { sent: now, at: now };
        book.acknowledged(0, number, floor, header(floor.revision + 1), times);
        stored.insert(key(0, number), value(0, number));
    }

    #[test]
    fn a_store_that_keeps_its_promises_is_not_complained_of() {
        let (mut book, mut stored) = book_with(3);
        let lost = book.begin(0);
        book.note_unknown(0, lost, "no answer");
        let applied = book.begin(0);
        book.note_unknown(0, applied, "no answer");
        stored.insert(key(0, applied), value(0, applied));
        book.read(0, book.floor(0), WHOLE, &stored, header(4));
        write(&mut book, &mut stored);
        assert_eq!(book.audit(&stored, header(5)), 1);
        assert!(book.broken.is_empty(), "{:?}", book.broken);
        assert_eq!((book.count(), book.unknowns(), book.reads), (4, 2, 1));
    }

    #[test]
    fn a_lost_write_is_reported() {
        let (mut book, mut stored) = book_with(3);
        stored.remove(&key(0, 2));
        book.read(0, book.floor(0), WHOLE, &stored, header(3));
        assert_eq!(book.broken, ["check/00/00000002 was acknowledged, and is lost"]);
        book.audit(&stored, header(3));
        assert_eq!(book.broken.len(), 2);
    }

    #[test]
    fn a_stale_read_is_reported() {
        let (mut book, mut stored) = book_with(3);
        let floor = book.floor(0);
        stored.remove(&key(0, 3));
        book.read(0, floor, WHOLE, &stored, header(3));
        assert!(book.broken[0].contains("the newest is 2, but 3 had been there before"), "{:?}", book.broken);
    }

    #[test]
    fn a_write_that_was_read_must_stay() {
        let (mut book, mut stored) = book_with(1);
        let before = stored.clone();
        let number = book.begin(0);
        book.note_unknown(0, number, "no answer");
        stored.insert(key(0, number), value(0, number));
        book.read(0, book.floor(0), WHOLE, &stored, header(2));
        book.read(0, book.floor(0), WHOLE, &before, header(2));
        assert!(book.broken[0].contains("the newest is 1, but 2"), "{:?}", book.broken);
    }

    #[test]
    fn a_bounded_read_proves_nothing_about_older_writes() {
        let (mut book, mut stored) = book_with(5);
        stored.retain(|key, _| key.as_str() >= super::key(0, 4).as_str());
        book.read(0, book.floor(0), 2, &stored, header(5));
        assert!(book.broken.is_empty(), "{:?}", book.broken);
        book.read(0, book.floor(0), 3, &stored, header(5));
        assert_eq!(book.broken.len(), 3, "{:?}", book.broken);
    }

    #[test]
    fn broken_promises_are_reported() {
        let (mut book, mut stored) = book_with(3);
        book.read(0, book.floor(0), WHOLE, &stored, header(2));
        stored.insert(key(0, 1), "other".into());
        book.read(0, book.floor(0), WHOLE, &stored, header(3));
        book.read(1, book.floor(1), WHOLE, &BTreeMap::new(), Header { cluster: 8, revision: 3 });
        stored.insert(key(1, 1), value(1, 1));
        book.audit(&stored, header(3));
        for (broken, words) in book.broken.iter().zip([
            "the revision went back from 3 to 2",
            "now holds \"other\"",
            "cluster 8 answered in place of 7",
            "now holds \"other\"",
            "check/01/00000001 is there, and no client wrote it",
        ]) {
            assert!(broken.contains(words), "{broken} should say: {words}");
        }
        assert_eq!(book.broken.len(), 5, "{:?}", book.broken);
    }

    #[test]
    fn two_writes_of_one_revision_are_reported() {
        let (mut book, _) = book_with(2);
        let (number, floor, now) = (book.begin(0), book.floor(0), Instant::now());
        book.acknowledged(0, number, floor, header(2), Acknowledged { sent: now, at: now });
        assert!(book.broken[0].contains("revision 2 had been given before"), "{:?}", book.broken);
    }

    #[test]
    fn gaps_are_between_writes_of_all_and_before_the_end() {
        let begun = Instant::now();
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        let gap = |after, span| Gap { after: Duration::from_millis(after), span: Duration::from_millis(span) };
        let found = gaps(begun, &[at(300), at(100), at(150)], at(1300));
        assert_eq!(found, [gap(100, 50), gap(150, 150), gap(300, 1000)]);
        assert!(gaps(begun, &[], at(5)).is_empty());
    }
}
