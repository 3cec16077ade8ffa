//! Objects in S3: where backups are. A call has a deadline and names the account that must own the bucket.
//!
//! Administration of buckets is elsewhere, in [`causeway_aws::s3`]: the Jobs' role may read and write objects, no more. The two
//! share how a client finds its S3. Their calls differ in what matters: a Job outlasts a minute of errors rather than lose hours of
//! an upload, and looks what became of a write whose answer was lost; the operator gives up after a second and requeues, counts each
//! call, and makes none without its lease.

mod call;
mod checksum;
mod download;
mod error;
mod leftovers;
#[cfg(test)]
pub mod memory;
mod object;
mod parts;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{ResponseChecksumValidation, StalledStreamProtectionConfig};
use jiff::Timestamp;

use causeway_aws::s3::client_at;

use super::manifest::{self, Document, Mistake};
use super::plan::Destination;

pub use download::Download;
pub use error::{StoreError, Trouble};
pub use upload::{Upload, UploadError};

use call::{DEADLINE, again};

pub use call::pauses;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the flow of data may stall before a call is given up.
const STALLED: Duration = Duration::from_secs(30);

/// A place in S3, and a client for it.
#[derive(Clone)]
pub struct Store {
    client: Client,
    place: Arc<Destination>,
}

/// An object, as far as it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Changes when the object does.
    etag: Option<String>,
    size: i64,
    sha256: Option<String>,
}

/// An object, as a listing shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, if this S3 says so.
    pub modified: Option<Timestamp>,
}

/// The objects where a backup is to go, of whichever client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lying {
    pub data: Option<StoredObject>,
    pub manifest: Option<StoredObject>,
}

impl Store {
    /// A client for that place, with the credentials of the environment: the web identity of the pod.
    pub async fn connect(place: &Destination) -> Self {
        let timeouts = TimeoutConfig::builder().connect_timeout(CONNECT).build();
        let shared = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(place.region.clone()))
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .stalled_stream_protection(StalledStreamProtectionConfig::enabled().grace_period(STALLED).build())
            .load()
            .await;
        // Checksums of parts cannot verify a read that crosses them. The manifest has a checksum of all bytes.
        let config = aws_sdk_s3::config::Builder::from(&shared)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
        let client = client_at(config, &shared, place.endpoint.as_deref());
        Self { client, place: Arc::new(place.clone()) }
    }

    /// The key of an object of a backup.
    #[must_use]
    pub fn key(&self, folder: &str, id: &str, name: &str) -> String {
        format!("{}/{folder}/{id}/{name}", self.place.prefix)
    }

    /// The manifest of a backup; none if the backup is not complete.
    pub async fn manifest(&self, folder: &str, id: &str) -> Result<Option<Document>, ManifestError> {
        if !self.has(&self.key(folder, id, manifest::NAME)).await? {
            return Ok(None);
        }
        self.listed_manifest(folder, id).await
    }

    /// The same if a listing has just shown the manifest.
    pub async fn listed_manifest(&self, folder: &str, id: &str) -> Result<Option<Document>, ManifestError> {
        let key = self.key(folder, id, manifest::NAME);
        let Some(bytes) = self.small(&key, manifest::LIMIT).await? else { return Ok(None) };
        manifest::parse(&bytes, id).map(Some).map_err(|mistake| ManifestError::Invalid { key, mistake })
    }

    /// Returns what lies where a backup is to go.
    pub async fn lying(&self, folder: &str, id: &str) -> Result<Lying, StoreError> {
        let manifest = self.listed(&self.key(folder, id, manifest::NAME)).await?;
        Ok(Lying { data: self.listed(&self.key(folder, id, manifest::DATA)).await?, manifest })
    }

    /// IDs of what lies in a source's folder and is due by now, complete or not, the newest first. Without IDs of the future,
    /// because any client that may write into the bucket could choose the newest backup with one.
    pub async fn past_ids(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let now = Timestamp::now();
        let is_past = |id: &String| manifest::due_of(id).is_some_and(|due| !manifest::is_future(due, now));
        Ok(self.ids(folder).await?.into_iter().filter(is_past).collect())
    }

    /// IDs of what lies in a source's folder, complete or not, the newest first.
    pub async fn ids(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let prefix = format!("{}/{folder}/", self.place.prefix);
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let page = again("ListObjectsV2", DEADLINE, || {
                self.client
                    .list_objects_v2()
                    .bucket(&self.place.bucket)
                    .expected_bucket_owner(&self.place.owner)
                    .prefix(&prefix)
                    .delimiter("/")
                    .set_continuation_token(next.clone())
                    .send()
            })
            .await?;
            let names = page.common_prefixes().iter().filter_map(|it| it.prefix()?.strip_prefix(&prefix));
            let ids = names.map(|name| name.trim_end_matches('/')).filter(|id| manifest::due_of(id).is_some());
            found.extend(ids.map(str::to_owned));
            next = page.next_continuation_token().map(str::to_owned);
            if next.is_none() {
                break;
            }
        }
        found.sort_unstable_by(|left, right| right.cmp(left));
        Ok(found)
    }
}

/// The reasons why a manifest could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A call of S3 failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is none of ours, damaged, or of a version of Causeway that this one does not know.
    #[error("{key}: {mistake}")]
    Invalid { key: String, mistake: Mistake },
}
