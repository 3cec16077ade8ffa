//! `causeway backup`: one backup of each source, one after the other. One that fails does not keep the others from it.

use std::time::Instant;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::age::Recipient;
use super::command::code_of;
use super::manifest::{self, FORMAT, Manifest};
use super::plan::{BackupPlan, Source};
use super::progress::Progress;
use super::report::{Outcome, Report};
use super::source::Dump;
use super::store::{Store, StoreError, Trouble, Upload};
use super::{Error, stream};

/// Backs up every source, and tells what came of each, and the exit code: another try helps if it helps one of them.
pub async fn run(plan: &BackupPlan, id: &str, stop: &CancellationToken) -> Result<(Report, u8), Error> {
    let recipients = plan.recipients.iter().enumerate();
    let recipients = recipients.map(|(index, key)| key.parse().map_err(|mistake| Error::Recipient { index, mistake }));
    let recipients: Vec<Recipient> = recipients.collect::<Result<_, _>>()?;
    let store = Store::connect(&plan.destination).await;
    let (mut report, mut codes) = (Report::default(), Vec::new());
    for source in &plan.sources {
        let begun = Instant::now();
        let result = if stop.is_cancelled() {
            Err(Error::Interrupted)
        } else {
            Box::pin(back_up(&store, source, &recipients, id, stop)).await
        };
        codes.extend(result.as_ref().err().map(code_of));
        report.results.push(outcome(source, id, begun, result));
    }
    Ok((report, codes.into_iter().min().unwrap_or_default()))
}

fn outcome(source: &Source, id: &str, begun: Instant, result: Result<Manifest, Error>) -> Outcome {
    let outcome = Outcome::of(&source.folder, id, begun.elapsed());
    match result {
        Ok(manifest) => {
            tracing::info!(
                source = source.title,
                id,
                bytes = manifest.size,
                stored_bytes = manifest.stored_size,
                keys = manifest.contents.keys,
                took_ms = outcome.duration_ms,
                "backed up"
            );
            Outcome { stored_size: Some(manifest.stored_size), keys: Some(manifest.contents.keys), ..outcome }
        }
        Err(error) => {
            tracing::error!(source = source.title, id, %error, reason = error.reason(), "not backed up");
            outcome.failed(&error)
        }
    }
}

async fn back_up(
    store: &Store,
    source: &Source,
    recipients: &[Recipient],
    id: &str,
    stop: &CancellationToken,
) -> Result<Manifest, Error> {
    if let Some(manifest) = store.manifest(&source.folder, id).await? {
        tracing::info!(source = source.title, id, "backed up before");
        return Ok(manifest);
    }
    let started = Timestamp::now();
    let mut upload = Upload::begin(store, &source.folder, id, started).await?;
    let progress = Progress::new(&source.title, "bytes");
    let written = tokio::select! {
        written = progress.during(write(source, recipients, &mut upload, &progress)) => written,
        () = stop.cancelled() => Err(Error::Interrupted),
    };
    let (kind, version, contents, sums) = match written {
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
        id: id.to_owned(),
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
    complete(store, &source.folder, manifest).await
}

type Written = (&'static str, String, manifest::Contents, stream::Sums);

async fn write(
    source: &Source,
    recipients: &[Recipient],
    upload: &mut Upload,
    progress: &Progress,
) -> Result<Written, Error> {
    let mut dump = Dump::open(source).await?;
    let kind = dump.kind();
    let sums = stream::carry(&mut dump, recipients, upload, progress).await?;
    let (version, contents) = dump.finish();
    Ok((kind, version, contents, sums))
}

/// Writes the manifest: from then on it is a backup.
async fn complete(store: &Store, folder: &str, manifest: Manifest) -> Result<Manifest, Error> {
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| Error::Unsupported(error.to_string()))?;
    let put = store.put_manifest(&store.key(folder, &manifest.id, manifest::NAME), text).await;
    match put {
        Ok(()) => Ok(manifest),
        // Somebody else completed it: the data cannot be ours then, for these are replaced only while they are as seen.
        Err(StoreError { trouble: Trouble::Changed, .. }) => {
            let theirs = store.manifest(folder, &manifest.id).await?;
            theirs.ok_or(Error::BackupMissing { id: manifest.id, folder: folder.to_owned() })
        }
        Err(error) => Err(error.into()),
    }
}
