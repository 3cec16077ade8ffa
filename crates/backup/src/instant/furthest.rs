//! Chooses among the log of several objects, such as a DatabaseBackup and the one that was there before under its name.

use jiff::Timestamp;

use super::super::chain;
use super::super::manifest::Manifest;
use super::{Missing, end_of, system_of};

/// The last timeline and segment, and the server's clock then.
type End = (Option<(u64, u64)>, Option<Timestamp>);

/// How far log goes: by timeline and segment first, for clocks of two servers say nothing about each other, and then by
/// the server's clock. The least is no log at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach(Option<End>);

impl Reach {
    /// Log of which not all was read may go further than any other.
    pub const UNKNOWN: Self = Self(Some((Some((u64::MAX, u64::MAX)), Some(Timestamp::MAX))));

    /// How far log goes of the server of a base backup. What cannot follow that base backup does not count.
    #[must_use]
    pub fn measure<'a>(base: &Manifest, log: impl IntoIterator<Item = &'a Manifest>) -> Self {
        let is_its =
            |it: &&Manifest| system_of(it) == system_of(base) && chain::may_follow(&base.contents, &it.contents);
        Self(log.into_iter().filter(is_its).map(|it| (chain::end(&it.contents), end_of(it))).max())
    }

    /// The instant, by the server's clock.
    fn instant(self) -> Option<Timestamp> {
        self.0.and_then(|(_, instant)| instant)
    }
}

/// The log of several objects after one base backup: the first that reaches the instant. Where no instant is named, the
/// one that goes furthest, unless one that misses something goes on beyond it: what that has would be left out, and
/// nothing would say so.
pub struct Furthest<T, W> {
    until: Option<Timestamp>,
    /// When the base backup was complete.
    complete: Option<Timestamp>,
    whole: Option<(Reach, T)>,
    broken: Vec<(Reach, Missing, W)>,
}

impl<T, W> Furthest<T, W> {
    /// Chooses for a base backup and an instant.
    #[must_use]
    pub fn new(base: &Manifest, until: Option<Timestamp>) -> Self {
        Self { until, complete: end_of(base), whole: None, broken: Vec::new() }
    }

    /// Reports whether no further WAL backup has to be read.
    #[must_use]
    pub fn is_found(&self) -> bool {
        self.until.is_some() && self.whole.is_some()
    }

    /// Takes the log of an object, and how far it goes.
    pub fn take(&mut self, log: T, reach: Reach) {
        if self.whole.as_ref().is_none_or(|(other, _)| reach > *other) {
            self.whole = Some((reach, log));
        }
    }

    /// Takes what the log of an object misses, how far it goes all the same, and whose it is.
    pub fn miss(&mut self, missing: Missing, reach: Reach, whose: W) {
        self.broken.push((reach, missing, whose));
    }

    /// The log; or what it misses, and of whom. None if no object has any.
    #[must_use]
    pub fn end(self) -> Option<Result<T, (Missing, W)>> {
        let Some((reach, log)) = self.whole else {
            let first = self.broken.into_iter().next();
            return first.map(|(_, missing, whose)| Err((missing, whose)));
        };
        let is_beyond = |(its, ..): &(Reach, Missing, W)| self.until.is_none() && *its > reach;
        let Some((_, why, whose)) = self.broken.into_iter().filter(is_beyond).max_by_key(|(its, ..)| *its) else {
            return Some(Ok(log));
        };
        // Before the base backup was complete, the other log is of no use to it.
        let until = reach.instant().filter(|until| self.complete.is_some_and(|complete| complete <= *until));
        Some(Err(match until {
            Some(until) => (Missing::Newest { why: Box::new(why), until }, whose),
            None => (why, whose),
        }))
    }
}
