//! Records what clients wrote, what was acknowledged and when, and what of it is stored in the end. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

/// How a client goes about its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A connection for each write.
    Short,
    /// A connection that is kept as long as it can be.
    Long,
    /// A kept connection; a write counts only after a replica has it, too (`WAIT 1`).
    Waiting,
}

impl Class {
    pub const ALL: [Self; 3] = [Self::Short, Self::Long, Self::Waiting];

    /// The words for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Long => "long-lived",
            Self::Waiting => "WAIT 1",
        }
    }
}

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub writer: usize,
    pub number: u64,
    pub sent: Instant,
    pub at: Instant,
}

/// Something that was done to the set.
#[derive(Clone, Debug)]
pub struct Event {
    pub what: String,
    pub at: Instant,
}

/// Everything that clients know.
pub struct Book {
    /// The class of each writer.
    classes: Vec<Class>,
    begun: Vec<u64>,
    /// In the order in which they were acknowledged.
    pub writes: Vec<Write>,
    pub events: Vec<Event>,
    /// Reads that were answered with a value.
    pub reads: usize,
    /// Writes that a read should have seen and did not.
    pub unseen: Vec<(usize, u64)>,
    /// The errors of calls that failed, each with its count.
    pub errors: BTreeMap<String, usize>,
}

/// The outcome of all writes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Writes that were acknowledged and are gone.
    pub lost: BTreeMap<Class, Vec<Write>>,
    /// Reads that did not see a write although it is stored in the end: they returned old data.
    pub stale_reads: usize,
    /// Writes that are stored, but were never acknowledged.
    pub unacknowledged: usize,
}

/// The key of a write.
pub fn key(writer: usize, number: u64) -> String {
    format!("check:{writer:02}:{number}")
}

impl Book {
    /// An empty one for writers of these classes.
    pub fn new(classes: Vec<Class>) -> Self {
        let begun = vec![0; classes.len()];
        Self {
            classes,
            begun,
            writes: Vec::new(),
            events: Vec::new(),
            reads: 0,
            unseen: Vec::new(),
            errors: BTreeMap::new(),
        }
    }

    /// The number of the writer's next write.
    pub fn begin(&mut self, writer: usize) -> u64 {
        self.begun[writer] += 1;
        self.begun[writer]
    }

    /// A write was acknowledged.
    pub fn acknowledged(&mut self, writer: usize, number: u64, sent: Instant) {
        self.writes.push(Write { writer, number, sent, at: Instant::now() });
    }

    /// Notes a call whose outcome is not known.
    pub fn failed(&mut self, writer: Option<usize>, why: &str) {
        let who = writer.map_or("read", |writer| self.classes[writer].as_str());
        *self.errors.entry(format!("{who}: {why}")).or_default() += 1;
    }

    /// The writers that have had a write acknowledged that was sent later than `moment`.
    pub fn served_since(&self, moment: Instant) -> BTreeSet<usize> {
        self.writes
            .iter()
            .rev()
            .take_while(|write| write.at > moment)
            .filter(|it| it.sent > moment)
            .map(|it| it.writer)
            .collect()
    }

    /// All keys that may be there.
    pub fn keys(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.begun.iter().enumerate().flat_map(|(writer, last)| (1..=*last).map(move |number| (writer, number)))
    }

    /// Compares with what is stored in the end.
    pub fn audit(&self, stored: &HashSet<(usize, u64)>) -> Audit {
        let mut audit = Audit::default();
        for write in self.writes.iter().filter(|write| !stored.contains(&(write.writer, write.number))) {
            audit.lost.entry(self.classes[write.writer]).or_default().push(*write);
        }
        audit.stale_reads = self.unseen.iter().filter(|write| stored.contains(write)).count();
        let acknowledged: HashSet<(usize, u64)> =
            self.writes.iter().map(|write| (write.writer, write.number)).collect();
        audit.unacknowledged = stored.difference(&acknowledged).count();
        audit
    }

    /// By event: the longest time after it, and before the next one, in which no write of these classes was
    /// acknowledged. What the next event causes counts for that one alone.
    pub fn outages(&self, classes: &[Class], end: Instant) -> Vec<(&Event, Duration)> {
        let moments: Vec<Instant> =
            self.writes.iter().filter(|write| classes.contains(&self.classes[write.writer])).map(|it| it.at).collect();
        let until = |index: usize| self.events.get(index + 1).map_or(end, |next| next.at);
        self.events
            .iter()
            .enumerate()
            .map(|(index, event)| (event, longest_gap(&moments, event.at, until(index))))
            .collect()
    }

    /// How many writers there are of a class.
    pub fn writers(&self, class: Class) -> usize {
        self.classes.iter().filter(|other| **other == class).count()
    }

    /// Acknowledged writes of a class.
    pub fn count(&self, class: Class) -> usize {
        self.writes.iter().filter(|write| self.classes[write.writer] == class).count()
    }
}

/// The longest part between `from` and `to` in which there are no `moments`, which are in order.
fn longest_gap(moments: &[Instant], from: Instant, to: Instant) -> Duration {
    let between = moments.iter().copied().filter(|moment| *moment > from && *moment < to);
    let ends: Vec<Instant> = between.chain([to]).collect();
    let begins = [from].into_iter().chain(ends.iter().copied());
    begins.zip(&ends).map(|(begun, end)| end.saturating_duration_since(begun)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(begun: Instant, ms: u64) -> Instant {
        begun + Duration::from_millis(ms)
    }

    #[test]
    fn acknowledged_writes_that_are_gone_are_lost_by_class() {
        let mut book = Book::new(vec![Class::Short, Class::Waiting]);
        for writer in [0, 0, 1] {
            let number = book.begin(writer);
            book.acknowledged(writer, number, Instant::now());
        }
        assert_eq!(book.begin(1), 2, "one of unknown outcome");
        book.unseen.extend([(0, 1), (0, 2)]);
        let audit = book.audit(&HashSet::from([(0, 2), (1, 1), (1, 2)]));
        assert_eq!(audit.lost.keys().collect::<Vec<_>>(), [&Class::Short]);
        assert_eq!((audit.lost[&Class::Short][0].number, audit.stale_reads, audit.unacknowledged), (1, 1, 1));
    }

    /// The last write before a master is killed was acknowledged a moment before the event, so the two ends of the
    /// outage are on different sides of the event.
    #[test]
    fn an_outage_belongs_to_one_event() {
        let begun = Instant::now();
        let mut book = Book::new(vec![Class::Short]);
        let write = |ms| Write { writer: 0, number: 1, sent: moment(begun, ms), at: moment(begun, ms) };
        book.writes = [5, 205, 210, 995, 1995].map(write).to_vec();
        let event = |ms| Event { what: String::new(), at: moment(begun, ms) };
        book.events = vec![event(10), event(1000)];
        let outages = book.outages(&[Class::Short], moment(begun, 2000));
        let spans: Vec<u128> = outages.into_iter().map(|(_, span)| span.as_millis()).collect();
        assert_eq!(spans, [785, 995]);
    }

    #[test]
    fn an_outage_belongs_to_the_event_before_it() {
        let begun = Instant::now();
        let mut book = Book::new(vec![Class::Short, Class::Long]);
        let write = |writer, ms| Write { writer, number: 1, sent: moment(begun, ms), at: moment(begun, ms) };
        book.writes = vec![write(0, 0), write(0, 10), write(1, 400), write(0, 510), write(0, 520), write(0, 1720)];
        let event = |ms| Event { what: String::new(), at: moment(begun, ms) };
        book.events = vec![event(15), event(515)];
        let end = moment(begun, 1730);
        let spans = |classes: &[Class]| -> Vec<u128> {
            book.outages(classes, end).into_iter().map(|(_, span)| span.as_millis()).collect()
        };
        assert_eq!(spans(&[Class::Short]), [495, 1200]);
        assert_eq!(spans(&[Class::Short, Class::Long]), [385, 1200]);
        assert_eq!(spans(&[Class::Waiting]), [500, 1215], "nothing at all, to the end");
    }
}
