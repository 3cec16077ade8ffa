//! Finds what a DatabaseBackup keeps for a point-in-time recovery, or else the earlier one in its `spec.adoptFrom`.

use jiff::Timestamp;

use causeway_api::{DatabaseBackup, DatabaseRestore};
use causeway_backup::instant::Missing;
use causeway_backup::manifest::{Document, Manifest, due_of};
use causeway_backup::plan::{BASE, Destination, WAL};
use causeway_backup::transfer::Error;

use super::super::bucket::At;
use super::super::facts::Choice;
use super::super::listing::Part;
use super::super::observe::{Observer, place_of};
use super::{BackupFolder, SearchedLog, Trust, refused};

/// The result of a search and its place, or why nothing was found.
type Placed<T> = Result<(Destination, T), Choice>;

/// An object, and the UID of the earlier one where that is meant.
type Whose<'a> = (&'a DatabaseBackup, Option<&'a str>);

/// A base backup and the log since then, and where they are.
#[derive(Debug, PartialEq)]
pub(super) struct Pair {
    pub(super) base: (Destination, Document),
    /// None where no object keeps log.
    pub(super) log: Option<(Destination, Vec<Document>)>,
}

impl Observer {
    /// The newest base backup that was complete by then, and the log up to the instant, each of its object or else of
    /// the earlier one.
    pub(super) async fn base_and_log(
        &self,
        object: &DatabaseRestore,
        (backup, log): (&DatabaseBackup, Option<&DatabaseBackup>),
        until: Option<Timestamp>,
    ) -> Result<Result<Pair, Choice>, Error> {
        let own = match self.base_by(object, (backup, None), until).await? {
            Ok(base) => return self.with_log(object, base, log, until).await,
            Err(own) => own,
        };
        let Some(uid) = uid_before(backup).filter(|_| may_have_base(&own)) else { return Ok(Err(own)) };
        let earlier = self.base_by(object, (backup, Some(uid)), until).await?;
        let base = match either(own.clone(), earlier) {
            Ok(base) => base,
            Err(no) => return Ok(Err(no)),
        };
        // With an instant or an ID, the user means that base backup.
        if until.is_some() {
            return self.with_log(object, base, log, until).await;
        }
        let log = match log {
            Some(log) => Some(self.all_log(object, log, &base.1.manifest).await?),
            None => None,
        };
        Ok(if due_of(&object.spec.from.id).is_some() { pair_by_id(base, log) } else { latest(own, base, log) })
    }

    async fn with_log(
        &self,
        object: &DatabaseRestore,
        base: (Destination, Document),
        log: Option<&DatabaseBackup>,
        until: Option<Timestamp>,
    ) -> Result<Result<Pair, Choice>, Error> {
        Ok(match log {
            None if until.is_some() => Err(refused(&Missing::Log, &base.0, None)),
            None => Ok(Pair { base, log: None }),
            Some(log) => {
                let found = self.log_or_earlier(object, log, &base.1.manifest, until).await?;
                found.map(|log| Pair { base, log: Some(log) })
            }
        })
    }

    /// All log since a base backup of the earlier object. Where the present one has no log at all, the end of the
    /// earlier one's is the end of all log.
    async fn all_log(
        &self,
        object: &DatabaseRestore,
        backup: &DatabaseBackup,
        base: &Manifest,
    ) -> Result<Placed<Vec<Document>>, Error> {
        match (self.log_by(object, (backup, None), base, None).await?, uid_before(backup)) {
            (Err(own), Some(uid)) if has_no_log(&own) => self.log_by(object, (backup, Some(uid)), base, None).await,
            (own, _) => Ok(own),
        }
    }

    /// The log from a base backup to the instant, of an object or else of the earlier one.
    async fn log_or_earlier(
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
        let SearchedLog { log, passed, .. } = self.log_of(&kept, base, until).await?;
        Ok(placed((log, passed), kept.origin))
    }

    /// Returns what an object keeps in a folder, or the earlier one.
    async fn kept_by(
        &self,
        object: &DatabaseRestore,
        (backup, uid): Whose<'_>,
        part: Part,
    ) -> Result<Result<BackupFolder, Choice>, Error> {
        let (origin, record) = match self.origin_and_record(object, backup, uid).await? {
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

/// Returns what was found there; or why nothing was, with what was passed over.
fn placed<T>((found, passed): (Result<T, Missing>, Option<String>), origin: Destination) -> Placed<T> {
    match found {
        Ok(found) => Ok((origin, found)),
        Err(missing) => Err(refused(&missing, &origin, passed.as_deref())),
    }
}

fn uid_before(backup: &DatabaseBackup) -> Option<&str> {
    backup.spec.adopt_from.as_ref().map(|it| it.uid.as_str())
}

/// Reports whether base backups of the earlier object are looked at, too.
fn may_have_base(own: &Choice) -> bool {
    matches!(own, Choice::Waiting(..) | Choice::Refused("BaseBackupMissing", _))
}

/// Reports whether the log of the earlier object is looked at, too. Where no instant is named, the end of that log would be
/// taken for the end of all log, and what the present object has would be left out.
fn may_have_log(own: &Choice, until: Option<Timestamp>) -> bool {
    let is_elsewhere =
        matches!(own, Choice::Waiting(..) | Choice::Refused("LogMissing" | "LogBroken" | "LogOfOtherServer", _));
    until.is_some() && is_elsewhere
}

fn has_no_log(own: &Choice) -> bool {
    matches!(own, Choice::Waiting(..) | Choice::Refused("LogMissing", _))
}

/// Returns what the earlier object has. If that is nothing, the answer is that of the present object: what may still come from
/// there is waited for, and where nothing can come, the restore does not wait for an object that is gone.
fn either<T>(own: Choice, earlier: Placed<T>) -> Placed<T> {
    earlier.map_err(|no| match (own, no) {
        (own @ Choice::Waiting(..), _) => own,
        (
            Choice::Refused(reason, message),
            Choice::Waiting(_, its) | Choice::Refused("LogMissing" | "NotRecorded", its),
        ) => Choice::Refused(reason, format!("{message}; and of the earlier object in spec.adoptFrom: {its}")),
        (_, no) => no,
    })
}

/// Reports whether no object has log that follows the base backup, so that no other log can be lost by restoring it alone. Of
/// what is not recorded, that is not known.
fn is_none(log: &Placed<Vec<Document>>) -> bool {
    match log {
        Ok((_, documents)) => documents.is_empty(),
        Err(no) => matches!(no, Choice::Refused("LogMissing", _)),
    }
}

/// The base backup that the user names, with all log since then where there is any.
fn pair_by_id(base: (Destination, Document), log: Option<Placed<Vec<Document>>>) -> Result<Pair, Choice> {
    let log = log.filter(|log| !is_none(log)).transpose()?;
    Ok(Pair { base, log })
}

/// The latest that there is, where only the earlier object has a base backup. If the server is lost, the present object
/// never has one: then that base backup is wanted, with all log. If not all log can be replayed after it, the restore
/// would lose what the next base backup has, which is still to come: that is waited for, and the message says how to go
/// back at once.
fn latest(own: Choice, base: (Destination, Document), log: Option<Placed<Vec<Document>>>) -> Result<Pair, Choice> {
    let id = &base.1.manifest.id;
    let way = match log.filter(|log| !is_none(log)) {
        Some(Ok(log)) => return Ok(Pair { base, log: Some(log) }),
        Some(Err(held @ Choice::Held(..))) => return Err(held),
        Some(Err(Choice::Refused("NotRecorded", its))) => format!(
            "base backup {id} of the earlier object in spec.adoptFrom is there, but its log is not known: {its}"
        ),
        Some(_) => format!(
            "base backup {id} of the earlier object in spec.adoptFrom is there, but not all log since then: to go back to \
             an instant after it, make another DatabaseRestore with spec.pointInTime.until"
        ),
        None => format!(
            "to restore base backup {id} of the earlier object in spec.adoptFrom, make another DatabaseRestore with it as \
             spec.from.id"
        ),
    };
    Err(match own {
        Choice::Waiting(reason, message) => Choice::Waiting(reason, format!("{message}; {way}")),
        own => own,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::origin;
    use super::*;

    fn waiting() -> Choice {
        Choice::Waiting("NoBackup", "nothing is recorded yet".into())
    }

    fn no(reason: &'static str) -> Choice {
        Choice::Refused(reason, "no".into())
    }

    #[test]
    fn base_backups_of_the_earlier_object_are_found() {
        let late = Missing::Base { until: None, earliest: Some("noon".into()) };
        assert!(may_have_base(&waiting()) && may_have_base(&no(late.reason())));
        let held = Choice::Held("EndpointNotAllowed", "no".into());
        assert!(!may_have_base(&held) && !may_have_base(&no("ListingCut")));
    }

    #[test]
    fn earlier_log_is_taken_only_to_a_named_instant() {
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
    fn the_present_object_answers_without_an_earlier_one() {
        let answer = |own, earlier| either::<()>(own, Err(earlier)).expect_err("nothing");
        for nothing in [no("NotRecorded"), no("LogMissing"), waiting()] {
            assert_eq!(answer(waiting(), nothing.clone()), waiting());
            // It is refused for good, and not waited for: the earlier object is gone.
            let Choice::Refused("LogBroken", text) = answer(no("LogBroken"), nothing) else { panic!("refused") };
            assert!(text.starts_with("no; and of the earlier object in spec.adoptFrom: "), "{text}");
        }
        assert_eq!(answer(no("LogBroken"), no("LogTooShort")), no("LogTooShort"), "it has the beginning");
        let held = Choice::Held("EndpointNotAllowed", "no".into());
        assert_eq!(answer(no("LogBroken"), held.clone()), held);
    }

    fn document(kind: &str) -> Document {
        Document { manifest: Manifest::sample(kind, "15.18"), sha256: String::new() }
    }

    #[test]
    fn the_latest_is_a_base_backup_with_all_log() {
        let found = |log| latest(waiting(), (origin("shop/a/u1"), document(BASE)), log);
        let log = (origin("shop/b/u2"), vec![document(WAL)]);
        let pair = found(Some(Ok(log.clone()))).expect("they work together");
        assert_eq!((pair.base.0, pair.log), (origin("shop/a/u1"), Some(log)));
        let ended_before = Some(Ok((origin("shop/b/u2"), Vec::new())));
        let ways = [
            (None, "spec.from.id"),
            (Some(Err(no("LogBroken"))), "spec.pointInTime.until"),
            (Some(Err(waiting())), "spec.pointInTime.until"),
            (ended_before.clone(), "spec.from.id"),
            (Some(Err(no("LogMissing"))), "spec.from.id"),
        ];
        for (log, way) in ways {
            let Err(Choice::Waiting("NoBackup", text)) = found(log) else { panic!("waits") };
            assert!(text.starts_with("nothing is recorded yet; ") && text.contains(way), "{text}");
            assert!(text.contains(&document(BASE).manifest.id), "{text}");
        }
        // With that ID there is a way: no restore waits for log that no object has.
        let by_id = |log| pair_by_id((origin("shop/a/u1"), document(BASE)), log).map(|pair| pair.log.is_some());
        for log in [None, ended_before, Some(Err(no("LogMissing")))] {
            assert_eq!(by_id(log), Ok(false));
        }
        assert_eq!(by_id(Some(Ok((origin("shop/b/u2"), vec![document(WAL)])))), Ok(true));
        for reason in ["LogBroken", "NotRecorded"] {
            assert_eq!(by_id(Some(Err(no(reason)))), Err(no(reason)), "it would leave log out in silence");
        }
        let unknown = Choice::Refused("NotRecorded", "apply ConfigMap x".into());
        let Err(Choice::Waiting(_, text)) = found(Some(Err(unknown))) else { panic!("waits") };
        assert!(text.contains("its log is not known: apply ConfigMap x") && !text.contains("spec.from.id"), "{text}");
        let held = Choice::Held("EndpointNotAllowed", "no".into());
        assert_eq!(found(Some(Err(held.clone()))), Err(held), "a user has to allow something");
        assert!(has_no_log(&waiting()) && has_no_log(&no("LogMissing")), "the earlier one's is all log");
        assert!(!has_no_log(&no("LogBroken")), "the present object has later log");
    }
}
