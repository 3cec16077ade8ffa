//! Which base backup and which log bring a PostgreSQL back as it was at an instant. Pure: the caller asks a [`LogSearch`]
//! which manifests it needs, reads them, and hands over those that it trusts.

#[cfg(test)]
mod tests;

use jiff::Timestamp;

use super::chain::{self, Gap};
use super::manifest::{Document, Manifest};

/// Manifests that are asked for at once.
const AT_ONCE: usize = 16;
/// The most backups of the log that one recovery takes: 17 days with one every five minutes. A `ConfigMap` has room for no
/// more.
pub const MOST: usize = 5000;
/// The fact with the instant, by the server's clock, that a backup reaches.
const UNTIL: &str = "until";

/// What of a server's log is missing, and what to do.
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
        }
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

/// Whether a base backup was complete by that instant.
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
    /// The backup with the beginning of the log is before this index of `dues`; 0 when the beginning is no longer looked for.
    before: usize,
    /// Index of the next backup to read after the beginning.
    next: usize,
    log: Vec<Document>,
    missing: Option<Missing>,
}

impl LogSearch {
    /// Searches among the backups that were due at these instants.
    #[must_use]
    pub fn new(base: &Manifest, until: Option<Timestamp>, dues: impl IntoIterator<Item = Timestamp>) -> Self {
        let mut dues: Vec<Timestamp> = dues.into_iter().collect();
        dues.sort_unstable();
        // The backup with the beginning of the log was due before the base backup began.
        let begin = dues.partition_point(|due| *due <= base.started);
        Self { base: base.clone(), until, dues, before: begin, next: begin, log: Vec::new(), missing: None }
    }

    /// The backups whose manifests are needed next; none when the search is over.
    #[must_use]
    pub fn wanted(&self) -> &[Timestamp] {
        if self.missing.is_some() {
            return &[];
        }
        match self.before {
            0 if is_enough(&self.log, self.until) => &[],
            0 => &self.dues[self.next..self.dues.len().min(self.next + AT_ONCE)],
            before => &self.dues[before - 1..before],
        }
    }

    /// Takes the manifests of [`wanted`](Self::wanted), as far as they are trusted.
    pub fn take(&mut self, believed: impl IntoIterator<Item = Option<Document>>) {
        let count = self.wanted().len();
        let believed = believed.into_iter().flatten();
        if self.before == 0 {
            self.next += count;
            self.log.extend(believed);
            return;
        }
        self.before -= 1;
        for document in believed {
            let (base, log) = (system_of(&self.base), system_of(&document.manifest));
            if base != log {
                let (base, system, log) = (self.base.id.clone(), base.to_owned(), log.to_owned());
                self.missing = Some(Missing::OtherServer { base, system, log });
            }
            if fact(&document.manifest, "first") <= fact(&self.base, "first") {
                self.before = 0;
            }
            self.log.insert(0, document);
        }
    }

    /// The log from the base backup to the instant; an error if some of it is missing.
    pub fn end(self) -> Result<Vec<Document>, Missing> {
        if let Some(missing) = self.missing {
            return Err(missing);
        }
        unbroken(&self.base, self.log, self.until)
    }
}

fn is_enough(log: &[Document], until: Option<Timestamp>) -> bool {
    until.is_some_and(|until| log.iter().any(|it| end_of(&it.manifest).is_some_and(|end| end >= until)))
}

fn unbroken(base: &Manifest, mut log: Vec<Document>, until: Option<Timestamp>) -> Result<Vec<Document>, Missing> {
    // Backups after the one that reaches the instant are not needed.
    let reaches = |it: &Document| until.is_some_and(|until| end_of(&it.manifest).is_some_and(|end| end >= until));
    if let Some(last) = log.iter().position(reaches) {
        log.truncate(last + 1);
    }
    let Some(begin) = log.first() else { return Err(Missing::Log) };
    let (first, needed) = (fact(&begin.manifest, "first"), fact(base, "first"));
    if first > needed {
        return Err(Missing::Beginning { first: first.into(), base: base.id.clone(), needed: needed.into() });
    }
    for pair in log.windows(2) {
        let (before, after) = (&pair[0].manifest, &pair[1].manifest);
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
    }
    if until.is_some() && !is_enough(&log, until) {
        return Err(Missing::End(log.last().map_or("", |it| fact(&it.manifest, UNTIL)).to_owned()));
    }
    if log.len() > MOST {
        return Err(Missing::Many(log.len()));
    }
    Ok(log)
}
