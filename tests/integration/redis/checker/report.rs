//! A report of what became of all writes, judged by what was promised.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::book::{Audit, Book, Class, Write};
use super::watch::Watched;

/// `spec.failover.maxLag` as it is by default: nothing older may be lost with a master.
const MAX_LAG: Duration = Duration::from_secs(10);

/// The promise of a set in a situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No acknowledged write is lost.
    Everything,
    /// A master is lost without warning: what a replica had (`WAIT 1`) stays, and so do writes that are older than the
    /// greatest lag that replicas may have.
    WhatWasReplicated,
    /// Data are lost, as they must be: only the report of the loss counts.
    Nothing,
}

/// The outcome of all writes, in figures.
pub struct Measured {
    /// By event: how long no client could write. The shortest first.
    pub outages: Vec<Duration>,
    /// Acknowledged writes.
    pub written: usize,
    /// Those of them that are gone.
    pub lost: usize,
}

impl Measured {
    /// The figures of no set.
    pub fn none() -> Self {
        Self { outages: Vec::new(), written: 0, lost: 0 }
    }

    /// Adds the figures of another set.
    pub fn add(&mut self, other: Self) {
        self.outages.extend(other.outages);
        self.outages.sort_unstable();
        self.written += other.written;
        self.lost += other.lost;
    }
}

/// The outcome of all writes.
pub struct Findings {
    book: Book,
    audit: Audit,
    watched: Option<Watched>,
    end: Instant,
}

impl Findings {
    pub fn new(book: Book, stored: &HashSet<(usize, u64)>, watched: Option<Watched>, end: Instant) -> Self {
        Self { audit: book.audit(stored), book, watched, end }
    }

    /// Prints all of it.
    pub fn print(&self, what: &str, begun: Instant, end: Instant) {
        let lost = |class| self.audit.lost.get(&class).map_or(0, Vec::len);
        let of_class = |class: Class| format!("{} of {} {}", lost(class), self.book.count(class), class.as_str());
        println!(
            "» {what}: lost {}; {} reads, {} from the past; {} of unknown outcome are there; {:.0} s",
            Class::ALL.map(of_class).join(", "),
            self.book.reads,
            self.audit.stale_reads,
            self.audit.unacknowledged,
            (end - begun).as_secs_f64(),
        );
        for (classes, outages) in self.by_class() {
            if let Some(spread) = spread(outages) {
                println!("»   write outage, {classes}: {spread}");
            }
        }
        if let Some(watched) = &self.watched {
            println!("»   {watched}");
        }
        println!("  errors: {:?}", self.book.errors);
        for ((event, outage), index) in self.book.outages(&Class::ALL, end).into_iter().zip(1..) {
            let after = (event.at - begun).as_millis();
            println!("  event {index} ({}), {after} ms after the start: {} ms", event.what, outage.as_millis());
        }
    }

    /// The outages of all events, of any client and by class.
    fn by_class(&self) -> Vec<(&'static str, Vec<Duration>)> {
        let of = |classes: &[Class]| self.book.outages(classes, self.end).into_iter().map(|(_, it)| it).collect();
        let classes = Class::ALL.into_iter().filter(|class| self.book.writers(*class) > 0);
        [("any client", of(&Class::ALL))]
            .into_iter()
            .chain(classes.map(|class| (class.as_str(), of(&[class]))))
            .collect()
    }

    /// The same in figures.
    pub fn measured(&self) -> Measured {
        let mut outages: Vec<Duration> =
            self.book.outages(&Class::ALL, self.end).into_iter().map(|(_, outage)| outage).collect();
        outages.sort_unstable();
        Measured { outages, written: self.book.writes.len(), lost: self.audit.lost.values().map(Vec::len).sum() }
    }

    /// In which ways the promise was broken.
    pub fn complaints(&self, promise: Promise) -> Vec<String> {
        let broken = self.audit.lost.iter().filter_map(|(class, lost)| {
            let lost: Vec<&Write> = lost.iter().filter(|write| counts(**write, *class, &self.book, promise)).collect();
            let words = || format!("{promise:?} was promised, and lost are {}", in_words(*class, &lost, &self.book));
            (!lost.is_empty()).then(words)
        });
        broken.chain(self.watched.iter().flat_map(Watched::complaints)).collect()
    }
}

/// Reports whether the loss of this write breaks the promise.
fn counts(write: Write, class: Class, book: &Book, promise: Promise) -> bool {
    match promise {
        Promise::Everything => true,
        Promise::Nothing => false,
        Promise::WhatWasReplicated => {
            let recent = |at: Instant| write.at + MAX_LAG >= at && write.at <= at + MAX_LAG;
            class == Class::Waiting || !book.events.iter().any(|event| recent(event.at))
        }
    }
}

fn in_words(class: Class, lost: &[&Write], book: &Book) -> String {
    let when = |write: &Write| {
        let before = book.events.iter().rev().find(|event| event.at <= write.at);
        before.map_or("before any event".to_owned(), |event| {
            format!("{} ms after {:?}", (write.at - event.at).as_millis(), event.what)
        })
    };
    let (Some(earliest), Some(latest)) = (lost.first(), lost.last()) else { return String::new() };
    let one = |write: &Write| format!("no. {} of writer {}, {}", write.number, write.writer, when(write));
    format!("{} {}: from {} to {}", lost.len(), class.as_str(), one(earliest), one(latest))
}

/// Median, 99th percentile and longest.
fn spread(mut spans: Vec<Duration>) -> Option<String> {
    spans.sort_unstable();
    let at = |share: usize| spans.get((spans.len() * share / 100).min(spans.len() - 1)).map_or(0, Duration::as_millis);
    let longest = spans.last()?.as_millis();
    Some(match spans.len() {
        1 => format!("{longest} ms"),
        count => format!("p50 {} ms, p99 {} ms, longest {longest} ms of {count} events", at(50), at(99)),
    })
}
