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

/// zstd's own default: about a third of the size for little time.
const LEVEL: Level = Level::Precise(3);
/// Chunks that are read ahead while others are compressed, and as many that wait to be sent.
const AHEAD: usize = 8;

/// Size and hashes of the data that were carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Bytes as the database gave them.
    pub size: u64,
    /// SHA-256 of them, hexadecimal.
    pub sha256: String,
    /// SHA-256 of what is stored, hexadecimal.
    pub stored_sha256: String,
}

/// Writes all data of a database into an upload, which the caller completes. Encrypts them if there are recipients.
pub async fn carry(
    dump: &mut Dump,
    recipients: &[Recipient],
    upload: &mut Upload,
    progress: &Progress,
) -> Result<Sums, Error> {
    let (sender, chunks) = mpsc::channel(AHEAD);
    let (pieces, mut packed) = mpsc::channel::<Vec<u8>>(AHEAD);
    // Compression takes most of the time, so it is a task of its own, for another core. It ends when the channels are dropped.
    let packing = tokio::spawn(pack(chunks, Packing::new(recipients, pieces)?));
    let read = async move {
        let mut message = None;
        while let Some(chunk) = dump.next().await? {
            if message != dump.expected() && message.is_none() {
                message = dump.expected();
                progress.expect(message);
            }
            let passed = chunk.len() as u64;
            if sender.send(chunk).await.is_err() {
                break;
            }
            progress.pass(passed);
        }
        Ok(())
    };
    let write = async {
        while let Some(piece) = packed.recv().await {
            upload.write(&piece).await?;
        }
        Ok::<_, Error>(())
    };
    // A dump reports its end only after it has checked all data. If it fails, there are no sums and nothing is completed.
    tokio::try_join!(read, write)?;
    packing.await?
}

async fn pack(mut chunks: mpsc::Receiver<Bytes>, mut packing: Packing) -> Result<Sums, Error> {
    let (mut content, mut size) = (Sha256::new(), 0);
    let mut encoder = ZstdEncoder::with_quality(Vec::new(), LEVEL);
    while let Some(chunk) = chunks.recv().await {
        content.update(&chunk);
        size += chunk.len() as u64;
        encoder.write_all(&chunk).await.map_err(compression)?;
        packing.pass(std::mem::take(encoder.get_mut())).await?;
    }
    encoder.shutdown().await.map_err(compression)?;
    packing.pass(std::mem::take(encoder.get_mut())).await?;
    Ok(Sums { size, sha256: hex::encode(content.finalize()), stored_sha256: packing.finish().await? })
}

/// The steps after compression: encryption and the hash.
struct Packing {
    seal: Option<Seal>,
    /// Encrypted bytes that are not sent yet; at first the header of the age file.
    sealed: Vec<u8>,
    hash: Sha256,
    pieces: mpsc::Sender<Vec<u8>>,
}

impl Packing {
    fn new(recipients: &[Recipient], pieces: mpsc::Sender<Vec<u8>>) -> Result<Self, Error> {
        let mut sealed = Vec::new();
        let seal = (!recipients.is_empty()).then(|| Seal::new(recipients, &mut sealed)).transpose();
        Ok(Self { seal: seal.map_err(encryption)?, sealed, hash: Sha256::new(), pieces })
    }

    async fn pass(&mut self, packed: Vec<u8>) -> Result<(), Error> {
        let piece = match &mut self.seal {
            Some(seal) => {
                seal.push(&packed, &mut self.sealed).map_err(encryption)?;
                std::mem::take(&mut self.sealed)
            }
            None => packed,
        };
        self.send(piece).await
    }

    async fn send(&mut self, piece: Vec<u8>) -> Result<(), Error> {
        if piece.is_empty() {
            return Ok(());
        }
        self.hash.update(&piece);
        // The receiver is gone: the upload has ended.
        self.pieces.send(piece).await.map_err(|_| Error::Interrupted)
    }

    /// The hash of all that is stored.
    async fn finish(mut self) -> Result<String, Error> {
        if let Some(seal) = self.seal.take() {
            let mut piece = std::mem::take(&mut self.sealed);
            seal.finish(&mut piece).map_err(encryption)?;
            self.send(piece).await?;
        }
        Ok(hex::encode(self.hash.finalize()))
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
