//! `causeway backups recover`: fetches what a new PostgreSQL needs to come back as it was at an instant. It needs no cluster.

use std::fs;
use std::path::PathBuf;

use jiff::Timestamp;

use super::chain;
use super::fetch;
use super::ls::{self, Found, Shelf};
use super::manifest::{Document, Manifest, NAME, id_of};
use super::plan::{BASE, Destination, RestorePlan, WAL};
use crate::api::databaserestore::OnDependents;
use crate::config::RecoverOptions;

/// What makes a data directory out of the files, but for the instant.
const SCRIPT: &str = include_str!("recover.sh");
/// The instants of manifests are those of the server's clock.
const UNTIL: &str = "until";

/// Why nothing could be fetched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bucket could not be read.
    #[error(transparent)]
    Shelf(#[from] ls::Error),
    /// A backup could not be fetched, or some log is missing.
    #[error(transparent)]
    Backup(#[from] super::Error),
    /// Nobody said whom to trust.
    #[error("give --trusted-key, or --unverified to take what nobody checked")]
    Trust,
    /// There is no base backup.
    #[error("{0}")]
    NoBase(String),
    /// The log does not reach so far.
    #[error("{0}")]
    NoLog(String),
    /// There is something already.
    #[error("{0} is not empty: name another directory with --into")]
    NotEmpty(PathBuf),
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A backup that is believed.
#[derive(Clone)]
struct Kept {
    base: String,
    folder: String,
    document: Document,
}

impl Kept {
    fn manifest(&self) -> &Manifest {
        &self.document.manifest
    }

    /// What a manifest says of an instant or a segment.
    fn fact(&self, name: &str) -> &str {
        self.manifest().contents.facts.get(name).map_or("", String::as_str)
    }

    /// All that was committed before is in it.
    fn until(&self) -> Option<Timestamp> {
        self.fact(UNTIL).parse().ok()
    }
}

/// Fetches.
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
    let (found, _) = shelf.list(options.from.prefix.as_deref()).await?;
    let base = base(&shelf, &found, &options).await?;
    let log = log(&shelf, &found, &base, &options).await?;
    fetch_all(&shelf, &base, &log, &options).await?;
    let (script, text) = (into.join("recover.sh"), script(options.until));
    fs::write(&script, text).map_err(|source| Error::File { path: script.clone(), source })?;
    let end = log.last().unwrap_or(&base).fact(UNTIL).to_owned();
    println!("{} of {}, and {} backups of its log up to {end}", base.manifest().id, base.manifest().source, log.len());
    println!("Now run, as the user of the server: sh {} DATA_DIRECTORY", script.display());
    Ok(())
}

/// A backup, where it is whole and believed.
async fn believed(shelf: &Shelf, it: &Found, options: &RecoverOptions) -> Result<Option<Kept>, Error> {
    if !it.stored.is_complete() {
        return Ok(None);
    }
    let (document, signed) = shelf.read(it).await?;
    let Some(document) = document.filter(|it| options.source.as_ref().is_none_or(|name| *name == it.manifest.source))
    else {
        return Ok(None);
    };
    if signed.is_err() && !options.unverified {
        eprintln!("passed over what no trusted key signed: {}/{}/{}", it.base, it.folder, id_of(it.due));
        return Ok(None);
    }
    Ok(Some(Kept { base: it.base.clone(), folder: it.folder.clone(), document }))
}

/// The newest base backup that was complete by then.
async fn base(shelf: &Shelf, found: &[Found], options: &RecoverOptions) -> Result<Kept, Error> {
    let mut bases: Vec<&Found> = found.iter().filter(|it| it.folder == BASE).collect();
    bases.sort_by_key(|it| std::cmp::Reverse(it.due));
    for it in bases {
        let Some(kept) = believed(shelf, it, options).await? else { continue };
        let end = kept.until();
        if end.is_some() && options.until.is_none_or(|until| end.is_some_and(|end| end <= until)) {
            return Ok(kept);
        }
    }
    let until = options.until.map(|until| format!(" that was complete by {until}")).unwrap_or_default();
    Err(Error::NoBase(format!(
        "no base backup{until} is there that fits: look at causeway backups ls --bucket {}, and mind --prefix and --source",
        options.from.bucket
    )))
}

/// The log from the base backup to the instant, of the first object that has it without a hole.
async fn log(shelf: &Shelf, found: &[Found], base: &Kept, options: &RecoverOptions) -> Result<Vec<Kept>, Error> {
    let mut objects: Vec<&str> = found.iter().filter(|it| it.folder == WAL).map(|it| it.base.as_str()).collect();
    objects.dedup();
    let mut why = None;
    for object in objects {
        // The newest is first.
        let all: Vec<&Found> = found.iter().filter(|it| it.folder == WAL && it.base == object).rev().collect();
        match log_of(shelf, &all, base, options).await? {
            Ok(log) => return Ok(log),
            Err(missing) => why = why.or(Some(missing)),
        }
    }
    match (why, options.until) {
        (Some(why), _) => Err(Error::NoLog(why)),
        (None, None) => Ok(Vec::new()),
        (None, Some(_)) => {
            Err(Error::NoLog("no log of that server is there: only --until left out can do without".into()))
        }
    }
}

/// The same of one object, whose backups come in their order; or what is missing.
async fn log_of(
    shelf: &Shelf,
    all: &[&Found],
    base: &Kept,
    options: &RecoverOptions,
) -> Result<Result<Vec<Kept>, String>, Error> {
    // That which has the beginning was due before the base backup began.
    let begin = all.partition_point(|it| it.due <= base.manifest().started);
    let mut log: Vec<Kept> = Vec::new();
    for it in all[..begin].iter().rev() {
        let Some(kept) = believed(shelf, it, options).await? else { continue };
        if kept.fact("system") != base.fact("system") {
            return Ok(Err(format!("the log below {} is of another server", it.base)));
        }
        let has_it = kept.fact("first") <= base.fact("first");
        log.insert(0, kept);
        if has_it {
            break;
        }
    }
    for it in &all[begin..] {
        if is_enough(&log, options.until) {
            break;
        }
        log.extend(believed(shelf, it, options).await?);
    }
    Ok(unbroken(base, log, options.until))
}

fn is_enough(log: &[Kept], until: Option<Timestamp>) -> bool {
    let end = log.last().and_then(Kept::until);
    until.is_some_and(|until| end.is_some_and(|end| end >= until))
}

/// The log, where it has all from the base backup to the instant.
fn unbroken(base: &Kept, log: Vec<Kept>, until: Option<Timestamp>) -> Result<Vec<Kept>, String> {
    let Some(first) = log.first() else { return Err("no log of that server is there".into()) };
    if first.fact("first") > base.fact("first") {
        return Err(format!(
            "the log begins at segment {}, and base backup {} needs it from {}: take a later instant, for which a later base \
             backup is there",
            first.fact("first"),
            base.manifest().id,
            base.fact("first")
        ));
    }
    for pair in log.windows(2) {
        chain::follows(pair[0].manifest(), &pair[1].manifest().contents).map_err(|error| error.to_string())?;
    }
    if until.is_some() && !is_enough(&log, until) {
        let end = log.last().map_or("", |it| it.fact(UNTIL));
        return Err(format!("the log ends at {end}: name that instant or an earlier one, or leave --until out"));
    }
    Ok(log)
}

/// Fetches each into a file of its own, checked against its manifest.
async fn fetch_all(shelf: &Shelf, base: &Kept, log: &[Kept], options: &RecoverOptions) -> Result<(), Error> {
    fetched(shelf, base, "base.tar", options).await?;
    for (number, it) in log.iter().enumerate() {
        fetched(shelf, it, &format!("wal-{number:06}.tar"), options).await?;
    }
    let left = options.into.join(NAME);
    fs::remove_file(&left).map_err(|source| Error::File { path: left.clone(), source })
}

async fn fetched(shelf: &Shelf, it: &Kept, name: &str, options: &RecoverOptions) -> Result<(), Error> {
    let plan = RestorePlan {
        origin: Destination {
            bucket: shelf.place.bucket.clone(),
            owner: shelf.owner.clone(),
            region: shelf.place.region.clone(),
            endpoint: shelf.place.endpoint.clone(),
            prefix: it.base.clone(),
            storage_class: None,
            kms_key: None,
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
        dry_run: false,
        unproven: false,
    };
    Box::pin(fetch::plain(&plan, name)).await?;
    Ok(())
}

/// What makes a data directory out of the files.
fn script(until: Option<Timestamp>) -> String {
    // The server reads this setting before it knows names of time zones, such as Z.
    let target = until.map(|it| format!("recovery_target_time = '{}'\n", it.strftime("%Y-%m-%d %H:%M:%S%.f+00")));
    let target = target.unwrap_or_default();
    let target = format!("cat >> \"$data/postgresql.auto.conf\" <<'END'\n{target}END\n: > \"$data/recovery.signal\"\n");
    format!("{SCRIPT}{target}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::manifest::{Contents, FORMAT};
    use super::*;

    fn kept(kind: &str, facts: &[(&str, &str)]) -> Kept {
        let at: Timestamp = "2026-11-22T00:05:00Z".parse().unwrap();
        let facts = facts.iter().chain(&[("system", "7")]);
        let facts: BTreeMap<String, String> = facts.map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let manifest = Manifest {
            format: FORMAT,
            source: "PostgreSQL db:5432".into(),
            started: at,
            finished: at,
            contents: Contents { keys: 0, facts },
            ..Manifest::sample(kind, "15.18")
        };
        Kept { base: "shop/log/u".into(), folder: kind.into(), document: Document { manifest, sha256: String::new() } }
    }

    fn log(timeline: u8, from: u8, to: u8, minute: u8) -> Kept {
        let name = |number: u8| format!("{timeline:08X}00000000{number:08X}");
        kept(
            WAL,
            &[("first", &name(from)), ("next", &name(to)), ("until", &format!("2026-11-22T00:{minute:02}:00.5Z"))],
        )
    }

    fn told(log: Vec<Kept>, until: Option<&str>) -> Result<usize, String> {
        let base = kept(BASE, &[("first", "000000010000000000000005"), ("until", "2026-11-22T00:01:00Z")]);
        unbroken(&base, log, until.map(|it| it.parse().unwrap())).map(|log| log.len())
    }

    #[test]
    fn the_log_goes_from_the_base_backup_to_the_instant_without_a_hole() {
        let whole = || vec![log(1, 3, 6, 5), log(1, 6, 6, 10), log(1, 5, 9, 15), log(2, 9, 12, 20)];
        assert_eq!(told(whole(), None), Ok(4));
        assert_eq!(told(whole(), Some("2026-11-22T00:20:00Z")), Ok(4));
        let late = told(whole(), Some("2026-11-22T00:20:01Z")).unwrap_err();
        assert!(late.contains("the log ends at 2026-11-22T00:20:00.5Z"), "{late}");
        let begins = told(vec![log(1, 6, 9, 5)], None).unwrap_err();
        assert!(begins.contains("begins at segment 000000010000000000000006"), "{begins}");
        let hole = told(vec![log(1, 3, 6, 5), log(1, 7, 9, 10)], None).unwrap_err();
        assert!(
            hole.contains("log is missing: backup 20261122T000500Z ends before segment 000000010000000000000006"),
            "{hole}"
        );
        let back = told(vec![log(1, 3, 6, 5), log(2, 6, 7, 10), log(1, 7, 9, 15)], None).unwrap_err();
        assert!(back.contains("log is missing"), "a timeline never goes back: {back}");
        let mut other = log(1, 6, 9, 10);
        other.document.manifest.contents.facts.insert("system".into(), "8".into());
        assert!(told(vec![log(1, 3, 6, 5), other], None).unwrap_err().contains("the server is another one"));
        assert!(told(Vec::new(), None).is_err());
    }

    #[test]
    fn the_instant_is_in_the_script_and_without_one_all_of_the_log_is_taken() {
        let until = "2026-11-22T00:20:00.25Z".parse().ok();
        assert!(script(until).contains("\nrecovery_target_time = '2026-11-22 00:20:00.25+00'\n"));
        let full = "2026-11-22T00:20:00Z".parse().ok();
        assert!(script(full).contains("\nrecovery_target_time = '2026-11-22 00:20:00+00'\n"));
        assert!(!script(None).contains("recovery_target_time") && script(None).contains("recovery.signal"));
    }
}
