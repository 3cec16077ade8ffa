//! `causeway-backup backup`: one backup of each source, one after the other. A failure of one does not stop the others.

use std::path::Path;
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use super::age::Recipient;
use super::chain::{self, Gap};
use super::manifest::{self, Document, FORMAT, Manifest, SECONDS, is_early};
use super::plan::{BackupPlan, Source, WAL};
use super::progress::Progress;
use super::relay::Receipt;
use super::report::{KeptLog, Outcome, Report};
use super::source::Dump;
use super::store::{Lying, ManifestError, Store, StoredObject, Upload};
use super::{Error, stream};

/// The state that all sources share.
struct Run<'a> {
    store: Store,
    slot: String,
    recipients: Vec<Recipient>,
    id: &'a str,
    /// Socket of the container that dumps; none if this process dumps.
    socket: Option<&'a Path>,
    stop: &'a CancellationToken,
}

/// Backs up every source. Returns the result of each and the exit code, which asks for another try if that may help one of
/// them. The process that listens at `socket` dumps the databases; without a socket this process does.
pub async fn run(
    plan: &BackupPlan,
    id: &str,
    socket: Option<&Path>,
    stop: &CancellationToken,
) -> Result<(Report, u8), Error> {
    let recipients = plan.recipients.iter().enumerate();
    let recipients = recipients.map(|(index, key)| key.parse().map_err(|mistake| Error::Recipient { index, mistake }));
    let recipients: Vec<Recipient> = recipients.collect::<Result<_, _>>()?;
    if plan.hooks.is_some() && socket.is_none() {
        return Err(Error::Unsupported("hooks run in a process of `causeway-backup dump`: give --dump-socket".into()));
    }
    let run = Run { store: Store::connect(&plan.destination).await, slot: plan.slot(), recipients, id, socket, stop };
    let (mut report, mut codes) = (Report::default(), Vec::new());
    for source in &plan.sources {
        let begun = Instant::now();
        let mut learned = Learned::default();
        let result = if stop.is_cancelled() {
            Err(Error::Interrupted)
        } else {
            Box::pin(back_up(&run, source, &mut learned)).await
        };
        codes.extend(result.as_ref().err().map(Error::exit_code));
        let Learned { kept, note } = learned;
        report.results.push(Outcome { kept, note, ..outcome(source, id, begun, result) });
    }
    Ok((report, codes.into_iter().min().unwrap_or_default()))
}

/// Facts about a database besides its data.
#[derive(Default)]
struct Learned {
    /// The log that the server keeps, as last reported.
    kept: Option<KeptLog>,
    /// A problem that leaves the dump good.
    note: Option<String>,
}

fn outcome(source: &Source, id: &str, begun: Instant, result: Result<Document, Error>) -> Outcome {
    let outcome = Outcome::new(&source.folder, id, begun.elapsed());
    match result {
        Ok(Document { manifest, sha256 }) => {
            tracing::info!(
                source = source.title,
                id,
                bytes = manifest.size,
                stored_bytes = manifest.stored_size,
                keys = manifest.contents.keys,
                took_ms = outcome.duration_ms,
                "backed up"
            );
            let (stored_size, keys) = (Some(manifest.stored_size), Some(manifest.contents.keys));
            Outcome { id: manifest.id, stored_size, keys, manifest: Some(sha256), ..outcome }
        }
        Err(error) => {
            tracing::error!(source = source.title, id, %error, reason = error.reason(), "not backed up");
            outcome.failed(&error)
        }
    }
}

async fn back_up(run: &Run<'_>, source: &Source, learned: &mut Learned) -> Result<Document, Error> {
    let Run { store, recipients, stop, .. } = run;
    let id = match next(store, &source.folder, run.id).await? {
        Next::Done(there) => {
            tracing::info!(source = source.title, id = there.manifest.id, "backed up before");
            return Ok(*there);
        }
        Next::Free(id) => id,
    };
    let started = Timestamp::now();
    let mut upload = Upload::begin(store, &source.folder, &id);
    let progress = Progress::new(&source.title, "bytes");
    let written = tokio::select! {
        written = progress.during(write(run, source, &mut upload, &progress, learned)) => written,
        () = stop.cancelled() => Err(Error::Interrupted),
    };
    let (kind, version, contents, sums, receipt) = match written {
        Ok(written) => written,
        Err(error) => {
            upload.abandon().await;
            return Err(error);
        }
    };
    let stored_size = upload.size();
    upload.complete().await?;
    let manifest = Manifest {
        format: FORMAT,
        id,
        source: source.title.clone(),
        kind: kind.to_owned(),
        version,
        started,
        finished: Timestamp::now(),
        size: sums.size,
        sha256: sums.sha256,
        stored_size,
        stored_sha256: sums.stored_sha256,
        compression: "zstd".into(),
        encryption: (!recipients.is_empty()).then(|| "age".into()),
        contents,
    };
    let document = complete(store, &source.folder, manifest).await?;
    if let Some(receipt) = receipt.filter(|_| kind == WAL) {
        learned.kept = receipt.give().await.or(learned.kept);
    }
    Ok(document)
}

type Written = (&'static str, String, manifest::Contents, stream::Sums, Option<Receipt>);

/// Where a try of a backup begins.
enum Next {
    /// An earlier try succeeded.
    Done(Box<Document>),
    /// Nothing lies under this ID yet.
    Free(String),
}

/// Nothing in S3 is ever overwritten. If an earlier try wrote its data and died before it wrote the manifest, the data stay and
/// belong to no backup: this backup then takes the ID of the next second. It does the same if something lies there that no try
/// of ours wrote, because any client that may write there knows when the next backup is due.
async fn next(store: &Store, folder: &str, id: &str) -> Result<Next, Error> {
    let due = manifest::due_of(id).ok_or_else(|| Error::Due(id.to_owned()))?;
    for later in 0..SECONDS {
        let due = due + SignedDuration::from_secs(later);
        let id = manifest::id_of(due);
        let data = match judge(store.lying(folder, &id).await?, due) {
            There::Nothing => return Ok(Next::Free(id)),
            There::Complete(data) => data,
            There::Foreign(why) => {
                tracing::warn!(folder, id, why, "what lies there is no backup of ours, and no backup overwrites it");
                continue;
            }
        };
        match store.listed_manifest(folder, &id).await {
            Ok(Some(document)) if document.manifest.stored_size == data.size => {
                return Ok(Next::Done(Box::new(document)));
            }
            Ok(Some(_)) => {
                tracing::warn!(folder, id, "the manifest that lies there is of other data than those beside it");
            }
            Ok(None) => tracing::warn!(folder, id, "the manifest that lay there was deleted"),
            Err(ManifestError::Invalid { key, mistake }) => {
                tracing::warn!(key, %mistake, "what lies there is no manifest");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unsupported(format!(
        "keys at {id} (and {} s after) are not a backup and are not overwritten: check who can write to the prefix, then \
         delete them",
        SECONDS - 1
    )))
}

/// The state of the place where a backup is to go, judged by a listing.
#[derive(Debug, PartialEq, Eq)]
enum There {
    Nothing,
    /// It may be a whole backup; with the listing of its data.
    Complete(StoredObject),
    /// It is no backup of ours: the reason in words.
    Foreign(&'static str),
}

fn judge(Lying { data, manifest }: Lying, due: Timestamp) -> There {
    let is_too_old = |it: &StoredObject| it.modified.is_some_and(|modified| is_early(due, modified));
    if [&data, &manifest].into_iter().flatten().any(is_too_old) {
        return There::Foreign("it was written before it was due");
    }
    match (data, manifest) {
        (None, None) => There::Nothing,
        (Some(data), Some(_)) => There::Complete(data),
        (Some(_), None) => There::Foreign("there are data without a manifest"),
        (None, Some(_)) => There::Foreign("there is a manifest without data"),
    }
}

async fn write(
    run: &Run<'_>,
    source: &Source,
    upload: &mut Upload,
    progress: &Progress,
    learned: &mut Learned,
) -> Result<Written, Error> {
    let mut dump = match run.socket {
        Some(socket) => Dump::from_socket(socket, source).await?,
        None => Dump::open(source, &run.slot).await?,
    };
    let kind = dump.kind();
    let sums = stream::carry(&mut dump, &run.recipients, upload, progress).await;
    learned.kept = dump.kept_log();
    let sums = sums?;
    learned.note = dump.note();
    let (version, contents, receipt) = dump.finish();
    if kind == WAL {
        follows(&run.store, &source.folder, &contents).await?;
    }
    Ok((kind, version, contents, sums, receipt))
}

/// Reports whether new log goes on where the log in a folder ends. That is usually the backup with the newest ID, but not
/// always: see [`chain::OUT_OF_ORDER`].
async fn follows(store: &Store, folder: &str, contents: &manifest::Contents) -> Result<(), Error> {
    let (mut last, mut read): (Option<Manifest>, usize) = (None, 0);
    for id in store.past_ids(folder).await? {
        if read == chain::OUT_OF_ORDER {
            break;
        }
        let manifest = match store.manifest(folder, &id).await {
            Ok(Some(document)) => document.manifest,
            Ok(None) => continue,
            Err(ManifestError::Invalid { key, mistake }) => {
                tracing::warn!(key, %mistake, "no manifest lies there");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        read += 1;
        if last.as_ref().is_some_and(|last| chain::end(&manifest.contents) <= chain::end(&last.contents)) {
            continue;
        }
        match chain::gap(&manifest.contents, contents) {
            None => return Ok(()),
            Some(Gap::Missing(..)) => last = Some(manifest),
            Some(_) => return chain::follows(&manifest, contents),
        }
    }
    last.map_or(Ok(()), |last| chain::follows(&last, contents))
}

/// Writes the manifest, which makes the data a backup. A manifest that would be refused later is not written. If another
/// manifest is there meanwhile, it describes other data than ours and is not replaced: another try takes another ID.
async fn complete(store: &Store, folder: &str, manifest: Manifest) -> Result<Document, Error> {
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| Error::Unsupported(error.to_string()))?;
    let document = manifest::parse(&text, &manifest.id)
        .map_err(|mistake| Error::Unsupported(format!("the manifest would not be read again: {mistake}")))?;
    store.put_manifest(&store.key(folder, &manifest.id, manifest::NAME), text).await?;
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::super::store::memory::Bucket;
    use super::*;

    const ID: &str = "20261122T000500Z";
    const FOLDER: &str = "redis-cache";

    fn due() -> Timestamp {
        "2026-11-22T00:05:00Z".parse().unwrap()
    }

    fn listed(after: i64) -> StoredObject {
        StoredObject { size: 5, modified: Some(due() + SignedDuration::from_secs(after)) }
    }

    fn found_at(data: Option<i64>, manifest: Option<i64>) -> There {
        judge(Lying { data: data.map(listed), manifest: manifest.map(listed) }, due())
    }

    #[test]
    fn data_laid_down_early_is_no_backup_of_ours() {
        assert_eq!(found_at(None, None), There::Nothing);
        assert_eq!(found_at(Some(30), Some(31)), There::Complete(listed(30)));
        assert_eq!(found_at(Some(-600), Some(-600)), There::Complete(listed(-600)), "clocks differ");
        let early = There::Foreign("it was written before it was due");
        for (data, manifest) in
            [(Some(-601), Some(-601)), (Some(-601), Some(31)), (Some(30), Some(-601)), (None, Some(-601))]
        {
            assert_eq!(found_at(data, manifest), early, "{data:?} {manifest:?}");
        }
    }

    #[test]
    fn half_a_backup_is_none() {
        assert_eq!(found_at(Some(30), None), There::Foreign("there are data without a manifest"));
        assert_eq!(found_at(None, Some(30)), There::Foreign("there is a manifest without data"));
    }

    /// The manifest of a backup that has five bytes of data.
    fn manifest(id: &str) -> Manifest {
        Manifest {
            format: FORMAT,
            id: id.into(),
            source: "Redis cache".into(),
            kind: "redis".into(),
            version: "7.0.15".into(),
            started: due(),
            finished: due(),
            size: 9,
            sha256: "0f".repeat(32),
            stored_size: 5,
            stored_sha256: "a9".repeat(32),
            compression: "zstd".into(),
            encryption: None,
            contents: manifest::Contents::default(),
        }
    }

    /// Puts data and a manifest under the ID that is due `later` seconds after [`due`], written `after` seconds after that.
    fn lay(bucket: &Bucket, later: i64, data: &[u8], manifest: &[u8], after: i64) {
        let due = due() + SignedDuration::from_secs(later);
        let (id, written) = (manifest::id_of(due), due + SignedDuration::from_secs(after));
        bucket.put(&format!("p/{FOLDER}/{id}/data"), data, written);
        bucket.put(&format!("p/{FOLDER}/{id}/manifest.json"), manifest, written);
    }

    #[tokio::test]
    async fn a_backup_goes_to_a_free_place() {
        let bucket = Bucket::default();
        let store = bucket.store().await;
        let id = |later: i64| manifest::id_of(due() + SignedDuration::from_secs(later));
        let text = |later: i64| serde_json::to_vec(&manifest(&id(later))).unwrap();
        lay(&bucket, 0, b"12345", &text(0), -3600);
        lay(&bucket, 1, b"12345", b"{}", 5);
        lay(&bucket, 2, b"other data", &text(2), 5);
        let free = next(&store, FOLDER, ID).await.unwrap();
        assert!(
            matches!(&free, Next::Free(id) if id == "20261122T000503Z"),
            "laid down before, garbage, of other data"
        );
        lay(&bucket, 3, b"12345", &text(3), 5);
        let done = next(&store, FOLDER, ID).await.unwrap();
        assert!(matches!(&done, Next::Done(document) if document.manifest.id == "20261122T000503Z"), "our own");
    }

    /// The facts of a backup of the log from one segment to the one before another, as the manifest has them.
    fn log(first: u8, next: u8) -> manifest::Contents {
        let segment = |number: u8| format!("0000000100000000000000{number:02X}");
        let facts = [("system", "7".to_owned()), ("first", segment(first)), ("next", segment(next))];
        manifest::Contents { keys: 0, facts: facts.map(|(name, value)| (name.to_owned(), value)).into() }
    }

    /// Puts the manifest of a backup of the log under an ID.
    fn lay_log(bucket: &Bucket, id: &str, first: u8, next: u8) {
        let manifest = Manifest { kind: WAL.into(), contents: log(first, next), ..manifest(id) };
        bucket.put(&format!("p/{WAL}/{id}/manifest.json"), &serde_json::to_vec(&manifest).unwrap(), due());
    }

    #[tokio::test]
    async fn log_continues_after_a_late_retry() {
        let bucket = Bucket::default();
        let store = bucket.store().await;
        follows(&store, WAL, &log(5, 6)).await.expect("the first backup follows nothing");
        lay_log(&bucket, "20241122T115500Z", 0, 1);
        lay_log(&bucket, "20241122T120300Z", 1, 6);
        // This one was due first, and took its log after the one above.
        lay_log(&bucket, "20241122T120000Z", 6, 7);
        follows(&store, WAL, &log(7, 8)).await.expect("nothing is missing");
        let missing = follows(&store, WAL, &log(8, 9)).await.unwrap_err();
        assert_eq!((missing.reason(), missing.is_final()), ("WalMissing", true));
        let words = "backup 20241122T120000Z ends before segment 000000010000000000000007";
        assert!(missing.to_string().contains(words), "{missing}");
        let mut other = log(7, 8);
        other.facts.insert("system".into(), "8".into());
        assert_eq!(follows(&store, WAL, &other).await.unwrap_err().reason(), "WalMissing", "another server's");
    }

    #[tokio::test]
    async fn a_foreign_manifest_is_not_reported_as_ours() {
        let bucket = Bucket::default();
        let store = bucket.store().await;
        let theirs = Manifest { source: "theirs".into(), ..manifest(ID) };
        lay(&bucket, 0, b"ours!", &serde_json::to_vec(&theirs).unwrap(), 5);
        let error = complete(&store, FOLDER, manifest(ID)).await.unwrap_err();
        assert_eq!((error.reason(), error.is_final()), ("Raced", false), "{error}");
    }
}
