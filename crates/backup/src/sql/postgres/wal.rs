//! The write-ahead log of PostgreSQL since the backup before, by `pg_receivewal`.
//!
//! A replication slot makes the server keep what is not in S3 yet. `pg_receivewal` would move the slot as soon as it has
//! received log. So it gets no slot, and the slot moves only when the backup is complete ([`acknowledge`]). If anything fails
//! before that, the next backup begins where this one did.
//! <https://www.postgresql.org/docs/current/app-pgreceivewal.html>,
//! <https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-REPLICATION>

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tokio_postgres::types::{ToSql, Type};

use super::super::child::Failure;
use super::super::dump::Writer;
use super::super::{Account, PROGRAM_SILENCE_TIMEOUT, Side, WAL_DIRECTORY};
use super::log::{Log, lsn, refused};
use super::session::Session;
use super::{MAINTENANCE, program};
use crate::Error;
use crate::chain::BRANCHES;
use crate::manifest::Contents;
use crate::plan::SqlServer;
use crate::report::KeptLog;

/// Bytes that are received before they are passed on. They lie on the node's disk until then.
const AT_ONCE: u64 = 256 << 20;
/// From this version, what a slot keeps can be limited.
/// <https://www.postgresql.org/docs/13/runtime-config-replication.html#GUC-MAX-SLOT-WAL-KEEP-SIZE>
const BOUNDS_SLOTS: i64 = 130_000;

/// A server whose log is received.
pub struct WalDump {
    account: Account,
    slot: String,
    log: Log,
    /// Beginning and end of the log that is received, in bytes, at the beginnings of segments.
    from: u64,
    to: u64,
    /// The server's version.
    pub version: String,
    /// The log that the server keeps when the dump begins.
    pub kept: KeptLog,
}

impl WalDump {
    /// Logs in, makes the slot if there is none, and ends the segment that is being written. All that was committed before is
    /// then in the segments that are received.
    pub async fn open(account: Account, slot: &str) -> Result<Self, Error> {
        let mut session = Session::open(&account, MAINTENANCE).await?;
        if session.number() < BOUNDS_SLOTS {
            return Err(Error::Unsupported("method: Wal needs PostgreSQL 13 or later: others bound no slot".into()));
        }
        let log = Log::look(&mut session, &account).await?;
        check(&mut session, &account).await?;
        let (from, kept) = position(&mut session, slot).await?;
        // This adds a commit at the end of the log. Recovery to an instant stops at the first commit after that instant, and
        // fails if there is none.
        let mark = "SELECT pg_catalog.pg_logical_emit_message(true, 'causeway', '')::text";
        let _: (String,) = session.one(mark).await?;
        let end = "SELECT (pg_catalog.pg_switch_wal() - '0/0'::pg_catalog.pg_lsn)::bigint";
        let (end,): (u64,) = session.one(end).await?;
        let (from, to) = (from / log.size * log.size, end.next_multiple_of(log.size));
        tracing::info!(host = account.host, slot, bytes = to.saturating_sub(from), "log can be received");
        Ok(Self { version: session.version().await?, account, slot: slot.to_owned(), log, from, to, kept })
    }

    /// Writes all segments. The contents name the first one, the next one after them, and where earlier timelines ended.
    pub async fn write(mut self, into: &mut Writer) -> Result<Contents, Error> {
        let directory = Path::new(WAL_DIRECTORY).join("received");
        let (first, size) = (self.log.segment(self.from), self.log.size);
        let at_once = (AT_ONCE / size).max(1) * size;
        let mut branches = String::new();
        let mut at = self.from;
        while at < self.to {
            let end = self.to.min(at + at_once);
            self.receive(&directory, at, end).await?;
            let names = names(&directory)?;
            let segments: Vec<&String> = names.iter().filter(|name| is_segment(name)).collect();
            let last = segments.last().filter(|last| last[8..] == self.log.segment(end - size)[8..]);
            let Some(last) = last.filter(|_| segments.len() as u64 >= (end - at) / size) else {
                return Err(Error::SourceFailed(format!("pg_receivewal ended before {}: it has {names:?}", lsn(end))));
            };
            self.log.timeline = last[..8].to_owned();
            for name in &names {
                let path = directory.join(name);
                let failed = |source| Error::Work { path: path.clone(), source };
                // `pg_receivewal` fetches the history of each timeline but the first. The last one has all branches.
                if name.ends_with(".history") {
                    branches = self.log.branches(&String::from_utf8_lossy(&fs::read(&path).map_err(failed)?));
                }
                into.file(name, &path).await.map_err(failed)?;
            }
            at = end;
        }
        let mut contents = Contents::default();
        let (next, until) = (self.log.segment(self.to), self.log.now.clone());
        let system = self.log.system;
        let facts = [("system", system), ("first", first), ("next", next), ("until", until), ("end", lsn(self.to))];
        contents.facts.extend(facts.map(|(name, value)| (name.to_owned(), value)));
        if !branches.is_empty() {
            contents.facts.insert(BRANCHES.into(), branches);
        }
        Ok(contents)
    }

    /// Fills the directory with the segments from `at` to `end`, by `pg_receivewal`.
    async fn receive(&self, directory: &Path, at: u64, end: u64) -> Result<(), Error> {
        let begin = directory.join(format!("{}.partial", self.log.segment(at)));
        let failed = |source| Error::Work { path: directory.to_owned(), source };
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(failed)?;
        }
        // `pg_receivewal` begins with the last incomplete segment in its directory: this empty file makes it begin at `at`.
        fs::create_dir(directory).and_then(|()| fs::write(begin, "")).map_err(failed)?;
        let arguments = ["--no-loop", "--no-sync", "--no-password", "--endpos", &lsn(end - 1)];
        let receive = program("pg_receivewal", &self.account, MAINTENANCE)?.args(arguments);
        let receive = receive.args(["--directory".as_ref(), directory.as_os_str()]);
        let received = receive.run(Stdio::null(), PROGRAM_SILENCE_TIMEOUT).await?;
        match received {
            Ok(_) => Ok(()),
            Err(failure) if is_removed(&failure) => {
                let mut session = Session::open(&self.account, MAINTENANCE).await?;
                let (now, _) = position(&mut session, &self.slot).await?;
                Err(removed(&self.slot, self.from, now / self.log.size * self.log.size))
            }
            Err(failure) => Err(refused(&failure, &self.account)),
        }
    }
}

/// Moves the slot to where a complete backup ends. The server may then delete the log before. Returns what it keeps after that.
pub async fn acknowledge(server: &SqlServer, slot: &str, contents: &Contents) -> Result<KeptLog, Error> {
    let end = contents.facts.get("end").ok_or_else(|| Error::SourceFailed("the log has no end".into()))?;
    let mut session = Session::open(&Account::read(Side::Source, "postgresql", server)?, MAINTENANCE).await?;
    let advance = "SELECT end_lsn::text FROM pg_catalog.pg_replication_slot_advance($1, $2::pg_catalog.pg_lsn)";
    let advanced: Vec<(String,)> = session.ask_about(advance, &[(&slot, Type::NAME), (end, Type::TEXT)]).await?;
    let end = advanced.first().map_or(end, |(end,)| end);
    tracing::info!(slot, end, "the server may delete what is in S3");
    Ok(position(&mut session, slot).await?.1)
}

/// Makes the slot before the log is received for the first time. A server that does not bound what a slot keeps gets none:
/// the backup
/// of the log reports that.
pub async fn prepare(session: &mut Session, slot: &str) -> Result<(), Error> {
    let bound = "SELECT setting::bigint FROM pg_catalog.pg_settings WHERE name = \
                 'max_slot_wal_keep_size'";
    let is_bounded = session.ask::<(i64,)>(bound).await?.first().is_some_and(|(most,)| *most >= 0);
    let find = "SELECT slot_name FROM pg_catalog.pg_replication_slots WHERE slot_name = $1";
    if is_bounded && session.ask_about::<(String,)>(find, &[(&slot, Type::NAME)]).await?.is_empty() {
        create(session, slot).await?;
        tracing::info!(slot, "the server keeps the log from before this base backup on");
    }
    Ok(())
}

/// Makes a slot that keeps the log from now on.
async fn create(session: &mut Session, slot: &str) -> Result<(), Error> {
    let make = "SELECT slot_name FROM pg_catalog.pg_create_physical_replication_slot($1, true)";
    session.ask_about::<(String,)>(make, &[(&slot, Type::NAME)]).await.map(drop)
}

/// Drops the slot, if there is one. The server then deletes the log that only this slot kept.
pub async fn release(server: &SqlServer, slot: &str) -> Result<(), Error> {
    let mut session = Session::open(&Account::read(Side::Source, "postgresql", server)?, MAINTENANCE).await?;
    let drop = "SELECT pg_catalog.pg_drop_replication_slot(slot_name)::text FROM pg_catalog.pg_replication_slots WHERE \
                slot_name = $1";
    let dropped: Vec<(String,)> = session.ask_about(drop, &[(&slot, Type::NAME)]).await?;
    tracing::info!(slot, dropped = dropped.len(), "the server keeps no log for this slot");
    Ok(())
}

/// Checks that the user may end a segment, and that the slot cannot fill the server's disk.
async fn check(session: &mut Session, account: &Account) -> Result<(), Error> {
    let (may, most): (bool, i64) = session
        .one(
            "SELECT pg_catalog.has_function_privilege('pg_catalog.pg_switch_wal()', 'EXECUTE'), \
             setting::bigint FROM pg_catalog.pg_settings WHERE name = 'max_slot_wal_keep_size'",
        )
        .await?;
    if !may {
        let (field, user) = (account.side.field(account.kind, "authSecretName"), account.user());
        return Err(Error::RightsMissing(format!(
            "{field}: user {user} may not end a segment of the log (in database {MAINTENANCE}: GRANT EXECUTE ON FUNCTION \
             pg_switch_wal() TO \"{user}\")"
        )));
    }
    if most < 0 {
        return Err(Error::SlotUnbounded);
    }
    Ok(())
}

/// A slot as the server reports it: its state, its position, the bytes that it keeps, and the bytes that may still be written
/// before it is lost.
type Slot = (Option<String>, Option<u64>, Option<i64>, Option<i64>);

/// The position of the slot, and what it keeps. Makes the slot if there is none.
/// <https://www.postgresql.org/docs/current/view-pg-replication-slots.html>
async fn position(session: &mut Session, slot: &str) -> Result<(u64, KeptLog), Error> {
    let find = "SELECT wal_status, (restart_lsn - '0/0'::pg_catalog.pg_lsn)::bigint, \
                (pg_catalog.pg_current_wal_lsn() - restart_lsn)::bigint, safe_wal_size FROM pg_catalog.pg_replication_slots \
                WHERE slot_name = $1";
    let named: [(&(dyn ToSql + Sync), Type); 1] = [(&slot, Type::NAME)];
    let mut found: Vec<Slot> = session.ask_about(find, &named).await?;
    if found.is_empty() {
        create(session, slot).await?;
        // Whether log is missing now is seen when the new backup is compared with the one before.
        tracing::warn!(slot, "the slot is made: what was written before is not kept for this object");
        found = session.ask_about(find, &named).await?;
    }
    match found.into_iter().next() {
        Some((Some(status), Some(position), held, room)) if status != "lost" => {
            // If the room is below 0, the next checkpoint may invalidate the slot: 0 is reported.
            let bytes = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
            Ok((position, KeptLog { held: bytes(held), room: bytes(room) }))
        }
        _ => Err(Error::WalMissing(format!(
            "the server dropped log that no backup has, as slot {slot} held more than max_slot_wal_keep_size: what was written \
             before that can be recovered, nothing after it; SELECT pg_drop_replication_slot('{slot}'), delete this object and \
             make it again, then take a base backup"
        ))),
    }
}

fn is_removed(failure: &Failure) -> bool {
    failure.api_message().contains("has already been removed")
}

/// Explains why the server no longer has WAL from `from` on, now that the slot is in the segment that begins at `now`. If
/// another Job stored log meanwhile, it moved
/// the slot. The next try begins there, and finds out whether anything is missing.
fn removed(slot: &str, from: u64, now: u64) -> Error {
    if now > from {
        return Error::SourceFailed(format!(
            "another Job received the log at the same time and moved slot {slot} to {}: the next try begins there",
            lsn(now)
        ));
    }
    Error::WalMissing(
        "the server no longer has log that no backup has: raise max_slot_wal_keep_size, delete this object and make it again, \
         then take a base backup"
            .into(),
    )
}

/// Names of the complete files that `pg_receivewal` left: segments, and histories of timelines.
fn names(directory: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::Work { path: directory.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if is_segment(&name) || name.ends_with(".history") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn is_segment(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|it| it.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_that_another_job_stored_meanwhile_is_not_reported_as_missing() {
        let later = removed("causeway_1", 0x300_0000, 0x600_0000);
        assert_eq!((later.reason(), later.is_final()), ("SourceFailed", false));
        assert!(later.to_string().contains("moved slot causeway_1 to 0/6000000"), "{later}");
        let same = removed("causeway_1", 0x300_0000, 0x300_0000);
        assert_eq!((same.reason(), same.is_final()), ("WalMissing", true));
    }
}
