//! A running dump: a task of its own makes it, and is aborted when the reader is dropped.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::bytes::Bytes;

use causeway_api::databasebackup::Method;

use super::child::{Child, Failure};
use super::mysql::MysqlDump;
use super::postgres::{BaseBackup, PostgresDump, WalDump};
use super::tar::{self, Pieces};
use super::{Account, PROGRAM_SILENCE_TIMEOUT, Side};
use crate::Error;
use crate::manifest::Contents;
use crate::plan::{SqlServer, kind_of};
use crate::report::KeptLog;

/// Pieces that are read ahead: each takes some mebibytes.
const AHEAD: usize = 1;
/// Bytes of a file that are read at once.
const READ: usize = 1024 * 1024;

/// A running dump of a server.
pub struct SqlDump {
    kind: &'static str,
    version: String,
    pieces: mpsc::Receiver<Bytes>,
    task: Option<JoinHandle<Result<Contents, Error>>>,
    contents: Contents,
    kept: Option<KeptLog>,
}

impl SqlDump {
    /// Logs in to PostgreSQL. `slot` is the replication slot that keeps the log: of the object that asks for the backup, or for a
    /// base backup, of another one if there is any.
    pub async fn postgres(server: &SqlServer, slot: &str) -> Result<Self, Error> {
        let (account, kind) = (Account::read(Side::Source, "postgresql", server)?, kind_of(server.method));
        Ok(match server.method {
            Method::Dump => Self::databases(account).await?,
            Method::BaseBackup => {
                let dump = BaseBackup::open(account, Some(slot).filter(|slot| !slot.is_empty())).await?;
                let version = dump.version.clone();
                // `pg_basebackup` writes a whole archive with its end, so nothing is appended.
                Self::begin(kind, version, Bytes::new(), |mut writer| async move { dump.write(&mut writer).await })
            }
            Method::Wal => {
                let dump = WalDump::open(account, slot).await?;
                let (version, kept) = (dump.version.clone(), Some(dump.kept));
                let mut begun =
                    Self::begin(kind, version, tar::end(), |mut writer| async move { dump.write(&mut writer).await });
                begun.kept = kept;
                begun
            }
        })
    }

    /// Logs in to a PostgreSQL to dump its databases with `pg_dump`.
    pub(super) async fn databases(account: Account) -> Result<Self, Error> {
        let dump = PostgresDump::open(account).await?;
        let (kind, version) = (kind_of(Method::Dump), dump.version.clone());
        Ok(Self::begin(kind, version, tar::end(), |mut writer| async move { dump.write(&mut writer).await }))
    }

    /// Logs in to MySQL or MariaDB.
    pub async fn mysql(server: &SqlServer) -> Result<Self, Error> {
        let dump = MysqlDump::open(Account::read(Side::Source, "mysql", server)?).await?;
        let version = dump.version.clone();
        Ok(Self::begin("mysql", version, tar::end(), |mut writer| async move { dump.write(&mut writer).await }))
    }

    fn begin<F>(
        kind: &'static str,
        version: String,
        end: Bytes,
        write: impl FnOnce(Writer) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Contents, Error>> + Send + 'static,
    {
        let (sender, pieces) = mpsc::channel(AHEAD);
        let task = tokio::spawn(async move {
            let contents = write(Writer { sender: sender.clone() }).await?;
            sender.send(end).await.ok();
            Ok(contents)
        });
        Self { kind, version, pieces, task: Some(task), contents: Contents::default(), kept: None }
    }

    /// The kind of the database, as manifests have it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The log that the server keeps when the dump begins; none for dumps other than of the log.
    pub fn kept_log(&self) -> Option<KeptLog> {
        self.kept
    }

    /// The next bytes; none when all of them came and the programs succeeded.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if let Some(piece) = self.pieces.recv().await {
            return Ok(Some(piece));
        }
        // The task has written all that it will. Its result says whether that is complete.
        if let Some(task) = self.task.take() {
            self.contents = task.await.map_err(|error| Error::SourceFailed(error.to_string()))??;
        }
        Ok(None)
    }

    /// The server's version and what the data hold, once they have all come.
    pub fn finish(self) -> (String, Contents) {
        let mut dump = self;
        (std::mem::take(&mut dump.version), std::mem::take(&mut dump.contents))
    }
}

impl Drop for SqlDump {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Writes files of a dump into its archive.
pub struct Writer {
    sender: mpsc::Sender<Bytes>,
}

impl Writer {
    /// Writes all output of a program as one file. Fails if the program fails.
    pub async fn program(&mut self, name: &str, child: Child, timeout: std::time::Duration) -> Result<(), Failure> {
        self.observed(name, child, timeout, |_| ()).await
    }

    /// The same, and passes each chunk of the output to `show`.
    pub async fn observed(
        &mut self,
        name: &str,
        mut child: Child,
        timeout: std::time::Duration,
        mut show: impl FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let mut pieces = Pieces::new(name);
        while let Some(chunk) = child.next(timeout).await? {
            show(&chunk);
            self.send(pieces.push(&chunk)).await;
        }
        child.end(PROGRAM_SILENCE_TIMEOUT).await?;
        self.send(pieces.finish()).await;
        Ok(())
    }

    /// Writes a text as one file.
    pub async fn text(&mut self, name: &str, text: &str) {
        let mut pieces = Pieces::new(name);
        self.send(pieces.push(text.as_bytes())).await;
        self.send(pieces.finish()).await;
    }

    /// Writes a file of the disk under that name, and not in pieces.
    pub async fn file(&mut self, name: &str, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        self.send(Some(tar::header(name, size))).await;
        let mut left = size;
        while left > 0 {
            let mut chunk = vec![0; usize::try_from(left).unwrap_or(READ).min(READ)];
            file.read_exact(&mut chunk)?;
            left -= chunk.len() as u64;
            self.send(Some(chunk.into())).await;
        }
        self.send(Some(tar::padding_after(size))).await;
        Ok(())
    }

    /// Sends bytes to the reader. If the reader is gone, they are dropped: that also aborts this task.
    pub async fn send(&self, bytes: Option<Bytes>) {
        if let Some(bytes) = bytes {
            self.sender.send(bytes).await.ok();
        }
    }
}
