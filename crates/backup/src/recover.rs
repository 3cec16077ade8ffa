//! `causeway backups recover`: fetches what a new PostgreSQL needs to come back as it was at an instant. It needs no cluster.

use std::fs;
use std::path::PathBuf;

use causeway_api::databaserestore::{Excluded, Included, OnDependents};
use causeway_runtime::terminal::plain;

use super::archive;
use super::data_directory::{BASE_FILE, SCRIPT_FILE, log_file, script};
use super::fetch;
use super::instant::{Furthest, LogSearch, Missing, Reach, end_of, is_by};
use super::ls::{self, Found, Shelf};
use super::manifest::{Document, Manifest, NAME, id_of};
use super::options::RecoverOptions;
use super::plan::{BASE, Destination, RestorePlan, WAL};

/// The reasons why nothing could be fetched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bucket could not be read.
    #[error(transparent)]
    Shelf(#[from] ls::Error),
    /// A backup could not be fetched.
    #[error(transparent)]
    Backup(#[from] super::Error),
    /// No key to trust is given.
    #[error("give --trusted-key, or --unverified to take unchecked backups")]
    Trust,
    /// There is no base backup, or the log does not reach so far.
    #[error("{0} (see causeway backups ls, and mind --prefix, --source and --until)")]
    Missing(#[from] Missing),
    /// There is more in the bucket than was read: the newest backups may be missing.
    #[error(
        "more is in the bucket than is read, so that the newest backups are not known: give a longer --prefix, with the base \
         backups and their log below it"
    )]
    Cut,
    /// The directory is not empty.
    #[error("{0} is not empty: name another directory with --into")]
    NotEmpty(PathBuf),
    /// A file could not be read, written or deleted.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
}

/// A backup that is trusted.
#[derive(Clone)]
struct TrustedBackup {
    base: String,
    folder: String,
    document: Document,
}

impl TrustedBackup {
    fn manifest(&self) -> &Manifest {
        &self.document.manifest
    }
}

/// Fetches the base backup and its log, and writes the script beside them.
pub async fn run(options: RecoverOptions) -> Result<(), Error> {
    if options.from.trusted_keys.is_empty() && !options.unverified {
        return Err(Error::Trust);
    }
    let into = &options.into;
    let failed = |source| Error::File { path: into.clone(), source };
    fs::create_dir_all(into).map_err(failed)?;
    if fs::read_dir(into).map_err(failed)?.next().is_some() {
        return Err(Error::NotEmpty(into.clone()));
    }
    let shelf = Shelf::open(&options.from).await?;
    let found = whole(shelf.list(options.from.prefix.as_deref()).await?)?;
    let base = base(&shelf, &found, &options).await?;
    let log = log(&shelf, &found, &base, &options).await?;
    fetch_all(&shelf, &base, &log, &options).await?;
    let (script, text) = (into.join(SCRIPT_FILE), script(options.until));
    fs::write(&script, text).map_err(|source| Error::File { path: script.clone(), source })?;
    let end = end_of(log.last().unwrap_or(&base).manifest()).unwrap_or_default();
    let (id, source) = (&base.manifest().id, &base.manifest().source);
    println!("{}", plain(&format!("{id} of {source}, and {} backups of its log up to {end}", log.len())));
    println!("Now run, as the user of the server: sh {} DATA_DIRECTORY", script.display());
    Ok(())
}

/// The backups, if all were read. What is left out may be newer than what was read.
fn whole((found, cut): (Vec<Found>, bool)) -> Result<Vec<Found>, Error> {
    if cut { Err(Error::Cut) } else { Ok(found) }
}

/// The backup, if it is complete and trusted.
async fn believed(shelf: &Shelf, it: &Found, options: &RecoverOptions) -> Result<Option<TrustedBackup>, Error> {
    if !it.stored.is_complete() {
        return Ok(None);
    }
    let (document, signed) = shelf.read(it).await?;
    let Some(document) = document.filter(|it| options.source.as_ref().is_none_or(|name| *name == it.manifest.source))
    else {
        return Ok(None);
    };
    if signed.is_err() && !options.unverified {
        let what = format!("{}/{}/{}", it.base, it.folder, id_of(it.due));
        eprintln!("passed over what no trusted key signed: {}", plain(&what));
        return Ok(None);
    }
    Ok(Some(TrustedBackup { base: it.base.clone(), folder: it.folder.clone(), document }))
}

/// The newest base backup that was complete by the instant.
async fn base(shelf: &Shelf, found: &[Found], options: &RecoverOptions) -> Result<TrustedBackup, Error> {
    let mut bases: Vec<&Found> = found.iter().filter(|it| it.folder == BASE).collect();
    bases.sort_by_key(|it| std::cmp::Reverse(it.due));
    let mut earliest = None;
    for it in bases {
        let Some(kept) = believed(shelf, it, options).await? else { continue };
        if is_by(kept.manifest(), options.until) {
            return Ok(kept);
        }
        earliest = end_of(kept.manifest()).map(|end| end.to_string()).or(earliest);
    }
    Err(Missing::Base { until: options.until, earliest }.into())
}

/// The log from the base backup to the instant, of the first object that has it without a hole. Where no instant is named,
/// of the one whose log goes furthest, as [`Furthest`] says.
async fn log(
    shelf: &Shelf,
    found: &[Found],
    base: &TrustedBackup,
    options: &RecoverOptions,
) -> Result<Vec<TrustedBackup>, Error> {
    let mut objects: Vec<&str> = found.iter().filter(|it| it.folder == WAL).map(|it| it.base.as_str()).collect();
    objects.dedup();
    let mut furthest = Furthest::new(base.manifest(), options.until);
    for object in objects {
        let all: Vec<&Found> = found.iter().filter(|it| it.folder == WAL && it.base == object).collect();
        match log_of(shelf, &all, base, options).await? {
            (Ok(log), reach) => furthest.take(log, reach),
            (Err(missing), reach) => furthest.miss(missing, reach, ()),
        }
        if furthest.is_found() {
            break;
        }
    }
    match furthest.end() {
        Some(found) => found.map_err(|(missing, ())| missing.into()),
        None if options.until.is_some() => Err(Missing::Log.into()),
        None => Ok(Vec::new()),
    }
}

/// The log of one object, or what of it is missing; and how far it goes, as [`LogSearch::outcome`] says.
async fn log_of(
    shelf: &Shelf,
    all: &[&Found],
    base: &TrustedBackup,
    options: &RecoverOptions,
) -> Result<(Result<Vec<TrustedBackup>, Missing>, Reach), Error> {
    let mut search = LogSearch::new(base.manifest(), options.until, all.iter().map(|it| it.due));
    while !search.next_reads().is_empty() {
        let wanted = all.iter().filter(|it| search.next_reads().contains(&it.due));
        let mut documents = Vec::new();
        for it in wanted.rev() {
            documents.push(believed(shelf, it, options).await?.map(|kept| kept.document));
        }
        search.take(documents);
    }
    let of = |document| TrustedBackup { base: all[0].base.clone(), folder: all[0].folder.clone(), document };
    let (log, reach) = search.outcome();
    Ok((log.map(|log| log.into_iter().map(of).collect()), reach))
}

/// Fetches each into a file of its own, checked against its manifest.
async fn fetch_all(
    shelf: &Shelf,
    base: &TrustedBackup,
    log: &[TrustedBackup],
    options: &RecoverOptions,
) -> Result<(), Error> {
    fetched(shelf, base, BASE_FILE, options).await?;
    archive::check_base(&options.into.join(BASE_FILE))?;
    for (number, it) in log.iter().enumerate() {
        fetched(shelf, it, &log_file(number), options).await?;
        archive::check_log(&options.into.join(log_file(number)))?;
    }
    let left = options.into.join(NAME);
    fs::remove_file(&left).map_err(|source| Error::File { path: left.clone(), source })
}

async fn fetched(shelf: &Shelf, it: &TrustedBackup, name: &str, options: &RecoverOptions) -> Result<(), Error> {
    let plan = RestorePlan {
        origin: Destination {
            bucket: shelf.place.bucket.clone(),
            owner: shelf.owner.clone(),
            region: shelf.place.region.clone(),
            endpoint: shelf.place.endpoint.clone(),
            prefix: it.base.clone(),
            storage_class: None,
            kms_key: None,
            bucket_encrypts: false,
        },
        folder: it.folder.clone(),
        id: it.manifest().id.clone(),
        manifest: Some(it.document.sha256.clone()),
        work: options.into.clone(),
        scratch: String::new(),
        identity: options.identity.clone(),
        target: None,
        force: false,
        on_dependents: OnDependents::Fail,
        include: Included::default(),
        exclude: Excluded::default(),
        parallelism: 1,
        dry_run: false,
        unproven: false,
        recovery: None,
    };
    Box::pin(fetch::plain(&plan, name)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_recovered_from_a_cut_listing() {
        assert!(matches!(whole((Vec::new(), true)), Err(Error::Cut)));
        assert!(whole((Vec::new(), false)).is_ok_and(|found| found.is_empty()));
    }
}
