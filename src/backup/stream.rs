//! From a database to S3: checked, compressed, hashed before and after that, in memory of a fixed size.

use async_compression::Level;
use async_compression::tokio::write::ZstdEncoder;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio_util::bytes::Bytes;

use super::Error;
use super::progress::Progress;
use super::source::Dump;
use super::store::Upload;
use crate::runtime::hexadecimal;

/// zstd's own default: about a third of the size for little time.
const LEVEL: Level = Level::Precise(3);
/// Chunks that are read ahead while others are compressed.
const AHEAD: usize = 8;

/// What passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Bytes as the database gave them.
    pub size: u64,
    /// SHA-256 of them, hexadecimal.
    pub sha256: String,
    /// SHA-256 of what is stored, hexadecimal.
    pub stored_sha256: String,
}

/// Writes all data of a database into an upload, which is then to be completed.
pub async fn carry(dump: &mut Dump, upload: &mut Upload, progress: &Progress) -> Result<Sums, Error> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    let read = async move {
        let mut told = None;
        while let Some(chunk) = dump.next().await? {
            if told != dump.expected() && told.is_none() {
                told = dump.expected();
                progress.expect(told);
            }
            if sender.send(chunk).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    // The end of the data is known to be good before the last of them is written: a reader that fails ends both.
    let ((), sums) = tokio::try_join!(read, pack(receiver, upload, progress))?;
    Ok(sums)
}

async fn pack(mut chunks: mpsc::Receiver<Bytes>, upload: &mut Upload, progress: &Progress) -> Result<Sums, Error> {
    let (mut content, mut stored) = (Sha256::new(), Sha256::new());
    let mut size = 0;
    let mut encoder = ZstdEncoder::with_quality(Vec::new(), LEVEL);
    while let Some(chunk) = chunks.recv().await {
        content.update(&chunk);
        size += chunk.len() as u64;
        encoder.write_all(&chunk).await.map_err(compression)?;
        drain(encoder.get_mut(), &mut stored, upload).await?;
        progress.pass(chunk.len() as u64);
    }
    encoder.shutdown().await.map_err(compression)?;
    drain(encoder.get_mut(), &mut stored, upload).await?;
    let (sha256, stored_sha256) = (hexadecimal(&content.finalize()), hexadecimal(&stored.finalize()));
    Ok(Sums { size, sha256, stored_sha256 })
}

async fn drain(packed: &mut Vec<u8>, stored: &mut Sha256, upload: &mut Upload) -> Result<(), Error> {
    stored.update(&*packed);
    upload.write(packed).await?;
    packed.clear();
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn compression(error: std::io::Error) -> Error {
    Error::Unsupported(format!("the data cannot be compressed: {error}"))
}
