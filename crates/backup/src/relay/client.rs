//! The side that sends to S3. It takes what comes as data, and trusts nothing else of it.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_util::bytes::Bytes;

use super::frame::{End, Failure, Frame};
use crate::Error;
use crate::manifest::Contents;
use crate::plan::Source;
use crate::report::KeptLog;

/// How long to try to connect: the other container has been started, but may not listen yet.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// Pause between two tries to connect.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the other container may send nothing. It sends a heartbeat each minute, and ends a program that writes nothing
/// sooner than this.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(20);
/// How long the server may take to acknowledge a complete backup.
const RECEIPT_TIMEOUT: Duration = Duration::from_mins(1);
/// Characters of a reason, and of a server's version.
const LONGEST_WORD: usize = 64;
const LONGEST_VERSION: usize = 256;
/// Characters of a note.
const LONGEST_NOTE: usize = 300;

/// A dump that the other container sends.
pub struct Relayed {
    stream: UnixStream,
    kind: &'static str,
    expected: Option<u64>,
    kept: Option<KeptLog>,
    end: Option<End>,
}

impl Relayed {
    /// Asks for a database.
    pub async fn open(socket: &Path, source: &Source) -> Result<Self, Error> {
        let begun = Instant::now();
        let mut stream = loop {
            match UnixStream::connect(socket).await {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > START_TIMEOUT => return Err(gone_error(&error)),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        Frame::Request(source.folder.clone()).write(&mut stream).await.map_err(|error| gone_error(&error))?;
        Ok(Self { stream, kind: source.server.kind(), expected: None, kept: None, end: None })
    }

    /// The kind of the database, as manifests have it.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// How many bytes will come, if that is known.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// The log that the database keeps, if it was reported.
    pub fn kept_log(&self) -> Option<KeptLog> {
        self.kept
    }

    /// The next bytes; none when all of them came.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.end.is_none() {
            let frame = match timeout(SILENCE_TIMEOUT, Frame::read(&mut self.stream)).await {
                Ok(Ok(frame)) => frame,
                Ok(Err(error)) => return Err(gone_error(&error)),
                Err(_) => {
                    let message = format!("the container dump sent nothing for {} s", SILENCE_TIMEOUT.as_secs());
                    return Err(Error::SourceFailed(message));
                }
            };
            match frame {
                // The database is at work.
                Frame::Data(data) if data.is_empty() => {}
                Frame::Data(data) => return Ok(Some(data)),
                Frame::Expected(bytes) => self.expected = Some(bytes),
                Frame::Kept(kept) => self.kept = Some(kept),
                Frame::End(end) if end.version.chars().count() > LONGEST_VERSION => {
                    return Err(Error::SourceFailed("the container dump reported an invalid version".into()));
                }
                Frame::End(end) => self.end = Some(end),
                Frame::Failed(failure) => return Err(dumped(failure)),
                Frame::Request(_) | Frame::Complete => {
                    return Err(Error::SourceFailed("the container dump asks instead of answering".into()));
                }
            }
        }
        Ok(None)
    }

    /// Returns what went wrong although the dump is good, once all data came. It is made one short line, because its sender is
    /// not trusted.
    pub fn note(&self) -> Option<String> {
        let note = self.end.as_ref()?.note.as_ref()?;
        let line = note.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(line.chars().filter(|letter| !letter.is_control()).take(LONGEST_NOTE).collect())
    }

    /// The server's version and what the data hold, once they have all come.
    pub fn finish(self) -> (String, Contents, Receipt) {
        let End { version, contents, .. } = self.end.unwrap_or_default();
        (version, contents, Receipt { stream: self.stream })
    }
}

/// Tells the other container that a backup is complete.
pub struct Receipt {
    stream: UnixStream,
}

impl Receipt {
    /// Waits until the database knows it, too, and returns the log that it keeps after that. If this fails, the next backup
    /// has the log of this one again.
    pub async fn give(mut self) -> Option<KeptLog> {
        let answered = async {
            Frame::Complete.write(&mut self.stream).await?;
            Frame::read(&mut self.stream).await
        };
        match timeout(RECEIPT_TIMEOUT, answered).await {
            Ok(Ok(Frame::Kept(kept))) => return Some(kept),
            Ok(Ok(Frame::Failed(failure))) => tracing::warn!(failure.message, "the server still keeps what is in S3"),
            answer => tracing::warn!(?answer, "the server may still keep what is in S3"),
        }
        None
    }
}

fn dumped(failure: Failure) -> Error {
    let Failure { reason, message, is_final } = failure;
    let is_word = (1..=LONGEST_WORD).contains(&reason.len()) && reason.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Error::Dump { reason: if is_word { reason } else { "SourceFailed".into() }, message, is_final }
}

fn gone_error(error: &io::Error) -> Error {
    Error::SourceFailed(format!("the container dump, which talks to the database, does not answer: {error}"))
}
