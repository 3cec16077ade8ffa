//! A dump on its way: made by a task of its own, which is ended with its reader.

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::bytes::Bytes;

use super::child::{Child, Failure};
use super::mysql::MysqlDump;
use super::postgres::PostgresDump;
use super::tar::{self, Pieces};
use super::{Account, PROGRAM_SILENCE_TIMEOUT, Side};
use crate::backup::Error;
use crate::backup::manifest::Contents;
use crate::backup::plan::SqlServer;

/// Pieces that are read ahead: each takes some mebibytes.
const AHEAD: usize = 1;

/// The data of a server on their way.
pub struct SqlDump {
    kind: &'static str,
    version: String,
    pieces: mpsc::Receiver<Bytes>,
    task: Option<JoinHandle<Result<Contents, Error>>>,
    contents: Contents,
}

impl SqlDump {
    /// Logs in to PostgreSQL.
    pub async fn postgres(server: &SqlServer) -> Result<Self, Error> {
        let dump = PostgresDump::open(Account::read(Side::Source, "postgresql", server)?).await?;
        let version = dump.version.clone();
        Ok(Self::begin("postgresql", version, |mut writer| async move { dump.write(&mut writer).await }))
    }

    /// Logs in to MySQL or MariaDB.
    pub async fn mysql(server: &SqlServer) -> Result<Self, Error> {
        let dump = MysqlDump::open(Account::read(Side::Source, "mysql", server)?).await?;
        let version = dump.version.clone();
        Ok(Self::begin("mysql", version, |mut writer| async move { dump.write(&mut writer).await }))
    }

    fn begin<F>(kind: &'static str, version: String, write: impl FnOnce(Writer) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Contents, Error>> + Send + 'static,
    {
        let (sender, pieces) = mpsc::channel(AHEAD);
        let task = tokio::spawn(async move {
            let contents = write(Writer { sender: sender.clone() }).await?;
            sender.send(tar::end()).await.ok();
            Ok(contents)
        });
        Self { kind, version, pieces, task: Some(task), contents: Contents::default() }
    }

    /// As manifests have it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The next bytes; none when all of them came and the programs ended well.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        if let Some(piece) = self.pieces.recv().await {
            return Ok(Some(piece));
        }
        // All that it wrote is here; whether it is whole, its end says.
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

/// Where a dump is written.
pub struct Writer {
    sender: mpsc::Sender<Bytes>,
}

impl Writer {
    /// All that a program writes, as one file. Its end must be a good one.
    pub async fn program(&mut self, name: &str, child: Child, patience: std::time::Duration) -> Result<(), Failure> {
        self.observed(name, child, patience, |_| ()).await
    }

    /// The same, and shows each piece on its way.
    pub async fn observed(
        &mut self,
        name: &str,
        mut child: Child,
        patience: std::time::Duration,
        mut show: impl FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let mut pieces = Pieces::new(name);
        while let Some(chunk) = child.next(patience).await? {
            show(&chunk);
            self.send(pieces.push(&chunk)).await;
        }
        child.end(PROGRAM_SILENCE_TIMEOUT).await?;
        self.send(pieces.finish()).await;
        Ok(())
    }

    /// A text as one file.
    pub async fn text(&mut self, name: &str, text: &str) {
        let mut pieces = Pieces::new(name);
        self.send(pieces.push(text.as_bytes())).await;
        self.send(pieces.finish()).await;
    }

    /// A reader that is gone ends the task.
    async fn send(&self, bytes: Option<Bytes>) {
        if let Some(bytes) = bytes {
            self.sender.send(bytes).await.ok();
        }
    }
}
