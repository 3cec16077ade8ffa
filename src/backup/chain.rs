//! Write-ahead log of PostgreSQL in several backups: whether each begins where the one before ended, and whether a base backup
//! needs it. Pure.

use super::Error;
use super::manifest::{Contents, Manifest};

/// Leading characters of a segment's name that are its timeline.
const TIMELINE: usize = 8;

/// Why a backup of the log does not go on where the one before it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The next backup is of another server: the system identifiers of both.
    OtherServer(String, String),
    /// Segments are missing: the first that is missing, and the one where the log goes on.
    Missing(String, String),
    /// A backup does not name this segment of its log: `first` or `next`.
    SegmentUnknown(&'static str),
}

/// The gap between a backup of the log and the next one; none if nothing is missing.
#[must_use]
pub fn gap(before: &Contents, next: &Contents) -> Option<Gap> {
    let (end, begin) = match (segment(before, "next"), segment(next, "first")) {
        (Ok(end), Ok(begin)) => (end, begin),
        (Err(fact), _) | (_, Err(fact)) => return Some(Gap::SegmentUnknown(fact)),
    };
    if before.facts.get("system") != next.facts.get("system") {
        let system = |of: &Contents| of.facts.get("system").map_or("unknown", String::as_str).to_owned();
        return Some(Gap::OtherServer(system(before), system(next)));
    }
    let is_broken = begin[TIMELINE..] > end[TIMELINE..] || begin[..TIMELINE] < end[..TIMELINE];
    is_broken.then(|| Gap::Missing(end.to_owned(), begin.to_owned()))
}

/// Whether a new backup of the log goes on where the one before ended.
pub fn follows(before: &Manifest, next: &Contents) -> Result<(), Error> {
    let Some(gap) = gap(&before.contents, next) else { return Ok(()) };
    Err(Error::WalMissing(match gap {
        Gap::OtherServer(was, is) => format!(
            "the server is another one than that of {}: its system identifier was {was}, and is {is}; make another object for \
             it, and take a base backup",
            before.id
        ),
        Gap::Missing(end, begin) => format!(
            "log is missing: backup {} ends before segment {end}, and the server has no more than what begins at {begin}; what \
             was written before can be recovered. Delete this object and make it again, then take a base backup",
            before.id
        ),
        Gap::SegmentUnknown(fact) => format!("a backup of the log does not say its {fact} segment"),
    }))
}

/// Whether a base backup is of another server than the log. False if one of them does not name its server.
#[must_use]
pub fn is_of_other_server(log: &Contents, base: &Contents) -> bool {
    matches!((log.facts.get("system"), base.facts.get("system")), (Some(its), Some(other)) if its != other)
}

/// Whether the log ended before a base backup of the same server began, which then needs none of it. False if a fact for
/// that is missing.
#[must_use]
pub fn ended_before(log: &Contents, base: &Contents) -> bool {
    let (Some(end), Some(begin)) = (place(log, "next"), place(base, "first")) else { return false };
    is_of_same_server(log, base) && end.0 <= begin.0 && end.1 <= begin.1
}

/// Whether the log begins after the first segment that a base backup of the same server needs. False if a fact for that is
/// missing.
#[must_use]
pub fn begins_too_late(log: &Contents, base: &Contents) -> bool {
    let (Some(begin), Some(needed)) = (place(log, "first"), place(base, "first")) else { return false };
    is_of_same_server(log, base) && begin > needed
}

fn is_of_same_server(log: &Contents, base: &Contents) -> bool {
    let system = log.facts.get("system");
    system.is_some() && system == base.facts.get("system")
}

/// Timeline and position of a segment.
fn place(contents: &Contents, fact: &'static str) -> Option<(u64, u64)> {
    let (timeline, place) = segment(contents, fact).ok()?.split_at(TIMELINE);
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(timeline)?, number(place)?))
}

/// The name of the segment that the fact holds; the name of the fact if it holds none.
fn segment<'a>(contents: &'a Contents, fact: &'static str) -> Result<&'a str, &'static str> {
    let name = contents.facts.get(fact).map(String::as_str);
    name.filter(|it| it.len() == 24 && it.bytes().all(|it| it.is_ascii_hexdigit())).ok_or(fact)
}
