//! Lists backups in S3, also where there are more than are read at once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use causeway_api::DatabaseRestore;
use causeway_aws::aws::AwsError;
use causeway_backup::backup_id::LATEST;
use causeway_backup::instant::MOST;
use causeway_backup::jobs::Catalog;
use causeway_backup::manifest::{due_of, id_of};
use causeway_backup::plan::Destination;
use causeway_backup::record::{Record, believed};
use causeway_backup::transfer::Error;

use super::bucket::At;
use super::choice::pick;
use super::facts::{Choice, Target};
use super::observe::{Observer, lasting, place_of};

/// How many recorded backups are looked at, the best first.
const LOOKED_AT: usize = 50;
/// How often reading goes on in one folder. Four times are enough for the log of 9 days before a base backup and for
/// `MOST` backups after it, with one every minute.
const WINDOWS: usize = 4;
/// How many prefixes are searched for objects: a DatabaseBackup has three, with its name, its UID and its folder.
const SEARCHED: usize = 450;
/// How many further pages of their names are read, with a thousand names each.
const FURTHER: usize = 100;

/// A part of what objects keep.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub folder: &'static str,
    /// When the base backup began whose log is wanted. None: all of the folder is.
    pub since: Option<Timestamp>,
}

/// The catalogs under a prefix.
#[derive(Clone, Debug)]
pub struct Catalogs {
    /// By what the keys of the object begin with that wrote it, without a slash at the end.
    pub all: BTreeMap<String, Catalog>,
    /// True if not all folders were seen: an object that is not here may still be there.
    pub cut: bool,
}

/// The prefixes of the keys of objects that have backups in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Holders {
    all: Vec<String>,
    /// True if not all folders were seen.
    cut: bool,
}

impl Observer {
    /// Returns what is in S3 of an object, with a `Doubt` for each backup that does not count. If more is there than is read,
    /// what the record has, of which the backup that will be picked was looked at in S3.
    pub(super) async fn catalog(
        &self,
        object: &DatabaseRestore,
        origin: &Destination,
        target: &Target,
        record: Option<&Record>,
    ) -> Result<Result<Catalog, Choice>, Error> {
        let at = At { place: place_of(origin), owner: origin.owner.clone() };
        let prefix = format!("{}/", origin.prefix);
        let listing = self.s3.list(&at.place, &at.owner, &prefix).await.map_err(lasting)?;
        if !listing.cut {
            return Ok(Ok(judged(Catalog::new(&prefix, &listing, Vec::new()), record)));
        }
        let Some(record) = record else {
            let message = format!(
                "more is under s3://{0}/{prefix} than is read: make another DatabaseRestore that names the backup itself by \
                 spec.from.s3 with bucket: {0} and prefix: {prefix}FOLDER/ID (causeway backups ls shows them)",
                origin.bucket
            );
            return Ok(Err(refused(message)));
        };
        Ok(self.recorded(object, &at, (&prefix, record), target).await.map_err(lasting)?)
    }

    async fn recorded(
        &self,
        object: &DatabaseRestore,
        at: &At,
        (prefix, record): (&str, &Record),
        target: &Target,
    ) -> Result<Result<Catalog, Choice>, AwsError> {
        let mut catalog = record.catalog(prefix);
        let mut seen = BTreeSet::new();
        while seen.len() < LOOKED_AT {
            let Ok((folder, due)) = pick(object, &catalog, target) else { return Ok(Ok(catalog)) };
            if !seen.insert((folder.clone(), due)) {
                return Ok(Ok(catalog));
            }
            let under = format!("{prefix}{folder}/{}/", id_of(due));
            let listing = self.s3.list(&at.place, &at.owner, &under).await?;
            let found = record.judged(Catalog::new(prefix, &listing, Vec::new()), Timestamp::now());
            let backups = catalog.folders.entry(folder).or_default();
            backups.remove(&due);
            backups.extend(found.folders.into_values().flatten());
        }
        let message = format!(
            "under s3://{}/{prefix} the newest {LOOKED_AT} backups that are recorded are gone or were changed: look who may \
             write there, and name an older one by spec.from.id of another DatabaseRestore",
            at.place.bucket
        );
        Ok(Err(refused(message)))
    }

    /// Returns what is in one folder of an object whose keys begin with `base`. Of a log, only what is needed from a base backup
    /// on, and so much of it that more would be too much for one recovery. It is judged before it is counted: others may put as
    /// much there as they like.
    pub(super) async fn in_folder(
        &self,
        at: &At,
        base: &str,
        part: Part,
        record: Option<&Record>,
    ) -> Result<Result<Catalog, Choice>, Error> {
        match self.log_since(at, base, part, record).await? {
            // The log ended long before the base backup: its last backups say where.
            Ok(found) if part.since.is_some() && found.complete(part.folder).is_empty() => {
                self.log_since(at, base, Part { since: None, ..part }, record).await
            }
            found => Ok(found),
        }
    }

    async fn log_since(
        &self,
        at: &At,
        base: &str,
        part: Part,
        record: Option<&Record>,
    ) -> Result<Result<Catalog, Choice>, Error> {
        let Part { folder, since } = part;
        let (prefix, under) = (format!("{base}/"), format!("{base}/{folder}/"));
        let mut catalog = Catalog { prefix: prefix.clone(), ..Catalog::default() };
        // The backup with the beginning of the log was due before the base backup began, and ended after that.
        let from = since.map(|since| id_of(since.checked_sub(LATEST).unwrap_or(Timestamp::MIN)));
        let mut after = format!("{under}{}", from.unwrap_or_default());
        for _ in 0..WINDOWS {
            let listing = self.s3.list_after(&at.place, &at.owner, &under, &after).await.map_err(lasting)?;
            catalog.add(Catalog::new(&prefix, &listing, Vec::new()));
            catalog.cut = listing.cut;
            catalog = judged(catalog, record);
            let is_enough = |since: Timestamp| catalog.complete(folder).range(since..).count() > MOST;
            let last = listing.objects.last().filter(|_| listing.cut && !since.is_some_and(is_enough));
            let Some(last) = last else { return Ok(Ok(catalog)) };
            // All of the backup is read again of which only a part may have been read.
            let name = last.key.strip_prefix(&under).and_then(|key| key.split('/').next()).unwrap_or_default();
            after = format!("{under}{name}");
        }
        Ok(Err(strange(&at.place.bucket, &under)))
    }

    /// Returns what is under a prefix, by the object that wrote it, and what of it may count. If more is there than is read,
    /// only that part of it.
    pub(super) async fn catalogs(
        &self,
        at: &At,
        prefix: &str,
        part: Option<Part>,
    ) -> Result<Result<Catalogs, Choice>, Error> {
        let listing = self.s3.list(&at.place, &at.owner, &format!("{prefix}/")).await.map_err(lasting)?;
        if !listing.cut {
            let all = Catalog::of_all(listing).into_iter().map(|(base, catalog)| (base, judged(catalog, None)));
            return Ok(Ok(Catalogs { all: all.collect(), cut: false }));
        }
        let Some(part) = part else {
            let message = format!(
                "more is under s3://{}/{prefix}/ than is read: make another DatabaseRestore with a longer spec.from.s3.prefix, \
                 down to that of one backup (causeway backups ls shows them)",
                at.place.bucket
            );
            return Ok(Err(refused(message)));
        };
        let Some(holders) = self.objects_with(at, prefix, part.folder).await.map_err(lasting)? else {
            return Ok(Err(strange(&at.place.bucket, &format!("{prefix}/"))));
        };
        let mut all = BTreeMap::new();
        for base in holders.all {
            match self.in_folder(at, &base, part, None).await? {
                Ok(catalog) if catalog.folders.contains_key(part.folder) => {
                    all.insert(base, catalog);
                }
                Ok(_) => {}
                Err(no) => return Ok(Err(no)),
            }
        }
        Ok(Ok(Catalogs { all, cut: holders.cut }))
    }

    /// The objects under a prefix that have backups in such a folder; none where there is too much to search. The name of
    /// the folder alone says nothing: objects may be named like it, and so may their prefixes.
    async fn objects_with(&self, at: &At, prefix: &str, folder: &str) -> Result<Option<Holders>, AwsError> {
        let its_end = format!("/{folder}");
        if let Some((base, below)) = prefix.rsplit_once(&format!("{its_end}/"))
            && below.split('/').next().is_some_and(|name| due_of(name).is_some())
        {
            return Ok(Some(Holders { all: vec![base.to_owned()], cut: false }));
        }
        let (mut found, mut left, mut cut) = (BTreeSet::new(), vec![prefix.to_owned()], false);
        let (mut searched, mut further) = (0, 0);
        while let Some(base) = left.pop() {
            searched += 1;
            let (under, mut token) = (format!("{base}/"), None);
            loop {
                let (names, next) = self.s3.names(&at.place, &at.owner, &under, token).await?;
                // A client that may write there may put anything beside IDs, and IDs beside anything.
                let (ids, deeper): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| due_of(name).is_some());
                let is_of_database = !ids.is_empty();
                if let Some(object) = base.strip_suffix(&its_end).filter(|_| is_of_database) {
                    found.insert(object.to_owned());
                }
                left.extend(deeper.into_iter().map(|name| format!("{under}{name}")));
                if searched + left.len() > SEARCHED {
                    return Ok(None);
                }
                token = next;
                if token.is_none() {
                    break;
                }
                if further == FURTHER {
                    // In the folder of a database, the rest are IDs as well, unless another client writes there.
                    if !is_of_database {
                        return Ok(None);
                    }
                    cut = true;
                    break;
                }
                further += 1;
            }
        }
        Ok(Some(Holders { all: found.into_iter().collect(), cut }))
    }
}

/// Returns what is in S3, with a `Doubt` for each backup that does not count. Without a record all counts, but for backups of
/// the future.
fn judged(catalog: Catalog, record: Option<&Record>) -> Catalog {
    match record {
        Some(record) => record.judged(catalog, Timestamp::now()),
        None => believed(catalog, Timestamp::now()),
    }
}

/// The answer where so much is read and there is still more: that is not of Causeway alone.
fn strange(bucket: &str, under: &str) -> Choice {
    refused(format!(
        "more is under s3://{bucket}/{under} than is read: look who writes there (aws s3 ls s3://{bucket}/{under} --recursive \
         --summarize), delete what is not of Causeway, and make another DatabaseRestore"
    ))
}

fn refused(message: String) -> Choice {
    Choice::Refused("ListingCut", message)
}

#[cfg(test)]
mod tests;
