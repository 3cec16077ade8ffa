//! Write-ahead log of PostgreSQL in several backups: whether each begins where the one before ended. Pure.

use super::Error;
use super::manifest::{Contents, Manifest};

/// Characters of a segment's name that tell its timeline.
const TIMELINE: usize = 8;

/// What is between a backup of the log and the next, where that is no log without a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gap {
    /// The next is of another server: the system identifier of each.
    OtherServer(String, String),
    /// Segments are missing: the next that is needed, and where the log goes on.
    Missing(String, String),
    /// A backup does not say this of itself.
    Untold(&'static str),
}

/// What is between a backup of the log and what comes next; none where nothing is missing.
pub fn gap(before: &Contents, next: &Contents) -> Option<Gap> {
    let (end, begin) = match (segment(before, "next"), segment(next, "first")) {
        (Ok(end), Ok(begin)) => (end, begin),
        (Err(fact), _) | (_, Err(fact)) => return Some(Gap::Untold(fact)),
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
        Gap::Untold(fact) => format!("a backup of the log does not say its {fact} segment"),
    }))
}

/// The name of a segment among the facts; or that of the fact.
fn segment<'a>(contents: &'a Contents, fact: &'static str) -> Result<&'a str, &'static str> {
    let name = contents.facts.get(fact).map(String::as_str);
    name.filter(|it| it.len() == 24 && it.bytes().all(|it| it.is_ascii_hexdigit())).ok_or(fact)
}
