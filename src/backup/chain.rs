//! Write-ahead log of PostgreSQL in several backups: whether each begins where the one before ended. Pure.

use super::Error;
use super::manifest::{Contents, Manifest};

/// Characters of a segment's name that tell its timeline.
const TIMELINE: usize = 8;

/// Whether nothing is missing between a backup of the log and what comes next.
pub fn follows(before: &Manifest, next: &Contents) -> Result<(), Error> {
    let end = segment(&before.contents, "next")?;
    let begin = segment(next, "first")?;
    let (system, its) = (before.contents.facts.get("system"), next.facts.get("system"));
    if system != its {
        return Err(Error::WalMissing(format!(
            "the server is another one than that of {}: its system identifier was {}, and is {}; make another object for it, \
             and take a base backup",
            before.id,
            system.map_or("unknown", String::as_str),
            its.map_or("unknown", String::as_str)
        )));
    }
    if begin[TIMELINE..] > end[TIMELINE..] || begin[..TIMELINE] < end[..TIMELINE] {
        return Err(Error::WalMissing(format!(
            "log is missing: backup {} ends before segment {end}, and the server has no more than what begins at {begin}; what \
             was written before can be recovered. Delete this object and make it again, then take a base backup",
            before.id
        )));
    }
    Ok(())
}

/// The name of a segment among the facts.
fn segment<'a>(contents: &'a Contents, fact: &str) -> Result<&'a str, Error> {
    let name = contents.facts.get(fact).map(String::as_str);
    let name = name.filter(|it| it.len() == 24 && it.bytes().all(|it| it.is_ascii_hexdigit()));
    name.ok_or_else(|| Error::WalMissing(format!("a backup of the log does not say its {fact} segment")))
}
