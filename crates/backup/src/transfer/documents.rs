//! Manifests of backups in S3, and which of them are trusted.

use jiff::Timestamp;

use causeway_aws::aws::AwsError;
use causeway_aws::s3::{Place, S3};

use crate::manifest::{Document, LIMIT, Mistake, NAME, id_of, parse};
use crate::record::{Evidence, Record};

/// The reasons why a manifest is not trusted.
#[derive(Debug)]
pub enum Disbelief {
    /// The manifest cannot be read.
    Invalid(Mistake),
    /// The manifest differs from the one that its Job reported: another client replaced it.
    Changed,
}

/// The key of the manifest of the backup of `due` in a database's folder. `prefix` has no slash at its end.
pub fn key_of(prefix: &str, folder: &str, due: Timestamp) -> String {
    format!("{prefix}/{folder}/{}/{NAME}", id_of(due))
}

/// The manifest of a backup, or why it is not trusted; `None` if it does not exist any more. With a record, the
/// manifest's hash must match the record.
pub async fn document(
    s3: &S3,
    (place, owner): (&Place, &str),
    (prefix, folder, due): (&str, &str, Timestamp),
    record: Option<&Record>,
) -> Result<Option<Result<Document, Disbelief>>, AwsError> {
    let Some(bytes) = s3.read(place, owner, &key_of(prefix, folder, due), LIMIT).await? else { return Ok(None) };
    Ok(Some(judged(&bytes, folder, due, record)))
}

fn judged(bytes: &[u8], folder: &str, due: Timestamp, record: Option<&Record>) -> Result<Document, Disbelief> {
    let document = parse(bytes, &id_of(due)).map_err(Disbelief::Invalid)?;
    match record.and_then(|record| record.evidence(folder, due)) {
        Some(Evidence::Manifest(reported)) if *reported != document.sha256 => Err(Disbelief::Changed),
        _ => Ok(document),
    }
}
