//! Write-ahead log of PostgreSQL in several backups: whether each begins where the one before ended, and whether a base backup
//! needs it. Pure.

use jiff::Timestamp;

use super::Error;
use super::manifest::{Contents, Manifest};

/// Leading characters of a segment's name that are its timeline.
const TIMELINE: usize = 8;
/// The fact of a backup of the log with the names of the segments in which earlier timelines of the server ended, separated by
/// spaces. The next timeline begins with that segment. A server that never left its first timeline has no such fact.
pub const BRANCHES: &str = "branches";
/// How many backups beyond those that seem to be needed are looked at for log that is missing. IDs say when backups were due,
/// and not in which order they took the log: one that was tried again for long takes log after those that a user asked for
/// meanwhile. More than these are not taken in the time of one Job.
pub const OUT_OF_ORDER: usize = 128;

/// The reasons why a backup of the log does not go on where the one before it ended.
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
    first_missing(end, begin, next).map(|missing| Gap::Missing(missing, begin.to_owned()))
}

/// The first segment that is missing between `end`, which the backups before do not have, and `begin` of `next`. If a server
/// was promoted or recovered to an instant, what an earlier timeline has after the branch is not in its past. So the backups
/// before hold nothing of its past from the branch on, however far they go.
/// <https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-TIMELINES>
fn first_missing(end: &str, begin: &str, next: &Contents) -> Option<String> {
    let ((before, place), (timeline, start)) = (end.split_at(TIMELINE), begin.split_at(TIMELINE));
    if before == timeline {
        return (start > place).then(|| end.to_owned());
    }
    // A timeline that does not descend from the one before, or does not say where, shares no known past with it.
    match branch(next, before).filter(|_| before < timeline) {
        None => Some(end.to_owned()),
        Some(branch) if branch <= place => (start > branch).then(|| format!("{timeline}{branch}")),
        Some(_) => (start > place).then(|| end.to_owned()),
    }
}

/// Where the past of a backup leaves a timeline: the end of the name of a segment. None if the backup does not say that.
fn branch<'a>(contents: &'a Contents, timeline: &str) -> Option<&'a str> {
    let names = contents.facts.get(BRANCHES)?.split(' ').filter(|name| is_segment(name));
    names.map(|name| name.split_at(TIMELINE)).find_map(|(its, place)| (its == timeline).then_some(place))
}

/// The last gap in all this log: the backups before it and after it. Backups may be in any order, and overlap.
#[must_use]
pub fn last_gap<'a>(all: impl IntoIterator<Item = (Timestamp, &'a Contents)>) -> Option<(Timestamp, Timestamp, Gap)> {
    let mut log: Vec<_> = all.into_iter().filter(|(_, it)| place(it, "first").is_some()).collect();
    log.sort_by_key(|(due, it)| (place(it, "first"), *due));
    let (mut last, mut farthest) = (None, None::<(Timestamp, &Contents)>);
    for (due, contents) in log {
        if let Some((before, held)) = farthest
            && let Some(gap) = gap(held, contents)
        {
            last = Some((before, due, gap));
        }
        if farthest.is_none_or(|(_, held)| end(held) <= end(contents)) {
            farthest = Some((due, contents));
        }
    }
    last
}

/// Reports whether a new backup of the log goes on where the one before ended.
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

/// Reports whether a base backup is of another server than the log. False if one of them does not name its server.
#[must_use]
pub fn is_of_other_server(log: &Contents, base: &Contents) -> bool {
    matches!((log.facts.get("system"), base.facts.get("system")), (Some(its), Some(other)) if its != other)
}

/// Reports whether the log ended before a base backup of the same server began, which then needs none of it. False if a fact
/// for that is missing.
#[must_use]
pub fn ended_before(log: &Contents, base: &Contents) -> bool {
    let (Some(end), Some(begin)) = (place(log, "next"), place(base, "first")) else { return false };
    is_of_same_server(log, base) && end.0 <= begin.0 && end.1 <= begin.1
}

/// Reports whether the log begins after the first segment that a base backup of the same server needs. False if a fact for that
/// is missing.
#[must_use]
pub fn begins_too_late(log: &Contents, base: &Contents) -> bool {
    let (Some(begin), Some(needed)) = (place(log, "first"), place(base, "first")) else { return false };
    is_of_same_server(log, base) && begin > needed
}

/// Where a backup of the log ends, comparable with where others of its server end. None if it does not say that.
#[must_use]
pub fn end(log: &Contents) -> Option<(u64, u64)> {
    place(log, "next")
}

/// Reports whether a server may have written the log after it had the first segment that a base backup of it needs: on that
/// timeline, or on a later one that did not leave it before. An earlier primary that still runs stays on the earlier timeline.
/// True if a fact for that is missing.
#[must_use]
pub fn may_follow(base: &Contents, log: &Contents) -> bool {
    let (Ok(base), Ok(end)) = (segment(base, "first"), segment(log, "next")) else { return true };
    let ((timeline, start), (later, _)) = (base.split_at(TIMELINE), end.split_at(TIMELINE));
    later == timeline || (later > timeline && branch(log, timeline).is_some_and(|branch| branch >= start))
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
    contents.facts.get(fact).map(String::as_str).filter(|name| is_segment(name)).ok_or(fact)
}

fn is_segment(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|it| it.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name((timeline, number): (u32, u32)) -> String {
        format!("{timeline:08X}00000000{number:08X}")
    }

    fn contents(facts: &[(&str, String)]) -> Contents {
        let system = [("system", "7".to_owned())];
        let facts = facts.iter().chain(&system);
        Contents { keys: 0, facts: facts.map(|(name, value)| ((*name).to_owned(), value.clone())).collect() }
    }

    /// The gap between backups that end before `next` and one that begins with `first`, on a server whose earlier timelines
    /// ended in these segments.
    fn between(next: (u32, u32), first: (u32, u32), branches: &[(u32, u32)]) -> Option<Gap> {
        let names: Vec<String> = branches.iter().copied().map(name).collect();
        let branches = (!names.is_empty()).then(|| (BRANCHES, names.join(" ")));
        let begun: Vec<_> = [("first", name(first))].into_iter().chain(branches).collect();
        gap(&contents(&[("next", name(next))]), &contents(&begun))
    }

    fn missing(from: (u32, u32), to: (u32, u32)) -> Gap {
        Gap::Missing(name(from), name(to))
    }

    #[test]
    fn on_one_timeline_backups_of_log_overlap_or_touch() {
        assert_eq!(between((1, 9), (1, 9), &[]), None);
        assert_eq!(between((1, 9), (1, 5), &[]), None);
        assert_eq!(between((1, 9), (1, 10), &[]), Some(missing((1, 9), (1, 10))));
    }

    #[test]
    fn the_last_gap_is_found_in_any_order() {
        let of = |first: u32, next: u32| contents(&[("first", name((1, first))), ("next", name((1, next)))]);
        let due = |second: i64| Timestamp::from_second(second).expect("an instant");
        let found = |all: &[(i64, Contents)]| last_gap(all.iter().map(|(second, it)| (due(*second), it)));
        assert_eq!(found(&[(3, of(7, 9)), (1, of(1, 5)), (2, of(4, 7))]), None, "a later backup overlaps");
        let broken = [(1, of(1, 5)), (2, of(6, 8)), (3, of(8, 9)), (4, of(11, 12))];
        assert_eq!(found(&broken), Some((due(3), due(4), missing((1, 9), (1, 11)))));
        assert_eq!(found(&broken[..3]), Some((due(1), due(2), missing((1, 5), (1, 6)))));
        assert_eq!(found(&broken[1..3]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_rewound_server_is_backed_up_from_its_timelines_beginning() {
        let rewound = [(1, 0x50)];
        assert_eq!(between((1, 0x100), (2, 0x60), &rewound), Some(missing((2, 0x50), (2, 0x60))));
        assert_eq!(between((1, 0x100), (2, 0x51), &rewound), Some(missing((2, 0x50), (2, 0x51))));
        assert_eq!(between((1, 0x100), (2, 0x50), &rewound), None);
        // Promoted where the log in S3 ends, or later: what the old timeline wrote up to then is needed.
        assert_eq!(between((1, 9), (2, 9), &[(1, 9)]), None);
        assert_eq!(between((1, 9), (2, 10), &[(1, 9)]), Some(missing((2, 9), (2, 10))));
        assert_eq!(between((1, 9), (2, 11), &[(1, 11)]), Some(missing((1, 9), (2, 11))));
    }

    #[test]
    fn log_may_follow_on_the_same_or_a_later_timeline() {
        let follows = |next: (u32, u32), branches: &[(u32, u32)]| {
            let names: Vec<String> = branches.iter().copied().map(name).collect();
            let branches = (!names.is_empty()).then(|| (BRANCHES, names.join(" ")));
            let log: Vec<_> = [("next", name(next))].into_iter().chain(branches).collect();
            may_follow(&contents(&[("first", name((2, 0x50)))]), &contents(&log))
        };
        assert!(follows((2, 9), &[(1, 0x30)]) && follows((2, 0x90), &[(1, 0x30)]));
        assert!(!follows((1, 0x90), &[]), "an earlier primary that still runs");
        assert!(follows((3, 0x90), &[(1, 0x30), (2, 0x50)]) && follows((3, 0x90), &[(2, 0x80)]));
        assert!(!follows((3, 0x90), &[(1, 0x30), (2, 0x4f)]), "recovered to before the base backup");
        assert!(!follows((3, 0x90), &[(1, 0x30)]), "it never was on that timeline");
        assert!(!follows((3, 0x90), &[]), "it does not say which timelines it left");
        assert!(
            may_follow(&contents(&[]), &contents(&[("next", name((1, 9)))]))
                && may_follow(&contents(&[]), &contents(&[]))
        );
    }

    #[test]
    fn the_branch_from_the_timeline_before_counts() {
        let both = [(1, 0x50), (2, 0x60)];
        assert_eq!(between((2, 0x100), (3, 0x60), &both), None);
        assert_eq!(between((2, 0x100), (3, 0x61), &both), Some(missing((3, 0x60), (3, 0x61))));
        assert_eq!(between((1, 0x50), (3, 0x60), &both), Some(missing((3, 0x50), (3, 0x60))));
        // It was recovered to before the timeline that is in S3 began.
        assert_eq!(between((2, 0x100), (3, 0x50), &[(1, 0x50)]), Some(missing((2, 0x100), (3, 0x50))));
    }

    #[test]
    fn a_timeline_that_goes_back_is_a_gap() {
        assert_eq!(between((2, 9), (1, 9), &[(2, 9)]), Some(missing((2, 9), (1, 9))));
        assert_eq!(between((1, 9), (2, 9), &[]), Some(missing((1, 9), (2, 9))));
        let mut strange = contents(&[("first", name((2, 9)))]);
        strange.facts.insert(BRANCHES.into(), "00000001 \u{e9}0000001000000000000009".into());
        assert_eq!(gap(&contents(&[("next", name((1, 9)))]), &strange), Some(missing((1, 9), (2, 9))));
    }
}
