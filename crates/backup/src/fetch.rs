//! `causeway-backup fetch`: a backup from S3 into a directory, where it is found whole and unchanged, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use async_compression::tokio::write::ZstdDecoder;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::bytes::Bytes;

use super::Error;
use super::age::{self, Identities, Open};
use super::data_directory::{BASE_FILE, log_file};
use super::manifest::{self, Document, Manifest};
use super::plan::{BASE, RestorePlan, WAL};
use super::progress::Progress;
use super::root_certificate;
use super::secrets;
use super::sql::{PACK, Splitter};
use super::store::{Download, Store};

/// Pieces that are read ahead while others are unpacked.
const AHEAD: usize = 8;

/// Stands for the ID of the newest complete backup.
const LATEST: &str = "latest";

/// Fetches the backup, after the log that belongs to it. Returns its manifest.
pub async fn run(plan: &RestorePlan) -> Result<Manifest, Error> {
    if let Some(recovery) = &plan.recovery {
        let store = Store::connect(&recovery.origin).await;
        for (number, (id, manifest)) in recovery.log.iter().enumerate() {
            let (folder, manifest) = (WAL.to_owned(), Some(manifest.clone()));
            let log = RestorePlan { folder, id: id.clone(), manifest, recovery: None, ..plan.clone() };
            fetch(&store, &log, |_| Ok(log_file(number))).await?;
        }
    }
    fetch(&Store::connect(&plan.origin).await, plan, |kind| file_of(kind).map(str::to_owned)).await
}

/// Fetches a backup of any kind into a single file of that name.
pub async fn plain(plan: &RestorePlan, name: &str) -> Result<Manifest, Error> {
    fetch(&Store::connect(&plan.origin).await, plan, |_| Ok(name.to_owned())).await
}

async fn fetch(
    store: &Store,
    plan: &RestorePlan,
    name: impl Fn(&str) -> Result<String, Error>,
) -> Result<Manifest, Error> {
    let Document { manifest, sha256 } = find(store, &plan.folder, &plan.id).await?;
    if plan.manifest.as_ref().is_some_and(|checked| *checked != sha256) {
        return Err(Error::ManifestChanged);
    }
    let identities = match manifest.encryption.as_deref() {
        None => None,
        Some("age") => Some(secrets::identities(plan.identity.as_ref().ok_or(Error::IdentityMissing)?)?),
        Some(other) => return Err(Error::Unsupported(format!("the backup is encrypted with {other}"))),
    };
    let path = plan.work.join(name(&manifest.kind)?);
    // The files of an earlier try must not be taken for those of this one.
    let message = plan.work.join(manifest::NAME);
    for old in [&message, &path] {
        remove(old)?;
    }
    let progress = Progress::new(&manifest.source, "bytes");
    progress.expect(Some(manifest.stored_size));
    let unpacking = || unpack(store, plan, &manifest, identities.as_ref(), &path, &progress);
    let mut unpacked = progress.during(unpacking()).await;
    // What is damaged on its way is whole another time; what is damaged in the bucket is not.
    if let Err(error @ Error::ChecksumMismatch(_)) = &unpacked {
        tracing::warn!(source = manifest.source, id = manifest.id, %error, "fetched again");
        progress.expect(Some(progress.passed() + manifest.stored_size));
        unpacked = progress.during(unpacking()).await;
    }
    if let Err(error) = unpacked {
        remove(&partial(&path))?;
        return Err(error);
    }
    if manifest.kind == "etcd" {
        root_certificate::make(&plan.work)?;
    }
    leave(&plan.work, &manifest)?;
    tracing::info!(
        source = manifest.source,
        id = manifest.id,
        bytes = manifest.size,
        "fetched; all checksums are right"
    );
    Ok(manifest)
}

/// Writes a manifest into the work directory, for the next container of the pod.
pub fn leave(work: &Path, manifest: &Manifest) -> Result<(), Error> {
    let path = work.join(manifest::NAME);
    let text = serde_json::to_vec(manifest).map_err(|error| Error::Unsupported(error.to_string()))?;
    fs::write(&path, &text).map_err(|error| Error::of_file(path, error, text.len() as u64))
}

/// The manifest that `fetch` wrote into the work directory. Checks it again, because other containers write there, too.
pub fn fetched(work: &Path) -> Result<Manifest, Error> {
    let path = work.join(manifest::NAME);
    let bytes = fs::read(&path).map_err(|source| Error::Work { path: path.clone(), source })?;
    let no_manifest = |error: String| Error::Work { path: path.clone(), source: io::Error::other(error) };
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|error| no_manifest(error.to_string()))?;
    manifest::check(&manifest, &manifest.id).map_err(|mistake| no_manifest(mistake.to_string()))?;
    Ok(manifest)
}

async fn find(store: &Store, folder: &str, id: &str) -> Result<Document, Error> {
    let ids = if id == LATEST { store.past_ids(folder).await? } else { vec![id.to_owned()] };
    for id in ids {
        if let Some(document) = store.manifest(folder, &id).await? {
            return Ok(document);
        }
    }
    Err(Error::BackupMissing { id: id.to_owned(), folder: folder.to_owned() })
}

/// The name of the file or directory that a restore of this kind expects.
fn file_of(kind: &str) -> Result<&'static str, Error> {
    match kind {
        "etcd" => Ok("snapshot.db"),
        "redis" => Ok("dump.rdb"),
        "postgresql" | "mysql" => Ok(PACK),
        BASE => Ok(BASE_FILE),
        WAL => Err(Error::Unsupported("log alone brings nothing back: it takes a base backup, too".into())),
        other => {
            Err(Error::Unsupported(format!("the backup is of {other}: this version of Causeway cannot restore it")))
        }
    }
}

fn partial(path: &Path) -> PathBuf {
    path.with_extension("partial")
}

fn remove(path: &Path) -> Result<(), Error> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::of_file(path.to_owned(), error, 0)),
        _ => Ok(()),
    }
}

async fn unpack(
    store: &Store,
    plan: &RestorePlan,
    manifest: &Manifest,
    identities: Option<&Identities>,
    path: &Path,
    progress: &Progress,
) -> Result<(), Error> {
    let missing = || Error::BackupMissing { id: manifest.id.clone(), folder: plan.folder.clone() };
    let key = store.key(&plan.folder, &manifest.id, manifest::DATA);
    let download = Download::open(store, key).await?.ok_or_else(missing)?;
    if download.size() != manifest.stored_size {
        let message = format!("{} bytes are stored, and the manifest says {}", download.size(), manifest.stored_size);
        return Err(Error::ChecksumMismatch(message));
    }
    let partial = partial(path);
    let file_error = |error| Error::of_file(partial.clone(), error, manifest.size);
    remove(&partial)?;
    let several = path.ends_with(PACK);
    let file = if several { Splitter::new(&partial).map(Sink::Files) } else { File::create(&partial).map(Sink::File) };
    let unpacking = Unpacking::new(file.map_err(file_error)?, manifest.size);
    let (pieces, received) = mpsc::channel(AHEAD);
    let unpacked = tokio::task::spawn_blocking(move || Handle::current().block_on(unpacking.take(received)));
    let fed = feed(download, plan, manifest, identities, pieces, progress).await;
    // It ends when the pieces end, also if `feed` failed and they end too early.
    let unpacked = unpacked.await?;
    fed?;
    let (file, size, sha256) = unpacked.map_err(|trouble| trouble.into_error(&file_error))?;
    if size != manifest.size || sha256 != manifest.sha256 {
        return Err(Error::ChecksumMismatch("the data are not those of the database".into()));
    }
    file.finish().map_err(file_error)?;
    fs::rename(&partial, path).map_err(file_error)
}

/// Reads all that is stored, checks it and decrypts it. Stops without an error if the receiver is gone: that has its own.
async fn feed(
    mut download: Download,
    plan: &RestorePlan,
    manifest: &Manifest,
    identities: Option<&Identities>,
    pieces: mpsc::Sender<Bytes>,
    progress: &Progress,
) -> Result<(), Error> {
    let (mut stored, mut open) = (Sha256::new(), identities.map(Open::new));
    while let Some(chunk) = download.next().await? {
        stored.update(&chunk);
        progress.pass(chunk.len() as u64);
        let piece = match &mut open {
            Some(open) => {
                let mut opened = Vec::new();
                open.push(&chunk, &mut opened).map_err(|error| unopened(error, plan))?;
                opened.into()
            }
            None => chunk,
        };
        if pieces.send(piece).await.is_err() {
            return Ok(());
        }
    }
    if hex::encode(stored.finalize()) != manifest.stored_sha256 {
        return Err(Error::ChecksumMismatch("what is stored is not what was written".into()));
    }
    if let Some(open) = open {
        let mut opened = Vec::new();
        open.finish(&mut opened).map_err(|error| unopened(error, plan))?;
        pieces.send(opened.into()).await.ok();
    }
    Ok(())
}

fn unopened(error: age::Error, plan: &RestorePlan) -> Error {
    match error {
        age::Error::NoKeyFits => Error::IdentityWrong(plan.identity.clone().unwrap_or_default()),
        other => Error::ChecksumMismatch(other.to_string()),
    }
}

/// Where a backup is unpacked to.
enum Sink {
    File(File),
    /// A directory of several.
    Files(Splitter),
}

impl Sink {
    /// Waits until all is on the disk.
    fn finish(self) -> io::Result<()> {
        match self {
            Self::File(file) => file.sync_all(),
            Self::Files(splitter) => splitter.finish(),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Files(splitter) => splitter.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Files(splitter) => splitter.flush(),
        }
    }
}

/// The reasons why bytes could not be unpacked.
enum Trouble {
    /// They are not what was packed.
    Damaged(String),
    /// The file cannot be written.
    File(io::Error),
}

impl Trouble {
    fn into_error(self, file_error: &impl Fn(io::Error) -> Error) -> Error {
        match self {
            Self::Damaged(message) => Error::ChecksumMismatch(message),
            Self::File(error) => file_error(error),
        }
    }
}

/// Unpacks into a file, never more than was announced.
struct Unpacking<W> {
    decoder: ZstdDecoder<Vec<u8>>,
    file: W,
    announced: u64,
    size: u64,
    hashed: Sha256,
}

impl<W: Write> Unpacking<W> {
    fn new(file: W, announced: u64) -> Self {
        Self { decoder: ZstdDecoder::new(Vec::new()), file, announced, size: 0, hashed: Sha256::new() }
    }

    /// Takes all pieces that come, on a thread that may wait for the disk.
    async fn take(mut self, mut pieces: mpsc::Receiver<Bytes>) -> Result<(W, u64, String), Trouble> {
        while let Some(piece) = pieces.recv().await {
            self.push(&piece).await?;
        }
        self.finish().await
    }

    async fn push(&mut self, mut packed: &[u8]) -> Result<(), Trouble> {
        while !packed.is_empty() {
            // A little at a time: a few compressed bytes may become very many.
            let (now, later) = packed.split_at(packed.len().min(4096));
            self.decoder
                .write_all(now)
                .await
                .map_err(|error| Trouble::Damaged(format!("it cannot be unpacked: {error}")))?;
            self.drain()?;
            packed = later;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Trouble> {
        let plain = self.decoder.get_mut();
        self.size += plain.len() as u64;
        if self.size > self.announced {
            return Err(Trouble::Damaged(format!("it holds more than the {} bytes of the manifest", self.announced)));
        }
        self.hashed.update(&*plain);
        self.file.write_all(plain).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => Trouble::Damaged(error.to_string()),
            _ => Trouble::File(error),
        })?;
        plain.clear();
        Ok(())
    }

    async fn finish(mut self) -> Result<(W, u64, String), Trouble> {
        self.decoder.shutdown().await.map_err(|error| Trouble::Damaged(format!("it ends too early: {error}")))?;
        self.drain()?;
        Ok((self.file, self.size, hex::encode(self.hashed.finalize())))
    }
}

#[cfg(test)]
mod tests {
    use async_compression::tokio::write::ZstdEncoder;
    use proptest::prelude::*;

    use super::super::store::memory::Bucket;
    use super::*;

    async fn packed(data: &[u8]) -> Vec<u8> {
        let mut encoder = ZstdEncoder::new(Vec::new());
        encoder.write_all(data).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    }

    async fn unpacked(packed: &[u8], cut: usize, announced: u64) -> Option<Vec<u8>> {
        let mut unpacking = Unpacking::new(Vec::new(), announced);
        for chunk in packed.chunks(cut) {
            unpacking.push(chunk).await.ok()?;
        }
        unpacking.finish().await.ok().map(|(file, ..)| file)
    }

    fn now<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn what_was_packed_is_unpacked_however_it_comes(data in prop::collection::vec(any::<u8>(), 0..5000), cut in 1..900_usize) {
            let found = now(async { unpacked(&packed(&data).await, cut, data.len() as u64).await });
            prop_assert_eq!(found, Some(data));
        }

        #[test]
        fn what_lacks_its_end_is_not_taken(data in prop::collection::vec(any::<u8>(), 1..3000)) {
            let found = now(async {
                let packed = packed(&data).await;
                unpacked(&packed[..packed.len() - 1], 512, data.len() as u64).await
            });
            prop_assert!(found.is_none_or(|found| found != data));
        }
    }

    /// Fetches a backup whose `bad` first downloads are damaged. Returns the outcome, and how often its data were asked for.
    async fn fetched_of(bad: usize) -> (Result<Manifest, Error>, usize) {
        const ID: &str = "20261122T000500Z";
        let (data, bytes) = (packed(b"REDIS").await, b"REDIS");
        let sum = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
        let manifest = serde_json::json!({
            "format": 1, "id": ID, "source": "Redis cache", "kind": "redis", "version": "7.0.15", "started": "2026-11-22T00:05:00Z",
            "finished": "2026-11-22T00:05:01Z", "size": bytes.len(), "sha256": sum(bytes), "storedSize": data.len(),
            "storedSha256": sum(&data), "compression": "zstd", "contents": { "keys": 1 },
        });
        let bucket = Bucket::default();
        let folder = format!("p/redis-cache/{ID}");
        bucket.put(&format!("{folder}/manifest.json"), manifest.to_string().as_bytes(), jiff::Timestamp::now());
        bucket.put(&format!("{folder}/data"), &data, jiff::Timestamp::now());
        bucket.damage(bad);
        let work = std::env::temp_dir().join(format!("causeway-fetch-{bad}-{}", std::process::id()));
        fs::create_dir_all(&work).unwrap();
        let plan = serde_json::json!({
            "origin": { "bucket": "b", "owner": "000000000000", "region": "eu-central-1", "prefix": "p" },
            "folder": "redis-cache", "id": ID, "work": work, "scratch": "127.0.0.1:1", "force": false,
        });
        let plan: RestorePlan = serde_json::from_value(plan).unwrap();
        let done = fetch(&bucket.store().await, &plan, |kind| file_of(kind).map(str::to_owned)).await;
        fs::remove_dir_all(work).unwrap();
        (done, bucket.downloads())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn data_that_are_damaged_twice_are_damaged_in_the_bucket() {
        let (done, downloads) = fetched_of(1).await;
        assert!(done.is_ok() && downloads == 2, "{:?} after {downloads}", done.err());
        let (done, downloads) = fetched_of(9).await;
        let error = done.unwrap_err();
        assert_eq!((error.reason(), error.is_final(), downloads), ("ChecksumMismatch", true, 2));
    }

    #[test]
    fn no_more_is_unpacked_than_was_announced() {
        let found = now(async { unpacked(&packed(&vec![0; 50_000_000]).await, 4096, 1000).await });
        assert_eq!(found, None);
    }

    #[test]
    fn every_kind_has_a_file_and_others_are_refused() {
        assert_eq!(file_of("etcd").unwrap(), "snapshot.db");
        assert_eq!(file_of("redis").unwrap(), "dump.rdb");
        assert_eq!(file_of("postgresql").unwrap(), file_of("mysql").unwrap());
        assert_eq!(file_of(BASE).unwrap(), "base.tar");
        assert!(file_of(WAL).is_err() && file_of("oracle").is_err());
    }
}
