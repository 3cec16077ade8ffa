//! A throw-away server of PostgreSQL that recovers from a base backup and the log since. It is made in the work directory, and
//! answers only at a socket there.
//!
//! Its configuration files are not used, only the settings in its catalogs: the files may name libraries, programs and files
//! that are not here. It archives nothing, and follows no subscription: the servers that it once talked to must not take it
//! for the original one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;

use super::super::child::{Child, Program};
use super::super::tables::alike;
use super::super::{Account, PROGRAM_SILENCE_TIMEOUT, Side, WHOLE_JOB, tools};
use super::MAINTENANCE;
use super::scratch::{account, begun};
use super::session::Session;
use crate::Error;
use crate::archive;
use crate::data_directory::{BASE_FILE, SCRIPT_FILE, log_file, script, settings};
use crate::manifest::Manifest;

/// The fact of a base backup that names a superuser who may log in.
pub const SUPERUSER: &str = "superuser";
/// The fact of a base backup with the server's `max_prepared_transactions`: with a smaller value, recovery may fail.
pub const PREPARED: &str = "preparedTransactions";
/// The superuser and the number of prepared transactions, if the backup has no such facts.
const USUAL: (&str, u32) = ("postgres", 10);
/// How often the server is asked whether it is ready.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The server's error if the log ends before the instant.
const NOT_REACHED: &str = "recovery ended before configured recovery target was reached";
/// Settings of the throw-away server.
const SETTINGS: &[&str] = &[
    // It takes no clients before recovery has ended. So `max_connections` may be smaller than that of the original server.
    "hot_standby=off",
    "listen_addresses=",
    "archive_mode=off",
    "max_logical_replication_workers=0",
    "max_wal_senders=0",
    "max_connections=20",
    // A dump locks all tables that it reads.
    "max_locks_per_transaction=4096",
    "autovacuum=off",
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "dynamic_shared_memory_type=mmap",
    "jit=off",
];

/// A recovered server.
pub struct Recovered {
    /// How it is reached: by a superuser, without a password.
    pub account: Account,
    /// When the last transaction that it replayed from the log was committed; none if it replayed none.
    pub reached: Option<Timestamp>,
    server: Child,
    data: PathBuf,
}

/// Makes the server from the fetched files, and waits until it has recovered to the instant.
pub async fn recover(work: &Path, manifest: &Manifest, until: Option<Timestamp>) -> Result<Recovered, Error> {
    check(manifest).await?;
    let data = unpack(work, until).await?;
    let facts = &manifest.contents.facts;
    let prepared: u32 = facts.get(PREPARED).and_then(|it| it.parse().ok()).unwrap_or(USUAL.1);
    let config = |name: &str, text: &str| -> Result<String, Error> {
        let path = work.join(name);
        fs::write(&path, text).map_err(|source| Error::Work { path: path.clone(), source })?;
        Ok(path.display().to_string())
    };
    let files = [
        format!("config_file={}", config("server.conf", "")?),
        format!("hba_file={}", config("hba.conf", "local all all trust\n")?),
        format!("ident_file={}", config("ident.conf", "")?),
        format!("max_prepared_transactions={prepared}"),
    ];
    let all = SETTINGS.iter().copied().chain(files.iter().map(String::as_str)).flat_map(|setting| ["-c", setting]);
    let server =
        Program::new("postgres").args(["-D".as_ref(), data.as_os_str(), "-k".as_ref(), work.as_os_str()]).args(all);
    tracing::info!(id = manifest.id, until = until.map(tracing::field::display), "the server reads its log");
    let mut server = server.start(Stdio::null())?;
    let superuser = facts.get(SUPERUSER).map_or(USUAL.0, String::as_str);
    let account = account(work, superuser);
    begun(&mut server, &account, WHOLE_JOB, POLL_INTERVAL).await.map_err(|error| not_reached(error, until))?;
    let reached = Session::open(&account, MAINTENANCE).await?.replayed().await?;
    tracing::info!(id = manifest.id, reached = reached.map(tracing::field::display), "the server is there");
    Ok(Recovered { account, reached, server, data })
}

impl Recovered {
    /// Stops the server, and deletes its data directory.
    pub async fn throw_away(self) -> Result<(), Error> {
        let Self { data, server, .. } = self;
        server.kill().await;
        fs::remove_dir_all(&data).map_err(|source| Error::Work { path: data, source })
    }
}

/// Checks the version of the image: no server reads the files of another major version.
async fn check(manifest: &Manifest) -> Result<(), Error> {
    let printed = Program::new("postgres").args(["--version"]).run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?;
    let printed = printed.map_err(|failure| Side::Scratch.failed(&failure))?;
    let version = printed.split_once("(PostgreSQL) ").map_or("", |(_, version)| version.trim());
    if alike(version, &manifest.version) {
        return Ok(());
    }
    Err(Error::VersionMismatch {
        image: std::env::var(tools::IMAGE).unwrap_or_default(),
        its: version.to_owned(),
        needed: manifest.version.clone(),
    })
}

/// Makes the data directory, with the same script that people run by hand.
async fn unpack(work: &Path, until: Option<Timestamp>) -> Result<PathBuf, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Work { path, source }
    };
    let (data, path) = (work.join("server"), work.join(SCRIPT_FILE));
    if data.exists() {
        fs::remove_dir_all(&data).map_err(failed(&data))?;
    }
    let logs: Vec<PathBuf> =
        (0..=usize::MAX).map(|number| work.join(log_file(number))).take_while(|path| path.exists()).collect();
    archive::check_base(&work.join(BASE_FILE))?;
    logs.iter().try_for_each(|log| archive::check_log(log))?;
    fs::write(&path, script(until)).map_err(failed(&path))?;
    let made = Program::new("sh").args([&path, &data]).run(Stdio::null(), WHOLE_JOB).await?;
    made.map_err(|failure| Side::Scratch.failed(&failure))?;
    // All of it is in the data directory now, and the space is needed.
    for path in [work.join(BASE_FILE)].into_iter().chain(logs) {
        fs::remove_file(&path).map_err(failed(&path))?;
    }
    let own = data.join("postgresql.auto.conf");
    fs::write(&own, settings(until)).map_err(failed(&own))?;
    Ok(data)
}

/// Replaces the error if the log ended before the instant.
fn not_reached(error: Error, until: Option<Timestamp>) -> Error {
    match (until, error.to_string().contains(NOT_REACHED)) {
        (Some(until), true) => Error::InstantNotReached(until),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::child::Failure;
    use super::*;

    #[test]
    fn a_log_without_the_instant_is_told_and_other_failures_stay_as_they_are() {
        let failed = |words: &str| Side::Scratch.failed(&Failure::Ended("postgres", words.into()));
        let until = "2026-11-22T00:20:00Z".parse().ok();
        let ended = "FATAL:  recovery ended before configured recovery target was reached";
        assert_eq!(not_reached(failed(ended), until).reason(), "InstantNotReached");
        assert_eq!(not_reached(failed("FATAL:  out of memory"), until).reason(), "ScratchFailed");
    }
}
