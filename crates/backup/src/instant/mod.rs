//! Which base backup and which log bring a PostgreSQL back as it was at an instant. Pure: the caller asks a [`LogSearch`]
//! which manifests it needs, reads them, and hands over those that it trusts.

mod furthest;
#[cfg(test)]
mod tests;

use std::mem;
use std::ops::Range;

use jiff::Timestamp;

use super::chain::{self, Gap};
use super::manifest::{Document, Manifest};
pub use furthest::{Furthest, Reach};

/// Manifests that are read at once.
const AT_ONCE: usize = 16;
/// The most backups of the log that one recovery takes: 17 days with one every five minutes. A `ConfigMap` has room for no
/// more.
pub const MOST: usize = 5000;
/// The fact with the instant, by the server's clock, that a backup reaches.
const UNTIL: &str = "until";

/// Parts of a server's log that are missing, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No base backup was complete by then.
    #[error("{}", no_base(*until, earliest.as_deref()))]
    Base {
        /// The instant that is wanted.
        until: Option<Timestamp>,
        /// When the earliest base backup was complete.
        earliest: Option<String>,
    },
    /// There is no log.
    #[error("no log of that server is there: only the end of a base backup can be recovered, with no instant named")]
    Log,
    /// The log is of another server.
    #[error(
        "the log is of a server with system identifier {log}, and base backup {base} of one with {system}: name the log of that server"
    )]
    OtherServer {
        /// ID of the base backup.
        base: String,
        /// System identifier of its server.
        system: String,
        /// System identifier of the log's server.
        log: String,
    },
    /// The log begins too late for the base backup.
    #[error(
        "the log begins at segment {first}, and base backup {base} needs it from {needed}: name a later instant, for which a \
         later base backup is there"
    )]
    Beginning {
        /// The segment where it begins.
        first: String,
        /// ID of the base backup.
        base: String,
        /// The segment where it should begin.
        needed: String,
    },
    /// The log has a hole.
    #[error(
        "log is missing: backup {before} ends before segment {end}, and the next one that counts, {after}, begins at {begin}: \
         name {until} or an earlier instant, or one after the next base backup"
    )]
    Hole {
        /// ID of the backup before the hole.
        before: String,
        /// The first segment that is missing.
        end: String,
        /// ID of the backup after the hole.
        after: String,
        /// The segment that it begins with.
        begin: String,
        /// The last instant that can be recovered.
        until: String,
    },
    /// A backup does not name a segment of its log: ID of the backup, and `first` or `next`.
    #[error("backup {0} of the log does not say its {1} segment: it was not taken by this program")]
    SegmentUnknown(String, &'static str),
    /// The log ends too early.
    #[error("the log ends at {0}: name that instant or an earlier one, or take a backup of the log first")]
    End(String),
    /// The log is in too many backups.
    #[error("{0} backups of the log are needed, and at most {MOST} are taken: take base backups more often")]
    Many(usize),
    /// The newest log misses something, and that of another object is whole, but ends earlier.
    #[error("{why}; or name {until} or an earlier instant: the log of another object goes up to there")]
    Newest {
        /// Parts that the newest log misses.
        why: Box<Missing>,
        /// The end of the other log.
        until: Timestamp,
    },
}

impl Missing {
    /// Stable word for it.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Base { .. } => "BaseBackupMissing",
            Self::Log => "LogMissing",
            Self::OtherServer { .. } => "LogOfOtherServer",
            Self::Beginning { .. } | Self::Hole { .. } | Self::SegmentUnknown(..) => "LogBroken",
            Self::End(_) => "LogTooShort",
            Self::Many(_) => "LogTooLong",
            Self::Newest { why, .. } => why.reason(),
        }
    }

    /// Reports whether backups under other IDs, or in another order, may have what is missing.
    fn is_of_order(&self) -> bool {
        matches!(self, Self::Beginning { .. } | Self::Hole { .. } | Self::End(_))
    }
}

fn no_base(until: Option<Timestamp>, earliest: Option<&str>) -> String {
    match (until, earliest) {
        (Some(until), Some(earliest)) => format!(
            "no base backup was complete by {until}, the earliest that counts only at {earliest}: name that instant or a later \
             one"
        ),
        _ => "no base backup is there that counts: take one first".into(),
    }
}

/// A fact of a manifest, such as a segment, an instant or the server; empty if it is missing.
fn fact<'a>(manifest: &'a Manifest, name: &str) -> &'a str {
    manifest.contents.facts.get(name).map_or("", String::as_str)
}

/// The instant, by the server's clock, before which all that was committed is in a backup of the log. For a base backup,
/// the instant when it was complete.
#[must_use]
pub fn end_of(manifest: &Manifest) -> Option<Timestamp> {
    fact(manifest, UNTIL).parse().ok()
}

/// The system identifier of the server, which stays when its name changes.
#[must_use]
pub fn system_of(manifest: &Manifest) -> &str {
    fact(manifest, "system")
}

/// Reports whether a base backup was complete by that instant.
#[must_use]
pub fn is_by(base: &Manifest, until: Option<Timestamp>) -> bool {
    end_of(base).is_some_and(|end| until.is_none_or(|until| end <= until))
}

/// Looks for the log from a base backup to an instant among the backups of one object.
pub struct LogSearch {
    base: Manifest,
    until: Option<Timestamp>,
    /// When the backups of the log were due, the earliest first.
    dues: Vec<Timestamp>,
    stage: Stage,
    /// Indices of `dues` that were read.
    read: Range<usize>,
    /// Indices of `dues` to read next, beside those that were read.
    wanted: Range<usize>,
    log: Vec<Document>,
    /// Documents that were read around the log.
    around: Vec<Document>,
    missing: Option<Missing>,
}

/// Stages of the search.
enum Stage {
    /// The backup with the beginning of the log, from the base backup back.
    Beginning,
    /// The log from there to the instant.
    Log,
    /// Log under IDs before or after all these, whose indices are here: see [`chain::OUT_OF_ORDER`].
    Around(Range<usize>),
}

impl LogSearch {
    /// Searches among the backups that were due at these instants.
    #[must_use]
    pub fn new(base: &Manifest, until: Option<Timestamp>, dues: impl IntoIterator<Item = Timestamp>) -> Self {
        let mut dues: Vec<Timestamp> = dues.into_iter().collect();
        dues.sort_unstable();
        // The backup with the beginning of the log was due before the base backup began.
        let begin = dues.partition_point(|due| *due <= base.started);
        let mut search = Self {
            base: base.clone(),
            until,
            dues,
            stage: Stage::Beginning,
            read: begin..begin,
            wanted: 0..0,
            log: Vec::new(),
            around: Vec::new(),
            missing: None,
        };
        search.wanted = search.step();
        search
    }

    /// The backups whose manifests are needed next; none when the search is over.
    #[must_use]
    pub fn next_reads(&self) -> &[Timestamp] {
        &self.dues[self.wanted.clone()]
    }

    /// Takes the manifests of [`next_reads`](Self::next_reads), as far as they are trusted.
    pub fn take(&mut self, believed: impl IntoIterator<Item = Option<Document>>) {
        let wanted = mem::take(&mut self.wanted);
        if wanted.is_empty() {
            return;
        }
        self.read = self.read.start.min(wanted.start)..self.read.end.max(wanted.end);
        let believed = believed.into_iter().flatten();
        match self.stage {
            Stage::Beginning => {
                for document in believed {
                    self.begin(document);
                }
            }
            Stage::Log => self.log.extend(believed),
            Stage::Around(_) => self.around.extend(believed),
        }
        self.wanted = self.step();
    }

    /// Takes a backup of the log that was due before all others that were taken.
    fn begin(&mut self, document: Document) {
        self.missing = self.missing.take().or_else(|| other_server(&self.base, &document.manifest));
        if fact(&document.manifest, "first") <= fact(&self.base, "first") {
            self.stage = Stage::Log;
        }
        self.log.insert(0, document);
    }

    /// Returns what to read next, by index.
    fn step(&mut self) -> Range<usize> {
        let (start, end, all) = (self.read.start, self.read.end, self.dues.len());
        if self.missing.is_some() {
            return 0..0;
        }
        if matches!(self.stage, Stage::Beginning) {
            if start > 0 {
                return start - 1..start;
            }
            self.stage = Stage::Log;
        }
        if matches!(self.stage, Stage::Log) {
            if end < all && !is_enough(&self.log, self.until) {
                return end..all.min(end + AT_ONCE);
            }
            self.stage = Stage::Around(self.read.clone());
        }
        let Stage::Around(log) = &self.stage else { return 0..0 };
        let more = self.more();
        let (earliest, latest) = (log.start.saturating_sub(more), all.min(log.end + more));
        if end < latest {
            return end..latest.min(end + AT_ONCE);
        }
        if earliest < start { earliest.max(start.saturating_sub(AT_ONCE))..start } else { 0..0 }
    }

    /// How many backups before and after the log are read, because it seems to miss something. Without an instant, the newest
    /// log is wanted: it may be under an ID before the base backup even where nothing is missing.
    fn more(&self) -> usize {
        match unbroken(&self.base, &self.log, &self.around, self.until) {
            Ok(_) if self.until.is_none() => AT_ONCE,
            Err(missing) if missing.is_of_order() => chain::OUT_OF_ORDER,
            _ => 0,
        }
    }

    /// The log from the base backup to the instant, and how far it goes; or what it misses, and how far all the log goes that
    /// was read.
    pub fn outcome(&self) -> (Result<Vec<Document>, Missing>, Reach) {
        let reach = |log: &mut dyn Iterator<Item = &Document>| Reach::measure(&self.base, log.map(|it| &it.manifest));
        let log = self.end();
        let reach = match &log {
            Ok(log) => reach(&mut log.iter()),
            Err(_) => reach(&mut self.log.iter().chain(&self.around)),
        };
        (log, reach)
    }

    /// The log from the base backup to the instant; an error if some of it is missing. Empty if all that there is was
    /// written before: on a timeline that the server had left when the base backup began.
    fn end(&self) -> Result<Vec<Document>, Missing> {
        if let Some(missing) = &self.missing {
            return Err(missing.clone());
        }
        let log = unbroken(&self.base, &self.log, &self.around, self.until)?;
        if !log.iter().any(|it| chain::may_follow(&self.base.contents, &it.manifest.contents)) {
            // The clock of an earlier primary that still runs reaches any instant.
            return if self.until.is_some() { Err(Missing::Log) } else { Ok(Vec::new()) };
        }
        Ok(log.into_iter().cloned().collect())
    }
}

fn is_enough<'a>(log: impl IntoIterator<Item = &'a Document>, until: Option<Timestamp>) -> bool {
    until.is_some_and(|until| log.into_iter().any(|it| end_of(&it.manifest).is_some_and(|end| end >= until)))
}

/// The log that is needed, in the order of its IDs. If that misses something, in the order of its segments, together with
/// what lies around it.
fn unbroken<'a>(
    base: &Manifest,
    log: &'a [Document],
    around: &'a [Document],
    until: Option<Timestamp>,
) -> Result<Vec<&'a Document>, Missing> {
    let mut found: Vec<&Document> = log.iter().collect();
    let needed = needed(base, &found, until);
    let last = |all: &[Document]| all.iter().filter_map(|it| chain::end(&it.manifest.contents)).max();
    let may_be_out_of_order = match &needed {
        Ok(_) => until.is_none() && last(around) > last(log),
        Err(missing) => missing.is_of_order(),
    };
    if may_be_out_of_order && let Some(sorted) = by_segment(base, log.iter().chain(around).collect(), until) {
        return Ok(sorted);
    }
    found.truncate(needed?);
    Ok(found)
}

/// The log that is needed in the order of its segments; none if it is broken in that order, too.
fn by_segment<'a>(base: &Manifest, mut all: Vec<&'a Document>, until: Option<Timestamp>) -> Option<Vec<&'a Document>> {
    if all.iter().any(|it| place(it).0.is_empty() || place(it).1.is_empty()) {
        return None;
    }
    all.retain(|it| place(it).1 > fact(base, "first"));
    all.sort_by(|one, other| place(one).cmp(&place(other)));
    let count = needed(base, &all, until).ok()?;
    all.truncate(count);
    // A server never goes back to an earlier timeline. If it seems so, log of two servers is mixed.
    let timeline = |it: &Document| chain::end(&it.manifest.contents).map(|(timeline, _)| timeline);
    let goes_back = |pair: &[&'a Document]| {
        timeline(pair[0]) != timeline(pair[1]) && pair[1].manifest.started < pair[0].manifest.started
    };
    (!all.windows(2).any(goes_back)).then_some(all)
}

/// The first segment of a backup of the log, and the next one after it; empty if it does not say them.
fn place(log: &Document) -> (&str, &str) {
    (fact(&log.manifest, "first"), fact(&log.manifest, "next"))
}

/// That the log is of another server than the base backup; none if it is of the same.
fn other_server(base: &Manifest, log: &Manifest) -> Option<Missing> {
    let (of_base, of_log) = (system_of(base), system_of(log));
    let other = || Missing::OtherServer { base: base.id.clone(), system: of_base.to_owned(), log: of_log.to_owned() };
    (of_base != of_log).then(other)
}

/// How many backups of the log are needed, from the first on; an error if something is missing between them.
fn needed(base: &Manifest, log: &[&Document], until: Option<Timestamp>) -> Result<usize, Missing> {
    // Backups after the one that reaches the instant are not needed.
    let last = log.iter().position(|it| is_enough([*it], until));
    let log = &log[..last.map_or(log.len(), |last| last + 1)];
    let Some(begin) = log.first() else { return Err(Missing::Log) };
    // Segments of all servers have the same names. Log that was due after the base backup began is compared nowhere else.
    if let Some(missing) = other_server(base, &begin.manifest) {
        return Err(missing);
    }
    let (first, needed) = (fact(&begin.manifest, "first"), fact(base, "first"));
    if first > needed {
        return Err(Missing::Beginning { first: first.into(), base: base.id.clone(), needed: needed.into() });
    }
    let mut before = &begin.manifest;
    for after in log[1..].iter().map(|it| &it.manifest) {
        match chain::gap(&before.contents, &after.contents) {
            None => {}
            Some(Gap::OtherServer(system, log)) => {
                return Err(Missing::OtherServer { base: base.id.clone(), system, log });
            }
            Some(Gap::Missing(end, begin)) => {
                let (before, until) = (before.id.clone(), fact(before, UNTIL).to_owned());
                return Err(Missing::Hole { before, end, after: after.id.clone(), begin, until });
            }
            Some(Gap::SegmentUnknown(fact)) => return Err(Missing::SegmentUnknown(after.id.clone(), fact)),
        }
        if chain::end(&after.contents) >= chain::end(&before.contents) {
            before = after;
        }
    }
    if until.is_some() && !is_enough(log.iter().copied(), until) {
        return Err(Missing::End(log.last().map_or("", |it| fact(&it.manifest, UNTIL)).to_owned()));
    }
    if log.len() > MOST {
        return Err(Missing::Many(log.len()));
    }
    Ok(log.len())
}
