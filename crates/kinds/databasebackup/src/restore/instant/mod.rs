//! Chooses the backups for a point-in-time recovery of PostgreSQL: the newest base backup that was complete by the
//! instant, and the log since then without a gap. A backup is trusted for the same reasons as in any other restore.

mod earlier;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use futures::future::join_all;
use jiff::Timestamp;
use kube::ResourceExt;

use super::bucket::{At, Opened};
use super::facts::{Choice, Note, Offer, OfferedLog};
use super::listing::Part;
use super::observe::{Observer, lasting, place_of};
use super::shelf::Candidate;
use causeway_api::databasebackup::Method;
use causeway_api::databaserestore::{BucketChoice, PointInTime};
use causeway_api::{DatabaseBackup, DatabaseRestore};
use causeway_backup::instant::{Furthest, LogSearch, Missing, Reach, end_of, is_by, system_of};
use causeway_backup::jobs::{Catalog, image_of, postgresql_at};
use causeway_backup::manifest::{Document, Manifest, due_of};
use causeway_backup::plan::{BASE, Destination, WAL};
use causeway_backup::record::Record;
use causeway_backup::signature::PublicKey;
use causeway_backup::transfer::{self, Disbelief, Error, key_of};
use earlier::Pair;

/// Backups of one object in one folder.
struct BackupFolder {
    origin: Destination,
    folder: &'static str,
    /// When the backups that may count were due.
    dues: Vec<Timestamp>,
    trust: Trust,
    /// True if there are later ones that were not read, because one recovery takes fewer than were read.
    cut: bool,
}

/// Which of the backups count.
enum Trust {
    /// Those in the record. None: all, because the restore accepts unrecorded backups.
    Recorded(Option<Record>),
    /// Those that one of the keys signed. None: all, because no signature is required.
    Signed(Option<Vec<PublicKey>>),
}

/// The result of a search, or what is missing; and why the first backup that was passed over does not count.
type Found<T> = (Result<T, Missing>, Option<String>);

/// The result of the search for the log of one object.
struct SearchedLog {
    log: Result<Vec<Document>, Missing>,
    /// How far it goes, even if it misses something.
    reach: Reach,
    /// The reason why the first backup that was passed over does not count.
    passed: Option<String>,
}

impl Observer {
    /// The base backup and the log from `DatabaseBackup`s of the namespace.
    pub(super) async fn instant_of_object(
        &self,
        object: &DatabaseRestore,
        instant: &PointInTime,
        name: &str,
    ) -> Result<Result<Offer, Choice>, Error> {
        let base = match self.backup_of(object, "spec.from.backup", name, Method::BaseBackup).await? {
            Ok(base) => base,
            Err(no) => return Ok(Err(no)),
        };
        let log = if let Some(name) = &instant.log {
            self.backup_of(object, "spec.pointInTime.log", name, Method::Wal).await?.map(Some)
        } else {
            let all: Vec<DatabaseBackup> = transfer::list(&self.client, object, "", "DatabaseBackups").await?;
            log_beside(&base, &all)
        };
        let log = match log {
            Ok(log) => log,
            Err(no) => return Ok(Err(no)),
        };
        let its = base.spec.source.as_ref().and_then(image_of).map_or("", |(_, image)| image);
        let image = instant.image.clone().unwrap_or_else(|| its.to_owned());
        if let Some((reason, message)) = self.guardrails.denial(object, || crate::asks::of_recovery(&image)) {
            return Ok(Err(Choice::Refused(reason, message)));
        }
        let until = instant.until.as_ref().map(|until| until.0);
        let pair = Box::pin(self.base_and_log(object, (&base, log.as_ref()), until)).await?;
        let Pair { base: (origin_of_base, document), log: after } = match pair {
            Ok(pair) => pair,
            Err(no) => return Ok(Err(no)),
        };
        let encryption = log.as_ref().and_then(|log| log.spec.encryption.as_ref());
        let (origin, documents) = after.unwrap_or_else(|| (origin_of_base.clone(), Vec::new()));
        let secret = |it: &causeway_api::databasebackup::Encryption| it.identity_secret_name.clone();
        let (encrypts, identity) = (encryption.is_some(), encryption.and_then(secret));
        let log = OfferedLog { documents, origin, encrypts, identity, until, image };
        let encryption = base.spec.encryption.as_ref();
        Ok(Ok(Offer {
            document,
            folder: BASE.into(),
            origin: origin_of_base,
            encrypts: encryption.is_some(),
            identity: encryption.and_then(secret),
            note: Note::None,
            log: Some(log),
        }))
    }

    /// The base backup and the log from a bucket. The log is that of the base backup's server, whichever object took it.
    pub(super) async fn instant_of_bucket(
        &self,
        object: &DatabaseRestore,
        instant: &PointInTime,
        choice: &BucketChoice,
    ) -> Result<Result<Offer, Choice>, Error> {
        let opened = match self.open_bucket(object, choice).await? {
            Ok(opened) => opened,
            Err(no) => return Ok(Err(no)),
        };
        let part = Part { folder: BASE, since: None };
        let asked = match self.catalogs(&opened.at, &opened.prefix, Some(part)).await? {
            Ok(found) => found.all,
            Err(no) => return Ok(Err(no)),
        };
        let until = instant.until.as_ref().map(|until| until.0);
        let (mut bases, mut why) = (Vec::new(), None);
        for kept in kept_in(&opened, &asked, BASE) {
            match self.base_of(object, &kept, until).await? {
                (Ok(document), _) => bases.push((kept.origin, document)),
                (Err(missing), passed) => why = why.or(Some(refused(&missing, &kept.origin, passed.as_deref()))),
            }
        }
        let (origin, document) = match newest(bases) {
            Ok(Some(base)) => base,
            Ok(None) => {
                let missing = Missing::Base { until, earliest: None };
                return Ok(Err(why.unwrap_or_else(|| refused(&missing, &opened.origin(&opened.prefix), None))));
            }
            Err(no) => return Ok(Err(no)),
        };
        // The prefix may hold the base backups alone: the log is looked for in the whole namespace.
        let namespace = object.namespace().unwrap_or_default();
        let part = Part { folder: WAL, since: Some(document.manifest.started) };
        let found = match self.catalogs(&opened.at, &namespace, Some(part)).await? {
            Ok(found) => found,
            Err(no) => return Ok(Err(no)),
        };
        let is_named = |kept: &BackupFolder| {
            let name = kept.origin.prefix.rsplit('/').nth(1);
            instant.log.is_none() || instant.log.as_deref() == name
        };
        let mut furthest = Furthest::new(&document.manifest, until);
        for kept in kept_in(&opened, &found.all, WAL).into_iter().filter(is_named) {
            let SearchedLog { log, reach, passed } = self.log_of(&kept, &document.manifest, until).await?;
            match log {
                Ok(documents) => furthest.take((documents, kept.origin), reach),
                Err(Missing::OtherServer { .. }) if instant.log.is_none() => {}
                Err(missing) => furthest.miss(missing, reach, (kept.origin, passed)),
            }
            if furthest.is_found() {
                break;
            }
        }
        let (documents, log_origin) = match furthest.end() {
            Some(Ok(log)) => log,
            Some(Err((missing, (origin, passed)))) => return Ok(Err(refused(&missing, &origin, passed.as_deref()))),
            None => {
                let is_asked_for = until.is_some() || instant.log.is_some();
                if let Some(no) = needs_log(is_asked_for, found.cut, &opened.origin(&namespace), &origin) {
                    return Ok(Err(no));
                }
                (Vec::new(), origin.clone())
            }
        };
        let image = instant.image.clone().or_else(|| image_of(&object.spec.target).map(|(_, image)| image.to_owned()));
        let log = OfferedLog {
            documents,
            origin: log_origin,
            encrypts: false,
            identity: None,
            until,
            image: image.unwrap_or_default(),
        };
        let note = if opened.believed_keys.is_none() { Note::Unverified } else { Note::None };
        let (folder, log) = (BASE.into(), Some(log));
        Ok(Ok(Offer { document, folder, origin, encrypts: false, identity: None, note, log }))
    }

    /// The DatabaseBackup of that name, which must have that method.
    async fn backup_of(
        &self,
        object: &DatabaseRestore,
        field: &str,
        name: &str,
        method: Method,
    ) -> Result<Result<DatabaseBackup, Choice>, Error> {
        let Some(backup) = self.get::<DatabaseBackup>(object, name, "DatabaseBackup").await? else {
            let message = format!("{field}: there is no DatabaseBackup {name} in this namespace");
            return Ok(Err(Choice::Waiting("BackupMissing", message)));
        };
        if backup.spec.method == method {
            return Ok(Ok(backup));
        }
        let message = format!(
            "{field}: DatabaseBackup {name} has method: {:?}, and spec.pointInTime needs one with method: {method:?} here",
            backup.spec.method
        );
        Ok(Err(Choice::Refused("MethodMismatch", message)))
    }

    /// The newest base backup that was complete by then, or the one that is named.
    async fn base_of(
        &self,
        object: &DatabaseRestore,
        kept: &BackupFolder,
        until: Option<Timestamp>,
    ) -> Result<Found<Document>, Error> {
        let named = due_of(&object.spec.from.id);
        let (mut earliest, mut passed) = (None, None);
        for due in kept.dues.iter().rev().filter(|due| named.is_none_or(|named| named == **due)) {
            match self.believed(kept, *due).await? {
                Ok(document) if is_by(&document.manifest, until) => return Ok((Ok(document), passed)),
                Ok(document) => earliest = end_of(&document.manifest).map(|end| end.to_string()).or(earliest),
                Err(why) => passed = passed.or(Some(why)),
            }
        }
        Ok((Err(Missing::Base { until, earliest }), passed))
    }

    /// The log from a base backup to the instant.
    async fn log_of(
        &self,
        kept: &BackupFolder,
        base: &Manifest,
        until: Option<Timestamp>,
    ) -> Result<SearchedLog, Error> {
        let mut search = LogSearch::new(base, until, kept.dues.iter().copied());
        let mut passed = None;
        while !search.next_reads().is_empty() {
            let reads = search.next_reads().iter().map(|due| self.believed(kept, *due));
            let mut documents = Vec::new();
            for read in join_all(reads).await {
                documents.push(read?.map_err(|why| passed.get_or_insert(why).clone()).ok());
            }
            search.take(documents);
        }
        let later = kept.cut.then(|| kept.dues.iter().filter(|due| **due > base.started).count());
        let (found, reach) = search.outcome();
        let log = as_far_as_read(found, later, until);
        // It was not read how far log goes that was cut.
        let is_open = kept.cut && until.is_none() && matches!(log, Err(Missing::Many(_)));
        let reach = if is_open { Reach::UNKNOWN } else { reach };
        Ok(SearchedLog { log, reach, passed })
    }

    /// The manifest of a backup; or why it does not count.
    async fn believed(&self, kept: &BackupFolder, due: Timestamp) -> Result<Result<Document, String>, Error> {
        let BackupFolder { origin, folder, trust, .. } = kept;
        let place = place_of(origin);
        let key = key_of(&origin.prefix, folder, due);
        let read = match trust {
            Trust::Recorded(record) => {
                let backup = (origin.prefix.as_str(), *folder, due);
                let read = transfer::document(&self.s3, (&place, &origin.owner), backup, record.as_ref());
                match read.await.map_err(lasting)? {
                    Some(Ok(document)) => Ok(document),
                    Some(Err(Disbelief::Invalid(mistake))) => Err(format!("{key} is invalid: {mistake}")),
                    Some(Err(Disbelief::Changed)) => Err(format!("{key} was written again after its Job reported it")),
                    None => Err(format!("{key} was deleted just now")),
                }
            }
            Trust::Signed(keys) => {
                let (base, folder) = (origin.prefix.clone(), (*folder).to_owned());
                let candidate = Candidate { base, folder, due, signed: true };
                let at = At { place, owner: origin.owner.clone() };
                self.read(&at, &candidate, keys.as_deref()).await?.map_err(|why| format!("{key}: {why}"))
            }
        };
        Ok(match read {
            Ok(document) if document.manifest.kind != *folder => Err(format!("{key} is of another kind")),
            read => read,
        })
    }
}

/// The log that was found, unless what is wanted may lie in that which was not read: one recovery does not take so much.
/// `later` says how many backups after the base backup were read where there are more.
fn as_far_as_read(
    found: Result<Vec<Document>, Missing>,
    later: Option<usize>,
    until: Option<Timestamp>,
) -> Result<Vec<Document>, Missing> {
    match (found, later) {
        (Err(Missing::End(_)), Some(later)) => Err(Missing::Many(later)),
        // All that there is, is wanted.
        (Ok(_), Some(later)) if until.is_none() => Err(Missing::Many(later)),
        (found, _) => found,
    }
}

/// Backups of each object that has such a folder.
fn kept_in(opened: &Opened, catalogs: &BTreeMap<String, Catalog>, folder: &'static str) -> Vec<BackupFolder> {
    let kept = catalogs.iter().filter(|(_, catalog)| catalog.folders.contains_key(folder)).map(|(prefix, catalog)| {
        BackupFolder {
            origin: opened.origin(prefix),
            folder,
            dues: catalog.complete(folder).into_iter().collect(),
            trust: Trust::Signed(opened.believed_keys.clone()),
            cut: catalog.cut,
        }
    });
    kept.collect()
}

/// The newest base backup, where all are of one server.
fn newest(mut bases: Vec<(Destination, Document)>) -> Result<Option<(Destination, Document)>, Choice> {
    bases.sort_by(|one, other| one.1.manifest.id.cmp(&other.1.manifest.id));
    let first = bases.first().map(|(_, document)| system_of(&document.manifest).to_owned());
    let is_other = |(_, document): &&(Destination, Document)| Some(system_of(&document.manifest)) != first.as_deref();
    if bases.iter().any(|it| is_other(&it)) {
        let each =
            bases.iter().map(|(origin, document)| format!("{} under {}", document.manifest.source, origin.prefix));
        let message = format!(
            "there are base backups of several servers: {}; name one of these prefixes in spec.from.s3.prefix",
            each.collect::<Vec<_>>().join(", ")
        );
        return Err(Choice::Refused("SourceAmbiguous", message));
    }
    Ok(bases.pop())
}

/// The DatabaseBackup that keeps the log of the server of `base`; none where there is none.
fn log_beside(base: &DatabaseBackup, all: &[DatabaseBackup]) -> Result<Option<DatabaseBackup>, Choice> {
    let server = base.spec.source.as_ref().and_then(postgresql_at);
    let is_its = |it: &&DatabaseBackup| {
        it.spec.method == Method::Wal && it.spec.source.as_ref().and_then(postgresql_at) == server
    };
    let found: Vec<&DatabaseBackup> = all.iter().filter(is_its).collect();
    match found.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some((*only).clone())),
        several => {
            let names: Vec<String> = several.iter().map(|it| it.name_any()).collect();
            let message = format!(
                "several DatabaseBackups keep the log of that server: name one of {} in spec.pointInTime.log",
                names.join(", ")
            );
            Err(Choice::Refused("LogAmbiguous", message))
        }
    }
}

/// Explains why a base backup is not restored alone where no log was found. Where not all was seen, log may be there all the
/// same.
fn needs_log(is_asked_for: bool, cut: bool, namespace: &Destination, base: &Destination) -> Option<Choice> {
    if is_asked_for {
        return Some(refused(&Missing::Log, namespace, None));
    }
    cut.then(|| {
        let message = format!(
            "under s3://{}/{}/, no log of that server was found, and so much is there that not all of it was searched: causeway \
             backups ls shows all that is there, and causeway backups recover --prefix {} brings back the base backup without \
             log",
            namespace.bucket, namespace.prefix, base.prefix
        );
        Choice::Refused(Missing::Log.reason(), message)
    })
}

/// Explains why nothing can be restored. Where there is no base backup at all, the restore waits: one may still come.
fn refused(missing: &Missing, origin: &Destination, passed: Option<&str>) -> Choice {
    let passed = passed.map_or_else(String::new, |passed| format!("; passed over what does not count: {passed}"));
    let message = format!("under s3://{}/{}/, {missing}{passed}", origin.bucket, origin.prefix);
    match missing {
        Missing::Base { earliest: None, .. } => Choice::Waiting(missing.reason(), message),
        _ => Choice::Refused(missing.reason(), message),
    }
}
