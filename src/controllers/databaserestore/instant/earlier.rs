//! What a DatabaseBackup keeps for a point-in-time recovery, or else the earlier one in its `spec.adoptFrom`.

use jiff::Timestamp;

use super::super::bucket::At;
use super::super::facts::Choice;
use super::super::listing::Part;
use super::super::observe::{Observer, place_of};
use super::{BackupFolder, Trust, refused};
use crate::api::{DatabaseBackup, DatabaseRestore};
use crate::backup::instant::Missing;
use crate::backup::manifest::{Document, Manifest};
use crate::backup::plan::{BASE, Destination, WAL};
use crate::transfer::Error;

/// What was found and where, or why nothing was.
type Placed<T> = Result<(Destination, T), Choice>;

/// An object, and the UID of the earlier one where that is meant.
type Whose<'a> = (&'a DatabaseBackup, Option<&'a str>);

impl Observer {
    /// The newest base backup that was complete by then, of an object or else of the earlier one.
    pub(super) async fn base_or_earlier(
        &self,
        object: &DatabaseRestore,
        backup: &DatabaseBackup,
        until: Option<Timestamp>,
    ) -> Result<Placed<Document>, Error> {
        match (self.base_by(object, (backup, None), until).await?, uid_before(backup)) {
            (Err(own), Some(uid)) if may_have_base(&own) => {
                Ok(either(own, self.base_by(object, (backup, Some(uid)), until).await?))
            }
            (own, _) => Ok(own),
        }
    }

    /// The log from a base backup to the instant, of an object or else of the earlier one.
    pub(super) async fn log_or_earlier(
        &self,
        object: &DatabaseRestore,
        backup: &DatabaseBackup,
        base: &Manifest,
        until: Option<Timestamp>,
    ) -> Result<Placed<Vec<Document>>, Error> {
        match (self.log_by(object, (backup, None), base, until).await?, uid_before(backup)) {
            (Err(own), Some(uid)) if may_have_log(&own, until) => {
                Ok(either(own, self.log_by(object, (backup, Some(uid)), base, until).await?))
            }
            (own, _) => Ok(own),
        }
    }

    async fn base_by(
        &self,
        object: &DatabaseRestore,
        whose: Whose<'_>,
        until: Option<Timestamp>,
    ) -> Result<Placed<Document>, Error> {
        let kept = match self.kept_by(object, whose, Part { folder: BASE, since: None }).await? {
            Ok(kept) => kept,
            Err(no) => return Ok(Err(no)),
        };
        Ok(placed(self.base_of(object, &kept, until).await?, kept.origin))
    }

    async fn log_by(
        &self,
        object: &DatabaseRestore,
        whose: Whose<'_>,
        base: &Manifest,
        until: Option<Timestamp>,
    ) -> Result<Placed<Vec<Document>>, Error> {
        let kept = match self.kept_by(object, whose, Part { folder: WAL, since: Some(base.started) }).await? {
            Ok(kept) => kept,
            Err(no) => return Ok(Err(no)),
        };
        Ok(placed(self.log_of(&kept, base, until).await?, kept.origin))
    }

    /// What an object keeps in a folder, or the earlier one.
    async fn kept_by(
        &self,
        object: &DatabaseRestore,
        (backup, uid): Whose<'_>,
        part: Part,
    ) -> Result<Result<BackupFolder, Choice>, Error> {
        let (origin, record) = match self.kept(object, backup, uid).await? {
            Ok(kept) => kept,
            Err(no) => return Ok(Err(no)),
        };
        let at = At { place: place_of(&origin), owner: origin.owner.clone() };
        let found = match self.in_folder(&at, &origin.prefix, part, record.as_ref()).await? {
            Ok(found) => found,
            Err(no) => return Ok(Err(no)),
        };
        let (folder, dues) = (part.folder, found.complete(part.folder).into_iter().collect());
        Ok(Ok(BackupFolder { origin, folder, dues, trust: Trust::Recorded(record), cut: found.cut }))
    }
}

/// What was found there; or why nothing was, with what was passed over.
fn placed<T>((found, passed): (Result<T, Missing>, Option<String>), origin: Destination) -> Placed<T> {
    match found {
        Ok(found) => Ok((origin, found)),
        Err(missing) => Err(refused(&missing, &origin, passed.as_deref())),
    }
}

fn uid_before(backup: &DatabaseBackup) -> Option<&str> {
    backup.spec.adopt_from.as_ref().map(|it| it.uid.as_str())
}

/// Whether base backups of the earlier object are looked at, too.
fn may_have_base(own: &Choice) -> bool {
    matches!(own, Choice::Waiting(..) | Choice::Refused("BaseBackupMissing", _))
}

/// Whether the log of the earlier object is looked at, too. Where no instant is named, the end of that log would be taken
/// for the end of all log, and what the present object has would be left out.
fn may_have_log(own: &Choice, until: Option<Timestamp>) -> bool {
    let is_elsewhere =
        matches!(own, Choice::Waiting(..) | Choice::Refused("LogMissing" | "LogBroken" | "LogOfOtherServer", _));
    until.is_some() && is_elsewhere
}

/// What the earlier object has. If that is nothing, what may still come from the present one is waited for.
fn either<T>(own: Choice, earlier: Placed<T>) -> Placed<T> {
    earlier.map_err(|no| if matches!(own, Choice::Waiting(..)) { own } else { no })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Choice {
        Choice::Waiting("NoBackup", "nothing is recorded yet".into())
    }

    fn no(reason: &'static str) -> Choice {
        Choice::Refused(reason, "no".into())
    }

    #[test]
    fn base_backups_of_the_earlier_object_are_found_where_the_present_one_has_none_that_fits() {
        let late = Missing::Base { until: None, earliest: Some("noon".into()) };
        assert!(may_have_base(&waiting()) && may_have_base(&no(late.reason())));
        let held = Choice::Held("EndpointNotAllowed", "no".into());
        assert!(!may_have_base(&held) && !may_have_base(&no("ListingCut")));
    }

    #[test]
    fn log_of_the_earlier_object_is_taken_only_up_to_an_instant_that_is_named() {
        let until = "2026-11-22T12:00:00Z".parse().ok();
        let other = Missing::OtherServer { base: String::new(), system: String::new(), log: String::new() };
        let late = Missing::Beginning { first: String::new(), base: String::new(), needed: String::new() };
        let elsewhere = [Missing::Log, other, late].map(|it| no(it.reason()));
        for own in elsewhere.into_iter().chain([waiting()]) {
            assert!(may_have_log(&own, until) && !may_have_log(&own, None), "{own:?}");
        }
        let short = Missing::End(String::new()).reason();
        assert!(!may_have_log(&no(short), until), "the present object has the beginning of what is missing");
    }

    #[test]
    fn what_waits_is_not_refused_because_of_the_earlier_object() {
        let refused = |own| either::<()>(own, Err(no("NotRecorded"))).expect_err("nothing");
        assert_eq!(refused(waiting()), waiting());
        assert_eq!(refused(no("LogBroken")), no("NotRecorded"));
    }
}
