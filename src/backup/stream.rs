//! From a database to S3: checked, compressed, encrypted where that is asked for, hashed before and after all that, in
//! memory of a fixed size.

use async_compression::Level;
use async_compression::tokio::write::ZstdEncoder;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio_util::bytes::Bytes;

use super::Error;
use super::age::{Recipient, Seal};
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

/// Writes all data of a database into an upload, which is then to be completed. Encrypts them where there is somebody to
/// encrypt them for.
pub async fn carry(
    dump: &mut Dump,
    recipients: &[Recipient],
    upload: &mut Upload,
    progress: &Progress,
) -> Result<Sums, Error> {
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
    let stored = Stored::new(recipients, upload)?;
    // The end of the data is known to be good before the last of them is written: a reader that fails ends both.
    let ((), sums) = tokio::try_join!(read, pack(receiver, stored, progress))?;
    Ok(sums)
}

async fn pack(mut chunks: mpsc::Receiver<Bytes>, mut stored: Stored<'_>, progress: &Progress) -> Result<Sums, Error> {
    let (mut content, mut size) = (Sha256::new(), 0);
    let mut encoder = ZstdEncoder::with_quality(Vec::new(), LEVEL);
    while let Some(chunk) = chunks.recv().await {
        content.update(&chunk);
        size += chunk.len() as u64;
        encoder.write_all(&chunk).await.map_err(compression)?;
        stored.write(encoder.get_mut()).await?;
        progress.pass(chunk.len() as u64);
    }
    encoder.shutdown().await.map_err(compression)?;
    stored.write(encoder.get_mut()).await?;
    Ok(Sums { size, sha256: hexadecimal(&content.finalize()), stored_sha256: stored.finish().await? })
}

/// What becomes of compressed data.
struct Stored<'a> {
    seal: Option<Seal>,
    sealed: Vec<u8>,
    hash: Sha256,
    upload: &'a mut Upload,
}

impl<'a> Stored<'a> {
    fn new(recipients: &[Recipient], upload: &'a mut Upload) -> Result<Self, Error> {
        let mut sealed = Vec::new();
        let seal = (!recipients.is_empty()).then(|| Seal::new(recipients, &mut sealed)).transpose();
        Ok(Self { seal: seal.map_err(encryption)?, sealed, hash: Sha256::new(), upload })
    }

    /// Takes all of it.
    async fn write(&mut self, packed: &mut Vec<u8>) -> Result<(), Error> {
        match &mut self.seal {
            Some(seal) => {
                seal.push(packed, &mut self.sealed).map_err(encryption)?;
                packed.clear();
            }
            None => std::mem::swap(&mut self.sealed, packed),
        }
        self.send().await
    }

    async fn send(&mut self) -> Result<(), Error> {
        self.hash.update(&self.sealed);
        self.upload.write(&self.sealed).await?;
        self.sealed.clear();
        Ok(())
    }

    /// The hash of all that is stored.
    async fn finish(mut self) -> Result<String, Error> {
        if let Some(seal) = self.seal.take() {
            seal.finish(&mut self.sealed).map_err(encryption)?;
            self.send().await?;
        }
        Ok(hexadecimal(&self.hash.finalize()))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn compression(error: std::io::Error) -> Error {
    Error::Unsupported(format!("the data cannot be compressed: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn encryption(error: super::age::Error) -> Error {
    Error::Unsupported(format!("the data cannot be encrypted: {error}"))
}
