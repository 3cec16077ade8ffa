//! The protocol of the socket: frames of a kind (one byte), a length (four bytes, big-endian) and that many bytes.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::bytes::Bytes;

use crate::manifest::Contents;
use crate::report::KeptLog;

/// The most bytes of a frame with data.
pub const DATA_LIMIT: usize = 256 * 1024;
/// The most bytes of any other frame.
const LIMIT: usize = 1024 * 1024;

const REQUEST: u8 = b'?';
const EXPECTED: u8 = b'#';
const DATA: u8 = b'+';
const END: u8 = b'.';
const FAILED: u8 = b'!';
const COMPLETE: u8 = b'=';
const KEPT: u8 = b'~';

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The folder of the database that is asked for.
    Request(String),
    /// How many bytes will come.
    Expected(u64),
    /// Some of the data, at most [`DATA_LIMIT`] bytes. Without bytes it is a heartbeat: the database is still at work.
    Data(Bytes),
    /// All data came and were verified.
    End(End),
    /// The dump failed.
    Failed(Failure),
    /// The backup is complete: the database may drop the log that it keeps for it. The other side answers with what the
    /// database still keeps.
    Complete,
    /// The log that the database keeps.
    Kept(KeptLog),
}

/// The facts of a complete dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The server's version.
    pub version: String,
    /// Facts about the data.
    pub contents: Contents,
    /// A problem that leaves the dump good, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The reason why there is no dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Reason as a stable word.
    pub reason: String,
    /// Reason as a sentence.
    pub message: String,
    /// True if another try would fail in the same way.
    pub is_final: bool,
}

impl Frame {
    /// Writes the frame, header first.
    pub async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let json = |value: Result<Vec<u8>, serde_json::Error>| value.map(Bytes::from).map_err(io::Error::from);
        let (kind, payload) = match self {
            Self::Request(folder) => (REQUEST, Bytes::copy_from_slice(folder.as_bytes())),
            Self::Expected(bytes) => (EXPECTED, Bytes::copy_from_slice(&bytes.to_be_bytes())),
            Self::Data(data) => (DATA, data.clone()),
            Self::End(end) => (END, json(serde_json::to_vec(end))?),
            Self::Failed(failure) => (FAILED, json(serde_json::to_vec(failure))?),
            Self::Complete => (COMPLETE, Bytes::new()),
            Self::Kept(kept) => (KEPT, json(serde_json::to_vec(kept))?),
        };
        let length = u32::try_from(payload.len()).map_err(|_| damaged("a frame is too large"))?;
        to.write_u8(kind).await?;
        to.write_u32(length).await?;
        to.write_all(&payload).await?;
        to.flush().await
    }

    /// Receives one. It is an error if the connection ends instead: a dump must end with [`Frame::End`] or [`Frame::Failed`].
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let kind = from.read_u8().await?;
        let length = from.read_u32().await? as usize;
        if length > if kind == DATA { DATA_LIMIT } else { LIMIT } {
            return Err(damaged("a frame is too large"));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        match kind {
            REQUEST => String::from_utf8(payload).map(Self::Request).map_err(|_| damaged("a request is no text")),
            EXPECTED => {
                let bytes = payload.try_into().map_err(|_| damaged("a size has not eight bytes"))?;
                Ok(Self::Expected(u64::from_be_bytes(bytes)))
            }
            DATA => Ok(Self::Data(payload.into())),
            END => Ok(Self::End(serde_json::from_slice(&payload)?)),
            FAILED => Ok(Self::Failed(serde_json::from_slice(&payload)?)),
            COMPLETE => Ok(Self::Complete),
            KEPT => Ok(Self::Kept(serde_json::from_slice(&payload)?)),
            _ => Err(damaged("a frame is of no kind that is known")),
        }
    }
}

fn damaged(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Frame> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(Frame::read(&mut &bytes[..]))
    }

    fn written(frame: &Frame) -> Vec<u8> {
        let mut bytes = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(frame.write(&mut bytes)).expect("it is written");
        bytes
    }

    #[test]
    fn frames_arrive_whole_or_not_at_all() {
        let failure = Failure { reason: "SourceFailed".into(), message: "it broke".into(), is_final: true };
        let contents = Contents { keys: 5, ..Contents::default() };
        let end = End { version: "15.3".into(), contents, note: Some("spec.hooks.after".into()) };
        for frame in [
            Frame::Request("redis-cache".into()),
            Frame::Expected(u64::MAX),
            Frame::Data(Bytes::from_static(b"data")),
            Frame::Data(Bytes::new()),
            Frame::End(end),
            Frame::Failed(failure),
            Frame::Complete,
            Frame::Kept(KeptLog { held: u64::MAX, room: 0 }),
        ] {
            let bytes = written(&frame);
            assert_eq!(read(&bytes).expect("a frame"), frame);
            for length in 0..bytes.len() {
                assert!(read(&bytes[..length]).is_err(), "{frame:?} cut to {length} bytes");
            }
        }
    }

    #[test]
    fn a_large_frame_is_refused_before_memory_is_allocated() {
        for (kind, limit) in [(DATA, DATA_LIMIT), (END, LIMIT), (REQUEST, LIMIT)] {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&u32::try_from(limit + 1).expect("a length").to_be_bytes());
            assert_eq!(read(&bytes).expect_err("too large").kind(), io::ErrorKind::InvalidData);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_but_an_error_comes_of_it(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(frame) = read(&bytes) {
                prop_assert!(written(&frame).len() <= bytes.len() * 2 + 64);
            }
        }
    }
}
