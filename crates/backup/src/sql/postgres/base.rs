//! A base backup of PostgreSQL: the files of the whole server as one `tar`, by `pg_basebackup`, with the log that makes them
//! consistent.

use std::process::Stdio;

use super::super::child::{Child, Failure};
use super::super::dump::Writer;
use super::super::{Account, PROGRAM_SILENCE_TIMEOUT};
use super::log::{Log, refused};
use super::recovered::{PREPARED, SUPERUSER};
use super::session::Session;
use super::wal::prepare;
use super::{MAINTENANCE, program};
use crate::Error;
use crate::manifest::Contents;

/// A server whose files are copied.
pub struct BaseBackup {
    account: Account,
    before: Log,
    /// The server's version.
    pub version: String,
}

impl BaseBackup {
    /// Logs in, and checks that the user may copy files. Makes the slot that keeps the log if another object keeps it: a base backup
    /// that begins before the slot is there would need log that nobody has.
    pub async fn open(account: Account, log_slot: Option<&str>) -> Result<Self, Error> {
        let mut session = Session::open(&account, MAINTENANCE).await?;
        if let Some(slot) = log_slot {
            prepare(&mut session, slot).await?;
        }
        let before = Log::look(&mut session, &account).await?;
        Ok(Self { version: session.version().await?, account, before })
    }

    /// Writes all of it. The contents name the first segment of the log that it needs.
    pub async fn write(self, into: &mut Writer) -> Result<Contents, Error> {
        // `--wal-method=fetch`: the log up to the end of the backup is in it, so it is consistent without any other log.
        let arguments = ["--pgdata=-", "--format=tar", "--wal-method=fetch", "--checkpoint=fast", "--no-password"];
        let copy = program("pg_basebackup", &self.account, MAINTENANCE)?.args(arguments).args(["--label=causeway"]);
        let copied = copy_all(into, copy.start(Stdio::null())?).await;
        copied.map_err(|failure| refused(&failure, &self.account))?;
        let mut session = Session::open(&self.account, MAINTENANCE).await?;
        let after = Log::look(&mut session, &self.account).await?;
        let mut contents = Contents::default();
        contents.facts.insert("first".into(), self.before.segment(self.before.position));
        contents.facts.insert("system".into(), self.before.system);
        contents.facts.insert("until".into(), after.now);
        // A recovery logs in with this name, and cannot read it from the files before the server takes clients.
        let superuser = session.superuser().await?.filter(|name| !name.chars().any(char::is_control));
        contents.facts.extend(superuser.map(|name| (SUPERUSER.to_owned(), name)));
        contents.facts.insert(PREPARED.into(), session.prepared_transactions().await?);
        Ok(contents)
    }
}

async fn copy_all(into: &mut Writer, mut child: Child) -> Result<(), Failure> {
    while let Some(chunk) = child.next(PROGRAM_SILENCE_TIMEOUT).await? {
        into.send(Some(chunk)).await;
    }
    child.end(PROGRAM_SILENCE_TIMEOUT).await
}
